//! Key files in pairs, as in BIND: `Kexample.org.+013+58482.key` and `.private` next to it.
//!
//! A private file that others may read is refused. Files are replaced atomically and are on disk when a write
//! returns. The times in `.private` apply; those in `.key` are comments.

use nameward_base::file;
use nameward_base::secret::Secret;
use nameward_base::sync::Mutex;
use nameward_dnssec::rollover::{KeyRecordState, KeyState, RecordPhase};
use nameward_dnssec::{KeyFile, KeyFileError, KeyTimes, file_owner};
use nameward_wire::{Name, NameBuf};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Maximum size of a key file in octets.
const MAX_OCTETS: u64 = 16 * 1024;
/// Maximum number of files in a key directory; more is an error, not a wait.
const MAX_FILES: usize = 4_000_000;
/// The mode bits that a private key must not have.
const OTHERS: u32 = 0o077;
/// A directory that changed this shortly before it was listed may change again with the same modification time.
const CLOCK_GRAIN: Duration = Duration::from_secs(2);

/// Where the private part of a key is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PrivateKeyLocation {
    /// The state store.
    #[default]
    Store,
    /// A pair of files.
    Files {
        /// Their path without `.key` and `.private`.
        path: PathBuf,
        /// The times in the files.
        times: KeyTimes,
    },
}

/// Why a pair of files is not a key of a zone, or cannot be written.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyPairError {
    #[error("{path}: {reason}")]
    System { path: String, reason: String },
    #[error(
        "{path}: private key is readable by other users (mode {mode:04o}): run chmod 600 {path}"
    )]
    TooOpen { path: String, mode: u32 },
    /// The text is not a valid key.
    #[error("{path}: {error}")]
    NoKey {
        /// The pair, by its private file.
        path: String,
        error: KeyFileError,
    },
    #[error(
        "{path} is missing: a key consists of a .key and a .private file; restore it, or remove the other one"
    )]
    Half { path: String },
    #[error(
        "{path}: file name does not match its contents: a key of {owner} with algorithm {algorithm} and key tag {tag}"
    )]
    OtherName {
        /// The pair, by its private file.
        path: String,
        owner: String,
        algorithm: u8,
        tag: u16,
    },
    #[error(
        "{path}.private is missing, but the zone is signed with it: restore it, or run `nameward key remove`"
    )]
    Missing { path: String },
}

impl KeyPairError {
    fn system(path: &Path, error: &io::Error) -> Self {
        KeyPairError::System {
            path: path.display().to_string(),
            reason: error.to_string(),
        }
    }
}

/// Returns the path of a file of a pair.
fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(end);
    PathBuf::from(name)
}

/// Checks whether neither file of a pair exists.
pub(super) fn is_away(path: &Path) -> bool {
    [".key", ".private"]
        .iter()
        .all(|end| matches!(with_end(path, end).try_exists(), Ok(false)))
}

/// Checks whether a pair has no private file, so that it is no longer a key.
pub(super) fn lacks_private(path: &Path) -> bool {
    matches!(with_end(path, ".private").try_exists(), Ok(false))
}

/// Reads a pair; its name must match the key.
pub(super) fn read_pair(path: &Path) -> Result<KeyFile, KeyPairError> {
    let (public, private) = (with_end(path, ".key"), with_end(path, ".private"));
    let public_text = read_file(&public, 0)?;
    let private_text = Secret::new(read_file(&private, OTHERS)?);
    let shown = private.display().to_string();
    let no_key = |error| KeyPairError::NoKey {
        path: shown.clone(),
        error,
    };
    let file = KeyFile::read(&public_text, private_text.reveal()).map_err(no_key)?;
    let stem = file.stem().map_err(|error| no_key(error.into()))?;
    let key = file.key(Default::default());
    let key = key.map_err(|error| no_key(error.into()))?;
    if path.file_name().and_then(|name| name.to_str()) == Some(&stem[..]) {
        Ok(file)
    } else {
        Err(KeyPairError::OtherName {
            path: shown,
            owner: file.owner.to_string(),
            algorithm: key.algorithm(),
            tag: key.tag(),
        })
    }
}

/// Reads a file, unless its permissions are too open.
fn read_file(path: &Path, forbidden: u32) -> Result<Vec<u8>, KeyPairError> {
    let system = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => KeyPairError::Half {
            path: path.display().to_string(),
        },
        _ => KeyPairError::system(path, &error),
    };
    // Opening a pipe would block.
    if !fs::metadata(path).map_err(system)?.is_file() {
        return Err(system(io::Error::other("expected a file")));
    }
    let file = File::open(path).map_err(system)?;
    let mode = file.metadata().map_err(system)?.mode() & 0o7777;
    if mode & forbidden != 0 {
        let path = path.display().to_string();
        return Err(KeyPairError::TooOpen { path, mode });
    }
    // All of it at once: a buffer that grows leaves copies of a secret behind.
    let mut text = Vec::with_capacity(MAX_OCTETS as usize + 2);
    file.take(MAX_OCTETS + 1)
        .read_to_end(&mut text)
        .map_err(system)?;
    Ok(text)
}

/// Writes a pair; both files are on disk when it returns.
pub(super) fn write_pair(path: &Path, file: &KeyFile) -> Result<(), KeyPairError> {
    let (public, private) = (with_end(path, ".key"), with_end(path, ".private"));
    let public_text = file.public_text().map_err(|error| KeyPairError::NoKey {
        path: private.display().to_string(),
        error: error.into(),
    })?;
    // In this order: a public file alone is not a key, a private file alone is an unusable one.
    replace_file(&public, public_text.as_bytes(), 0o644)?;
    replace_file(&private, file.private_text().reveal().as_bytes(), 0o600)
}

fn replace_file(path: &Path, text: &[u8], mode: u32) -> Result<(), KeyPairError> {
    file::replace(path, mode, text).map_err(|error| KeyPairError::system(path, &error))
}

/// Removes a pair permanently.
pub(super) fn remove_pair(path: &Path) -> Result<(), KeyPairError> {
    // The private file first, since it determines whether the key exists.
    for end in [".private", ".key"] {
        let file = with_end(path, end);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(KeyPairError::system(&file, &error));
            }
            _ => {}
        }
    }
    file::sync_directory(path).map_err(|error| KeyPairError::system(path, &error))
}

/// Writes the steps of a policy into the times of a key: a time that has passed stays after the record is removed.
pub(super) fn follow_life(times: &mut KeyTimes, life: &KeyState) {
    let follow = |record: &KeyRecordState, begin: &mut Option<u64>, end: &mut Option<u64>| {
        match record.phase {
            RecordPhase::Rumoured | RecordPhase::Omnipresent => {
                (*begin, *end) = (Some(record.since), None);
            }
            RecordPhase::Unretentive => *end = Some(record.since),
            RecordPhase::Hidden => {}
        }
    };
    follow(&life.dnskey, &mut times.publish, &mut times.delete);
    let signs = if life.role.signs_zone() {
        &life.zone_rrsig
    } else {
        &life.dnskey
    };
    follow(signs, &mut times.activate, &mut times.inactive);
    follow(&life.ds, &mut times.sync_publish, &mut times.sync_delete);
}

/// The pairs of a directory, by zone.
struct Listing {
    changed_at: SystemTime,
    listed_at: SystemTime,
    pairs: HashMap<String, Vec<OsString>>,
}

/// The key directories, each listed once for all its zones until it changes.
#[derive(Default)]
pub(super) struct KeyDirectories {
    listings: Mutex<HashMap<PathBuf, Listing>>,
}

impl KeyDirectories {
    /// Returns the paths of a zone's pairs, sorted by name.
    pub(super) fn pairs(
        &self,
        directory: &Path,
        zone: Name<'_>,
    ) -> Result<Vec<PathBuf>, KeyPairError> {
        self.with_listing(directory, |listing| {
            let names = listing.pairs.get(&file_owner(zone));
            let names = names.map(Vec::as_slice).unwrap_or_default();
            names.iter().map(|name| directory.join(name)).collect()
        })
    }

    /// Returns the zones that have pairs in a directory. An unreadable pair belongs to the zone in its name.
    pub(super) fn zones(&self, directory: &Path) -> Result<Vec<NameBuf>, KeyPairError> {
        self.with_listing(directory, |listing| {
            let owners = listing.pairs.keys();
            owners.filter_map(|owner| owner_name(owner)).collect()
        })
    }

    fn with_listing<T>(
        &self,
        directory: &Path,
        found: impl FnOnce(&Listing) -> T,
    ) -> Result<T, KeyPairError> {
        let system = |error: io::Error| KeyPairError::system(directory, &error);
        let changed_at = fs::metadata(directory).and_then(|of| of.modified());
        let changed_at = changed_at.map_err(system)?;
        let mut listings = self.listings.lock();
        if let Some(listing) = listings.get(directory)
            && listing.changed_at == changed_at
            && changed_at + CLOCK_GRAIN < listing.listed_at
        {
            return Ok(found(listing));
        }
        let listing = Listing {
            changed_at,
            listed_at: SystemTime::now(),
            pairs: list_pairs(directory).map_err(system)?,
        };
        let result = found(&listing);
        listings.insert(directory.to_path_buf(), listing);
        Ok(result)
    }
}

fn list_pairs(directory: &Path) -> io::Result<HashMap<String, Vec<OsString>>> {
    let mut pairs: HashMap<String, Vec<OsString>> = HashMap::new();
    for (count, entry) in fs::read_dir(directory)?.enumerate() {
        if count >= MAX_FILES {
            return Err(io::Error::other("too many files"));
        }
        let name = entry?.file_name();
        // A public file alone is not a key: the private one may be stored elsewhere, or was never written.
        let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(".private")) else {
            continue;
        };
        let Some(owner) = stem_owner(stem) else {
            continue;
        };
        let names = pairs.entry(owner.to_string()).or_default();
        names.push(stem.into());
    }
    for names in pairs.values_mut() {
        names.sort_unstable();
    }
    Ok(pairs)
}

/// Returns the zone in the name of a pair, as written there.
fn stem_owner(stem: &str) -> Option<&str> {
    let rest = stem.strip_prefix('K')?;
    let (rest, tag) = rest.rsplit_once('+')?;
    let (owner, algorithm) = rest.rsplit_once('+')?;
    let is_number = |text: &str, digits| {
        text.len() == digits && text.bytes().all(|octet| octet.is_ascii_digit())
    };
    (is_number(tag, 5) && is_number(algorithm, 3)).then_some(owner)
}

/// Decodes a zone in the name of a pair: octets that are not letters, digits or hyphens appear as `%2F`.
fn owner_name(owner: &str) -> Option<NameBuf> {
    let mut text = Vec::new();
    let mut rest = owner.as_bytes();
    while let Some((&octet, after)) = rest.split_first() {
        rest = after;
        if octet != b'%' {
            text.push(octet);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let digits = std::str::from_utf8(digits).ok()?;
        let octet = u8::from_str_radix(digits, 16).ok()?;
        text.extend(format!("\\{octet:03}").bytes());
        rest = after;
    }
    NameBuf::from_text(&text, Name::ROOT).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_dnssec::PrivateKey;
    use std::os::unix::fs::PermissionsExt;

    fn pair(directory: &Path, owner: &str) -> (PathBuf, KeyFile) {
        let file = KeyFile {
            owner: owner.parse().unwrap(),
            flags: 257,
            private: PrivateKey::generate(13, 0).unwrap(),
            times: KeyTimes::default(),
        };
        let path = directory.join(file.stem().unwrap());
        write_pair(&path, &file).unwrap();
        (path, file)
    }

    #[test]
    fn key_pairs_are_found_by_zone_and_round_trip() {
        let directory = tempfile::tempdir().unwrap();
        let odd = "0/25.2.0.192.in-addr.arpa";
        let written = ["example.org", odd, "."].map(|owner| pair(directory.path(), owner));
        fs::write(directory.path().join("Kexample.org.+013+12345.state"), "").unwrap();
        fs::write(directory.path().join("Kexample.org.+13+1.key"), "").unwrap();
        let directories = KeyDirectories::default();
        for (path, file) in &written {
            let found = directories.pairs(directory.path(), file.owner.as_name());
            assert_eq!(found.unwrap(), std::slice::from_ref(path));
            assert_eq!(&read_pair(path).unwrap(), file);
            let mode = |end| fs::metadata(with_end(path, end)).unwrap().mode() & 0o777;
            assert_eq!(mode(".private"), 0o600);
        }
        assert!(written[1].0.to_str().unwrap().contains("K0%2F25.2.0.192"));
        let mut zones = directories.zones(directory.path()).unwrap();
        zones.sort_by_key(ToString::to_string);
        assert_eq!(
            zones,
            [".", odd, "example.org"].map(|zone| zone.parse().unwrap())
        );
        remove_pair(&written[0].0).unwrap();
        assert!(is_away(&written[0].0));
        let found = directories.pairs(
            directory.path(),
            "example.org".parse::<NameBuf>().unwrap().as_name(),
        );
        assert!(found.unwrap().is_empty());
    }

    #[test]
    fn errors_of_invalid_key_files_name_the_file_and_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let (path, _) = pair(directory.path(), "example.org");
        let said = || read_pair(&path).unwrap_err().to_string();
        let private = with_end(&path, ".private");
        let open = fs::Permissions::from_mode(0o640);
        fs::set_permissions(&private, open).unwrap();
        assert!(said().contains("(mode 0640): run chmod 600 "), "{}", said());
        fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
        let (other, _) = pair(directory.path(), "example.net");
        fs::copy(with_end(&other, ".key"), with_end(&path, ".key")).unwrap();
        assert!(said().contains("different keys"), "{}", said());
        fs::copy(with_end(&other, ".private"), &private).unwrap();
        assert!(said().contains("a key of example.net"), "{}", said());
        fs::remove_file(&private).unwrap();
        assert!(said().contains(".private is missing"), "{}", said());
        fs::create_dir(&private).unwrap();
        assert!(said().contains("expected a file"), "{}", said());
    }
}
