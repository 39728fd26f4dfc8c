//! The SQL statements, written once, and the few differences between engines.
//!
//! Integers are cast so that schemas with other widths work. A lookup does not include the zone: planners without
//! statistics would use the zone index and read a whole zone for one name. The few rows of other zones with the same
//! name (a child apex) are filtered out here.

use super::schema::{NEWEST_ON_STANDBY, OLDEST_IN_PROGRESS};

/// A database engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlEngine {
    /// SQLite.
    Sqlite,
    /// PostgreSQL and compatible servers.
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
}

/// List sizes of lookup statements; lists are padded to the next size, so that few statements are prepared. Each
/// padding entry costs a tenth of a name. PostgreSQL takes an array of any length.
pub(crate) const NAME_COUNTS: [usize; 13] = [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 128, 256];
/// Maximum number of names in one statement.
pub(crate) const MAX_NAMES: usize = 256;

/// Maximum number of rows that one lookup statement returns. A message of 65,535 octets holds 5,461 records (RFC 1035
/// section 4.1.3: each has at least 12 octets), and a name can have several types.
pub(crate) const MAX_ROWS: usize = 16_384;

/// Metadata kinds for access: transfers, NOTIFY and updates.
pub(crate) const TERM_KINDS: [&str; 16] = [
    "ALLOW-AXFR-FROM",
    "TSIG-ALLOW-AXFR",
    "AXFR-MASTER-TSIG",
    "AXFR-SOURCE",
    "ALSO-NOTIFY",
    "ALLOW-DNSUPDATE-FROM",
    "TSIG-ALLOW-DNSUPDATE",
    "FORWARD-DNSUPDATE",
    "NOTIFY-DNSUPDATE",
    "SOA-EDIT-DNSUPDATE",
    "SLAVE-RENOTIFY",
    "IXFR",
    "PRESIGNED",
    "ENABLE-LUA-RECORDS",
    "X-NAMEWARD-DNSSEC-POLICY",
    "X-NAMEWARD-TEMPLATE",
];

/// A statement, identified by its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement {
    /// Rows of several names, of any zone: id, name, type, ttl, prio, content, domain_id. Parameters: names.
    Lookup,
    /// All rows of a zone, same columns. Parameter: zone.
    ZoneRows,
    /// All rows of several zones, in any order: the columns of `Lookup`. Parameter: their IDs, as text.
    RowsOfZones,
    /// The existing names of a zone, possibly repeated: id, name, type, and the start of LUA scripts. Parameter: zone.
    Names,
    /// All zones: id, name, type, master, last_check, notified_serial, account, options, catalog.
    Zones,
    /// One zone, same columns. Parameter: zone.
    Zone,
    /// The keys of several zones: id, flags, active, published, content, domain_id. Parameter: their IDs, as text.
    Keys,
    /// The metadata of several zones: id, kind, content, domain_id. Parameter: their IDs, as text.
    Metadata,
    /// The metadata of all zones about transfers and updates, same columns. No parameters.
    Terms,
    /// The TSIG keys: name, algorithm, secret. No parameters.
    TsigKeys,
    /// The autoprimaries: ip, nameserver, account. No parameters.
    Autoprimaries,
    /// The zones that changed recently: domain_id, version, time (MySQL) or counter (SQLite). PostgreSQL has the transaction
    /// instead of a version. Parameter: the first time, counter or transaction.
    Changes,
    /// The versions of all zones that ever changed: domain_id, version, time. No parameters.
    Versions,
    /// The counters of versions (MySQL only): domain_id, version. No parameters.
    Counters,
    /// The last change that is seen (PostgreSQL: its transaction, MySQL: the sum of the counters), and by how many seconds a standby is behind
    /// what it received. No parameters.
    LastChange,
    /// A number that changes with every commit of another connection (SQLite only).
    DataVersion,
}

pub(crate) const STATEMENTS: usize = 16;

/// Returns the statement for all served records, for a check: the columns of [`Statement::Lookup`].
pub(crate) fn all_records(engine: SqlEngine) -> String {
    let (columns, zone) = (record_columns(engine), int(engine, "domain_id"));
    // Zone by zone, so that each is checked as a whole; with the rows of a name together.
    format!("SELECT {columns}, {zone} FROM records WHERE NOT disabled ORDER BY domain_id, name")
}

/// Returns an integer column, whatever its width in the schema.
pub(crate) fn int(engine: SqlEngine, column: &str) -> String {
    match engine {
        SqlEngine::Sqlite => column.to_owned(),
        SqlEngine::Postgres => format!("CAST({column} AS BIGINT)"),
        SqlEngine::Mysql => format!("CAST({column} AS SIGNED)"),
    }
}

pub(crate) fn text(engine: SqlEngine, column: &str) -> String {
    match engine {
        SqlEngine::Sqlite | SqlEngine::Mysql => column.to_owned(),
        SqlEngine::Postgres => format!("CAST({column} AS TEXT)"),
    }
}

/// Returns a text column as it is stored: the character set of the connection must not change it.
pub(crate) fn octets(engine: SqlEngine, column: &str) -> String {
    match engine {
        SqlEngine::Mysql => format!("CAST({column} AS BINARY)"),
        _ => text(engine, column),
    }
}

/// Returns the name at the apex of the zone `d`: its name without a variant.
pub(crate) fn apex_name(engine: SqlEngine) -> &'static str {
    match engine {
        SqlEngine::Sqlite => {
            "CASE WHEN instr(d.name, '..') > 1 THEN substr(d.name, 1, instr(d.name, '..') - 1) ELSE d.name END"
        }
        SqlEngine::Mysql => "SUBSTRING_INDEX(d.name, '..', 1)",
        SqlEngine::Postgres => "split_part(d.name, '..', 1)",
    }
}

/// Returns the columns of a record: id, name, type, ttl, prio, content.
pub(crate) fn record_columns(engine: SqlEngine) -> String {
    [
        int(engine, "id"),
        text(engine, "name"),
        text(engine, "type"),
        int(engine, "ttl"),
        int(engine, "prio"),
        octets(engine, "content"),
    ]
    .join(", ")
}

/// Returns the columns of a key: id, flags, active, published, content, domain_id.
fn key_columns(engine: SqlEngine) -> String {
    [
        int(engine, "id"),
        int(engine, "flags"),
        int(engine, "CASE WHEN active THEN 1 ELSE 0 END"),
        int(engine, "CASE WHEN published THEN 1 ELSE 0 END"),
        text(engine, "content"),
        int(engine, "domain_id"),
    ]
    .join(", ")
}

/// Returns the columns of a metadata item: id, kind, content, domain_id.
fn metadata_columns(engine: SqlEngine) -> String {
    [
        int(engine, "id"),
        text(engine, "kind"),
        text(engine, "content"),
        int(engine, "domain_id"),
    ]
    .join(", ")
}

/// Returns the statement for all keys, for a check: the columns of [`Statement::Keys`].
pub(crate) fn all_keys(engine: SqlEngine) -> String {
    format!("SELECT {} FROM cryptokeys", key_columns(engine))
}

/// Returns the statement for all metadata, for a check: the columns of [`Statement::Metadata`].
pub(crate) fn all_metadata(engine: SqlEngine) -> String {
    format!("SELECT {} FROM domainmetadata", metadata_columns(engine))
}

impl Statement {
    /// All statements, for preparing them.
    pub(crate) const ALL: [Statement; STATEMENTS] = [
        Statement::Lookup,
        Statement::ZoneRows,
        Statement::RowsOfZones,
        Statement::Names,
        Statement::Zones,
        Statement::Zone,
        Statement::Keys,
        Statement::Metadata,
        Statement::Terms,
        Statement::TsigKeys,
        Statement::Autoprimaries,
        Statement::Changes,
        Statement::Versions,
        Statement::Counters,
        Statement::LastChange,
        Statement::DataVersion,
    ];

    /// Checks whether it reads a bounded number of rows, like a lookup, so that it must complete in time.
    pub(crate) fn reads_little(self) -> bool {
        matches!(
            self,
            Statement::Lookup | Statement::Zone | Statement::Keys | Statement::Metadata
        )
    }

    /// Checks whether it reads `domains` or `records`, without which there are no zones.
    pub(crate) fn reads_zones(self) -> bool {
        matches!(
            self,
            Statement::Lookup
                | Statement::ZoneRows
                | Statement::RowsOfZones
                | Statement::Names
                | Statement::Zones
                | Statement::Zone
        )
    }

    /// The statements that take a list.
    const LISTED: [Statement; 4] = [
        Statement::Lookup,
        Statement::Keys,
        Statement::Metadata,
        Statement::RowsOfZones,
    ];

    /// Returns its index among the statements that take a list.
    pub(crate) fn list_index(self) -> Option<usize> {
        Self::LISTED.iter().position(|listed| *listed == self)
    }

    /// Returns its text for an engine and a number of names.
    pub(crate) fn sql(self, engine: SqlEngine, names: usize) -> String {
        let int = |column: &str| int(engine, column);
        let text = |column: &str| text(engine, column);
        let zone = match engine {
            SqlEngine::Sqlite | SqlEngine::Mysql => "?",
            SqlEngine::Postgres => "CAST($1 AS BIGINT)",
        };
        let record_columns = record_columns(engine);
        let zone_columns = zone_columns(engine, "");
        let places = format!("(?{})", ",?".repeat(names.max(1) - 1));
        let zones = match engine {
            SqlEngine::Postgres => "domain_id = ANY(CAST($1 AS BIGINT[]))".to_owned(),
            _ => format!("domain_id IN {places}"),
        };
        match self {
            Statement::Lookup => {
                let listed = match engine {
                    SqlEngine::Postgres => "name = ANY($1)".to_owned(),
                    _ => format!("name IN {places}"),
                };
                let zone = int("domain_id");
                format!(
                    "SELECT {record_columns}, {zone} FROM records WHERE {listed} AND NOT disabled LIMIT {}",
                    MAX_ROWS + 1
                )
            }
            Statement::ZoneRows => format!(
                "SELECT {record_columns} FROM records WHERE domain_id = {zone} AND NOT disabled"
            ),
            Statement::RowsOfZones => {
                let zone = int("domain_id");
                format!(
                    "SELECT {record_columns}, {zone} FROM records WHERE {zones} AND NOT disabled"
                )
            }
            Statement::Names => format!(
                "SELECT {}, {}, {}, {} FROM records \
                 WHERE domain_id = {zone} AND type IS NOT NULL AND NOT disabled",
                int("id"),
                text("name"),
                text("type"),
                text("CASE type WHEN 'LUA' THEN SUBSTR(content, 1, 20) END")
            ),
            Statement::Zones => format!("SELECT {zone_columns} FROM domains"),
            Statement::Zone => format!("SELECT {zone_columns} FROM domains WHERE id = {zone}"),
            Statement::Keys => {
                let columns = key_columns(engine);
                format!("SELECT {columns} FROM cryptokeys WHERE {zones}")
            }
            Statement::Metadata => {
                let columns = metadata_columns(engine);
                format!("SELECT {columns} FROM domainmetadata WHERE {zones}")
            }
            Statement::Terms => {
                let (columns, kinds) = (metadata_columns(engine), TERM_KINDS.join("', '"));
                format!("SELECT {columns} FROM domainmetadata WHERE kind IN ('{kinds}')")
            }
            Statement::TsigKeys => format!(
                "SELECT {}, {}, {} FROM tsigkeys",
                text("name"),
                text("algorithm"),
                text("secret")
            ),
            Statement::Autoprimaries => format!(
                "SELECT {}, {}, {} FROM supermasters",
                text("ip"),
                text("nameserver"),
                text("account")
            ),
            Statement::Changes => recent_changes(engine),
            Statement::Versions => {
                format!("SELECT {} FROM nameward_changes", change_columns(engine))
            }
            Statement::Counters => format!(
                "SELECT {} FROM nameward_changes WHERE domain_id < 0",
                change_columns(engine)
            ),
            Statement::LastChange => last_change(engine),
            Statement::DataVersion => "PRAGMA data_version".to_owned(),
        }
    }
}

/// The texts of all statements for an engine without arrays.
pub(crate) struct StatementTexts {
    statements: [String; STATEMENTS],
    /// The statements that take a list, for each of [`NAME_COUNTS`].
    lists: [[String; NAME_COUNTS.len()]; Statement::LISTED.len()],
}

impl StatementTexts {
    pub(crate) fn new(engine: SqlEngine) -> Self {
        let list = |statement: Statement| NAME_COUNTS.map(|count| statement.sql(engine, count));
        StatementTexts {
            statements: Statement::ALL.map(|statement| statement.sql(engine, 1)),
            lists: Statement::LISTED.map(list),
        }
    }

    /// Returns the text of a statement for this many names, and the number of names that it takes: 0 if it takes no list.
    #[inline]
    pub(crate) fn find(&self, statement: Statement, names: usize) -> (&str, usize) {
        match statement.list_index() {
            Some(list) => {
                let size = NAME_COUNTS.partition_point(|&count| count < names);
                (&self.lists[list][size], NAME_COUNTS[size])
            }
            None => (&self.statements[statement as usize], 0),
        }
    }
}

/// The number of [`zone_columns`].
pub(crate) const ZONE_COLUMNS: usize = 9;

/// Returns the columns of a zone, for `read_zone`; `table` is empty, or the alias of the table with a dot.
pub(crate) fn zone_columns(engine: SqlEngine, table: &str) -> String {
    let int = |column: &str| int(engine, &format!("{table}{column}"));
    let text = |column: &str| text(engine, &format!("{table}{column}"));
    let columns: [String; ZONE_COLUMNS] = [
        int("id"),
        text("name"),
        text("type"),
        text("master"),
        int("last_check"),
        int("notified_serial"),
        text("account"),
        text("options"),
        text("catalog"),
    ];
    columns.join(", ")
}

/// Returns the columns of the table of changes: domain_id, version, time.
fn change_columns(engine: SqlEngine) -> String {
    ["domain_id", "version", "changed_at"]
        .map(|column| int(engine, column))
        .join(", ")
}

/// By how many seconds a PostgreSQL standby is behind, as an expression. One that has replayed everything it received is in step,
/// however long ago the last transaction was.
pub(crate) const STANDBY_DELAY: &str = "CASE WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0 \
     ELSE greatest(1, extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())) END";

/// Returns the statement that reads the last change.
fn last_change(engine: SqlEngine) -> String {
    match engine {
        SqlEngine::Sqlite => "SELECT 0, 0".to_owned(),
        SqlEngine::Postgres => format!(
            "SELECT CAST(coalesce(max(transaction), 0) AS BIGINT), CAST({STANDBY_DELAY} AS BIGINT) FROM nameward_changes"
        ),
        SqlEngine::Mysql => "SELECT CAST(coalesce(SUM(version), 0) AS SIGNED), CAST(0 AS SIGNED) FROM nameward_changes \
             WHERE domain_id < 0"
            .to_owned(),
    }
}

/// Returns the statement that reads the latest change notices.
fn recent_changes(engine: SqlEngine) -> String {
    let columns = change_columns(engine);
    match engine {
        // With the newest one, whatever the parameter.
        SqlEngine::Sqlite => format!(
            "SELECT {columns} FROM nameward_changes WHERE changed_at >= ? UNION ALL \
             SELECT * FROM (SELECT {columns} FROM nameward_changes ORDER BY changed_at DESC LIMIT 1)"
        ),
        SqlEngine::Mysql => {
            format!("SELECT {columns} FROM nameward_changes WHERE domain_id < 0 OR changed_at >= ?")
        }
        SqlEngine::Postgres => format!(
            "SELECT domain_id, transaction FROM nameward_changes WHERE transaction >= CAST($1 AS BIGINT) \
             UNION ALL SELECT {OLDEST_IN_PROGRESS}, txid_snapshot_xmin(txid_current_snapshot()) \
             UNION ALL SELECT {NEWEST_ON_STANDBY}, CASE WHEN pg_is_in_recovery() THEN \
             (SELECT CAST(extract(epoch FROM max(changed_at)) AS BIGINT) FROM nameward_changes) END"
        ),
    }
}
