//! Databases with a zone in them, and answers of the engine to compare.

use nameward_answer::{Engine, Medium, Scratch, Zones};
use nameward_sql::{Change, DatabaseAddress, LiveZone, SqlBackend, SqlOptions, db};
use nameward_wire::message::Query;
use nameward_wire::{NameBuf, Type};
use nameward_zone::{NameKey, Zone, ZoneBuilder};

/// A row of `records` without its ids: name, type, content, ttl, prio, disabled.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub rtype: Option<&'static str>,
    pub content: String,
    pub ttl: Option<i64>,
    pub prio: Option<i64>,
    pub disabled: bool,
}

pub fn row(name: &str, rtype: &'static str, content: &str) -> Row {
    Row {
        name: name.into(),
        rtype: Some(rtype),
        content: content.into(),
        ttl: Some(300),
        prio: Some(10),
        disabled: false,
    }
}

pub fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

/// Runs a future on a runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// A new SQLite database with one zone.
pub struct SqliteFixture {
    _directory: tempfile::TempDir,
    pub address: DatabaseAddress,
}

impl SqliteFixture {
    pub fn new(apex: &str, rows: &[Row]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = DatabaseAddress::Sqlite(directory.path().join("test.db"));
        assert!(block_on(db::init(&address)).unwrap().is_empty());
        let fixture = SqliteFixture {
            _directory: directory,
            address,
        };
        let mut connection = fixture.connection();
        let transaction = connection.transaction().unwrap();
        transaction
            .execute(
                "INSERT INTO domains (id, name, type) VALUES (1, ?1, 'NATIVE')",
                [apex],
            )
            .unwrap();
        for row in rows {
            transaction
                .execute(
                    "INSERT INTO records (domain_id, name, type, content, ttl, prio, disabled) \
                     VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)",
                    (
                        &row.name,
                        row.rtype,
                        &row.content,
                        row.ttl,
                        row.prio,
                        row.disabled,
                    ),
                )
                .unwrap();
        }
        transaction.commit().unwrap();
        fixture
    }

    pub fn connection(&self) -> rusqlite::Connection {
        let DatabaseAddress::Sqlite(path) = &self.address else {
            unreachable!()
        };
        let connection = rusqlite::Connection::open(path).unwrap();
        connection
            .execute_batch("PRAGMA synchronous = OFF")
            .unwrap();
        connection
    }

    pub fn backend(&self) -> SqlBackend {
        SqlBackend::new(SqlOptions::for_tests(self.address.clone())).unwrap()
    }
}

/// The whole zone.
pub async fn resident(backend: &SqlBackend, zone: &LiveZone) -> Zone {
    let mut builder = ZoneBuilder::new(zone.apex.as_name());
    let report = backend.load_zone(zone, &mut builder).await.unwrap();
    assert_eq!(report.bad_count, 0, "{:?}", report.bad);
    let (zone, findings) = builder.finish();
    zone.unwrap_or_else(|| panic!("{findings:?}"))
}

/// A server with one zone.
pub struct One<'z>(pub &'z Zone);

impl Zones for One<'_> {
    type View = Zone;

    fn zone_for(&self, key: &NameKey, _: Type) -> Option<&Zone> {
        let labels = self.0.apex_labels();
        let ours = key.labels() >= labels && key.suffix(labels) == self.0.apex_name();
        ours.then_some(self.0)
    }
}

/// The answer to a question, with EDNS and room for 1232 octets.
pub fn answer(zone: &Zone, qname: &NameBuf, qtype: Type) -> Vec<u8> {
    let mut packet = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    packet.extend_from_slice(qname.as_name().as_wire());
    packet.extend_from_slice(&qtype.0.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    packet.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    let query = Query::parse(&packet).expect("a proper query");
    let key = NameKey::new(query.qname);
    let mut out = vec![0; 4096];
    let reply = Engine::default().respond(
        &One(zone),
        &query,
        (&key, Some(zone)),
        Medium::Datagram,
        &mut Scratch::default(),
        &mut out,
    );
    out.truncate(reply.len());
    out
}

/// Makes a change again and again until its notice comes: nothing shows when a watch has begun.
pub async fn until_noticed(
    changes: &mut tokio::sync::mpsc::Receiver<Change>,
    wanted: Change,
    mut make: impl FnMut(),
) {
    for _ in 0..60 {
        make();
        let wait = std::time::Duration::from_secs(1);
        while let Ok(change) = tokio::time::timeout(wait, changes.recv()).await {
            let noticed = match change.expect("the watch goes on") {
                Change::Zone(zone, _) => Change::Zone(zone, None),
                other => other,
            };
            if noticed == wanted {
                return;
            }
        }
    }
    panic!("{wanted:?} was never noticed");
}
