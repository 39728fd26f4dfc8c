//! Versions that come from a zone's storage, and what the zone's file has of the served version.

use super::{Commits, Done, NewVersion, VersionSource};
use crate::merge::{Merge, Rebased, merge};
use nameward_state::{StateChange, ZoneStorage};
use nameward_wire::{Name, NameBuf};
use nameward_zone::change::Difference;
use nameward_zone::{RecordList, Zone};
use std::sync::Arc;
use std::time::SystemTime;

fn merged(rebased: Rebased, tip: &Zone) -> NewVersion {
    let zone = Arc::clone(&rebased.merged);
    tracing::info!(
        "zone {}: merged the edited zone file with changes from the journal, serial {}",
        zone.id(),
        zone.serial()
    );
    NewVersion {
        difference: zone.difference_from(tip),
        zone: Some(zone),
        rebased: Some(rebased),
    }
}

impl Commits {
    /// Replaces the last version by one from the zone's storage, with the changes that the storage lacks.
    pub(super) fn shared_version(
        self: &Arc<Self>,
        source: VersionSource,
        zone: Arc<Zone>,
        contents: Option<Vec<RecordList>>,
        done: Done,
    ) {
        let is_file = source.storage == ZoneStorage::File;
        let make = |tip: &Arc<Zone>, file: Option<&Arc<Zone>>| {
            if let Some(file) = file.filter(|_| is_file) {
                match merge(&zone, file, tip, SystemTime::now())? {
                    Merge::Unchanged => return Ok(NewVersion::new(Difference::default(), None)),
                    Merge::AsFile => {}
                    Merge::Both(rebased) => return Ok(merged(rebased, tip)),
                }
            }
            let difference = if tip.is_stub() {
                Difference::default()
            } else {
                zone.difference_from(tip)
            };
            Ok(NewVersion::new(difference, Some(zone)))
        };
        self.advance(source, contents, make, done);
    }

    /// Returns the version in a zone's file: the served one, unless the file lacks changes.
    pub fn stored_version(&self, zone: Name<'_>, rank: u16) -> Option<Arc<Zone>> {
        let place = self.zone(zone, rank);
        let version = place.lock().file_version.clone();
        version.or_else(|| self.table.version(zone, rank))
    }

    /// Returns the version that a zone's file had when it was last read or written, even if it is not published yet.
    pub(crate) fn file_version(&self, zone: Name<'_>, rank: u16) -> Option<Arc<Zone>> {
        let place = self.zone(zone, rank);
        let under_way = place.lock();
        let version = under_way.file_version.clone();
        version.or_else(|| self.last(&under_way, zone, rank))
    }

    /// Records that a zone's file has this version now.
    pub fn file_is_current(&self, version: &Arc<Zone>) {
        let (zone, serial) = (NameBuf::from(version.id()), version.serial());
        let place = self.zone(zone.as_name(), version.rank());
        let mut under_way = place.lock();
        let last = self.last(&under_way, zone.as_name(), version.rank());
        let has_all = last.is_none_or(|last| last.serial() == serial);
        under_way.file_version = (!has_all).then(|| Arc::clone(version));
        under_way.is_writing = false;
        drop(under_way);
        if has_all {
            self.conflicts.settle_by_file(zone.as_name());
        }
        self.write_state(zone, vec![StateChange::Settle { zone, serial }]);
    }

    /// Records that a zone's file only has this version, although more is served.
    pub(crate) fn file_lacks_changes(&self, file: &Arc<Zone>) {
        let place = self.zone(file.id(), file.rank());
        place.lock().file_version = Some(Arc::clone(file));
    }

    /// Lists the zones whose files lack changes, with the ranks of their sources.
    pub fn zones_behind(&self) -> Vec<(NameBuf, u16)> {
        let zones = self.zones.lock();
        let all: Vec<_> = zones
            .iter()
            .map(|(key, place)| (key.clone(), Arc::clone(place)))
            .collect();
        drop(zones);
        let behind = all
            .into_iter()
            .filter(|(_, place)| place.lock().file_version.is_some());
        behind
            .map(|((name, rank), _)| (Name::from_valid_wire(&name).into(), rank))
            .collect()
    }
}
