//! Zone status columns: serials, the time of the last check, and the serial of the last NOTIFY.

use super::super::SqlBackend;
use super::super::dialect::{SqlEngine, apex_name, int, octets, text};
use super::super::row::{Cells, read_content, read_zone_name, zone_name_text};
use super::WriteError;
use super::session::Value;
use crate::SqlFuture;
use nameward_wire::{NameBuf, Type};
use nameward_zone::Serial;
use nameward_zone::change::soa_serial;

/// Names per statement.
pub(super) const NAMES_AT_ONCE: usize = 200;

/// Maximum number of zones without a SOA that are read.
pub const WITHOUT_SOA_MAX: usize = 100_000;

/// The zones whose status is requested.
#[derive(Debug, Clone, Copy)]
pub enum ZoneProgressList<'n> {
    /// Zones with these names.
    Named(&'n [NameBuf]),
    /// All secondary zones.
    Secondary,
    /// Zones whose last notified serial differs from the current one.
    Unnotified,
    /// Zones without a SOA; at most [`WITHOUT_SOA_MAX`] of them.
    WithoutSoa,
}

/// The status of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneProgress {
    /// `domains.id`.
    pub id: i64,
    /// The zone name.
    pub name: NameBuf,
    /// `last_check`: when a primary last confirmed it, in seconds since 1970; 0 requests a check.
    pub last_check: Option<i64>,
    /// `notified_serial`: the serial of the last NOTIFY.
    pub notified_serial: Option<i64>,
    /// The SOA data in wire form, if there is a readable one.
    pub soa: Option<Vec<u8>>,
}

impl ZoneProgress {
    /// Reads a row: id, name, last_check, notified_serial, content of the SOA.
    fn read(row: &dyn Cells) -> Option<Self> {
        let mut name = NameBuf::root();
        read_zone_name(row.text(1).unwrap_or_default(), &mut name).ok()?;
        let soa = row.text(4).and_then(|content| {
            let mut rdata = Vec::new();
            read_content(Type::SOA, None, content, &mut rdata).ok()?;
            Some(rdata)
        });
        Some(ZoneProgress {
            id: row.int(0)?,
            name,
            last_check: row.int(2),
            notified_serial: row.int(3),
            soa,
        })
    }

    /// Returns the zone serial.
    pub fn serial(&self) -> Option<Serial> {
        self.soa.as_deref().and_then(soa_serial)
    }

    /// Checks whether the last notified serial differs from the zone serial.
    pub fn is_unnotified(&self) -> bool {
        // PowerDNS treats NULL as 0.
        let notified = self.notified_serial.unwrap_or(0);
        let serial = self.serial().map(|serial| i64::from(serial.0));
        serial.is_some_and(|serial| serial != notified)
    }
}

/// Returns the statement without its condition.
fn select(engine: SqlEngine) -> String {
    let columns = [
        int(engine, "d.id"),
        text(engine, "d.name"),
        int(engine, "d.last_check"),
        int(engine, "d.notified_serial"),
        octets(engine, "r.content"),
    ]
    .join(", ");
    let apex = apex_name(engine);
    format!(
        "SELECT {columns} FROM domains d LEFT JOIN records r \
         ON r.domain_id = d.id AND r.name = {apex} AND r.type = 'SOA' AND NOT r.disabled WHERE "
    )
}

impl SqlBackend {
    /// Reads the status of zones, on the primary.
    pub fn standing<'a>(
        &'a self,
        zones: ZoneProgressList<'a>,
    ) -> SqlFuture<'a, Result<Vec<ZoneProgress>, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let select = select(session.engine());
            let mut found = Vec::new();
            // Few of those to notify are kept, however many there are.
            let wants_all = !matches!(zones, ZoneProgressList::Unnotified);
            let each = &mut |row: &dyn Cells| {
                let zone = ZoneProgress::read(row);
                found.extend(zone.filter(|zone| wants_all || zone.is_unnotified()));
            };
            // In the keywords of PowerDNS before and since 4.5.
            let of_kinds = |kinds: &str| format!("{select}UPPER(d.type) IN ({kinds})");
            match zones {
                ZoneProgressList::Named(names) => {
                    for chunk in names.chunks(NAMES_AT_ONCE) {
                        let (condition, texts) = named(chunk);
                        let values: Vec<_> = texts.iter().map(|text| Value::Text(text)).collect();
                        let sql = format!("{select}d.{condition}");
                        session.rows(&sql, &values, each).await?;
                    }
                }
                ZoneProgressList::Secondary => {
                    let sql = of_kinds("'SLAVE', 'SECONDARY', 'CONSUMER'");
                    session.rows(&sql, &[], each).await?;
                }
                ZoneProgressList::Unnotified => {
                    let sql = of_kinds("'MASTER', 'PRIMARY', 'PRODUCER'");
                    session.rows(&sql, &[], each).await?;
                }
                ZoneProgressList::WithoutSoa => {
                    // The sum keeps planners off the zone index, with which they would read every zone as a whole.
                    let apex = apex_name(session.engine());
                    let sql = format!(
                        "{select}NOT EXISTS (SELECT 1 FROM records s WHERE s.name = {apex} AND s.type = 'SOA' \
                         AND NOT s.disabled AND s.domain_id + 0 = d.id) LIMIT {WITHOUT_SOA_MAX}"
                    );
                    session.rows(&sql, &[], each).await?;
                }
            }
            self.inner.writer.give_back(session);
            Ok(found)
        })
    }

    /// Stores when a primary last confirmed a zone, in seconds since 1970.
    pub fn set_last_check<'a>(
        &'a self,
        zone: &'a NameBuf,
        seconds: u64,
    ) -> SqlFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let sql = "UPDATE domains SET last_check = ? WHERE name = ?";
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            self.set_standing(sql, seconds, zone).await
        })
    }

    /// Stores the serial of the last NOTIFY.
    pub fn set_notified_serial<'a>(
        &'a self,
        zone: &'a NameBuf,
        serial: u32,
    ) -> SqlFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let sql = "UPDATE domains SET notified_serial = ? WHERE name = ?";
            self.set_standing(sql, serial.into(), zone).await
        })
    }

    async fn set_standing(&self, sql: &str, value: i64, zone: &NameBuf) -> Result<(), WriteError> {
        let mut session = self.reader().await?;
        let values = [
            Value::Int(value),
            Value::Text(&zone_name_text(zone.as_name())),
        ];
        session.run(sql, &values).await?;
        self.inner.writer.give_back(session);
        Ok(())
    }
}

/// Returns a condition for zones with these names, and their names as they are stored.
pub(super) fn named(names: &[NameBuf]) -> (String, Vec<String>) {
    let texts = names.iter().map(|name| zone_name_text(name.as_name()));
    let places = vec!["?"; names.len()].join(", ");
    (format!("name IN ({places})"), texts.collect())
}
