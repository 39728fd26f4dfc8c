//! The list of zones: one row per zone, from the zone table, completed by databases with what only they know.
//!
//! A database that does not respond only costs the list the serials of its live zones: its zones are in the zone
//! table.

use nameward_base::time::now_seconds;
use std::collections::HashMap;
use std::fmt::Display;

use nameward_maintain::policy::{
    CONFIGURED_RANK, Policies, PolicySource, UNCONFIGURED_RANK, ZonePolicy,
};
use nameward_sql::ZoneRow;
use nameward_sql::write::ZoneOverview;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{SigningState, Zone, ZoneKind};

use crate::operations::{
    Database, ItemSink, ListedKind, ListedZone, OperationError, Operations, Outcome, list_all,
};

/// Returns the serial that clients get for a zone in memory; `None` for a zone without data here.
pub fn served_serial(zone: &Zone) -> Option<u32> {
    if zone.is_stub() || !zone.is_ready() {
        return None;
    }
    let serial = zone.serial().0;
    let signing = zone.signing().online();
    Some(signing.map_or(serial, |signing| {
        signing.soa_edit().serial(serial, now_seconds() as u32)
    }))
}

impl Operations {
    /// Lists all zones by name. If databases fail, the zones that this server serves are listed, and the error names
    /// the databases.
    pub fn list_zones(&self, items: ItemSink<'_>) -> Outcome {
        let mut zones = self.served_zones();
        let mut errors = Vec::new();
        for database in &self.databases {
            if let Err(error) = self.add_stored(database, &mut zones) {
                errors.push(error);
            }
        }
        zones.sort_unstable_by(|a, b| (&a.name, a.backend).cmp(&(&b.name, b.backend)));
        let listed = list_all(zones, items);
        if errors.is_empty() {
            return listed;
        }
        let messages = errors
            .iter()
            .map(|error| format!("{}; its zones are listed as last read", error.message));
        let messages: Vec<String> = messages.collect();
        Err(OperationError::backend(messages.join("\n")))
    }

    /// Returns the zones that this server serves, unordered.
    fn served_zones(&self) -> Vec<ListedZone> {
        let (table, policies) = (self.commits.table().load(), self.policies.load());
        let mut zones = Vec::new();
        (self.each_zone)(&mut |name, rank| {
            let served = table.exact(name);
            let served = served.filter(|served| served.rank() == rank);
            zones.push(self.served_row(name, rank, &policies, served.map(|zone| &**zone)));
        });
        zones
    }

    /// Returns the row of a zone without querying a database.
    pub fn served_row(
        &self,
        name: Name<'_>,
        rank: u16,
        policies: &Policies,
        served: Option<&Zone>,
    ) -> ListedZone {
        let policy = policies.get(name);
        let is_database = self.is_database(rank);
        ListedZone {
            name: name.to_string(),
            kind: listed_kind(policy.kind, is_database),
            backend: backend_number(rank, policy),
            serial: served.and_then(served_serial),
            state: state_keyword(served).into(),
            signing: signing_keyword(served, policy, is_database).into(),
        }
    }

    /// Adds what only a database knows: serials and signing of its live zones, and zones that are not served.
    fn add_stored(&self, database: &Database, zones: &mut Vec<ListedZone>) -> Outcome<()> {
        let number = database.number();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (at, zone) in zones.iter().enumerate() {
            if zone.backend == number {
                places.insert(zone.name.to_ascii_lowercase(), at);
            }
        }
        let policies = self.policies.load();
        let state = if self.commits.table().load().is_empty() {
            "not loaded"
        } else {
            "not served"
        };
        let now = now_seconds() as u32;
        let mut take = |row: &ZoneRow, overview: &ZoneOverview| {
            let (name, policy) = (row.name.to_string(), policies.get(row.name.as_name()));
            if let Some(at) = places.get(&name.to_ascii_lowercase()) {
                zones[*at].kind = row.kind.into();
                complete(&mut zones[*at], Some(overview), policy, now);
                return;
            }
            let mut zone = ListedZone {
                name,
                kind: row.kind.into(),
                backend: number,
                serial: None,
                state: state.into(),
                signing: "unknown".into(),
            };
            complete(&mut zone, Some(overview), policy, now);
            zones.push(zone);
        };
        let mut after: Option<String> = None;
        loop {
            let page = database.backend.zone_page(after.as_deref(), &mut take);
            after = self.read_from(database, page)?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Completes the rows of live zones from their databases; a page of a list has few. Returns the databases that
    /// failed.
    pub fn complete_rows(&self, rows: &mut [ListedZone]) -> Vec<String> {
        let policies = self.policies.load();
        let mut failures = Vec::new();
        for database in &self.databases {
            let number = database.number();
            let is_live = |row: &&mut ListedZone| row.backend == number && row.state == "live";
            let live: Vec<&mut ListedZone> = rows.iter_mut().filter(is_live).collect();
            let names = live
                .iter()
                .filter_map(|row| crate::operations::zone_name(&row.name).ok());
            let names: Vec<NameBuf> = names.collect();
            if names.is_empty() {
                continue;
            }
            let found = match self.read_from(database, database.backend.overview(&names)) {
                Ok(found) => found,
                Err(error) => {
                    failures.push(error.message);
                    continue;
                }
            };
            for row in live {
                let Ok(name) = crate::operations::zone_name(&row.name) else {
                    continue;
                };
                let overview = found.iter().find(|(found, _)| *found == name);
                let overview = overview.map(|(_, zone)| zone);
                let now = now_seconds() as u32;
                complete(row, overview, policies.get(name.as_name()), now);
            }
        }
        failures
    }

    /// Waits for data of a database; an error has its number and address.
    pub(crate) fn read_from<T, E: Display>(
        &self,
        database: &Database,
        reading: impl Future<Output = Result<T, E>>,
    ) -> Outcome<T> {
        self.runtime.block_on(reading).map_err(|error| {
            let (number, address) = (database.number(), database.address());
            OperationError::backend(format!("backend {number} ({address}) failed: {error}"))
        })
    }
}

/// Returns the kind of a zone for lists and `zone show`.
pub(crate) fn listed_kind(kind: ZoneKind, is_database: bool) -> ListedKind {
    match kind {
        ZoneKind::Native if !is_database => ListedKind::File,
        kind => kind.into(),
    }
}

/// Returns the state of a zone for lists and `zone show`, as far as the zone table knows it.
pub(crate) fn state_keyword(served: Option<&Zone>) -> &'static str {
    match served {
        None => "not loaded",
        Some(zone) if !zone.is_ready() => "not ready",
        Some(zone) if zone.is_stub() => "live",
        Some(_) => "current",
    }
}

/// Returns the backend number that operators know: catalogs produced here belong to the database of their members.
pub(crate) fn backend_number(rank: u16, policy: &ZonePolicy) -> u32 {
    match (rank, &policy.declared_by) {
        (CONFIGURED_RANK, PolicySource::Backend(rank)) => (*rank).into(),
        (rank, _) => shown_backend(rank.into()),
    }
}

/// Returns the backend number for output: 0 for zones in the state store, which have none.
pub(crate) fn shown_backend(rank: u32) -> u32 {
    if rank == u32::from(UNCONFIGURED_RANK) {
        CONFIGURED_RANK.into()
    } else {
        rank
    }
}

/// Returns the signing of a zone, with the keywords of `zone show`.
fn signing_keyword(served: Option<&Zone>, policy: &ZonePolicy, is_database: bool) -> &'static str {
    match served.map(Zone::signing) {
        None => "unknown",
        Some(SigningState::Stored(_)) => "stored",
        Some(SigningState::Unsigned) => match served {
            Some(zone) if zone.is_stub() => "unknown",
            _ => "no",
        },
        Some(_) if policy.dnssec_policy.is_some() => "policy",
        Some(_) if is_database => "database",
        Some(_) => "by hand",
    }
}

/// Completes the row of a live zone, or of one that is not served, with its database's data.
fn complete(row: &mut ListedZone, overview: Option<&ZoneOverview>, policy: &ZonePolicy, now: u32) {
    let is_in_memory = !matches!(row.state.as_str(), "live" | "not served" | "not loaded");
    let Some(overview) = overview.filter(|_| !is_in_memory) else {
        return;
    };
    let serial = overview.served_serial(now);
    row.serial = serial.map(|serial| serial.0);
    row.signing = match overview {
        zone if zone.is_presigned => "stored",
        zone if zone.has_keys && policy.dnssec_policy.is_some() => "policy",
        zone if zone.has_keys => "database",
        _ => "no",
    }
    .into();
    if row.serial.is_none() && row.state == "live" {
        row.state = "no SOA".into();
    }
}
