//! `zone show`: a zone as its database, its file or the state store has it, and how this server serves it.
//!
//! A database that does not respond only costs its own data: what this server and other databases know is shown.

use nameward_maintain::policy::ZonePolicy;
use nameward_sql::ZoneRow;
use nameward_sql::write::StoredRecord;
use nameward_wire::NameBuf;
use nameward_zone::Zone;
use serde::{Deserialize, Serialize};

use super::list::{backend_number, listed_kind, served_serial, state_keyword};
use super::local::is_file;
use super::location::{MemoryZone, ZoneLocation};
use crate::operations::{
    Database, ErrorKind, ListedKind, ListedSigning, OperationError, OperationResult, Operations,
    Outcome, zone_name,
};
use nameward_base::time::now_seconds;

/// A zone with its numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneDetails {
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: ListedKind,
    /// The state, as in [`crate::operations::ListedZone::state`].
    #[serde(default)]
    pub state: String,
    /// The serial that clients get; `None` without a readable SOA.
    pub serial: Option<u32>,
    /// The serial in the file, the state store or the database, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_serial: Option<u32>,
    /// Records that are not disabled; unknown if the database does not respond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Records that are disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<u64>,
    /// The number of the backend; 0 for zones in the state store and for files of `[[zone]]`.
    pub backend: u32,
    /// The address of the database, without its password; `file` or `state store` for others.
    pub database: String,
    /// `live` or `resident`.
    pub mode: String,
    /// Addresses of primaries, as stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primaries: Option<String>,
    /// The account, as stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The catalog it is a member of, as stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
    /// How it is signed; none for a zone that is not in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<ListedSigning>,
    /// The databases that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Operations {
    /// Shows a zone. If its database fails, what this server knows is shown with a warning that names the database.
    pub fn show_zone(&self, name: &str) -> Outcome {
        let name = zone_name(name)?;
        if (self.rank_of)(name.as_name()).is_none() {
            return self.show_unserved(&name).map(OperationResult::Zone);
        }
        if let Some(details) = self.show_without_contents(&name) {
            return Ok(OperationResult::Zone(details));
        }
        let shown = match self.location(&name) {
            Ok(ZoneLocation::Database(database, row)) => self.show_stored(database, &row),
            Ok(ZoneLocation::Memory(zone)) => Ok(self.show_memory(&zone)),
            Err(error) => Err(error),
        };
        match shown {
            Err(error) if error.kind == ErrorKind::Backend => {
                let known = self.show_without_database(&name, &error);
                Ok(OperationResult::Zone(known.ok_or(error)?))
            }
            shown => shown.map(OperationResult::Zone),
        }
    }

    /// Shows a zone that is in a database but not served here, because it has no SOA or was not read yet. Databases
    /// that fail are named.
    fn show_unserved(&self, name: &NameBuf) -> Outcome<ZoneDetails> {
        let mut failures = Vec::new();
        for database in &self.databases {
            let found = database.backend.find_zone(name.as_name());
            let shown = match self.read_from(database, found) {
                Ok(None) => continue,
                Ok(Some(row)) => self.show_stored(database, &row),
                Err(error) => Err(error),
            };
            match shown {
                Ok(mut details) => {
                    details.warnings = failures;
                    return Ok(details);
                }
                Err(error) => failures.push(error.message),
            }
        }
        if failures.is_empty() {
            return Err(OperationError::unknown_zone(name));
        }
        Err(OperationError::backend(failures.join("\n")))
    }

    /// Shows a zone that is not in a database and has no contents here: a secondary that was never transferred or has
    /// expired, or a zone file with errors.
    fn show_without_contents(&self, name: &NameBuf) -> Option<ZoneDetails> {
        let table = self.commits.table().load();
        let zone = table.exact(name.as_name())?;
        let is_local = !self.is_database(zone.rank()) && !zone.is_ready();
        is_local.then(|| self.known_details(zone))
    }

    /// Returns what the zone table and the policies have about a zone that is not in a database.
    fn known_details(&self, zone: &Zone) -> ZoneDetails {
        let policies = self.policies.load();
        let policy = policies.get(zone.id());
        ZoneDetails {
            name: zone.id().to_string(),
            kind: listed_kind(policy.kind, false),
            state: state_keyword(Some(zone)).into(),
            backend: backend_number(zone.rank(), policy),
            database: local_storage(policy).into(),
            mode: "resident".into(),
            primaries: addresses(policy),
            catalog: policy.catalog.map(|catalog| catalog.to_string()),
            ..ZoneDetails::default()
        }
    }

    fn show_stored(&self, database: &Database, row: &ZoneRow) -> Outcome<ZoneDetails> {
        let (mut records, mut disabled) = (0_u64, 0_u64);
        let mut take = |record: StoredRecord| {
            if record.disabled {
                disabled += 1
            } else {
                records += 1
            }
            true
        };
        let listing = database.backend.stored_records(row, None, &mut take);
        self.read_from(database, listing)?;
        let name = [row.name];
        let overview = self.read_from(database, database.backend.overview(&name))?;
        let overview = overview.into_iter().next_back().map(|(_, zone)| zone);
        let stored_serial = overview.as_ref().and_then(|zone| zone.serial);
        let looked_up = overview.and_then(|zone| zone.served_serial(now_seconds() as u32));
        let table = self.commits.table().load();
        let served = table.exact(row.name.as_name());
        let served = served.filter(|zone| zone.rank() == database.rank);
        let state = match served {
            None if table.is_empty() => "not loaded",
            None => "not served",
            Some(zone) if zone.live().is_some() && looked_up.is_none() => "no SOA",
            Some(zone) => state_keyword(Some(zone)),
        };
        let served = served.filter(|zone| !zone.is_stub());
        let serial = match served {
            Some(zone) => served_serial(zone),
            None => looked_up.map(|serial| serial.0),
        };
        let stored = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Ok(ZoneDetails {
            name: row.name.to_string(),
            kind: row.kind.into(),
            state: state.into(),
            serial,
            stored_serial: differing(stored_serial.map(|serial| serial.0), serial),
            records: Some(records),
            disabled: Some(disabled),
            backend: database.number(),
            database: database.address().to_string(),
            mode: database.mode.into(),
            primaries: stored(&row.primaries),
            account: stored(&row.account),
            catalog: stored(&row.catalog),
            signing: self.signing_of(row.name.as_name()),
            ..ZoneDetails::default()
        })
    }

    fn show_memory(&self, zone: &MemoryZone) -> ZoneDetails {
        let (version, name) = (&zone.version, zone.name());
        let nodes = version.nodes_in_any_order();
        let records = nodes.flat_map(|node| node.rrsets().map(|rrset| rrset.records().count()));
        let table = self.commits.table().load();
        let served = table.exact(name.as_name()).map(|zone| &**zone);
        let serial = served.and_then(served_serial);
        ZoneDetails {
            state: state_keyword(served).into(),
            serial,
            stored_serial: differing(Some(version.serial().0), serial),
            records: Some(records.sum::<usize>() as u64),
            disabled: Some(0),
            signing: self.signing_of(name.as_name()),
            ..self.known_details(version)
        }
    }

    /// Shows what this server knows of a zone whose database fails; `None` if it does not serve the zone.
    fn show_without_database(&self, name: &NameBuf, error: &OperationError) -> Option<ZoneDetails> {
        let table = self.commits.table().load();
        let zone = table.exact(name.as_name())?;
        let database = self.databases.iter().find(|one| one.rank == zone.rank())?;
        Some(ZoneDetails {
            kind: self.policies.load().get(name.as_name()).kind.into(),
            serial: served_serial(zone),
            backend: database.number(),
            database: database.address().to_string(),
            mode: database.mode.into(),
            signing: self.signing_in_memory(name.as_name()),
            warnings: vec![error.message.clone()],
            ..self.known_details(zone)
        })
    }
}

/// Returns the stored serial if it differs from the served one.
fn differing(stored: Option<u32>, served: Option<u32>) -> Option<u32> {
    stored.filter(|_| stored != served)
}

/// Returns where a zone that is not in a database is stored. Catalogs produced here are in the state store, too.
fn local_storage(policy: &ZonePolicy) -> &'static str {
    if is_file(policy.kind) {
        "file"
    } else {
        "state store"
    }
}

/// Returns the addresses of the primaries in a policy.
fn addresses(policy: &ZonePolicy) -> Option<String> {
    let primaries = policy.primaries.iter();
    let primaries: Vec<String> = primaries.map(|one| one.address.to_string()).collect();
    (!primaries.is_empty()).then(|| primaries.join(", "))
}
