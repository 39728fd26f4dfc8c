//! SQLite databases for tests, filled from zone files.

use nameward_files::zone_from_text;
use nameward_sql::{DatabaseAddress, db};
use nameward_testkit::conformance::ZoneText;
use nameward_wire::{Name, NameBuf, rdata};
use std::path::{Path, PathBuf};

/// A row of `records`.
pub struct Row {
    pub name: String,
    pub rtype: String,
    pub content: String,
    pub ttl: u32,
}

/// A name in the format of PowerDNS: lower case, no final dot, few octets escaped.
pub fn stored(name: Name<'_>) -> String {
    let label = |label: &[u8]| -> String {
        let octet = |&octet: &u8| match octet {
            b'.' | b'\\' => format!("\\{}", char::from(octet)),
            0x21..=0x7e => char::from(octet.to_ascii_lowercase()).to_string(),
            _ => format!("\\{octet:03}"),
        };
        label.iter().map(octet).collect()
    };
    if name.is_root() {
        ".".into()
    } else {
        name.labels().map(label).collect::<Vec<_>>().join(".")
    }
}

/// The rows of a zone.
pub fn rows(zone: &ZoneText) -> Vec<Row> {
    let apex = NameBuf::from_text(format!("{}.", zone.name).as_bytes(), Name::ROOT).unwrap();
    let text = zone.file_text();
    let zone = zone_from_text(apex.as_name(), &zone.name, text.as_bytes()).unwrap();
    let mut rows = Vec::new();
    for node in zone.nodes_in_order() {
        for rrset in node.rrsets() {
            for record in rrset.records() {
                let mut content = String::new();
                rdata::write_text(rrset.rtype(), record.rdata, &mut content).unwrap();
                rows.push(Row {
                    name: stored(node.name()),
                    rtype: rrset.rtype().to_string(),
                    content,
                    ttl: rrset.ttl(),
                });
            }
        }
    }
    rows
}

/// A SQLite database.
pub struct Sqlite {
    pub path: PathBuf,
}

impl Sqlite {
    /// Makes an empty one in a directory.
    pub fn new(directory: &Path) -> Self {
        let path = directory.join("zones.db");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let address = DatabaseAddress::Sqlite(path.clone());
        assert!(runtime.block_on(db::init(&address)).unwrap().is_empty());
        Sqlite { path }
    }

    /// Returns the settings of a backend with this database.
    pub fn backend(&self, mode: &str) -> String {
        let path = self.path.display();
        format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\nmode = \"{mode}\"\n")
    }

    /// Runs statements.
    pub fn run(&self, sql: &str) {
        self.connection().execute_batch(sql).unwrap();
    }

    /// Blocks all other readers until it is dropped.
    pub fn lock(&self) -> rusqlite::Connection {
        let connection = self.connection();
        connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
        connection
    }

    fn connection(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(&self.path).unwrap();
        connection
            .busy_timeout(std::time::Duration::from_secs(30))
            .unwrap();
        connection
            .execute_batch("PRAGMA synchronous = OFF")
            .unwrap();
        connection
    }

    /// Drops the triggers that record which zone changed.
    pub fn drop_triggers(&self) {
        let connection = self.connection();
        let sql = "SELECT name FROM sqlite_master WHERE type = 'trigger'";
        let mut statement = connection.prepare(sql).unwrap();
        let names = statement
            .query_map([], |row| row.get::<_, String>(0))
            .unwrap();
        for name in names.map(Result::unwrap).collect::<Vec<_>>() {
            connection
                .execute_batch(&format!("DROP TRIGGER {name}"))
                .unwrap();
        }
        connection
            .execute_batch("DROP TABLE nameward_changes")
            .unwrap();
    }

    /// Adds a zone.
    pub fn add(&self, zone: &ZoneText) {
        let mut connection = self.connection();
        let transaction = connection.transaction().unwrap();
        let name = if zone.name.is_empty() {
            "."
        } else {
            &zone.name
        };
        let insert = "INSERT INTO domains (name, type) VALUES (?1, 'NATIVE')";
        transaction
            .execute(insert, [name.to_ascii_lowercase()])
            .unwrap();
        let id = transaction.last_insert_rowid();
        for row in rows(zone) {
            let insert = "INSERT INTO records (domain_id, name, type, content, ttl) \
                          VALUES (?1, ?2, ?3, ?4, ?5)";
            let values = (id, row.name, row.rtype, row.content, row.ttl);
            transaction.execute(insert, values).unwrap();
        }
        transaction.commit().unwrap();
    }
}
