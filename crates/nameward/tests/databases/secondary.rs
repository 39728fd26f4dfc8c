//! Secondary zones in databases (SLAVE): transferred into the database, in both modes, with other servers on it,
//! across restarts.

use super::powerdns::Store;
use super::rows::Sqlite;
use super::servers::{backend, run, started};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::mesh::{
    ChangingZone, KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshPeer, MeshRole, MeshSetup, compare,
    serial_at, wait_for_serial,
};
use nameward_testkit::peers::{PeerKind, free_address};
use nameward_testkit::{Setup, TestServer};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub const ZONE: &str = "fleet.example";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A database that a test fills.
pub enum TestDatabase {
    Sqlite(Sqlite),
    Server(DatabaseKind, Database),
}

impl TestDatabase {
    pub fn new(kind: Option<DatabaseKind>, directory: &Path) -> Option<Self> {
        Some(match kind {
            None => TestDatabase::Sqlite(Sqlite::new(directory)),
            Some(kind) => TestDatabase::Server(kind, started(kind)?),
        })
    }

    pub fn run(&self, sql: &str) {
        match self {
            TestDatabase::Sqlite(sqlite) => sqlite.run(sql),
            TestDatabase::Server(kind, database) => run(database, *kind, sql),
        }
    }

    /// The first number in the result of a statement.
    pub fn number(&self, sql: &str) -> Option<i64> {
        match self {
            TestDatabase::Sqlite(sqlite) => {
                let connection = rusqlite::Connection::open(&sqlite.path).unwrap();
                connection.busy_timeout(TIMEOUT).unwrap();
                let read = connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0));
                read.unwrap()
            }
            TestDatabase::Server(_, database) => {
                let text = database.run(sql).unwrap();
                let mut words = text.split_whitespace();
                words.find_map(|word| word.parse().ok())
            }
        }
    }

    pub fn settings(&self, mode: &str) -> String {
        match self {
            TestDatabase::Sqlite(sqlite) => {
                let path = sqlite.path.display();
                format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\nmode = \"{mode}\"\n")
            }
            TestDatabase::Server(kind, database) => backend(*kind, &database.url(), mode),
        }
    }

    /// Creates a secondary zone like `pdnsutil create-secondary-zone` and `activate-tsig-key`.
    fn add_secondary(&self, primaries: &str) {
        let key = KEY_NAME.trim_end_matches('.');
        self.run(&format!(
            "INSERT INTO domains (name, type, master) VALUES ('{ZONE}', 'SLAVE', '{primaries}');
             INSERT INTO tsigkeys (name, algorithm, secret) VALUES ('{key}', '{KEY_ALGORITHM}', '{KEY_SECRET}');
             INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'AXFR-MASTER-TSIG', '{key}' FROM domains;
             INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'TSIG-ALLOW-AXFR', '{key}' FROM domains;"
        ));
    }
}

pub fn primary(kind: PeerKind, address: SocketAddr, other: SocketAddr, text: &str) -> MeshPeer {
    let setup = MeshSetup {
        kind,
        role: MeshRole::Primary,
        zone: ZONE,
        address,
        other,
    };
    MeshPeer::start(&setup, text).unwrap_or_else(|error| panic!("{error}"))
}

pub fn start(database: &TestDatabase, mode: &str, address: SocketAddr) -> TestServer {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    let settings = database.settings(mode);
    setup
        .listen(&[&address.to_string()])
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n{settings}"
        ))
        .start()
}

pub fn wait_for(server: &TestServer, address: SocketAddr, serial: u32) {
    wait_for_serial(address, ZONE, serial)
        .unwrap_or_else(|there| panic!("serial {there:?}, not {serial}\n{}", server.log()));
}

fn rcode(address: SocketAddr, name: &str) -> String {
    let output = Command::new("dig")
        .args(["+tries=1", "+time=5", "+norec", "-p"])
        .arg(address.port().to_string())
        .args([&format!("@{}", address.ip()), name, "SOA"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = text.split("status: ").nth(1).unwrap_or_default();
    status.split(',').next().unwrap_or_default().to_string()
}

/// An empty zone is transferred at start, changes arrive by NOTIFY and IXFR, and after a restart the stored version
/// is served.
fn follow(database: &TestDatabase, kind: PeerKind, mode: &str) {
    if kind.require().is_none() {
        return;
    }
    let (there, here) = (free_address().unwrap(), free_address().unwrap());
    let mut zone = ChangingZone::new(ZONE, 4_294_967_290, 150, 11);
    let peer = primary(kind, there, here, &zone.text());
    // No server is at the first address: then the second one is queried.
    let nobody = free_address().unwrap();
    database.add_secondary(&format!("{nobody}, {there}"));
    let server = start(database, mode, here);
    wait_for(&server, here, zone.serial());
    compare(there, here, ZONE).unwrap_or_else(|error| panic!("{kind} {mode}: {error}"));
    for round in 0..4 {
        zone.change(20);
        peer.change(&zone.text()).unwrap();
        wait_for(&server, here, zone.serial());
        compare(there, here, ZONE)
            .unwrap_or_else(|error| panic!("{kind} {mode}, round {round}: {error}"));
    }
    let log = server.log();
    assert!(log.contains(": AXFR from "), "{log}");
    assert!(log.contains(": IXFR from "), "{kind} {mode}: {log}");
    let status = server.command(&["zone", "status", ZONE]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    let wanted = format!("secondary current, serial {}", zone.serial());
    assert!(status.contains(&wanted), "{status}");
    let check = "SELECT last_check FROM domains";
    server.wait_until("last_check", || {
        database.number(check).is_some_and(|at| at > 1_700_000_000)
    });
    server.signal("KILL");
    let _ = server.wait();
    drop(peer);
    // Its primaries are unreachable: the stored version is served at once.
    let server = start(database, mode, here);
    assert_eq!(
        serial_at(here, ZONE),
        Some(zone.serial()),
        "{}",
        server.log()
    );
}

/// Makes a zone follow its primary in a database of an engine, if that is installed.
fn follow_on(engine: DatabaseKind, primary: PeerKind, mode: &str) {
    let directory = tempfile::tempdir().unwrap();
    if let Some(database) = TestDatabase::new(Some(engine), directory.path()) {
        follow(&database, primary, mode);
    }
}

#[test]
fn a_secondary_zone_of_sqlite_follows_its_primary_in_both_modes() {
    for mode in ["live", "resident"] {
        let directory = tempfile::tempdir().unwrap();
        let database = TestDatabase::new(None, directory.path()).unwrap();
        follow(&database, PeerKind::Knot, mode);
    }
}

#[test]
fn a_secondary_zone_of_postgres_follows_its_primary() {
    follow_on(DatabaseKind::Postgres, PeerKind::Bind, "live");
}

#[test]
fn a_secondary_zone_of_mariadb_follows_its_primary() {
    follow_on(DatabaseKind::Mariadb, PeerKind::Bind, "resident");
}

#[test]
fn a_secondary_zone_of_postgres_in_memory_follows_its_primary() {
    follow_on(DatabaseKind::Postgres, PeerKind::Knot, "resident");
}

#[test]
fn a_secondary_zone_of_mariadb_that_is_looked_up_follows_its_primary() {
    follow_on(DatabaseKind::Mariadb, PeerKind::Knot, "live");
}

/// Contents that no primary has confirmed for too long are answered SERVFAIL, and served again after a confirmation.
#[test]
fn an_expired_zone_of_a_database_is_servfail_until_a_primary_confirms_it() {
    if PeerKind::Knot.require().is_none() {
        return;
    }
    for mode in ["live", "resident"] {
        let directory = tempfile::tempdir().unwrap();
        let database = TestDatabase::new(None, directory.path()).unwrap();
        let (there, here) = (free_address().unwrap(), free_address().unwrap());
        let zone = ChangingZone::new(ZONE, 7, 20, 5);
        database.add_secondary(&there.to_string());
        let peer = primary(PeerKind::Knot, there, here, &zone.text());
        let server = start(&database, mode, here);
        wait_for(&server, here, 7);
        drop(peer);
        assert!(server.stop().success());
        database.run("UPDATE domains SET last_check = 1700000000");
        let server = start(&database, mode, here);
        server.wait_until("SERVFAIL", || rcode(here, ZONE) == "SERVFAIL");
        let status = server.command(&["zone", "status", ZONE]);
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(status.contains("secondary expired, serial 7"), "{status}");
        let _peer = primary(PeerKind::Knot, there, here, &zone.text());
        let _ = server.command(&["zone", "retrieve", ZONE]);
        server.wait_until("NOERROR", || {
            // A primary that did not answer is not queried for some seconds.
            let _ = server.command(&["zone", "retrieve", ZONE]);
            rcode(here, ZONE) == "NOERROR"
        });
        // Another thread writes it, possibly after the first answer.
        server.wait_until("last_check", || {
            let checked = database.number("SELECT last_check FROM domains");
            checked.is_some_and(|at| at > 1_700_000_000)
        });
    }
}

/// Two servers transfer one zone into one database, repeatedly: the rows are always one version.
#[test]
fn two_servers_on_one_database_transfer_a_zone_without_harm() {
    if PeerKind::Knot.require().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let database = TestDatabase::new(None, directory.path()).unwrap();
    let [there, here, beside] = [(); 3].map(|()| free_address().unwrap());
    let mut zone = ChangingZone::new(ZONE, 100, 100, 3);
    let peer = primary(PeerKind::Knot, there, here, &zone.text());
    database.add_secondary(&there.to_string());
    let servers = [
        (start(&database, "live", here), here),
        (start(&database, "resident", beside), beside),
    ];
    for round in 0..5 {
        for (server, address) in &servers {
            let mut asked = Instant::now();
            server.wait_until(&format!("round {round}"), || {
                if asked.elapsed() > Duration::from_secs(2) {
                    asked = Instant::now();
                    let _ = server.command(&["zone", "retrieve", ZONE]);
                }
                serial_at(*address, ZONE) == Some(zone.serial())
            });
            compare(there, *address, ZONE).unwrap_or_else(|error| panic!("{round}: {error}"));
        }
        let soa = database.number("SELECT COUNT(*) FROM records WHERE type = 'SOA'");
        assert_eq!(soa, Some(1));
        zone.change(15);
        peer.change(&zone.text()).unwrap();
        // Both at the same time.
        for (server, _) in &servers {
            let _ = server.command(&["zone", "retrieve", ZONE]);
        }
    }
}

/// A zone with keys in the database is signed inline; its primary is unsigned.
#[test]
fn a_secondary_zone_with_keys_is_signed_inline() {
    if PeerKind::Knot.require().is_none() {
        return;
    }
    for mode in ["live", "resident"] {
        let directory = tempfile::tempdir().unwrap();
        let database = TestDatabase::new(None, directory.path()).unwrap();
        let (there, here) = (free_address().unwrap(), free_address().unwrap());
        let mut zone = ChangingZone::new(ZONE, 7, 40, 9);
        let peer = primary(PeerKind::Knot, there, here, &zone.text());
        database.add_secondary(&there.to_string());
        let key = "Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\n\
                   PrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n";
        database.run(&format!(
            "INSERT INTO cryptokeys (domain_id, flags, active, published, content) \
             SELECT id, 257, 1, 1, '{key}' FROM domains"
        ));
        let server = start(&database, mode, here);
        for _ in 0..3 {
            wait_for(&server, here, zone.serial());
            let file = directory.path().join("signed.zone");
            nameward_testkit::mesh::dump(here, ZONE, &file).unwrap();
            let output = Command::new("dnssec-verify")
                .args(["-z", "-o", ZONE])
                .arg(&file)
                .output()
                .unwrap();
            assert!(output.status.success(), "{mode}: {output:?}");
            zone.change(10);
            peer.change(&zone.text()).unwrap();
        }
    }
}

/// After a whole and an incremental transfer the derived columns are the same as in PowerDNS.
#[test]
fn pdnsutil_finds_nothing_to_rectify_after_transfers() {
    if PeerKind::Knot.require().is_none() || PeerKind::PowerDns.require().is_none() {
        return;
    }
    for steps in [
        &[][..],
        &[&["secure-zone", ZONE][..]][..],
        &[&["secure-zone", ZONE][..], &["set-nsec3", ZONE, "1 1 0 -"]][..],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let Some(store) = Store::new(None, directory.path()) else {
            return;
        };
        std::fs::write(directory.path().join("pdns.conf"), store.powerdns()).unwrap();
        let pdnsutil = |arguments: &[&str]| {
            let output = Command::new("pdnsutil")
                .arg(format!("--config-dir={}", directory.path().display()))
                .args(arguments)
                .output()
                .unwrap();
            assert!(output.status.success(), "{arguments:?}: {output:?}");
        };
        let (there, here) = (free_address().unwrap(), free_address().unwrap());
        let mut zone = ChangingZone::new(ZONE, 7, 150, 21);
        let peer = primary(PeerKind::Knot, there, here, &zone.text());
        pdnsutil(&["create-secondary-zone", ZONE, &there.to_string()]);
        pdnsutil(&["import-tsig-key", KEY_NAME, KEY_ALGORITHM, KEY_SECRET]);
        pdnsutil(&["activate-tsig-key", ZONE, KEY_NAME, "secondary"]);
        steps.iter().for_each(|step| pdnsutil(step));
        let Store::Sqlite(path) = &store else {
            return;
        };
        let database = TestDatabase::Sqlite(Sqlite { path: path.clone() });
        let server = start(&database, "live", here);
        for _ in 0..3 {
            wait_for(&server, here, zone.serial());
            let written = derived(path);
            pdnsutil(&["rectify-zone", ZONE]);
            let rectified = derived(path);
            let lines = written.iter().filter(|line| !rectified.contains(line));
            let more = rectified.iter().filter(|line| !written.contains(line));
            assert_eq!(
                (lines.collect::<Vec<_>>(), more.collect::<Vec<_>>()),
                (Vec::new(), Vec::new()),
                "{steps:?}"
            );
            zone.change(30);
            peer.change(&zone.text()).unwrap();
        }
    }
}

/// The derived columns of all rows.
fn derived(path: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(TIMEOUT).unwrap();
    let sql = "SELECT name || ' ' || COALESCE(type, '-') || ' ' || COALESCE(ordername, 'NULL') || ' ' || auth \
               FROM records ORDER BY 1";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap();
    rows.map(Result::unwrap).collect()
}
