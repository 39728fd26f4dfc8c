//! Makes the schema and tells what is wrong with one: `nameward db init` and `nameward db check`.

use super::dialect::{Engine, Statement};
use super::error::{RowError, SqlError};
use super::row::{Cells, read_content, read_name, read_type, shown};
use super::schema::{TABLES, create, create_triggers};
use super::url::Address;
use super::{mysql, postgres};
use mysql_async::prelude::Queryable;
use nameward_dnssec::Policy;
use nameward_wire::{NameBuf, Type};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

/// Problems that are told one by one; the rest is counted.
const MAX_PROBLEMS: usize = 50;
/// How long one statement of an administrator may wait for others.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection for administration.
pub(crate) enum Admin {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
    Mysql(Box<mysql_async::Conn>),
}

impl Admin {
    async fn open(address: &Address) -> Result<Self, SqlError> {
        match address {
            Address::Sqlite(path) => {
                let unreachable =
                    |error| SqlError::Unavailable(format!("{}: {error}", path.display()));
                let connection = rusqlite::Connection::open(path).map_err(unreachable)?;
                connection.busy_timeout(PATIENCE).map_err(unreachable)?;
                Ok(Admin::Sqlite(connection))
            }
            Address::Postgres(url) => {
                let config = postgres::config(url, PATIENCE)?;
                postgres::connect(&config, PATIENCE)
                    .await
                    .map(Admin::Postgres)
            }
            Address::Mysql(url) => {
                let connect = mysql_async::Conn::new(mysql::options(url)?);
                let connection = tokio::time::timeout(PATIENCE, connect)
                    .await
                    .map_err(|_| SqlError::Timeout(PATIENCE.as_millis()))?
                    .map_err(|error| mysql::failure(&error))?;
                Ok(Admin::Mysql(Box::new(connection)))
            }
        }
    }

    fn engine(&self) -> Engine {
        match self {
            Admin::Sqlite(_) => Engine::Sqlite,
            Admin::Postgres(_) => Engine::Postgres,
            Admin::Mysql(_) => Engine::Mysql,
        }
    }

    async fn execute(&mut self, sql: &str) -> Result<(), SqlError> {
        match self {
            Admin::Sqlite(connection) => connection
                .execute_batch(sql)
                .map_err(|error| SqlError::Refused(error.to_string())),
            Admin::Postgres(client) => client
                .batch_execute(sql)
                .await
                .map_err(|error| postgres::failure(&error)),
            Admin::Mysql(connection) => connection
                .query_drop(sql)
                .await
                .map_err(|error| mysql::failure(&error)),
        }
    }

    async fn select(
        &mut self,
        sql: &str,
        each: &mut (dyn FnMut(&dyn Cells) + Send),
    ) -> Result<(), SqlError> {
        match self {
            Admin::Sqlite(connection) => {
                let refused = |error: rusqlite::Error| SqlError::Refused(error.to_string());
                let mut statement = connection.prepare(sql).map_err(refused)?;
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next().map_err(refused)? {
                    each(row);
                }
                Ok(())
            }
            Admin::Postgres(client) => {
                let refused = |error| postgres::failure(&error);
                let parameters: [&str; 0] = [];
                let rows = client.query_raw(sql, parameters).await.map_err(refused)?;
                let mut rows = pin!(rows);
                while let Some(row) = poll_fn(|context| postgres::next_row(rows.as_mut(), context))
                    .await
                    .map_err(refused)?
                {
                    each(&row);
                }
                Ok(())
            }
            Admin::Mysql(connection) => {
                let refused = |error| mysql::failure(&error);
                let mut rows = connection.exec_iter(sql, ()).await.map_err(refused)?;
                while let Some(row) = rows.next().await.map_err(refused)? {
                    each(&row);
                }
                Ok(())
            }
        }
    }
}

/// Makes what is missing of the schema. Returns warnings: without the triggers all works, but other servers see
/// changes later.
pub async fn init(address: &Address) -> Result<Vec<String>, SqlError> {
    let mut admin = Admin::open(address).await?;
    if admin.engine() == Engine::Sqlite {
        // Readers then never wait for a writer.
        admin.execute("PRAGMA journal_mode = WAL").await?;
    }
    for statement in create(admin.engine()) {
        admin.execute(&statement).await?;
    }
    for statement in create_triggers(admin.engine()) {
        if let Err(error) = admin.execute(&statement).await {
            return Ok(vec![format!(
                "changes are not told to running servers at once, because the triggers could not be made: {error}"
            )]);
        }
    }
    Ok(Vec::new())
}

/// What is wrong with a database.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Tables, columns and indexes that are missing.
    pub schema: Vec<String>,
    /// Rows that cannot be served, the first ones.
    pub rows: Vec<RowError>,
    /// How many rows cannot be served.
    pub bad_rows: u64,
    /// Rows that were read.
    pub checked_rows: u64,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.schema.is_empty() && self.bad_rows == 0
    }

    fn note(&mut self, table: &'static str, id: i64, reason: String) {
        self.bad_rows += 1;
        if self.rows.len() < MAX_PROBLEMS {
            self.rows.push(RowError { table, id, reason });
        }
    }
}

/// Tells what is wrong with the schema and with the rows.
pub async fn check(address: &Address) -> Result<CheckReport, SqlError> {
    if let Address::Sqlite(path) = address
        && !path.exists()
    {
        // Opening would make an empty file.
        return Err(SqlError::Unavailable(format!(
            "{}: no such file",
            path.display()
        )));
    }
    let mut admin = Admin::open(address).await?;
    let mut report = CheckReport::default();
    for table in TABLES {
        if admin
            .select(
                &format!("SELECT 1 FROM {} LIMIT 0", table.name),
                &mut |_| {},
            )
            .await
            .is_err()
        {
            report
                .schema
                .push(format!("the table {} is missing", table.name));
            continue;
        }
        for (column, _) in table.columns {
            // Qualified: a name in quotes that is no column would be text to SQLite.
            let sql = format!("SELECT {0}.{column} FROM {0} LIMIT 0", table.name);
            if admin.select(&sql, &mut |_| {}).await.is_err() {
                report
                    .schema
                    .push(format!("the column {column} of {} is missing", table.name));
            }
        }
        check_indexes(&mut admin, table, &mut report).await?;
    }
    if report
        .schema
        .iter()
        .any(|problem| problem.contains("is missing"))
    {
        return Ok(report);
    }
    let zones = check_zones(&mut admin, &mut report).await?;
    check_records(&mut admin, zones, &mut report).await?;
    check_signing(&mut admin, &mut report).await?;
    Ok(report)
}

/// The indexes of a table, each as its columns in order.
async fn check_indexes(
    admin: &mut Admin,
    table: &super::schema::Table,
    report: &mut CheckReport,
) -> Result<(), SqlError> {
    let sql = match admin.engine() {
        Engine::Sqlite => format!(
            "SELECT 0, l.name, i.name FROM pragma_index_list('{}') l, pragma_index_info(l.name) i \
             ORDER BY l.name, i.seqno",
            table.name
        ),
        Engine::Postgres => format!(
            "SELECT CAST(0 AS BIGINT), CAST(c.relname AS TEXT), CAST(a.attname AS TEXT) \
             FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid \
             CROSS JOIN LATERAL unnest(x.indkey) WITH ORDINALITY AS k(attnum, place) \
             JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum \
             WHERE x.indrelid = '{}'::regclass ORDER BY c.relname, k.place",
            table.name
        ),
        Engine::Mysql => format!(
            "SELECT 0, index_name, column_name FROM information_schema.statistics \
             WHERE table_schema = DATABASE() AND table_name = '{}' ORDER BY index_name, seq_in_index",
            table.name
        ),
    };
    let mut indexes: HashMap<Vec<u8>, Vec<String>> = HashMap::new();
    admin
        .select(&sql, &mut |row| {
            let index = row.text(1).unwrap_or_default().to_vec();
            let column = String::from_utf8_lossy(row.text(2).unwrap_or_default());
            indexes.entry(index).or_default().push(column.into_owned());
        })
        .await?;
    for wanted in table.indexes.iter().filter(|index| index.needed) {
        // The first column is what keeps a look-up from reading the whole table.
        if !indexes
            .values()
            .any(|columns| columns[0] == wanted.columns[0])
        {
            report.schema.push(format!(
                "an index of {} that starts with {} is missing",
                table.name, wanted.columns[0]
            ));
        }
    }
    Ok(())
}

struct CheckedZone {
    name: NameBuf,
    has_soa: bool,
}

async fn check_zones(
    admin: &mut Admin,
    report: &mut CheckReport,
) -> Result<HashMap<i64, CheckedZone>, SqlError> {
    let sql = Statement::Zones.sql(admin.engine(), 0);
    let mut zones = HashMap::new();
    admin
        .select(&sql, &mut |row| {
            report.checked_rows += 1;
            match super::read_zone(row) {
                Ok(zone) => {
                    let checked = CheckedZone {
                        name: zone.name,
                        has_soa: false,
                    };
                    zones.insert(zone.id, checked);
                }
                Err(error) => report.note(error.table, error.id, error.reason),
            }
        })
        .await?;
    Ok(zones)
}

async fn check_records(
    admin: &mut Admin,
    mut zones: HashMap<i64, CheckedZone>,
    report: &mut CheckReport,
) -> Result<(), SqlError> {
    let engine = admin.engine();
    let sql = super::dialect::all_records(engine);
    admin
        .select(&sql, &mut |row| {
            report.checked_rows += 1;
            let id = row.int(0).unwrap_or(0);
            let zone = row.int(6).and_then(|zone| zones.get_mut(&zone));
            if let Err(reason) = check_record(engine, row, zone) {
                report.note("records", id, reason);
            }
        })
        .await?;
    let mut without: Vec<_> = zones.iter().filter(|(_, zone)| !zone.has_soa).collect();
    without.sort_by_key(|(id, _)| **id);
    for (id, zone) in without {
        report.note("domains", *id, format!("{} has no SOA record", zone.name));
    }
    Ok(())
}

/// Keys and metadata that would fail answers with DNSSEC.
async fn check_signing(admin: &mut Admin, report: &mut CheckReport) -> Result<(), SqlError> {
    let sql = super::dialect::all_of(Statement::Keys, admin.engine());
    admin
        .select(&sql, &mut |row| {
            report.checked_rows += 1;
            if let Err(RowError { table, id, reason }) = super::keys::read_key(row) {
                report.note(table, id, reason);
            }
        })
        .await?;
    let sql = super::dialect::all_of(Statement::Metadata, admin.engine());
    admin
        .select(&sql, &mut |row| {
            report.checked_rows += 1;
            let text = |column| String::from_utf8_lossy(row.text(column).unwrap_or_default());
            if let Err(reason) = Policy::default().take(&text(1), &text(2)) {
                report.note("domainmetadata", row.int(0).unwrap_or(0), reason);
            }
        })
        .await
}

fn check_record(
    engine: Engine,
    row: &dyn Cells,
    zone: Option<&mut CheckedZone>,
) -> Result<(), String> {
    let Some(zone) = zone else {
        return Err("domain_id names no zone".into());
    };
    let text = row.text(1).unwrap_or_default();
    let mut name = NameBuf::root();
    read_name(text, &mut name)?;
    if !name.as_name().is_at_or_below(zone.name.as_name()) {
        return Err(format!("{name} is outside the zone {}", zone.name));
    }
    // The collations of MySQL ignore case, unless somebody chose another.
    if engine != Engine::Mysql && text.iter().any(u8::is_ascii_uppercase) {
        return Err(format!(
            "the name '{}' has upper-case letters: it is not found",
            shown(text)
        ));
    }
    let Some(rtype) = row.text(2).filter(|rtype| !rtype.is_empty()) else {
        return Ok(());
    };
    let rtype = read_type(rtype)?;
    zone.has_soa |= rtype == Type::SOA && name == zone.name;
    let content = row.text(5).unwrap_or_default();
    read_content(rtype, row.int(4), content, &mut Vec::new())
        .map_err(|reason| format!("{name}: {reason}"))
}
