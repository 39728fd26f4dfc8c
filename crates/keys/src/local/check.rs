//! Checks key directories for faults before a server uses them.

use super::files::{KeyDirectories, KeyPairError, read_pair};
use nameward_maintain::policy::Policies;
use nameward_wire::NameBuf;
use std::fmt;
use std::path::Path;

/// A fault of a directory, or of a pair of files in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFileFault {
    /// The zone whose key it would be; none for an unreadable directory.
    pub zone: Option<NameBuf>,
    /// The fault.
    pub error: KeyPairError,
    /// Whether the zone has no other key, so that a starting server answers SERVFAIL.
    pub is_fatal: bool,
}

impl fmt::Display for KeyFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.zone {
            Some(zone) => write!(f, "zone {zone}: {}", self.error),
            None => write!(f, "key_directory {}", self.error),
        }
    }
}

/// Reads all pairs of files with keys of zones, and returns the faults.
pub fn key_file_faults(policies: &Policies) -> Vec<KeyFileFault> {
    let (directories, mut faults) = (KeyDirectories::default(), Vec::new());
    for directory in policies.key_directories() {
        match directories.zones(directory) {
            Ok(mut zones) => {
                zones.retain(|zone| {
                    policies.get(zone.as_name()).key_directory.as_ref() == Some(directory)
                });
                zones.sort_by_key(ToString::to_string);
                for zone in zones {
                    faults.extend(faults_of_zone(&directories, directory, zone));
                }
            }
            Err(error) => faults.push(KeyFileFault {
                zone: None,
                error,
                is_fatal: true,
            }),
        }
    }
    faults
}

fn faults_of_zone(
    directories: &KeyDirectories,
    directory: &Path,
    zone: NameBuf,
) -> Vec<KeyFileFault> {
    let pairs = directories.pairs(directory, zone.as_name().zone());
    let read: Vec<_> = match pairs {
        Ok(pairs) => pairs.iter().map(|pair| read_pair(pair)).collect(),
        Err(error) => vec![Err(error)],
    };
    let is_fatal = !read.iter().any(Result::is_ok);
    let faults = read.into_iter().filter_map(Result::err);
    let fault = |error| KeyFileFault {
        zone: Some(zone),
        error,
        is_fatal,
    };
    faults.map(fault).collect()
}
