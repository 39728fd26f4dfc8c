//! Database checks: what the schema lacks, and which rows make answers fail.
//!
//! The records of a zone go through the same builder as served ones, so that everything that fails there is found here.

use super::super::connection::SqlConnection;
use super::super::dialect::{SqlEngine, Statement, all_keys, all_metadata, all_records};
use super::super::error::{RowError, SqlError};
use super::super::read_zone;
use super::super::row::{Cells, RowFault, read_content, read_name, read_ttl, read_type, shown};
use super::super::schema::{SqlTable, TABLES};
use super::super::signing_data::keys;
use super::super::url::DatabaseAddress;
use super::survey::{ForeignContent, survey_with};
use crate::SqlFuture;
use core::fmt;
use nameward_dnssec::{MadeTypes, SigningPolicy};
use nameward_wire::zonefile::{Record, RecordLocation, Severity};
use nameward_wire::{NameBuf, Type};
use nameward_zone::ZoneBuilder;
use std::collections::{HashMap, HashSet};

/// Maximum number of problems listed individually; the rest are counted.
const MAX_PROBLEMS: usize = 1000;

/// A row that makes answers fail, and its zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowProblem {
    /// The zone, if known.
    pub zone: Option<String>,
    /// The row and the reason.
    pub error: RowError,
}

impl fmt::Display for RowProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.zone {
            Some(zone) => write!(f, "zone {zone}: {}", self.error),
            None => write!(f, "{}", self.error),
        }
    }
}

/// The problems in a database.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Missing tables, columns and indexes.
    pub schema: Vec<String>,
    /// The first few rows that cannot be served.
    pub rows: Vec<RowProblem>,
    /// Number of problems with rows.
    pub bad_rows: u64,
    /// Number of rows read.
    pub checked_rows: u64,
    /// Content that is served differently than by PowerDNS.
    pub foreign: Vec<ForeignContent>,
}

impl CheckReport {
    /// Checks whether nothing fails; PowerDNS content that is served differently is only a warning.
    pub fn is_clean(&self) -> bool {
        self.schema.is_empty() && self.bad_rows == 0
    }

    fn note(&mut self, zone: Option<&NameBuf>, error: RowError) {
        self.bad_rows += 1;
        if self.rows.len() < MAX_PROBLEMS {
            let zone = zone.map(ToString::to_string);
            self.rows.push(RowProblem { zone, error });
        }
    }
}

/// Checks the schema and the rows of a database.
pub fn check(address: &DatabaseAddress) -> SqlFuture<'_, Result<CheckReport, SqlError>> {
    Box::pin(async move {
        if let DatabaseAddress::Sqlite(path) = address
            && !path.exists()
        {
            // Opening would create an empty file.
            return Err(SqlError::Unavailable(format!(
                "{}: no such file",
                path.display()
            )));
        }
        let mut admin = super::open(address, false).await?;
        let mut report = CheckReport::default();
        for table in TABLES {
            check_table(&mut admin, table, &mut report).await?;
        }
        let is_missing = |problem: &String| problem.contains("is missing");
        if report.schema.iter().any(is_missing) {
            return Ok(report);
        }
        let mut zones = check_zones(&mut admin, &mut report).await?;
        check_signing(&mut admin, &mut zones, &mut report).await?;
        check_records(&mut admin, zones, &mut report).await?;
        report.foreign = survey_with(&mut admin).await?;
        Ok(report)
    })
}

async fn check_table(
    admin: &mut SqlConnection,
    table: &SqlTable,
    report: &mut CheckReport,
) -> Result<(), SqlError> {
    let sql = format!("SELECT 1 FROM {} LIMIT 0", table.name);
    if admin.rows(&sql, &[], &mut |_| {}).await.is_err() {
        let problem = format!("table {} is missing", table.name);
        report.schema.push(problem);
        return Ok(());
    }
    for (column, _) in table.columns {
        // Qualified: SQLite would treat a quoted name that is not a column as text.
        let sql = format!("SELECT {0}.{column} FROM {0} LIMIT 0", table.name);
        if admin.rows(&sql, &[], &mut |_| {}).await.is_err() {
            let problem = format!("column {column} of table {} is missing", table.name);
            report.schema.push(problem);
        }
    }
    check_indexes(admin, table, report).await
}

/// Checks the indexes of a table, each given by its columns in order.
async fn check_indexes(
    admin: &mut SqlConnection,
    table: &SqlTable,
    report: &mut CheckReport,
) -> Result<(), SqlError> {
    let sql = match admin.engine() {
        SqlEngine::Sqlite => format!(
            "SELECT 0, l.name, i.name FROM pragma_index_list('{}') l, pragma_index_info(l.name) i \
             ORDER BY l.name, i.seqno",
            table.name
        ),
        SqlEngine::Postgres => format!(
            "SELECT CAST(0 AS BIGINT), CAST(c.relname AS TEXT), CAST(a.attname AS TEXT) \
             FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid \
             CROSS JOIN LATERAL unnest(x.indkey) WITH ORDINALITY AS k(attnum, place) \
             JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum \
             WHERE x.indrelid = '{}'::regclass ORDER BY c.relname, k.place",
            table.name
        ),
        SqlEngine::Mysql => format!(
            "SELECT 0, index_name, column_name FROM information_schema.statistics \
             WHERE table_schema = DATABASE() AND table_name = '{}' ORDER BY index_name, seq_in_index",
            table.name
        ),
    };
    let mut indexes: HashMap<Vec<u8>, Vec<String>> = HashMap::new();
    admin
        .rows(&sql, &[], &mut |row| {
            let index = row.text(1).unwrap_or_default().to_vec();
            let column = String::from_utf8_lossy(row.text(2).unwrap_or_default());
            indexes.entry(index).or_default().push(column.into_owned());
        })
        .await?;
    for wanted in table.indexes.iter().filter(|index| index.needed) {
        // The first column keeps a lookup from reading the whole table.
        let first = wanted.columns.split(',').next().unwrap_or_default();
        if !indexes.values().any(|columns| columns[0] == first) {
            report.schema.push(format!(
                "table {} is missing an index that starts with {first}",
                table.name
            ));
        }
    }
    Ok(())
}

/// A zone while its rows are checked.
struct CheckedZone {
    name: NameBuf,
    /// It has keys, so that records made by a signer are not taken from the rows.
    is_signed: bool,
    has_soa: bool,
    has_ns: bool,
}

type CheckedZones = HashMap<i64, CheckedZone>;

async fn check_zones(
    admin: &mut SqlConnection,
    report: &mut CheckReport,
) -> Result<CheckedZones, SqlError> {
    let sql = Statement::Zones.sql(admin.engine(), 0);
    let engine = admin.engine();
    let mut zones = HashMap::new();
    admin
        .rows(&sql, &[], &mut |row| {
            report.checked_rows += 1;
            match read_zone(row) {
                Ok(zone) => {
                    if let Some(reason) = unfindable(engine, row.text(1).unwrap_or_default()) {
                        let error = RowError::new("domains", zone.id, reason.to_string());
                        report.note(Some(&zone.name), error);
                    }
                    let checked = CheckedZone {
                        name: zone.name,
                        is_signed: false,
                        has_soa: false,
                        has_ns: false,
                    };
                    zones.insert(zone.id, checked);
                }
                Err(error) => report.note(None, error),
            }
        })
        .await?;
    Ok(zones)
}

/// Finds keys and metadata that make answers with DNSSEC fail.
async fn check_signing(
    admin: &mut SqlConnection,
    zones: &mut CheckedZones,
    report: &mut CheckReport,
) -> Result<(), SqlError> {
    let sql = all_keys(admin.engine());
    admin
        .rows(&sql, &[], &mut |row| {
            report.checked_rows += 1;
            let mut zone = row.int(5).and_then(|zone| zones.get_mut(&zone));
            if let Some(zone) = &mut zone {
                zone.is_signed = true;
            }
            if let Err(error) = keys::read_key(row) {
                report.note(zone.map(|zone| &zone.name), error);
            }
        })
        .await?;
    let sql = all_metadata(admin.engine());
    admin
        .rows(&sql, &[], &mut |row| {
            report.checked_rows += 1;
            let text = |column| String::from_utf8_lossy(row.text(column).unwrap_or_default());
            if let Err(error) = SigningPolicy::default().take(&text(1), &text(2)) {
                let id = row.int(0).unwrap_or(0);
                let error = RowError::new("domainmetadata", id, error.to_string());
                let zone = row.int(3).and_then(|zone| zones.get(&zone));
                report.note(zone.map(|zone| &zone.name), error);
            }
        })
        .await?;
    Ok(())
}

async fn check_records(
    admin: &mut SqlConnection,
    mut zones: CheckedZones,
    report: &mut CheckReport,
) -> Result<(), SqlError> {
    let engine = admin.engine();
    let mut at_work: Option<(i64, ZoneBuilder)> = None;
    let mut done = HashSet::new();
    admin
        .rows(&all_records(engine), &[], &mut |row| {
            report.checked_rows += 1;
            let id = row.int(6).unwrap_or(0);
            let error = |reason: String| {
                let id = row.int(0).unwrap_or(0);
                RowError::new("records", id, reason)
            };
            let Some(zone) = zones.get_mut(&id) else {
                return report.note(None, error("no zone has this domain_id".into()));
            };
            if at_work.as_ref().is_none_or(|(current, _)| *current != id) {
                let mut builder = ZoneBuilder::new(zone.name.as_name());
                builder.tolerate_broken_names();
                if let Some((before, builder)) = at_work.replace((id, builder)) {
                    done.insert(before);
                    finish(before, builder, &zones, report);
                }
            }
            let (Some(zone), Some((_, builder))) = (zones.get_mut(&id), &mut at_work) else {
                return;
            };
            if let Err(reason) = check_record(engine, row, zone, builder) {
                report.note(Some(&zone.name), error(reason.to_string()));
            }
        })
        .await?;
    if let Some((id, builder)) = at_work {
        done.insert(id);
        finish(id, builder, &zones, report);
    }
    let mut empty: Vec<i64> = zones
        .keys()
        .filter(|id| !done.contains(id))
        .copied()
        .collect();
    empty.sort_unstable();
    for id in empty {
        note_missing(id, &zones[&id], report);
    }
    Ok(())
}

/// Reports the records of a zone that conflict.
fn finish(id: i64, builder: ZoneBuilder, zones: &CheckedZones, report: &mut CheckReport) {
    let zone = &zones[&id];
    let (_, findings) = builder.finish();
    for finding in findings {
        // Findings about the zone as a whole are listed below, once.
        if finding.severity != Severity::Error {
            continue;
        }
        report.bad_rows += finding.unlisted as u64;
        if let Some(id) = finding.location.row_id() {
            let error = RowError::new("records", id, finding.message);
            report.note(Some(&zone.name), error);
        }
    }
    note_missing(id, zone, report);
}

fn note_missing(id: i64, zone: &CheckedZone, report: &mut CheckReport) {
    let mut note = |reason: &str| {
        report.note(Some(&zone.name), RowError::new("domains", id, reason));
    };
    if !zone.has_soa {
        note("no SOA record: all queries for the zone are answered SERVFAIL");
    } else if !zone.has_ns {
        // RFC 1034 section 4.2.1 and RFC 2181 section 6.1: the apex has the NS records of the zone.
        note("no NS record at the apex");
    }
}

/// A record that cannot be served, independently of others.
#[derive(Debug, thiserror::Error)]
enum CheckFault {
    #[error("{0}")]
    Row(#[from] RowFault),
    #[error("{0}: {1}")]
    Content(String, RowFault),
    #[error("{0} is outside the zone")]
    OutsideZone(String),
    #[error("{0}")]
    NotFound(UnmatchedName),
}

/// Checks a row on its own and passes it to the builder.
fn check_record(
    engine: SqlEngine,
    row: &dyn Cells,
    zone: &mut CheckedZone,
    builder: &mut ZoneBuilder,
) -> Result<(), CheckFault> {
    let Some(rtype) = row.text(2).filter(|rtype| !rtype.is_empty()) else {
        return Ok(());
    };
    let text = row.text(1).unwrap_or_default();
    let mut name = NameBuf::root();
    read_name(text, &mut name)?;
    if !name.as_name().is_at_or_below(zone.name.as_name().zone()) {
        return Err(CheckFault::OutsideZone(name.to_string()));
    }
    if let Some(reason) = unfindable(engine, text) {
        return Err(CheckFault::NotFound(reason));
    }
    let rtype = read_type(rtype)?;
    let is_apex = name.as_name() == zone.name.as_name().zone();
    if zone.is_signed && MadeTypes::WITHOUT_CDS.contains(rtype, is_apex) {
        return Ok(());
    }
    zone.has_soa |= is_apex && rtype == Type::SOA;
    zone.has_ns |= is_apex && rtype == Type::NS;
    let mut rdata = Vec::new();
    let content = row.text(5).unwrap_or_default();
    read_content(rtype, row.int(4), content, &mut rdata)
        .map_err(|fault| CheckFault::Content(name.to_string(), fault))?;
    let id = row.int(0).unwrap_or(0);
    builder.add(
        &Record::new(name.as_name(), rtype, read_ttl(row.int(3)), &rdata)
            .at(RecordLocation::row(id)),
    );
    Ok(())
}

/// A stored name that lookups do not find: they use the form that PowerDNS stores.
#[derive(Debug, thiserror::Error)]
enum UnmatchedName {
    #[error("name '{0}' has upper-case letters: look-ups do not find it")]
    UpperCase(String),
    #[error("name '{0}' has a trailing dot: look-ups do not find it")]
    FinalDot(String),
}

fn unfindable(engine: SqlEngine, text: &[u8]) -> Option<UnmatchedName> {
    // MySQL collations ignore case, unless an operator chose another one.
    if engine != SqlEngine::Mysql && text.iter().any(u8::is_ascii_uppercase) {
        return Some(UnmatchedName::UpperCase(shown(text)));
    }
    let rest = text.strip_suffix(b".").filter(|rest| !rest.is_empty())?;
    let backslashes = rest.iter().rev().take_while(|octet| **octet == b'\\');
    // An odd number escapes the dot: it is part of the label.
    (backslashes.count() % 2 == 0).then(|| UnmatchedName::FinalDot(shown(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_ups_do_not_ask_for_are_found() {
        let is_found = |text: &str| unfindable(SqlEngine::Sqlite, text.as_bytes()).is_some();
        for (text, expected) in [
            ("www.example.org", false),
            ("www.example.org.", true),
            (".", false),
            (r"a\.", false),
            (r"a\\.", true),
            ("Www.example.org", true),
        ] {
            assert_eq!(is_found(text), expected, "{text}");
        }
        assert!(unfindable(SqlEngine::Mysql, b"Www.example.org").is_none());
    }
}
