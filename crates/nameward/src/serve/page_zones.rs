//! The zones as the status page shows them: one page of the list, and the details of one zone.

use std::{fmt::Write as _, sync::Arc};

use nameward_control::{
    operations::{ListedZone, Operations, zone_name},
    web::{ShownZones, ZONE_ROWS, ZoneFacts, ZoneListPage, ZoneListQuery},
};
use nameward_serve::pipeline::ServingState;
use nameward_zone::Zone;

use super::secondaries::SecondaryZones;

/// The zones of a running server.
pub struct PageZones {
    /// For secondary zones.
    pub secondaries: SecondaryZones,
    /// For zone data from databases and keys.
    pub operations: Arc<Operations>,
    /// For the zone table.
    pub shared: Arc<ServingState>,
}

impl PageZones {
    /// Returns the row of a zone, without querying a database.
    fn row(&self, zone: &Zone) -> ListedZone {
        let policies = self.operations.policies.load();
        let name = zone.apex_name();
        let row = self
            .operations
            .served_row(name, zone.rank(), &policies, Some(zone));
        let is_transferred = policies.of(name).kind.is_transferred();
        let state = is_transferred.then(|| self.secondaries.troubled_state(name.into()));
        match state.flatten() {
            Some(state) => ListedZone {
                state: state.into(),
                ..row
            },
            None => row,
        }
    }
}

impl ShownZones for PageZones {
    fn zone(&self, name: &str) -> Option<ZoneFacts> {
        let name = zone_name(name).ok()?;
        let table = self.shared.zones.load();
        let served = table.exact(name.as_name())?;
        let mut facts = self.secondaries.facts(served)?;
        if served.is_stand_in() {
            let mut rows = [self.row(served)];
            let failures = self.operations.complete_rows(&mut rows);
            let [row] = rows;
            (facts.status.serial, facts.status.state) = (row.serial, row.state);
            if let Some(failure) = failures.into_iter().next() {
                facts.status.last_error.get_or_insert(failure);
            }
        }
        facts.signing = self.operations.signing_of(served.apex_name());
        Some(facts)
    }

    fn list(&self, query: &ZoneListQuery) -> ZoneListPage {
        let table = self.shared.zones.load();
        let mut name = String::new();
        let page = table.page(&query.start, ZONE_ROWS, |zone| {
            if query.without_data && zone.is_ready() {
                return false;
            }
            name.clear();
            // Writing to a string cannot fail.
            let _ = write!(name, "{}", zone.apex_name());
            name.make_ascii_lowercase();
            name.contains(&query.search)
        });
        let mut zones: Vec<ListedZone> = page.zones.iter().map(|zone| self.row(zone)).collect();
        let warnings = self.operations.complete_rows(&mut zones);
        ZoneListPage {
            zones,
            matching: page.matching,
            total: table.len(),
            has_earlier: page.has_earlier,
            has_later: page.has_later,
            warnings,
        }
    }
}
