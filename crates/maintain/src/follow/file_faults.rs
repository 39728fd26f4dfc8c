//! The faults that zone files have now: which zones have errors, and which sources could not be read.
//!
//! The thread that loads files writes it, event by event; whoever shows the state of the server reads it.

use nameward_base::sync::{Mutex, MutexGuard};
use nameward_store::file::{LoadEvent, MissingZones, Standing};
use std::collections::BTreeMap;

/// Zones whose first error is kept; of more, the names alone.
const ERRORS_MAX: usize = 1000;
/// Zones of a kind that are named.
const NAMED_MAX: usize = 5;
/// Lines about sources that are kept.
const TROUBLES_MAX: usize = 20;

/// A zone whose file has errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultyZone {
    /// Its name, with its final dot.
    pub name: String,
    /// The first error, with its place in the file; empty where too many zones have errors.
    pub error: String,
}

/// The zones whose files have errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultyZones {
    /// Zones whose older version is served.
    pub with_old_version: FaultyZoneList,
    /// Zones that have no older version.
    pub without_contents: FaultyZoneList,
}

/// Faulty zones of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultyZoneList {
    /// All of them.
    pub number: usize,
    /// The first few.
    pub first: Vec<FaultyZone>,
}

/// The faults of zone files at this moment.
#[derive(Default)]
pub struct FileFaults(Mutex<KnownFaults>);

#[derive(Default)]
struct KnownFaults {
    /// First error and whether an older version is served, by zone.
    zones: BTreeMap<String, (String, bool)>,
    troubles: Vec<String>,
    missing: Vec<MissingZones>,
}

impl FileFaults {
    fn known(&self) -> MutexGuard<'_, KnownFaults> {
        self.0.lock()
    }

    /// Takes note of what a load says.
    pub(super) fn note(&self, event: &LoadEvent<'_>) {
        match event {
            LoadEvent::Served(name, ..) | LoadEvent::Removed(name) => {
                let mut known = self.known();
                // Nearly always there is nothing to take out, and then no name has to be written.
                if !known.zones.is_empty() {
                    known.zones.remove(&name.to_string());
                }
            }
            LoadEvent::Refused(name, diagnostics, standing) => {
                let mut known = self.known();
                let has_room = known.zones.len() < ERRORS_MAX;
                let first = diagnostics.first().filter(|_| has_room);
                let error = first.map(ToString::to_string).unwrap_or_default();
                let has_old_version = *standing != Standing::NotReady;
                let fault = (error, has_old_version);
                known.zones.insert(name.to_string(), fault);
            }
            LoadEvent::Trouble(text) => {
                let mut known = self.known();
                let is_new = known.troubles.iter().all(|known| known != text);
                if is_new && known.troubles.len() < TROUBLES_MAX {
                    known.troubles.push((*text).to_string());
                }
            }
            _ => {}
        }
    }

    /// A look at all sources begins, which finds anew which of them cannot be read.
    pub(super) fn forget_troubles(&self) {
        self.known().troubles.clear();
    }

    /// Returns the zones whose files have errors: all in number, and the first few by name.
    pub fn zones(&self) -> FaultyZones {
        let known = self.known();
        let mut all = FaultyZones::default();
        for (name, (error, has_old_version)) in &known.zones {
            let kind = match has_old_version {
                true => &mut all.with_old_version,
                false => &mut all.without_contents,
            };
            kind.number += 1;
            if kind.first.len() < NAMED_MAX {
                kind.first.push(FaultyZone {
                    name: name.clone(),
                    error: error.clone(),
                });
            }
        }
        all
    }

    /// Records the zones that are served although their files are missing.
    pub(super) fn set_missing(&self, missing: Vec<MissingZones>) {
        self.known().missing = missing;
    }

    /// Returns the zones that are served although their files are missing, by directory.
    pub fn missing(&self) -> Vec<MissingZones> {
        self.known().missing.clone()
    }

    /// Returns the lines about sources that could not be used, in part or at all.
    pub fn troubles(&self) -> Vec<String> {
        self.known().troubles.clone()
    }
}
