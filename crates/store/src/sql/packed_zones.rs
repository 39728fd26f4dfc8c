//! The list of all zones of a database, in as little memory as it takes: a row with a buffer for the longest name has 360 octets, and
//! most zones have a name of twenty and nothing else.

use super::dialect::Statement;
use super::{MAX_REPORTED, RowError, SqlBackend, SqlError, ZoneList, ZoneRow, read_zone};
use nameward_wire::Name;
use nameward_zone::ZoneKind;

/// A row of `domains`, packed.
#[derive(Debug, Clone)]
pub struct PackedZone {
    /// The row ID.
    pub id: i64,
    kind: ZoneKind,
    name: Box<[u8]>,
    details: Option<Box<PackedDetails>>,
}

/// The columns that most zones do not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct PackedDetails {
    primaries: Option<Box<str>>,
    last_check: Option<i64>,
    notified_serial: Option<i64>,
    account: Option<Box<str>>,
    options: Option<Box<str>>,
    catalog: Option<Box<str>>,
}

/// All zones of a database.
#[derive(Debug, Default)]
pub struct PackedZones {
    /// The usable zones.
    pub zones: Vec<PackedZone>,
    /// The first few unusable rows of `domains`.
    pub bad: Vec<RowError>,
}

impl From<ZoneRow> for PackedZone {
    fn from(row: ZoneRow) -> Self {
        let details = PackedDetails {
            primaries: row.primaries,
            last_check: row.last_check,
            notified_serial: row.notified_serial,
            account: row.account,
            options: row.options,
            catalog: row.catalog,
        };
        let is_plain = details == PackedDetails::default();
        PackedZone {
            id: row.id,
            kind: row.kind,
            name: row.name.as_name().as_wire().into(),
            details: (!is_plain).then(|| Box::new(details)),
        }
    }
}

impl PackedZone {
    /// Returns the row.
    pub fn row(&self) -> ZoneRow {
        let details = self.details.as_deref();
        let text =
            |read: fn(&PackedDetails) -> &Option<Box<str>>| details.and_then(|d| read(d).clone());
        ZoneRow {
            id: self.id,
            // It was a name when it was packed.
            name: Name::from_wire(&self.name).unwrap_or(Name::ROOT).into(),
            kind: self.kind,
            primaries: text(|details| &details.primaries),
            last_check: details.and_then(|details| details.last_check),
            notified_serial: details.and_then(|details| details.notified_serial),
            account: text(|details| &details.account),
            options: text(|details| &details.options),
            catalog: text(|details| &details.catalog),
        }
    }
}

impl SqlBackend {
    /// Returns all zones, in arbitrary order.
    pub async fn zones(&self) -> Result<ZoneList, SqlError> {
        let packed = self.packed_zones().await?;
        Ok(ZoneList {
            zones: packed.zones.iter().map(PackedZone::row).collect(),
            bad: packed.bad,
        })
    }

    /// Returns all zones, in arbitrary order, for callers that have many.
    pub async fn packed_zones(&self) -> Result<PackedZones, SqlError> {
        let mut list = PackedZones::default();
        self.query(Statement::Zones, None, &[], &mut |row| {
            match read_zone(row) {
                Ok(zone) => list.zones.push(zone.into()),
                Err(error) if list.bad.len() < MAX_REPORTED => list.bad.push(error),
                Err(_) => {}
            }
            Ok(())
        })
        .await?;
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_unpacked_as_they_were() {
        let plain = ZoneRow {
            id: 7,
            name: "a.example.org.".parse().unwrap(),
            kind: ZoneKind::Native,
            primaries: None,
            last_check: None,
            notified_serial: None,
            account: None,
            options: None,
            catalog: None,
        };
        let full = ZoneRow {
            kind: ZoneKind::Secondary,
            primaries: Some("192.0.2.1".into()),
            last_check: Some(0),
            notified_serial: Some(3),
            account: Some("sales".into()),
            options: Some("{}".into()),
            catalog: Some("c.example".into()),
            ..plain.clone()
        };
        for row in [plain, full] {
            let packed = PackedZone::from(row.clone());
            assert_eq!(format!("{:?}", packed.row()), format!("{row:?}"));
        }
        assert!(size_of::<PackedZone>() <= 40);
    }
}
