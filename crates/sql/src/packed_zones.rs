//! The list of all zones of a database, in as little memory as it takes: a row with a buffer for the longest name has 360 octets, and
//! most zones have a name of twenty and nothing else.

use super::SqlFuture;
use super::dialect::Statement;
use super::{MAX_REPORTED, RowError, SqlBackend, SqlError, ZoneRow, read_zone};
use nameward_wire::Name;
use nameward_zone::ZoneKind;

/// Zones in one piece: names of twenty octets then take 320 KiB, which the allocator returns to the system when they are dropped.
const PIECE_ZONES: usize = 16_384;

/// All zones of a database, in arbitrary order.
#[derive(Debug, Default)]
pub struct PackedZones {
    pieces: Vec<ZoneListPiece>,
    /// The first few unusable rows of `domains`.
    pub bad: Vec<RowError>,
}

/// Some of the zones.
#[derive(Debug, Default)]
struct ZoneListPiece {
    zones: Vec<PackedZone>,
    /// Their names in wire format, one after the other.
    names: Vec<u8>,
    /// The details of those that have any, in order.
    details: Vec<PackedDetails>,
}

/// A row of `domains` without its name and details.
#[derive(Debug)]
struct PackedZone {
    id: i64,
    kind: ZoneKind,
    name_length: u8,
    has_details: bool,
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

impl PackedZones {
    /// Adds a zone.
    pub fn push(&mut self, row: ZoneRow) {
        let is_full = |piece: &ZoneListPiece| piece.zones.len() >= PIECE_ZONES;
        if self.pieces.last().is_none_or(is_full) {
            self.pieces.push(ZoneListPiece::default());
        }
        if let Some(piece) = self.pieces.last_mut() {
            piece.push(row);
        }
    }

    /// Returns the number of zones.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.zones.len()).sum()
    }

    /// Checks whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the row IDs.
    pub fn ids(&self) -> impl Iterator<Item = i64> {
        let zones = self.pieces.iter().flat_map(|piece| &piece.zones);
        zones.map(|zone| zone.id)
    }

    /// Returns the rows.
    pub fn rows(&self) -> impl Iterator<Item = ZoneRow> {
        self.pieces.iter().flat_map(ZoneListPiece::rows)
    }

    /// Returns the rows, and drops those that were returned, piece by piece.
    pub fn into_rows(self) -> impl Iterator<Item = ZoneRow> {
        let pieces = self.pieces.into_iter();
        pieces.flat_map(|mut piece| {
            let zones = std::mem::take(&mut piece.zones).into_iter();
            let mut reader = PieceReader::default();
            zones.map(move |zone| reader.row(&zone, &piece.names, &piece.details))
        })
    }
}

impl ZoneListPiece {
    fn push(&mut self, row: ZoneRow) {
        let details = PackedDetails {
            primaries: row.primaries,
            last_check: row.last_check,
            notified_serial: row.notified_serial,
            account: row.account,
            options: row.options,
            catalog: row.catalog,
        };
        let name = row.name.as_name().as_wire();
        let has_details = details != PackedDetails::default();
        self.zones.push(PackedZone {
            id: row.id,
            kind: row.kind,
            // At most 255 (RFC 1035 section 2.3.4).
            name_length: u8::try_from(name.len()).unwrap_or(u8::MAX),
            has_details,
        });
        self.names.extend_from_slice(name);
        if has_details {
            self.details.push(details);
        }
    }

    fn rows(&self) -> impl Iterator<Item = ZoneRow> {
        let mut reader = PieceReader::default();
        let zones = self.zones.iter();
        zones.map(move |zone| reader.row(zone, &self.names, &self.details))
    }
}

/// Positions in the names and details of a piece.
#[derive(Default)]
struct PieceReader {
    name: usize,
    details: usize,
}

impl PieceReader {
    fn row(&mut self, zone: &PackedZone, names: &[u8], details: &[PackedDetails]) -> ZoneRow {
        let name = &names[self.name..];
        let name = &name[..zone.name_length.into()];
        self.name += name.len();
        let details = if zone.has_details {
            self.details += 1;
            details[self.details - 1].clone()
        } else {
            PackedDetails::default()
        };
        ZoneRow {
            id: zone.id,
            // It was a name when it was packed.
            name: Name::from_wire(name).unwrap_or(Name::ROOT).into(),
            kind: zone.kind,
            primaries: details.primaries,
            last_check: details.last_check,
            notified_serial: details.notified_serial,
            account: details.account,
            options: details.options,
            catalog: details.catalog,
        }
    }
}

impl SqlBackend {
    /// Returns all zones, in arbitrary order.
    pub fn zones(&self) -> SqlFuture<'_, Result<PackedZones, SqlError>> {
        Box::pin(async move {
            let mut list = PackedZones::default();
            self.query(Statement::Zones, None, &[], &mut |row| {
                match read_zone(row) {
                    Ok(zone) => list.push(zone),
                    Err(error) if list.bad.len() < MAX_REPORTED => list.bad.push(error),
                    Err(_) => {}
                }
                Ok(())
            })
            .await?;
            Ok(list)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64) -> ZoneRow {
        let text = |text: &str| Some(format!("{text}{id}").into_boxed_str());
        let plain = ZoneRow {
            id,
            name: format!("customer{id}.example.org.").parse().unwrap(),
            kind: ZoneKind::ALL[usize::try_from(id).unwrap() % ZoneKind::ALL.len()],
            primaries: None,
            last_check: None,
            notified_serial: None,
            account: None,
            options: None,
            catalog: None,
        };
        match id % 3 {
            0 => plain,
            1 => ZoneRow {
                account: text("sales"),
                ..plain
            },
            _ => ZoneRow {
                primaries: text("192.0.2."),
                last_check: Some(0),
                notified_serial: Some(id),
                options: text("{}"),
                catalog: text("c.example"),
                ..plain
            },
        }
    }

    #[test]
    fn packed_rows_round_trip() {
        let count = 2 * PIECE_ZONES as i64 + 5;
        let mut packed = PackedZones::default();
        (0..count).for_each(|id| packed.push(row(id)));
        assert_eq!(packed.pieces.len(), 3);
        assert_eq!((packed.len() as i64, packed.is_empty()), (count, false));
        assert!(packed.ids().eq(0..count));
        let texts = |rows: &mut dyn Iterator<Item = ZoneRow>| -> Vec<String> {
            rows.map(|row| format!("{row:?}")).collect()
        };
        let expected = texts(&mut (0..count).map(row));
        assert_eq!(texts(&mut packed.rows()), expected);
        assert_eq!(texts(&mut packed.into_rows()), expected);
        assert!(size_of::<PackedZone>() <= 16);
    }
}
