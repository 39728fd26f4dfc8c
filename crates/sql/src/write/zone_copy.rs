//! Copies of zones: all rows of a zone in a database, as octets that outlive the zone and can restore it.
//!
//! ```text
//! copy    the format number, then rows in the order of their tables
//! row     the number of its table, then its cells in the order of the schema
//! cell    0 for NULL, 1 and eight octets for a number or boolean, 2, a length in four octets and text
//! ```
//! A copy is made in the transaction that deletes the zone, so that nothing can happen in between. Rows keep everything
//! PowerDNS stores in them, including derived columns and disabled records; their IDs (`id`) are assigned again.

use super::super::dialect::{SqlEngine, int, text};
use super::super::row::{Cells, zone_name_text};
use super::super::schema::{ColumnKind, TABLES};
use super::session::{Failure, Session, Value};
use super::zone_row::find;
use super::{Committed, WriteError, ZoneRow};
use nameward_state::StateError;
use nameward_wire::NameBuf;
use nameward_zone::{Serial, ZoneKind};

const FORMAT: u8 = 1;
/// Rows inserted per statement.
const ROWS_AT_ONCE: usize = 50;

/// The copied tables. Their order is part of the format, and so are their columns besides IDs, as the schema has them.
const COPIED: [&str; 5] = [
    "domains",
    "records",
    "comments",
    "domainmetadata",
    "cryptokeys",
];
/// The indexes of tables in [`COPIED`].
const DOMAINS: usize = 0;
const RECORDS: usize = 1;

/// All rows of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneCopy {
    /// The zone name.
    pub name: NameBuf,
    /// The zone kind.
    pub kind: ZoneKind,
    /// Its serial, if it has a readable SOA.
    pub serial: Option<Serial>,
    /// Number of records, including those that are not served.
    pub records: u64,
    /// The rows.
    pub octets: Vec<u8>,
}

/// Instructions to keep a copy before a zone is deleted.
#[derive(Clone, Copy)]
pub struct CopyOrder<'k> {
    /// Maximum size of a copy in octets.
    pub octets_max: u64,
    /// Stores the copy durably, or returns why it cannot: then the zone is not deleted.
    pub keep: &'k (dyn Fn(ZoneCopy) -> Result<(), StateError> + Sync),
}

/// Copies the rows of a locked zone, and stores the copy.
pub(super) async fn store_copy(
    session: &mut Session,
    zone: &ZoneRow,
    order: CopyOrder<'_>,
) -> Result<(), WriteError> {
    let mut copy = RowCopier {
        octets: vec![FORMAT],
        octets_max: usize::try_from(order.octets_max).unwrap_or(usize::MAX),
        is_over: false,
        unreadable: None,
        records: 0,
        serial: None,
    };
    for table in 0..COPIED.len() {
        let sql = selection(session.engine(), table);
        let each = &mut |row: &dyn Cells| copy.add(table, row);
        session.rows(&sql, &[Value::Int(zone.id)], each).await?;
    }
    let name = zone.name;
    if let Some(table) = copy.unreadable {
        let reason = format!("zone {name}: table {table} contains text that is not UTF-8");
        return Err(WriteError::NoCopy(reason));
    }
    if copy.is_over {
        let mib = order.octets_max >> 20;
        let reason = format!(
            "zone {name} is larger than the limit of {mib} MiB for copies of deleted zones"
        );
        return Err(WriteError::NoCopy(reason));
    }
    let copy = ZoneCopy {
        name,
        kind: zone.kind,
        serial: copy.serial,
        records: copy.records,
        octets: copy.octets,
    };
    (order.keep)(copy).map_err(|error| WriteError::NoCopy(error.to_string()))
}

/// Returns the columns of a copied table; none for the number of another one.
fn columns(table: usize) -> impl Iterator<Item = &'static (&'static str, ColumnKind)> {
    let named = TABLES
        .iter()
        .filter(move |of| COPIED.get(table) == Some(&of.name));
    let columns = named.flat_map(|table| table.columns);
    columns.filter(|(_, holds)| !matches!(holds, ColumnKind::Id | ColumnKind::Zone))
}

/// Returns the statement that reads the rows of a zone in a table, the oldest first.
fn selection(engine: SqlEngine, table: usize) -> String {
    let name = COPIED[table];
    let cells = columns(table).map(|(column, holds)| match holds {
        ColumnKind::Text(..) => text(engine, column),
        ColumnKind::Bool(_) => int(
            engine,
            &format!("CASE WHEN {column} IS NULL THEN NULL WHEN {column} THEN 1 ELSE 0 END"),
        ),
        _ => int(engine, column),
    });
    let cells = cells.collect::<Vec<_>>().join(", ");
    let key = if table == DOMAINS { "id" } else { "domain_id" };
    format!("SELECT {cells} FROM {name} WHERE {key} = ? ORDER BY id")
}

/// Collects rows, up to a limit.
struct RowCopier {
    octets: Vec<u8>,
    octets_max: usize,
    is_over: bool,
    /// The table with text that could not be written back.
    unreadable: Option<&'static str>,
    records: u64,
    serial: Option<Serial>,
}

impl RowCopier {
    fn add(&mut self, table: usize, row: &dyn Cells) {
        if self.is_over {
            return;
        }
        self.octets.push(table as u8);
        for (place, (_, holds)) in columns(table).enumerate() {
            match holds {
                ColumnKind::Text(..) => match row.text(place) {
                    None => self.octets.push(0),
                    Some(text) => {
                        if std::str::from_utf8(text).is_err() {
                            self.unreadable = Some(COPIED[table]);
                        }
                        self.octets.push(2);
                        self.octets.extend((text.len() as u32).to_be_bytes());
                        self.octets.extend(text);
                    }
                },
                _ => match row.int(place) {
                    None => self.octets.push(0),
                    Some(number) => {
                        self.octets.push(1);
                        self.octets.extend(number.to_be_bytes());
                    }
                },
            }
        }
        if table == RECORDS {
            self.note_record(row);
        }
        self.is_over = self.octets.len() > self.octets_max;
    }

    /// Counts a record, and extracts the serial of the SOA: name, type, content, ttl, prio, disabled.
    fn note_record(&mut self, row: &dyn Cells) {
        let Some(rtype) = row.text(1) else {
            return;
        };
        self.records += 1;
        if rtype.eq_ignore_ascii_case(b"SOA") && row.int(5) != Some(1) {
            self.serial = serial_of(row.text(2).unwrap_or_default());
        }
    }
}

fn serial_of(content: &[u8]) -> Option<Serial> {
    let content = std::str::from_utf8(content).ok()?;
    let serial = content.split_ascii_whitespace().nth(2)?;
    serial.parse().ok().map(Serial)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopiedCell<'c> {
    Null,
    Number(i64),
    Text(&'c str),
}

/// Reads the next row of a copy; `None` if it is incomplete.
fn take_row<'c>(rest: &mut &'c [u8]) -> Option<(usize, Vec<CopiedCell<'c>>)> {
    let table = usize::from(take_octets(rest, 1)?[0]);
    COPIED.get(table)?;
    let cell = |_| {
        Some(match take_octets(rest, 1)?[0] {
            0 => CopiedCell::Null,
            1 => CopiedCell::Number(i64::from_be_bytes(take_octets(rest, 8)?.try_into().ok()?)),
            2 => {
                let length = u32::from_be_bytes(take_octets(rest, 4)?.try_into().ok()?);
                let text = take_octets(rest, usize::try_from(length).ok()?)?;
                CopiedCell::Text(std::str::from_utf8(text).ok()?)
            }
            _ => return None,
        })
    };
    let cells = columns(table).map(cell).collect::<Option<Vec<_>>>()?;
    Some((table, cells))
}

fn take_octets<'c>(rest: &mut &'c [u8], octets: usize) -> Option<&'c [u8]> {
    let (taken, left) = rest.split_at_checked(octets)?;
    *rest = left;
    Some(taken)
}

/// Reads the rows of a copy, table by table; `None` if it is not a valid copy.
fn read_copy(octets: &[u8]) -> Option<[Vec<Vec<CopiedCell<'_>>>; COPIED.len()]> {
    let mut tables = [const { Vec::new() }; COPIED.len()];
    let mut rest = octets;
    if take_octets(&mut rest, 1)? != [FORMAT] {
        return None;
    }
    while !rest.is_empty() {
        let (table, cells) = take_row(&mut rest)?;
        tables[table].push(cells);
    }
    (tables[DOMAINS].len() == 1).then_some(tables)
}

/// Writes the rows of a copy, unless there is a zone with this name.
pub(super) async fn restore(
    session: &mut Session,
    name: &NameBuf,
    octets: &[u8],
) -> Result<Committed, WriteError> {
    let broken = || WriteError::NoCopy(format!("the copy of zone {name} is corrupt"));
    let tables = read_copy(octets).ok_or_else(broken)?;
    let stored = zone_name_text(name.as_name());
    if find(session, &stored).await?.is_some() {
        return Err(WriteError::Exists(name.to_string()));
    }
    insert(session, DOMAINS, None, &tables[DOMAINS]).await?;
    let row = find(session, &stored).await?.ok_or_else(broken)?;
    for (table, rows) in tables.iter().enumerate().skip(RECORDS) {
        insert(session, table, Some(row.id), rows).await?;
    }
    session.notify_change(row.id).await?;
    let serial = tables[RECORDS].iter().find_map(|record| match record[..] {
        [
            _,
            CopiedCell::Text(rtype),
            CopiedCell::Text(content),
            _,
            _,
            disabled,
            ..,
        ] if rtype.eq_ignore_ascii_case("SOA") && disabled != CopiedCell::Number(1) => {
            serial_of(content.as_bytes())
        }
        _ => None,
    });
    Ok(Committed {
        has_soa: serial.is_some(),
        serial: serial.unwrap_or_default(),
        ..Committed::without_records((row.id, row.name), true)
    })
}

/// Inserts rows into a table; those of tables other than `domains` get the ID of their zone.
async fn insert(
    session: &mut Session,
    table: usize,
    zone: Option<i64>,
    rows: &[Vec<CopiedCell<'_>>],
) -> Result<(), Failure> {
    let mut names: Vec<&str> = columns(table).map(|(column, _)| *column).collect();
    if zone.is_some() {
        names.push("domain_id");
    }
    let place = format!("({})", vec!["?"; names.len()].join(", "));
    for chunk in rows.chunks(ROWS_AT_ONCE) {
        let mut values = Vec::with_capacity(chunk.len() * names.len());
        for row in chunk {
            let cells = row.iter().zip(columns(table));
            values.extend(cells.map(|(cell, (_, holds))| match (cell, holds) {
                (CopiedCell::Null, _) => Value::Null,
                (CopiedCell::Number(number), ColumnKind::Bool(_)) => Value::Bool(*number != 0),
                (CopiedCell::Number(number), _) => Value::Int(*number),
                (CopiedCell::Text(text), _) => Value::Text(text),
            }));
            values.extend(zone.map(Value::Int));
        }
        let places = vec![place.as_str(); chunk.len()].join(", ");
        let (name, columns) = (COPIED[table], names.join(", "));
        let sql = format!("INSERT INTO {name} ({columns}) VALUES {places}");
        session.run(&sql, &values).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_copies_stay_as_they_are() {
        let names = |table| columns(table).map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(
            (0..COPIED.len())
                .map(|table| names(table).join(" "))
                .collect::<Vec<_>>(),
            [
                "name master last_check type notified_serial account options catalog",
                "name type content ttl prio disabled ordername auth",
                "name type modified_at account comment",
                "kind content",
                "flags active published content",
            ]
        );
    }

    /// Returns a copy of a zone with one record and one key.
    fn copy() -> Vec<u8> {
        let mut octets = vec![FORMAT];
        let text = |octets: &mut Vec<u8>, text: &str| {
            octets.push(2);
            octets.extend((text.len() as u32).to_be_bytes());
            octets.extend(text.as_bytes());
        };
        octets.push(0);
        text(&mut octets, "a.test");
        octets.extend([0; 7]);
        octets.push(4);
        for _ in 0..3 {
            octets.push(1);
            octets.extend(1_i64.to_be_bytes());
        }
        text(&mut octets, "key");
        octets
    }

    #[test]
    fn a_copy_that_is_cut_or_changed_is_refused_and_never_read_half() {
        let whole = copy();
        let tables = read_copy(&whole).unwrap();
        assert_eq!(tables[DOMAINS][0][0], CopiedCell::Text("a.test"));
        assert_eq!(tables[4][0][3], CopiedCell::Text("key"));
        let first = 1 + 1 + 5 + "a.test".len() + 7;
        for length in (0..whole.len()).filter(|length| *length != first) {
            assert!(read_copy(&whole[..length]).is_none(), "{length}");
        }
        for wrong in [0, 2, 255] {
            let mut other = whole.clone();
            other[0] = wrong;
            assert!(read_copy(&other).is_none());
            let mut other = whole.clone();
            other[1] = 5;
            assert!(read_copy(&other).is_none());
        }
    }
}
