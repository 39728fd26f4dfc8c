//! The schema, described once: created from here, and checked against it.
//!
//! Tables, columns and their contents are those of PowerDNS 4.7, so that both servers can use one database. Nameward
//! adds optional things: a table of changes, and a notification (PostgreSQL), maintained by triggers, that tell every
//! server which zone changed, regardless of who changed it; a table of leases, for work that one server does for all; and
//! tables of results of health checks, which servers share.

use super::dialect::SqlEngine;

/// The kind of data in a column.
#[derive(Clone, Copy)]
pub(crate) enum ColumnKind {
    /// The primary key, assigned by the database.
    Id,
    /// The ID of a zone; rows are deleted with the zone.
    Zone,
    /// Text of at most this many octets, nullable or not.
    Text(u32, Null),
    /// An integer.
    Int(Null),
    /// A boolean with its default.
    Bool(bool),
}

/// Whether NULL is allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Null {
    Yes,
    No,
}

pub(crate) struct Index {
    pub(crate) name: &'static str,
    /// In order, separated by commas.
    pub(crate) columns: &'static str,
    pub(crate) unique: bool,
    /// Serving without it reads whole tables.
    pub(crate) needed: bool,
}

pub(crate) struct SqlTable {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, ColumnKind)],
    pub(crate) indexes: &'static [Index],
}

use ColumnKind::{Bool, Id, Int, Text, Zone};
use Null::{No, Yes};

const fn index(name: &'static str, columns: &'static str, unique: bool, needed: bool) -> Index {
    Index {
        name,
        columns,
        unique,
        needed,
    }
}

/// Long text: the most that a MySQL row holds next to the other columns.
const LONG: u32 = 64_000;

/// All tables. Copies of deleted zones depend on the order of the columns.
pub(crate) const TABLES: &[SqlTable] = &[
    SqlTable {
        name: "domains",
        columns: &[
            ("id", Id),
            ("name", Text(255, No)),
            ("master", Text(128, Yes)),
            ("last_check", Int(Yes)),
            ("type", Text(8, No)),
            ("notified_serial", Int(Yes)),
            ("account", Text(40, Yes)),
            ("options", Text(LONG, Yes)),
            ("catalog", Text(255, Yes)),
        ],
        indexes: &[
            index("name_index", "name", true, true),
            index("catalog_idx", "catalog", false, false),
        ],
    },
    SqlTable {
        name: "records",
        columns: &[
            ("id", Id),
            ("domain_id", Zone),
            ("name", Text(255, Yes)),
            ("type", Text(10, Yes)),
            ("content", Text(LONG, Yes)),
            ("ttl", Int(Yes)),
            ("prio", Int(Yes)),
            ("disabled", Bool(false)),
            ("ordername", Text(255, Yes)),
            ("auth", Bool(true)),
        ],
        indexes: &[
            index("records_lookup_idx", "name, type", false, true),
            index(
                "records_lookup_id_idx",
                "domain_id, name, type",
                false,
                true,
            ),
            index("records_order_idx", "domain_id, ordername", false, false),
        ],
    },
    SqlTable {
        name: "supermasters",
        columns: &[
            ("ip", Text(64, No)),
            ("nameserver", Text(255, No)),
            ("account", Text(40, No)),
        ],
        indexes: &[index("ip_nameserver_pk", "ip, nameserver", true, false)],
    },
    SqlTable {
        name: "comments",
        columns: &[
            ("id", Id),
            ("domain_id", Zone),
            ("name", Text(255, No)),
            ("type", Text(10, No)),
            ("modified_at", Int(No)),
            ("account", Text(40, Yes)),
            ("comment", Text(LONG, No)),
        ],
        indexes: &[
            index("comments_idx", "domain_id, name, type", false, false),
            index("comments_order_idx", "domain_id, modified_at", false, false),
        ],
    },
    SqlTable {
        name: "domainmetadata",
        columns: &[
            ("id", Id),
            ("domain_id", Zone),
            ("kind", Text(32, Yes)),
            ("content", Text(LONG, Yes)),
        ],
        indexes: &[index("domainmetaidindex", "domain_id, kind", false, false)],
    },
    SqlTable {
        name: "cryptokeys",
        columns: &[
            ("id", Id),
            ("domain_id", Zone),
            ("flags", Int(No)),
            ("active", Bool(true)),
            ("published", Bool(true)),
            ("content", Text(LONG, Yes)),
        ],
        indexes: &[index("domainidindex", "domain_id", false, false)],
    },
    SqlTable {
        name: "tsigkeys",
        columns: &[
            ("id", Id),
            ("name", Text(255, Yes)),
            ("algorithm", Text(50, Yes)),
            ("secret", Text(255, Yes)),
        ],
        indexes: &[index("namealgoindex", "name, algorithm", true, false)],
    },
];

impl ColumnKind {
    fn sql(self, engine: SqlEngine) -> String {
        let null = |null| if null == No { " NOT NULL" } else { "" };
        match (self, engine) {
            (Id, SqlEngine::Sqlite) => "INTEGER PRIMARY KEY".into(),
            (Id, SqlEngine::Postgres) => "BIGSERIAL PRIMARY KEY".into(),
            (Id, SqlEngine::Mysql) => "BIGINT AUTO_INCREMENT PRIMARY KEY".into(),
            // MySQL runs no triggers for rows deleted by a foreign key, so it has none there.
            (Zone, SqlEngine::Mysql) => "BIGINT".into(),
            (Zone, SqlEngine::Sqlite) => {
                "INTEGER REFERENCES domains(id) ON DELETE CASCADE ON UPDATE CASCADE".into()
            }
            (Zone, SqlEngine::Postgres) => "BIGINT REFERENCES domains(id) ON DELETE CASCADE".into(),
            (Text(most, n), SqlEngine::Postgres) if most > 255 => format!("TEXT{}", null(n)),
            (Text(most, n), _) => format!("VARCHAR({most}){}", null(n)),
            (Int(n), SqlEngine::Mysql | SqlEngine::Postgres) => format!("BIGINT{}", null(n)),
            (Int(n), SqlEngine::Sqlite) => format!("INTEGER{}", null(n)),
            (Bool(default), SqlEngine::Postgres) => format!("BOOLEAN DEFAULT {default}"),
            (Bool(default), _) => format!("BOOLEAN DEFAULT {}", u8::from(default)),
        }
    }
}

/// Returns the statements that create missing tables.
pub(crate) fn create(engine: SqlEngine) -> Vec<String> {
    let mut statements = Vec::new();
    for table in TABLES {
        let mut parts: Vec<String> = table
            .columns
            .iter()
            .map(|(name, holds)| format!("{name} {}", holds.sql(engine)))
            .collect();
        if engine == SqlEngine::Mysql {
            // MySQL has no CREATE INDEX IF NOT EXISTS, so indexes are created with the table.
            parts.extend(table.indexes.iter().map(|index| {
                let unique = if index.unique { "UNIQUE " } else { "" };
                format!("{unique}INDEX {} ({})", index.name, index.columns)
            }));
        }
        if engine == SqlEngine::Postgres && table.name != "supermasters" && has_name(table) {
            parts.push("CHECK (name = LOWER(name))".into());
        }
        let end = match engine {
            // One octet per character, as names are written: the longest rows fit.
            SqlEngine::Mysql => ") ENGINE = InnoDB CHARACTER SET latin1",
            _ => ")",
        };
        let columns = parts.join(", ");
        statements.push(format!(
            "CREATE TABLE IF NOT EXISTS {} ({columns}{end}",
            table.name
        ));
        if engine == SqlEngine::Mysql {
            continue;
        }
        for index in table.indexes {
            let unique = if index.unique { "UNIQUE " } else { "" };
            let columns = index.columns;
            let class = match engine {
                SqlEngine::Postgres if columns.ends_with("ordername") => " text_pattern_ops",
                _ => "",
            };
            statements.push(format!(
                "CREATE {unique}INDEX IF NOT EXISTS {} ON {} ({columns}{class})",
                index.name, table.name
            ));
        }
    }
    statements
}

fn has_name(table: &SqlTable) -> bool {
    table.columns.iter().any(|(name, _)| *name == "name")
}

/// Creates the table of leases: the server that does a task for all, until a time in seconds since 1970. The same for all engines.
pub(crate) const CREATE_LEASES: &str = "CREATE TABLE IF NOT EXISTS nameward_leases (task VARCHAR(64) NOT NULL PRIMARY KEY, \
     server VARCHAR(64) NOT NULL, valid_until BIGINT NOT NULL)";

/// Create the tables of results of health checks: the servers that share theirs, with a number that rises as long as a server runs
/// and one that rises with each change, and their results. The same for all engines.
pub(crate) const CREATE_HEALTH: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS nameward_health_servers (server VARCHAR(64) NOT NULL PRIMARY KEY, \
     beat BIGINT NOT NULL, version BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS nameward_health (server VARCHAR(64) NOT NULL, target VARCHAR(255) NOT NULL, \
     state BIGINT NOT NULL, PRIMARY KEY (server, target))",
];

/// The PostgreSQL channel on which changes are announced.
pub(crate) const CHANNEL: &str = "nameward";

/// Seconds for which PostgreSQL keeps the rows of changes.
pub(crate) const CHANGES_KEPT: u64 = 3600;
/// Zone ID in notifications of changes that belong to no zone. No zone has it.
pub(crate) const NO_ZONE_CHANGED: i64 = 0;
/// Stands for a zone in the row with the oldest transaction in progress (PostgreSQL). No zone has it.
pub(crate) const OLDEST_IN_PROGRESS: i64 = -1;
/// Stands for a zone in the row with the newest time on a standby (PostgreSQL). No zone has it.
pub(crate) const NEWEST_ON_STANDBY: i64 = -2;
/// The row of the table of changes that shows that triggers advance the counters (MySQL). No zone has it.
pub(crate) const COUNTING: i64 = -4096;

/// Returns the row of the table of changes that counts the versions made by this connection (MySQL), as an expression. One row for
/// all would make transactions wait for each other, and fail on different nodes of a cluster.
pub(crate) const COUNTER: &str =
    "-1 - CAST(CRC32(CONCAT_WS(':', @@hostname, @@port, CONNECTION_ID())) % 1024 AS SIGNED)";

/// Returns the statements that announce changes: one row per zone, or one per zone and transaction with a notification.
pub(crate) fn create_triggers(engine: SqlEngine) -> Vec<String> {
    let mut statements = match engine {
        SqlEngine::Postgres => vec![
            "CREATE TABLE IF NOT EXISTS nameward_changes (domain_id BIGINT NOT NULL, transaction BIGINT NOT NULL, \
             changed_at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (transaction, domain_id))"
                .to_owned(),
            "CREATE INDEX IF NOT EXISTS nameward_changes_at ON nameward_changes (changed_at)".to_owned(),
            // With the rights of its owner: those who change records need none for the table of changes. Each row that is
            // added deletes two old ones, so that the table stays small without a task for it.
            format!(
                "CREATE OR REPLACE FUNCTION nameward_note_change(zone text) RETURNS void LANGUAGE plpgsql \
                 SECURITY DEFINER SET search_path FROM CURRENT AS $$ BEGIN \
                 PERFORM pg_notify('{CHANNEL}', coalesce(zone, '')); \
                 INSERT INTO nameward_changes VALUES (coalesce(CAST(zone AS BIGINT), {NO_ZONE_CHANGED}), txid_current()) \
                 ON CONFLICT DO NOTHING; \
                 IF FOUND THEN DELETE FROM nameward_changes WHERE ctid = ANY (ARRAY (SELECT ctid FROM nameward_changes \
                 WHERE changed_at < now() - interval '{CHANGES_KEPT} seconds' LIMIT 2 FOR UPDATE SKIP LOCKED)); \
                 END IF; END $$"
            ),
            "CREATE OR REPLACE FUNCTION nameward_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF TG_OP <> 'DELETE' THEN PERFORM nameward_note_change(to_jsonb(NEW) ->> TG_ARGV[0]); END IF; \
             IF TG_OP <> 'INSERT' THEN PERFORM nameward_note_change(to_jsonb(OLD) ->> TG_ARGV[0]); END IF; \
             RETURN NULL; END $$"
                .to_owned(),
        ],
        SqlEngine::Sqlite | SqlEngine::Mysql => {
            let mut list = vec![
                "CREATE TABLE IF NOT EXISTS nameward_changes (domain_id BIGINT NOT NULL PRIMARY KEY, \
                 version BIGINT NOT NULL, changed_at BIGINT NOT NULL)"
                    .to_owned(),
            ];
            if engine == SqlEngine::Sqlite {
                list.push(
                    "CREATE INDEX IF NOT EXISTS nameward_changes_at ON nameward_changes (changed_at)"
                        .to_owned(),
                );
            }
            list
        }
    };
    for (table, key) in [
        ("records", "domain_id"),
        ("domains", "id"),
        ("domainmetadata", "domain_id"),
        ("cryptokeys", "domain_id"),
    ] {
        for event in ["INSERT", "UPDATE", "DELETE"] {
            statements.extend(trigger(engine, table, key, event));
        }
    }
    if engine == SqlEngine::Mysql {
        // Last: all triggers count by then.
        statements.push(format!(
            "INSERT IGNORE INTO nameward_changes VALUES ({COUNTING}, 1, 0)"
        ));
    }
    statements
}

fn trigger(engine: SqlEngine, table: &str, key: &str, event: &str) -> Vec<String> {
    let name = format!("nameward_{table}_{}", event.to_lowercase());
    // PowerDNS records every check and NOTIFY in `domains`: these change no answer.
    let of = match (engine, table, event) {
        (SqlEngine::Sqlite | SqlEngine::Postgres, "domains", "UPDATE") => {
            "UPDATE OF id, name, master, type, account, options, catalog"
        }
        _ => event,
    };
    let sides: &[&str] = match event {
        "INSERT" => &["NEW"],
        "DELETE" => &["OLD"],
        _ => &["NEW", "OLD"],
    };
    match engine {
        SqlEngine::Postgres => vec![
            format!("DROP TRIGGER IF EXISTS {name} ON {table}"),
            format!(
                "CREATE TRIGGER {name} AFTER {of} ON {table} FOR EACH ROW \
                 EXECUTE FUNCTION nameward_changed('{key}')"
            ),
        ],
        SqlEngine::Sqlite => {
            let body: String = sides
                .iter()
                .map(|side| {
                    format!(
                        "INSERT INTO nameward_changes SELECT {side}.{key}, 1, \
                         (SELECT coalesce(max(changed_at), 0) + 1 FROM nameward_changes) WHERE {side}.{key} IS NOT NULL \
                         ON CONFLICT (domain_id) DO UPDATE \
                         SET version = version + 1, changed_at = excluded.changed_at; "
                    )
                })
                .collect();
            // An older version made them with the time of the host in place of a counter.
            vec![format!(
                "BEGIN IMMEDIATE; DROP TRIGGER IF EXISTS {name}; \
                 CREATE TRIGGER {name} AFTER {of} ON {table} BEGIN {body}END; COMMIT"
            )]
        }
        SqlEngine::Mysql => {
            let body: String = sides
                .iter()
                .map(|side| {
                    let also = match (table, event) {
                        ("domains", "UPDATE") => {
                            " AND NOT (OLD.name <=> NEW.name AND OLD.type <=> NEW.type \
                             AND OLD.master <=> NEW.master AND OLD.catalog <=> NEW.catalog)"
                        }
                        _ => "",
                    };
                    format!(
                        "IF {side}.{key} IS NOT NULL{also} THEN \
                         INSERT INTO nameward_changes VALUES ({side}.{key}, 1, UNIX_TIMESTAMP()), \
                         ({COUNTER}, 1, UNIX_TIMESTAMP()) ON DUPLICATE KEY UPDATE version = version + 1, \
                         changed_at = VALUES(changed_at); END IF; "
                    )
                })
                .collect();
            vec![
                format!("DROP TRIGGER IF EXISTS {name}"),
                format!(
                    "CREATE TRIGGER {name} AFTER {event} ON {table} FOR EACH ROW BEGIN {body}END"
                ),
            ]
        }
    }
}
