//! Changes through Nameward leave the database as the tools of PowerDNS would, whatever is changed in which order.

mod changes;
mod galera;
mod leases;
mod own_commits;
mod powerdns;
mod serialization;

use crate::common::{block_on, name};
use nameward_sql::write::{NewZone, WriteError};
use nameward_sql::{DatabaseAddress, SqlBackend, SqlOptions, db};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::require;
use nameward_wire::rdata::parse_text;
use nameward_wire::text::Fields;
use nameward_wire::{Name, Type};
use nameward_zone::SerialRule;
use nameward_zone::change::{ChangeOrigin, Edit, NewRecord, RrsetData, ZoneChange};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// 29 February 2024.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_709_164_800)
}

fn rrset(owner: &str, rtype: &str, contents: &[&str]) -> RrsetData {
    let rtype = Type::from_text(rtype.as_bytes()).unwrap();
    let records = contents.iter().map(|text| {
        let mut rdata = Vec::new();
        let mut fields = Fields::new(text.as_bytes());
        parse_text(rtype, &mut fields, Name::ROOT, &mut rdata).unwrap();
        NewRecord {
            text: None,
            rdata,
            disabled: false,
        }
    });
    RrsetData {
        name: name(owner),
        rtype,
        ttl: 300,
        records: records.collect(),
    }
}

fn change(edits: Vec<Edit>) -> ZoneChange {
    ZoneChange {
        edits,
        origin: ChangeOrigin::Operator,
        now: now(),
        serial: SerialRule::default(),
    }
}

fn new_zone(apex: &str) -> NewZone {
    let soa = format!("ns1.{apex}. hostmaster.{apex}. 1 10800 3600 604800 3600");
    NewZone {
        attributes: Vec::new(),
        name: name(apex),
        kind: nameward_zone::ZoneKind::Native,
        primaries: None,
        account: String::new(),
        key: None,
        rrsets: vec![
            rrset(apex, "SOA", &[&soa]),
            rrset(apex, "NS", &[&format!("ns1.{apex}.")]),
            rrset(&format!("ns1.{apex}"), "A", &["192.0.2.1"]),
        ],
        now: now(),
    }
}

struct Store {
    _directory: tempfile::TempDir,
    path: PathBuf,
    backend: SqlBackend,
}

impl Store {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        let address = DatabaseAddress::Sqlite(path.clone());
        assert!(block_on(db::init(&address)).unwrap().is_empty());
        Store {
            _directory: directory,
            path,
            backend: SqlBackend::new(SqlOptions::for_tests(address)).unwrap(),
        }
    }

    fn create(&self, apex: &str) -> i64 {
        block_on(self.backend.create_zone(&new_zone(apex)))
            .unwrap()
            .zone
    }

    fn commit(&self, zone: i64, edits: Vec<Edit>) -> Result<u32, String> {
        let committed = block_on(self.backend.commit(zone, &change(edits)));
        committed
            .map(|committed| committed.serial.0)
            .map_err(|error| error.to_string())
    }

    fn dump(&self) -> Vec<String> {
        dump(&self.path)
    }
}

/// All rows of `records` but their ids.
fn dump(path: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT name, type, content, ttl, prio, disabled, ordername, auth FROM records \
               ORDER BY name, type, content";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        let cells: Vec<String> = (0..8)
            .map(|i| match row.get::<_, rusqlite::types::Value>(i).unwrap() {
                rusqlite::types::Value::Null => "-".into(),
                rusqlite::types::Value::Integer(n) => n.to_string(),
                rusqlite::types::Value::Text(text) => format!("'{text}'"),
                other => format!("{other:?}"),
            })
            .collect();
        Ok(cells.join(" "))
    });
    rows.unwrap().map(Result::unwrap).collect()
}
