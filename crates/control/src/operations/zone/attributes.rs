//! Owns the attributes of zones as an API shows them: kind, primaries, account, catalog, serials and whether they are signed,
//! of one zone or of all, without reading their records.

use std::sync::Arc;

use nameward_base::time::now_seconds;
use nameward_store::sql::ZoneRow;
use nameward_store::sql::write::ZoneOverview;
use nameward_wire::NameBuf;
use nameward_zone::{SigningState, Zone, ZoneKind};
use serde::{Deserialize, Serialize};

use super::list::served_serial;
use super::place::ZoneLocation;
use crate::operations::{Columns, TableRow};
use crate::operations::{
    Database, ItemSink, ListedItem, ListedKind, ListedMetadata, OperationError, OperationResult,
    Operations, zone_name,
};

/// The attributes of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneAttributes {
    /// The name, with its final dot.
    pub name: String,
    /// The kind.
    pub kind: ListedKind,
    /// The account; empty if there is none.
    pub account: String,
    /// The catalog that lists it, with its final dot; empty if there is none.
    pub catalog: String,
    /// Addresses of its primaries.
    pub primaries: Vec<String>,
    /// When a secondary was last checked, in seconds since 1970; 0 if never.
    pub last_check: i64,
    /// The serial of the last NOTIFY; 0 if there was none.
    pub notified_serial: u32,
    /// The stored serial; 0 without a SOA.
    pub serial: u32,
    /// The serial that clients get; 0 without a SOA.
    pub edited_serial: u32,
    /// It is signed, here or elsewhere.
    pub is_signed: bool,
    /// The number of the backend.
    pub backend: u32,
    /// A database stores it, so that it can have metadata, comments and disabled records.
    pub is_in_database: bool,
    /// Settings of a zone that is not in a database, as metadata; of a single zone only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<ListedMetadata>,
}

impl TableRow for ZoneAttributes {
    const COLUMNS: Columns = &["ZONE", "KIND", "BACKEND", "SERIAL", "ACCOUNT", "CATALOG"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.kind.name().into(),
            self.backend.to_string(),
            self.edited_serial.to_string(),
            self.account.clone(),
            self.catalog.clone(),
        ]
    }
}

impl ZoneAttributes {
    /// Returns the kind as the list of zones has it: a zone file that is not notified and not transferred has none.
    pub fn listed_kind(&self) -> ListedKind {
        match self.kind {
            ListedKind::OfZone(ZoneKind::Native) if !self.is_in_database => ListedKind::File,
            kind => kind,
        }
    }

    /// Whether its contents come from a primary.
    pub fn is_transferred(&self) -> bool {
        matches!(self.kind, ListedKind::OfZone(kind) if kind.is_transferred())
    }
}

impl Operations {
    /// Lists the attributes of a zone, or of all zones in the order of their names.
    pub fn list_attributes(
        &self,
        zone: Option<&str>,
        items: ItemSink<'_>,
    ) -> Result<OperationResult, OperationError> {
        let zones = match zone {
            Some(zone) => vec![self.attributes_of(&zone_name(zone)?)?],
            None => self.all_attributes()?,
        };
        let count = zones.len() as u64;
        let _ = zones
            .into_iter()
            .all(|zone| items(ListedItem::Attributes(Box::new(zone))));
        Ok(OperationResult::Listed { items: count })
    }

    fn attributes_of(&self, name: &NameBuf) -> Result<ZoneAttributes, OperationError> {
        let table = self.commits.table().load();
        let is_database = |rank| self.databases.iter().any(|one| one.rank == rank);
        if let Some(zone) = table.exact(name.as_name())
            && !is_database(zone.rank())
        {
            return Ok(ZoneAttributes {
                settings: self.local_metadata(name),
                ..self.resident_attributes(zone)
            });
        }
        let ZoneLocation::Database(database, row) = self.place(name)? else {
            return Err(OperationError::not_found(format!("zone {name} not found")));
        };
        let overview = database.backend.overview(std::slice::from_ref(&row.name));
        let overview = self.runtime.block_on(overview);
        let overview = overview.map_err(|error| self.failure_of(database, &error))?;
        let overview = overview.first().map(|(_, zone)| zone);
        Ok(stored_attributes(database, &row, overview))
    }

    fn all_attributes(&self) -> Result<Vec<ZoneAttributes>, OperationError> {
        let table = self.commits.table().load();
        let is_database = |rank| self.databases.iter().any(|one| one.rank == rank);
        let resident = table.zones().filter(|zone| !is_database(zone.rank()));
        let mut zones: Vec<ZoneAttributes> = resident
            .map(|zone| self.resident_attributes(zone))
            .collect();
        for database in &self.databases {
            let failed = |error: &dyn std::fmt::Display| self.failure_of(database, &error);
            let listed = self.runtime.block_on(database.backend.zones());
            let listed = listed.map_err(|error| failed(&error))?;
            let overview = self.runtime.block_on(database.backend.overview_of_all());
            let overview = overview.map_err(|error| failed(&error))?;
            // Of two backends that have a zone one serves it.
            let is_ours = |row: &&ZoneRow| {
                let served = table.exact(row.name.as_name());
                served.is_none_or(|zone| zone.rank() == database.rank)
            };
            zones.extend(
                listed
                    .zones
                    .iter()
                    .filter(is_ours)
                    .map(|row| stored_attributes(database, row, overview.get(&row.id))),
            );
        }
        zones.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        zones.dedup_by(|a, b| a.name == b.name);
        Ok(zones)
    }

    fn resident_attributes(&self, zone: &Arc<Zone>) -> ZoneAttributes {
        let policies = self.policies.load();
        let policy = policies.of(zone.apex_name());
        let has_data = zone.is_ready() && !zone.is_stand_in();
        ZoneAttributes {
            name: zone.apex_name().to_string(),
            kind: policy.kind.into(),
            account: String::new(),
            catalog: policy
                .catalog
                .map(|name| name.to_string())
                .unwrap_or_default(),
            primaries: policy
                .primaries
                .iter()
                .map(|one| nameward_maintain::policy::address_text(one.address))
                .collect(),
            last_check: 0,
            notified_serial: 0,
            serial: if has_data {
                zone.unsigned().serial().0
            } else {
                0
            },
            edited_serial: served_serial(zone).unwrap_or(0),
            is_signed: !matches!(zone.signing(), SigningState::Unsigned),
            backend: zone.rank().into(),
            is_in_database: false,
            settings: Vec::new(),
        }
    }
}

fn stored_attributes(
    database: &Database,
    row: &ZoneRow,
    overview: Option<&ZoneOverview>,
) -> ZoneAttributes {
    let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().to_owned();
    let primaries = text(&row.primaries);
    let primaries = primaries.split([',', ' ', ';', '\t']);
    let serial = overview.and_then(|zone| zone.serial);
    let edited = overview.and_then(|zone| zone.served_serial(now_seconds() as u32));
    ZoneAttributes {
        name: row.name.to_string(),
        kind: row.kind.into(),
        account: text(&row.account),
        catalog: match row.catalog.as_deref().unwrap_or_default() {
            "" => String::new(),
            name => format!("{}.", name.trim_end_matches('.')),
        },
        primaries: primaries
            .filter(|one| !one.is_empty())
            .map(str::to_owned)
            .collect(),
        last_check: row.last_check.unwrap_or(0),
        notified_serial: row
            .notified_serial
            .and_then(|serial| u32::try_from(serial).ok())
            .unwrap_or(0),
        serial: serial.map_or(0, |serial| serial.0),
        edited_serial: edited.map_or(0, |serial| serial.0),
        is_signed: overview.is_some_and(|zone| zone.has_keys || zone.is_presigned),
        backend: database.number(),
        is_in_database: true,
        settings: Vec::new(),
    }
}
