//! The attributes of zones for the API: kind, primaries, account, catalog, serials and whether they are signed, of
//! one zone or of all, without reading their records.

use std::fmt;
use std::sync::Arc;

use nameward_base::time::now_seconds;
use nameward_sql::ZoneRow;
use nameward_sql::write::ZoneOverview;
use nameward_wire::NameBuf;
use nameward_zone::{SigningState, Zone, ZoneKind};
use serde::{Deserialize, Serialize};

use super::list::served_serial;
use super::location::ZoneLocation;
use crate::operations::{
    ItemSink, ListedItem, ListedKind, ListedMetadata, OperationError, OperationResult, Operations,
    Outcome, table_row, zone_name,
};

/// The attributes of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// It is stored in a database, so it can have metadata, comments and disabled records.
    pub is_in_database: bool,
    /// The settings of a zone that is not in a database, as metadata; only for a single zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<ListedMetadata>,
}

table_row! { ZoneAttributes as item:
    "ZONE" = item.name,
    "KIND" = item.kind.name(),
    "BACKEND" = item.backend,
    "SERIAL" = item.edited_serial,
    "ACCOUNT" = item.account,
    "CATALOG" = item.catalog,
}

impl ZoneAttributes {
    /// Returns the kind as in the zone list: a zone file that neither sends NOTIFY nor is transferred has none.
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

/// A position in the list of all zones.
#[derive(Debug, Default, PartialEq, Eq)]
struct AttributesPosition {
    /// 0 for zones in memory, otherwise the number of a database.
    source: usize,
    /// The last zone of the previous page, as stored in the database.
    after: Option<String>,
}

impl AttributesPosition {
    fn start_of(source: usize) -> Self {
        AttributesPosition {
            source,
            after: None,
        }
    }

    /// Parses a position; an empty text is the start.
    fn read(text: &str) -> Outcome<Self> {
        if text.is_empty() {
            return Ok(AttributesPosition::default());
        }
        let (source, after) = text.split_once(':').unwrap_or((text, ""));
        let invalid =
            |_| OperationError::invalid(format!("invalid position {text:?} in the list of zones"));
        Ok(AttributesPosition {
            source: source.parse().map_err(invalid)?,
            after: (!after.is_empty()).then(|| after.to_owned()),
        })
    }
}

impl fmt::Display for AttributesPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.after.as_deref().unwrap_or(""))
    }
}

impl Operations {
    /// Lists the attributes of a zone, or of all zones: those in memory, then those of each database, sorted by name.
    pub fn list_attributes(&self, zone: Option<&str>, items: ItemSink<'_>) -> Outcome {
        if let Some(zone) = zone {
            let zone = self.attributes_of(&zone_name(zone)?)?;
            items(ListedItem::Attributes(Box::new(zone)));
            return Ok(OperationResult::Listed { items: 1 });
        }
        let (mut count, mut next) = (0, Some(AttributesPosition::default()));
        while let Some(position) = next {
            next = self.list_attributes_at(&position, &mut |zone| {
                count += 1;
                items(ListedItem::Attributes(Box::new(zone)))
            })?;
        }
        Ok(OperationResult::Listed { items: count })
    }

    /// Lists one page of the attributes of all zones. The position is from the result of the previous page.
    pub fn list_attributes_page(&self, position: &str, items: ItemSink<'_>) -> Outcome {
        let position = AttributesPosition::read(position)?;
        let mut count = 0;
        let next = self.list_attributes_at(&position, &mut |zone| {
            count += 1;
            items(ListedItem::Attributes(Box::new(zone)))
        })?;
        Ok(OperationResult::ListedPage {
            items: count,
            next: next.map(|position| position.to_string()),
        })
    }

    fn attributes_of(&self, name: &NameBuf) -> Outcome<ZoneAttributes> {
        let table = self.commits.table().load();
        if let Some(zone) = table.exact(name.as_name())
            && !self.is_database(zone.rank())
        {
            return Ok(ZoneAttributes {
                settings: self.local_metadata(name),
                ..self.resident_attributes(zone)
            });
        }
        let ZoneLocation::Database(database, row) = self.location(name)? else {
            return Err(OperationError::not_found(format!("zone {name} not found")));
        };
        let overview = database.backend.overview(std::slice::from_ref(&row.name));
        let overview = self.read_from(database, overview)?;
        let overview = overview.first().map(|(_, zone)| zone);
        let now = now_seconds() as u32;
        Ok(stored_attributes(database.number(), &row, overview, now))
    }

    /// Lists the zones of a page until `each` returns false, and returns the position of the next page.
    fn list_attributes_at(
        &self,
        position: &AttributesPosition,
        each: &mut (dyn FnMut(ZoneAttributes) -> bool + Send),
    ) -> Outcome<Option<AttributesPosition>> {
        let table = self.commits.table().load();
        let next_source = position.source + 1;
        let Some(at) = position.source.checked_sub(1) else {
            let resident = table.zones().filter(|zone| !self.is_database(zone.rank()));
            let mut zones: Vec<ZoneAttributes> = resident
                .map(|zone| self.resident_attributes(zone))
                .collect();
            zones.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            let continues = zones.into_iter().all(each);
            let next = continues && !self.databases.is_empty();
            return Ok(next.then(|| AttributesPosition::start_of(next_source)));
        };
        let Some(database) = self.databases.get(at) else {
            return Ok(None);
        };
        let (number, now) = (database.number(), now_seconds() as u32);
        let mut continues = true;
        let mut take = |row: &ZoneRow, overview: &ZoneOverview| {
            // If two backends have a zone, one of them serves it.
            let served = table.exact(row.name.as_name());
            let is_ours = served.is_none_or(|zone| zone.rank() == database.rank);
            if is_ours && continues {
                continues = each(stored_attributes(number, row, Some(overview), now));
            }
        };
        let after = position.after.as_deref();
        let end = self.read_from(database, database.backend.zone_page(after, &mut take))?;
        if !continues {
            return Ok(None);
        }
        Ok(match end {
            Some(end) => Some(AttributesPosition {
                source: position.source,
                after: Some(end),
            }),
            None if next_source <= self.databases.len() => {
                Some(AttributesPosition::start_of(next_source))
            }
            None => None,
        })
    }

    fn resident_attributes(&self, zone: &Arc<Zone>) -> ZoneAttributes {
        let policies = self.policies.load();
        let policy = policies.get(zone.id());
        let has_data = zone.is_ready() && !zone.is_stub();
        ZoneAttributes {
            name: zone.id().to_string(),
            kind: policy.kind.into(),
            catalog: policy
                .catalog
                .map(|name| name.to_string())
                .unwrap_or_default(),
            primaries: policy
                .primaries
                .iter()
                .map(|one| nameward_maintain::policy::address_text(one.address))
                .collect(),
            serial: if has_data {
                zone.stored().serial().0
            } else {
                0
            },
            edited_serial: served_serial(zone).unwrap_or(0),
            is_signed: !matches!(zone.signing(), SigningState::Unsigned),
            backend: zone.rank().into(),
            ..ZoneAttributes::default()
        }
    }
}

/// Returns the attributes of a zone in the database with this number; `now` is in seconds since 1970.
fn stored_attributes(
    backend: u32,
    row: &ZoneRow,
    overview: Option<&ZoneOverview>,
    now: u32,
) -> ZoneAttributes {
    let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().to_owned();
    let primaries = row.primaries.as_deref().unwrap_or_default();
    let primaries = primaries.split([',', ' ', ';', '\t']);
    let serial = overview.and_then(|zone| zone.serial);
    let edited = overview.and_then(|zone| zone.served_serial(now));
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
        backend,
        is_in_database: true,
        ..ZoneAttributes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_round_trip() {
        for after in [
            None,
            Some("example.org".to_owned()),
            Some("a:b.test".to_owned()),
        ] {
            let position = AttributesPosition { source: 2, after };
            let read = AttributesPosition::read(&position.to_string()).unwrap();
            assert_eq!(read, position);
        }
        assert_eq!(AttributesPosition::read("").unwrap().source, 0);
        assert!(AttributesPosition::read("x:example.org").is_err());
    }
}
