//! Database zones as shown in lists: the stored serial, how the served serial is derived, and whether there are keys.

use super::super::dialect::{SqlEngine, Statement, apex_name, int, text};
use super::super::row::{Cells, read_content, read_zone_name};
use super::super::{SqlBackend, ZoneRow, read_zone};
use super::WriteError;
use super::current::text_of;
use super::session::Value;
use nameward_dnssec::SoaEdit;
use nameward_wire::{NameBuf, Type};
use nameward_zone::Serial;
use nameward_zone::change::soa_serial;
use std::collections::HashMap;

/// Names per statement.
const NAMES_AT_ONCE: usize = 200;
/// Zones of a page: few enough to take little memory, and enough that the two statements cost nothing beside their rows.
const PAGE: usize = 2000;

/// Some of the zones of a database.
#[derive(Debug, Default)]
pub struct OverviewPage {
    /// The zones; one that was created in between has no overview.
    pub zones: Vec<(ZoneRow, Option<ZoneOverview>)>,
    /// Where the next page starts; `None` after the last one.
    pub end: Option<String>,
}

/// A database zone as shown in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneOverview {
    /// The SOA serial, if there is a readable SOA.
    pub serial: Option<Serial>,
    /// How the served serial is derived from it (SOA-EDIT); applies to signed zones.
    pub soa_edit: SoaEdit,
    /// It has an active key.
    pub has_keys: bool,
    /// It was signed elsewhere (PRESIGNED).
    pub is_presigned: bool,
}

impl ZoneOverview {
    /// Returns the serial that clients get; `now` is in seconds since 1970.
    pub fn served_serial(&self, now: u32) -> Option<Serial> {
        let stored = self.serial?;
        if self.has_keys && !self.is_presigned {
            Some(Serial(self.soa_edit.serial(stored.0, now)))
        } else {
            Some(stored)
        }
    }

    /// Reads a row after its first column: content of the SOA, SOA-EDIT, active keys, PRESIGNED.
    fn read(row: &dyn Cells) -> Self {
        let serial = row.text(1).and_then(|content| {
            let mut rdata = Vec::new();
            read_content(Type::SOA, None, content, &mut rdata).ok()?;
            soa_serial(&rdata)
        });
        let soa_edit = row.text(2).and_then(|word| std::str::from_utf8(word).ok());
        ZoneOverview {
            serial,
            soa_edit: soa_edit.and_then(SoaEdit::read).unwrap_or_default(),
            has_keys: row.int(3).is_some_and(|keys| keys > 0),
            is_presigned: row.int(4).is_some_and(|items| items > 0),
        }
    }
}

/// Returns the statement without a condition. `first` is the column that identifies the zone.
fn select(engine: SqlEngine, first: String, reads_keys: bool) -> String {
    let content = match engine {
        SqlEngine::Mysql => "CAST(r.content AS BINARY)".to_owned(),
        _ => text(engine, "r.content"),
    };
    let metadata = |what: &str, kind: &str| {
        format!(
            "(SELECT {what} FROM domainmetadata m WHERE m.domain_id = d.id AND m.kind = '{kind}')"
        )
    };
    let keys = "(SELECT COUNT(*) FROM cryptokeys k WHERE k.domain_id = d.id AND k.active)";
    let (soa_edit, keys, presigned) = if reads_keys {
        (
            metadata("MAX(m.content)", "SOA-EDIT"),
            keys.to_owned(),
            metadata("COUNT(*)", "PRESIGNED"),
        )
    } else {
        ("NULL".into(), "0".into(), "0".into())
    };
    let columns = [
        first,
        content,
        text(engine, &soa_edit),
        int(engine, &keys),
        int(engine, &presigned),
    ]
    .join(", ");
    // The sum keeps planners off the zone index, with which they would read every zone as a whole.
    let apex = apex_name(engine);
    format!(
        "SELECT {columns} FROM domains d LEFT JOIN records r \
         ON r.name = {apex} AND r.type = 'SOA' AND NOT r.disabled AND r.domain_id + 0 = d.id"
    )
}

impl SqlBackend {
    /// Reads a page of the zones, in the order in which the database sorts their names, after the end of another page.
    pub async fn zone_page(&self, after: Option<&str>) -> Result<OverviewPage, WriteError> {
        let mut session = self.reader().await?;
        let engine = session.engine();
        let mut page = OverviewPage::default();
        let mut values: Vec<Value<'_>> = after.map(Value::Text).into_iter().collect();
        let sql = format!(
            "{}{} ORDER BY name LIMIT {PAGE}",
            Statement::Zones.sql(engine, 0),
            if after.is_some() {
                " WHERE name > ?"
            } else {
                ""
            },
        );
        let (mut count, mut last) = (0, None);
        let each = &mut |row: &dyn Cells| {
            count += 1;
            last = row
                .text(1)
                .map(|name| String::from_utf8_lossy(name).into_owned());
            // A row that cannot be read is reported where zones are loaded.
            page.zones
                .extend(read_zone(row).ok().map(|zone| (zone, None)));
        };
        session.rows(&sql, &values, each).await?;
        let Some(last) = last else {
            self.inner.writer.give_back(session);
            return Ok(page);
        };
        values.push(Value::Text(&last));
        let reads_keys = self.inner.options.security.is_read;
        let sql = format!(
            "{} WHERE {}d.name <= ?",
            select(engine, int(engine, "d.id"), reads_keys),
            if after.is_some() {
                "d.name > ? AND "
            } else {
                ""
            },
        );
        let places = page.zones.iter().enumerate();
        let places: HashMap<i64, usize> = places.map(|(at, (zone, _))| (zone.id, at)).collect();
        let each = &mut |row: &dyn Cells| {
            let at = row.int(0).and_then(|id| places.get(&id));
            if let Some((_, overview)) = at.and_then(|at| page.zones.get_mut(*at)) {
                *overview = Some(ZoneOverview::read(row));
            }
        };
        session.rows(&sql, &values, each).await?;
        self.inner.writer.give_back(session);
        page.end = (count == PAGE).then_some(last);
        Ok(page)
    }

    /// Reads the data for a list of these zones.
    pub async fn overview(
        &self,
        names: &[NameBuf],
    ) -> Result<Vec<(NameBuf, ZoneOverview)>, WriteError> {
        let mut session = self.reader().await?;
        let engine = session.engine();
        let reads_keys = self.inner.options.security.is_read;
        let select = select(engine, text(engine, "d.name"), reads_keys);
        let mut found = Vec::new();
        let each = &mut |row: &dyn Cells| {
            let mut name = NameBuf::root();
            if read_zone_name(row.text(0).unwrap_or_default(), &mut name).is_ok() {
                found.push((name, ZoneOverview::read(row)));
            }
        };
        for chunk in names.chunks(NAMES_AT_ONCE) {
            let texts: Vec<String> = chunk.iter().map(text_of).collect();
            let values: Vec<_> = texts.iter().map(|text| Value::Text(text)).collect();
            let places = vec!["?"; values.len()].join(", ");
            let sql = format!("{select} WHERE d.name IN ({places})");
            session.rows(&sql, &values, each).await?;
        }
        self.inner.writer.give_back(session);
        Ok(found)
    }
}
