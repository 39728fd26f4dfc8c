//! Versions for views that are served over the common versions of their zones (`base = true`).
//!
//! The table has the merged version ([`Zone::layered_over`]), which refers to the contents in the storage; it is made again
//! whenever one of both changes, in the write that changes it. So no reader sees one without the other.

use super::{ServedAdditions, lower_case, served};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{Zone, ZoneTable};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The versions that are served over common ones, by the names of their zones in lower case.
#[derive(Default, PartialEq, Eq)]
pub(super) struct LayeredVersions(BTreeMap<Box<[u8]>, Vec<NameBuf>>);

impl LayeredVersions {
    pub(super) fn new(versions: &[NameBuf]) -> Self {
        let mut by_zone: BTreeMap<_, Vec<NameBuf>> = BTreeMap::new();
        for version in versions {
            let zone = lower_case(version.as_name().zone());
            by_zone.entry(zone).or_default().push(*version);
        }
        for list in by_zone.values_mut() {
            list.sort_by_key(|version| lower_case(version.as_name()));
        }
        LayeredVersions(by_zone)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the versions of a zone, if this is the name of its common version.
    pub(super) fn over(&self, zone: Name<'_>) -> &[NameBuf] {
        if self.is_empty() || zone.variant().is_some() {
            return &[];
        }
        self.0
            .get(&lower_case(zone))
            .map_or(&[], |versions| &versions[..])
    }

    pub(super) fn contains(&self, version: Name<'_>) -> bool {
        !self.is_empty() && version.variant().is_some() && {
            let versions = self.over(version.zone());
            versions.iter().any(|known| known.as_name() == version)
        }
    }

    /// Lists the versions that only one of both has.
    pub(super) fn changed(&self, other: &Self) -> Vec<NameBuf> {
        let names = |list: &Self| -> BTreeSet<Box<[u8]>> {
            let versions = list.0.values().flatten();
            versions
                .map(|version| lower_case(version.as_name()))
                .collect()
        };
        let (own, others) = (names(self), names(other));
        let changed = own.symmetric_difference(&others);
        changed
            .map(|name| Name::from_valid_wire(name).into())
            .collect()
    }
}

/// Returns a version over the common version of its zone; a placeholder if that is not possible now.
pub(super) fn layered(stored: &Arc<Zone>, table: &ZoneTable) -> Arc<Zone> {
    let common = table.exact(stored.id().zone());
    // Before its zones are loaded, each version waits for its common version, which is not an error.
    let Some(common) = common.filter(|common| common.is_ready() && stored.is_ready()) else {
        return Arc::new(stored.without_base());
    };
    match stored.layered_over(common) {
        Ok(version) => Arc::new(version),
        Err(error) => {
            tracing::error!("zone {}: not served: {error}", stored.id());
            Arc::new(stored.without_base())
        }
    }
}

/// Makes the versions over a changed common version again.
pub(super) fn renew(table: &mut ZoneTable, additions: &ServedAdditions, zone: Name<'_>) {
    for id in additions.layers.over(zone) {
        for version in table.versions(id.as_name()) {
            let version = served(version, additions, table);
            put(table, version);
        }
    }
}

/// Offers a version. A placeholder replaces the version before: its clients must not get a common version that no longer
/// exists.
pub(super) fn put(table: &mut ZoneTable, version: Arc<Zone>) {
    if version.is_layered() && !version.is_ready() {
        table.withdraw(version.id(), version.rank());
    }
    table.offer(version);
}
