//! The zones as the status page shows them: one page of the list, and the details of one zone.

use std::{fmt::Write as _, sync::Arc};

use nameward_base::sync::Mutex;
use nameward_control::{
    operations::{ListedZone, Operations, zone_name},
    web::{ListedZonesView, ZONE_ROWS, ZoneFacts, ZoneListPage, ZoneListQuery},
};
use nameward_maintain::follow::FileFaults;
use nameward_serve::pipeline::ServingState;
use nameward_wire::{Name, Type};
use nameward_zone::{NameKey, Zone};

use super::secondaries::SecondaryZones;

/// The zones of a running server.
pub struct PageZones {
    pub secondaries: SecondaryZones,
    /// For zone data from databases and keys.
    pub operations: Arc<Operations>,
    /// For the zone table.
    pub shared: Arc<ServingState>,
    /// For the errors of zone files.
    pub files: Arc<FileFaults>,
    /// Held during a pass over the zone table, so that pages of a large one never take more than one core from the workers.
    pub pass: Mutex<()>,
}

impl PageZones {
    /// Returns the row of a zone, without querying a database.
    fn row(&self, zone: &Zone) -> ListedZone {
        let policies = self.operations.policies.load();
        let name = zone.id();
        let row = self
            .operations
            .served_row(name, zone.rank(), &policies, Some(zone));
        let is_transferred = policies.get(name).kind.is_transferred();
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

impl ListedZonesView for PageZones {
    fn zone(&self, name: &str) -> Option<ZoneFacts> {
        let name = zone_name(name).ok()?;
        let table = self.shared.zones.load();
        let served = table.exact(name.as_name())?;
        let mut facts = self.secondaries.facts(served)?;
        // The list and the page of a zone agree on its state.
        let mut rows = [self.row(served)];
        let failure = self.operations.complete_rows(&mut rows).into_iter().next();
        let [row] = rows;
        (facts.status.serial, facts.status.state) = (row.serial, row.state);
        facts.status.kind = row.kind.name().into();
        let error = failure.or_else(|| self.files.error_of(served.id()));
        facts.status.last_error = facts.status.last_error.or(error);
        facts.signing = self.operations.signing_of(served.id());
        Some(facts)
    }

    fn is_answered_from(&self, name: &str, zone: &str) -> bool {
        let (Ok(name), Ok(zone)) = (zone_name(name), zone_name(zone)) else {
            return false;
        };
        let table = self.shared.zones.load();
        let found = table.zone_for(&NameKey::new(name.as_name()), Type::A);
        found.is_some_and(|found| found.id() == zone.as_name())
    }

    fn list(&self, query: &ZoneListQuery) -> ZoneListPage {
        let table = self.shared.zones.load();
        let mut name = String::new();
        let finder = memchr::memmem::Finder::new(query.search.as_bytes());
        let pass = self.pass.lock();
        let page = table.page(&query.start, ZONE_ROWS, |zone| {
            if query.without_data && zone.is_ready() || !query.scope.covers_name(zone.id()) {
                return false;
            }
            if query.search.is_empty() {
                return true;
            }
            write_lower(zone.id(), &mut name);
            finder.find(name.as_bytes()).is_some()
        });
        drop(pass);
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

/// Writes a name in lower case. Nearly all names need no escapes, and formatting octet by octet would be most of a search over a
/// million zones.
fn write_lower(name: Name<'_>, text: &mut String) {
    let is_plain = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    text.clear();
    for label in name.labels() {
        match str::from_utf8(label) {
            Ok(plain) if label.iter().all(is_plain) => text.push_str(plain),
            _ => {
                text.clear();
                // Writing to a string does not fail.
                let _ = write!(text, "{name}");
                break;
            }
        }
        text.push('.');
    }
    if text.is_empty() {
        text.push('.');
    }
    text.make_ascii_lowercase();
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::NameBuf;

    #[test]
    fn names_are_searched_as_they_are_shown() {
        let mut text = String::new();
        for shown in [
            ".",
            "www.example.org.",
            "_sip._tcp.example.",
            "a\\.b.example.",
            "\\001\\255.example.",
            "*.example.",
        ] {
            let name: NameBuf = shown.parse().expect("a name");
            write_lower(name.as_name(), &mut text);
            assert_eq!(text, name.to_string());
        }
        let name: NameBuf = "WwW.ExAmPlE.".parse().expect("a name");
        write_lower(name.as_name(), &mut text);
        assert_eq!(text, "www.example.");
    }
}
