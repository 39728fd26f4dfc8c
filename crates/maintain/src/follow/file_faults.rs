//! The current faults of zone files: zones with errors, and unreadable sources.
//!
//! Written by the thread that loads files, event by event; read by status displays.

use nameward_base::sync::Mutex;
use nameward_files::{Fallback, LoadEvent, MissingZones};
use nameward_wire::Name;
use std::collections::BTreeMap;

/// Maximum number of zones whose first error is kept; of more, only the names.
const ERRORS_MAX: usize = 1000;
/// Maximum number of zones named per kind.
const NAMED_MAX: usize = 5;
/// Maximum number of lines kept about sources.
const PROBLEMS_MAX: usize = 20;

/// A zone whose file has errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultyZone {
    /// Its name, with its final dot.
    pub name: String,
    /// The first error, with its position in the file; empty if too many zones have errors.
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
    /// Total number.
    pub number: usize,
    /// The first few.
    pub first: Vec<FaultyZone>,
}

impl FaultyZoneList {
    /// Counts a zone.
    pub(crate) fn add(&mut self, name: impl ToString, error: &str) {
        self.number += 1;
        if self.first.len() < NAMED_MAX {
            self.first.push(FaultyZone {
                name: name.to_string(),
                error: error.into(),
            });
        }
    }
}

/// The current faults of zone files.
#[derive(Default)]
pub struct FileFaults(Mutex<RecordedFaults>);

#[derive(Default)]
struct RecordedFaults {
    /// First error and whether an older version is served, by zone.
    zones: BTreeMap<String, (String, bool)>,
    problems: Vec<String>,
    missing: Vec<MissingZones>,
}

impl FileFaults {
    /// Records a load event.
    pub(super) fn note(&self, event: &LoadEvent<'_>) {
        match event {
            LoadEvent::Served(name, ..) | LoadEvent::Removed(name) => {
                let mut faults = self.0.lock();
                // Usually there is nothing to remove, and then no name has to be formatted.
                if !faults.zones.is_empty() {
                    faults.zones.remove(&name.to_string());
                }
            }
            LoadEvent::Refused(name, diagnostics, fallback) => {
                let mut faults = self.0.lock();
                let has_room = faults.zones.len() < ERRORS_MAX;
                let first = diagnostics.first().filter(|_| has_room);
                let error = first.map(ToString::to_string).unwrap_or_default();
                let has_old_version = *fallback != Fallback::NotReady;
                let fault = (error, has_old_version);
                faults.zones.insert(name.to_string(), fault);
            }
            LoadEvent::Problem(text) => {
                let mut faults = self.0.lock();
                let is_new = faults.problems.iter().all(|problem| problem != text);
                if is_new && faults.problems.len() < PROBLEMS_MAX {
                    faults.problems.push((*text).to_string());
                }
            }
            _ => {}
        }
    }

    /// Starts a scan of all sources, which determines again which of them are unreadable.
    pub(super) fn forget_troubles(&self) {
        self.0.lock().problems.clear();
    }

    /// Returns the zones whose files have errors: their number, and the first few by name.
    pub fn zones(&self) -> FaultyZones {
        let faults = self.0.lock();
        let mut all = FaultyZones::default();
        for (name, (error, has_old_version)) in &faults.zones {
            let kind = match has_old_version {
                true => &mut all.with_old_version,
                false => &mut all.without_contents,
            };
            kind.add(name, error);
        }
        all
    }

    /// Returns the first error of a zone's file.
    pub fn error_of(&self, zone: Name<'_>) -> Option<String> {
        let faults = self.0.lock();
        let (error, _) = faults.zones.get(&zone.to_string())?;
        Some(error.clone()).filter(|error| !error.is_empty())
    }

    /// Records the zones that are served although their files are missing.
    pub(super) fn set_missing(&self, missing: Vec<MissingZones>) {
        self.0.lock().missing = missing;
    }

    /// Returns the zones that are served although their files are missing, by directory.
    pub fn missing(&self) -> Vec<MissingZones> {
        self.0.lock().missing.clone()
    }

    /// Returns the lines about sources that are unusable, in part or completely.
    pub fn problems(&self) -> Vec<String> {
        self.0.lock().problems.clone()
    }
}
