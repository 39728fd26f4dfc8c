//! Database zones as shown in lists: the stored serial, how the served serial is derived, and whether there are keys.

use super::super::dialect::{SqlEngine, ZONE_COLUMNS, apex_name, int, octets, text, zone_columns};
use super::super::row::{Cells, read_content, read_zone_name};
use super::super::{SqlBackend, ZoneRow, read_zone};
use super::WriteError;
use super::current::{NAMES_AT_ONCE, named};
use super::session::Value;
use crate::SqlFuture;
use nameward_dnssec::SoaEdit;
use nameward_wire::{NameBuf, Type};
use nameward_zone::Serial;
use nameward_zone::change::soa_serial;

/// Zones of a page: enough that its statement costs nothing beside its rows, and few enough that other requests do not wait for long.
const PAGE: usize = 2000;

/// Receives the zones of a page.
pub type EachOverview<'e> = &'e mut (dyn FnMut(&ZoneRow, &ZoneOverview) + Send);

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

    /// Reads the columns of [`columns`], of which `at` is the first. `rdata` is working space.
    fn read(row: &dyn Cells, at: usize, rdata: &mut Vec<u8>) -> Self {
        let serial = row.text(at).and_then(|content| {
            if let Some(serial) = plain_serial(content) {
                return Some(serial);
            }
            rdata.clear();
            read_content(Type::SOA, None, content, rdata).ok()?;
            soa_serial(rdata)
        });
        let soa_edit = row.text(at + 1);
        let soa_edit = soa_edit.and_then(|word| std::str::from_utf8(word).ok());
        ZoneOverview {
            serial,
            soa_edit: soa_edit.and_then(SoaEdit::read).unwrap_or_default(),
            has_keys: row.int(at + 2).is_some_and(|keys| keys > 0),
            is_presigned: row.int(at + 3).is_some_and(|items| items > 0),
        }
    }
}

/// Reads the serial of a SOA whose fields are all there and have nothing special, as nearly all do: a list reads a hundred thousand.
/// `None` says nothing about the others.
fn plain_serial(content: &[u8]) -> Option<Serial> {
    let mut fields = content.split(|octet| *octet == b' ');
    let is_plain_label = |label: &[u8]| {
        let is_plain = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.iter().all(is_plain)
    };
    let is_plain_name = |name: &[u8]| {
        let name = name.strip_suffix(b".").unwrap_or(name);
        name.len() < 254 && name.split(|octet| *octet == b'.').all(is_plain_label)
    };
    let number = |field: &[u8]| -> Option<u32> {
        let is_plain = (1..=10).contains(&field.len()) && field.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(field).ok().filter(|_| is_plain)?;
        text.parse().ok()
    };
    if !is_plain_name(fields.next()?) || !is_plain_name(fields.next()?) {
        return None;
    }
    let serial = number(fields.next()?)?;
    for _ in 0..4 {
        number(fields.next()?)?;
    }
    fields.next().is_none().then_some(Serial(serial))
}

/// Returns the columns of an overview of the zone `d` with the SOA `r`: its content, SOA-EDIT, whether it has active keys, whether it is
/// PRESIGNED.
fn columns(engine: SqlEngine, reads_keys: bool) -> String {
    let content = octets(engine, "r.content");
    if !reads_keys {
        return format!("{content}, NULL, 0, 0");
    }
    let metadata = |what: &str, kind: &str| {
        format!(
            "SELECT {what} FROM domainmetadata m WHERE m.domain_id = d.id AND m.kind = '{kind}'"
        )
    };
    let keys = "SELECT 1 FROM cryptokeys k WHERE k.domain_id = d.id AND k.active";
    // Without keys SOA-EDIT does not apply, and most zones have none.
    let soa_edit = format!(
        "CASE WHEN EXISTS ({keys}) THEN ({}) END",
        metadata("MAX(m.content)", "SOA-EDIT")
    );
    let flag = |select: &str| {
        let is_there = format!("CASE WHEN EXISTS ({select}) THEN 1 ELSE 0 END");
        int(engine, &is_there)
    };
    [
        content,
        text(engine, &soa_edit),
        flag(keys),
        flag(&metadata("1", "PRESIGNED")),
    ]
    .join(", ")
}

/// Returns the zones with their SOA records. The sum keeps planners off the zone index, with which they would read every zone as a whole.
fn zones_with_soa(engine: SqlEngine) -> String {
    let apex = apex_name(engine);
    format!(
        "FROM domains d LEFT JOIN records r \
         ON r.name = {apex} AND r.type = 'SOA' AND NOT r.disabled AND r.domain_id + 0 = d.id"
    )
}

impl SqlBackend {
    /// Reads a page of the zones, in the order in which the database sorts their names, after the end of another page. Returns its end,
    /// where the next one starts; `None` after the last one.
    pub fn zone_page<'a>(
        &'a self,
        after: Option<&'a str>,
        each: EachOverview<'a>,
    ) -> SqlFuture<'a, Result<Option<String>, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let engine = session.engine();
            let sql = format!(
                "SELECT {}, {} {}{} ORDER BY d.name LIMIT {PAGE}",
                zone_columns(engine, "d."),
                columns(engine, self.inner.options.security.is_read),
                zones_with_soa(engine),
                if after.is_some() {
                    " WHERE d.name > ?"
                } else {
                    ""
                },
            );
            let values = after.map(Value::Text);
            let (mut count, mut last_id, mut last, mut rdata) = (0, None, Vec::new(), Vec::new());
            let read = &mut |row: &dyn Cells| {
                count += 1;
                let id = row.int(0);
                // A zone with two SOA records, which is reported where zones are loaded, has two rows.
                if last_id.replace(id) == Some(id) {
                    return;
                }
                last.clear();
                last.extend_from_slice(row.text(1).unwrap_or_default());
                // So is a row that cannot be read.
                if let Ok(zone) = read_zone(row) {
                    each(&zone, &ZoneOverview::read(row, ZONE_COLUMNS, &mut rdata));
                }
            };
            session.rows(&sql, values.as_slice(), read).await?;
            self.inner.writer.give_back(session);
            let is_full = count == PAGE;
            Ok(is_full.then(|| String::from_utf8_lossy(&last).into_owned()))
        })
    }

    /// Reads the data for a list of these zones.
    pub fn overview<'a>(
        &'a self,
        names: &'a [NameBuf],
    ) -> SqlFuture<'a, Result<Vec<(NameBuf, ZoneOverview)>, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let engine = session.engine();
            let select = format!(
                "SELECT {}, {} {}",
                text(engine, "d.name"),
                columns(engine, self.inner.options.security.is_read),
                zones_with_soa(engine)
            );
            let (mut found, mut rdata) = (Vec::new(), Vec::new());
            let each = &mut |row: &dyn Cells| {
                let mut name = NameBuf::root();
                if read_zone_name(row.text(0).unwrap_or_default(), &mut name).is_ok() {
                    found.push((name, ZoneOverview::read(row, 1, &mut rdata)));
                }
            };
            for chunk in names.chunks(NAMES_AT_ONCE) {
                let (condition, texts) = named(chunk);
                let values: Vec<_> = texts.iter().map(|text| Value::Text(text)).collect();
                let sql = format!("{select} WHERE d.{condition}");
                session.rows(&sql, &values, each).await?;
            }
            self.inner.writer.give_back(session);
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_serials_are_those_of_the_parser_and_others_are_left_to_it() {
        let parsed = |content: &str| {
            let mut rdata = Vec::new();
            read_content(Type::SOA, None, content.as_bytes(), &mut rdata).ok()?;
            soa_serial(&rdata)
        };
        let label = "a".repeat(63);
        let name = [label.as_str(); 4].join(".");
        for (content, is_plain) in [
            ("ns1.z.test host.z.test 7 3600 600 86400 300", true),
            (
                "ns1.z.test. host_a.z-1.test. 4294967295 0 0 0 4294967295",
                true,
            ),
            ("ns1.z.test host.z.test 7", false),
            ("ns1.z.test host.z.test 4294967296 1 1 1 1", false),
            ("ns1.z.test host.z.test 7 1h 600 86400 300", false),
            ("ns1.z.test host\\.a.z.test 7 1 1 1 1", false),
            ("ns1.z.test  host.z.test 7 1 1 1 1", false),
            ("ns1..test host.z.test 7 1 1 1 1", false),
            (". host.z.test 7 1 1 1 1", false),
            ("ns1.z.test host.z.test 7 1 1 1 1 1", false),
            ("ns1.z.test host.z.test 7 1 1 1 +1", false),
            ("@ host.z.test 7 1 1 1 1", false),
            ("", false),
            (&format!("{label}.test {label}a.test 7 1 1 1 1"), false),
            (&format!("{name} a.test 7 1 1 1 1"), false),
            (&format!("{label}.test a.test 7 1 1 1 1"), true),
        ] {
            let plain = plain_serial(content.as_bytes());
            assert_eq!(plain.is_some(), is_plain, "{content}");
            if is_plain {
                assert_eq!(plain, parsed(content), "{content}");
            }
        }
    }
}
