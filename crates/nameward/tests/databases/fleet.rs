//! Several servers on one database: one of them does what must be done once, and another takes over when it is
//! killed.

use super::operation::{wait_for, zone};
use super::servers::{backend, fill, run, started};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::{Setup, TestServer, wait_until};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A secondary that confirms each NOTIFY and counts them.
struct NotifyCounter {
    address: SocketAddr,
    count: Arc<AtomicUsize>,
}

impl NotifyCounter {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let count = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&count);
        std::thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((len, from)) = socket.recv_from(&mut packet) {
                counted.fetch_add(1, Ordering::SeqCst);
                // QR; the rest is echoed, without the SOA (RFC 1996 section 3.12 lets a reply omit it).
                packet[2] |= 0x80;
                let _ = socket.send_to(&packet[..len], from);
            }
        });
        NotifyCounter { address, count }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// The number of times that a server has announced changes of the zone.
fn announced(server: &TestServer) -> usize {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("zone one.test"));
    lines
        .filter(|line| line.contains("sending notifies"))
        .count()
}

fn set(server: &TestServer, octet: u8) {
    let address = format!("192.0.2.{octet}");
    let change = ["record", "set", "one.test", "www", "A", "60", &address];
    let changed = server.command(&change);
    assert!(changed.status.success(), "{changed:?}");
}

fn start(database: &Database, kind: DatabaseKind, mode: &str) -> TestServer {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    start_with(setup, &state, &backend(kind, &database.url(), mode))
}

fn start_with(setup: Setup, state: &Path, backend: &str) -> TestServer {
    let config = format!("[server]\nstate_directory = {state:?}\n{backend}");
    let server = setup.config(&config).start();
    wait_for(&server, "www.one.test.", (0, 10));
    server
}

fn check(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let secondary = NotifyCounter::start();
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    run(
        &database,
        kind,
        &format!(
            "UPDATE domains SET type = 'MASTER', notified_serial = 1; \
             INSERT INTO domainmetadata (domain_id, kind, content) VALUES (1, 'ALSO-NOTIFY', '{}')",
            secondary.address
        ),
    );
    let mut servers: Vec<_> = ["resident", "live", "resident"]
        .map(|mode| start(&database, kind, mode))
        .into();
    let mut octet = 10;
    for changes in 1..=9 {
        octet += 1;
        set(&servers[changes % 3], octet);
        wait_until("a NOTIFY for the change", || secondary.count() >= changes);
        for server in &servers {
            wait_for(server, "www.one.test.", (0, octet));
        }
    }
    assert_eq!(secondary.count(), 9, "one NOTIFY for each change");
    let sent: Vec<usize> = servers.iter().map(announced).collect();
    assert_eq!(
        sent.iter().filter(|count| **count > 0).count(),
        1,
        "{sent:?}"
    );

    let holder = servers.remove(sent.iter().position(|count| *count > 0).unwrap());
    holder.signal("KILL");
    holder.wait();
    let killed = Instant::now();
    set(&servers[0], octet + 1);
    wait_until("a NOTIFY of the successor", || secondary.count() > 9);
    eprintln!(
        "{kind:?}: the successor sent NOTIFY {:?} after kill -9",
        killed.elapsed()
    );
    assert!(
        killed.elapsed() < Duration::from_secs(60),
        "within a minute"
    );
    let sent: Vec<usize> = servers.iter().map(announced).collect();
    assert_eq!(
        sent.iter().filter(|count| **count > 0).count(),
        1,
        "{sent:?}"
    );

    // A server that is stopped releases its task at once.
    let holder = servers.remove(sent.iter().position(|count| *count > 0).unwrap());
    assert!(holder.stop().success());
    let before = secondary.count();
    set(&servers[0], octet + 2);
    wait_until("a NOTIFY of the last server", || secondary.count() > before);
}

/// A version of the zone that the primary has; it is checked every second.
fn primary_zone(serial: u32, octet: u8) -> String {
    format!(
        "$ORIGIN s.test.\n@ 60 SOA ns1 host {serial} 1 1 1209600 60\n@ 60 NS ns1\nns1 60 A 192.0.2.1\nwww 60 A 192.0.2.{octet}\n"
    )
}

/// The number of transfers of the secondary zone that a server has made.
fn transferred(server: &TestServer) -> usize {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("zone s.test"));
    lines
        .filter(|line| line.contains("completed: serial"))
        .count()
}

/// The members of the catalog that a server shows.
fn members(server: &TestServer) -> usize {
    let listed = server.command(&["catalog", "members", "cat.test"]);
    String::from_utf8_lossy(&listed.stdout).lines().count()
}

/// Adds a zone to the catalog, like another program.
fn add_member(database: &Database, kind: DatabaseKind, number: usize) {
    let zone = format!("m{number}.test");
    let sql = format!(
        "INSERT INTO domains (id, name, type, catalog) VALUES ({number}, '{zone}', 'MASTER', 'cat.test');
         INSERT INTO records (domain_id, name, type, content, ttl) VALUES
         ({number}, '{zone}', 'SOA', 'ns1.{zone} h.{zone} 1 7200 3600 1209600 300', 60);"
    );
    run(database, kind, &sql);
}

fn catalog_serial(server: &TestServer) -> Option<String> {
    let shown = server.command(&["zone", "show", "cat.test", "--json"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let serial = text.split("\"serial\":").nth(1)?;
    let digits = serial.trim_start().split(|c: char| !c.is_ascii_digit());
    digits.into_iter().next().map(str::to_owned)
}

/// Two servers have a secondary zone and a catalog: one refreshes the first and produces the second; when it is
/// killed, the other one continues.
fn check_secondaries(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let primary = Setup::new()
        .without_web()
        .config("[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]")
        .zone("s.test", &primary_zone(1, 10))
        .start();
    wait_for(&primary, "www.s.test.", (0, 10));
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let address = primary.address();
    let zones = format!(
        "INSERT INTO domains (id, name, type, master) VALUES (2, 's.test', 'SLAVE', '{address}'), (3, 'cat.test', 'PRODUCER', NULL);
         INSERT INTO records (domain_id, name, type, content, ttl) VALUES
         (3, 'cat.test', 'SOA', 'ns1.cat.test h.cat.test 1 7200 3600 1209600 300', 60);"
    );
    run(&database, kind, &zones);
    add_member(&database, kind, 11);
    let mut servers = vec![
        start(&database, kind, "resident"),
        start(&database, kind, "resident"),
    ];
    let mut octet = 10;
    for (round, killed) in [false, true].into_iter().enumerate() {
        let sent: Vec<usize> = servers.iter().map(transferred).collect();
        octet += 1;
        primary.write_zone("s.test", &primary_zone(u32::from(octet), octet));
        assert!(primary.command(&["reload"]).status.success());
        add_member(&database, kind, 20 + round);
        for server in &servers {
            wait_for(server, "www.s.test.", (0, octet));
            wait_until("the member", || members(server) == 2 + round);
        }
        let serials: Vec<_> = servers.iter().map(catalog_serial).collect();
        wait_until("one serial", || {
            let mut serials = servers.iter().map(catalog_serial);
            let first = serials.next().flatten();
            first.is_some() && serials.all(|serial| serial == first)
        });
        if killed {
            break;
        }
        let sent = servers.iter().zip(&sent);
        let by = sent.map(|(server, before)| transferred(server) - before);
        let by: Vec<usize> = by.collect();
        assert_eq!(by.iter().sum::<usize>(), 1, "{by:?}, {serials:?}");
        let holder = servers.remove(by.iter().position(|count| *count > 0).unwrap());
        holder.signal("KILL");
        holder.wait();
    }
}

#[test]
fn one_of_two_servers_on_postgres_refreshes_secondaries_and_produces_catalogs() {
    check_secondaries(DatabaseKind::Postgres);
}

#[test]
fn a_change_of_sqlite_is_detected_although_the_clock_was_set_back() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = super::rows::Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        // The clock was ahead when the triggers of an older version wrote the time.
        database.run("UPDATE nameward_changes SET changed_at = changed_at + 4000000000");
        let server = setup.config(&database.backend(mode)).start();
        wait_for(&server, "www.one.test.", (0, 10));
        for octet in 11..14_u8 {
            let set = format!(
                "UPDATE records SET content = '192.0.2.{octet}' WHERE name = 'www.one.test'"
            );
            database.run(&set);
            wait_for(&server, "www.one.test.", (0, octet));
        }
    }
}

#[test]
fn one_of_three_servers_on_postgres_notifies_and_has_a_successor() {
    check(DatabaseKind::Postgres);
}

#[test]
fn one_of_three_servers_on_mariadb_notifies_and_has_a_successor() {
    check(DatabaseKind::Mariadb);
}

#[test]
fn items_that_only_one_server_has_are_reported() {
    let kind = DatabaseKind::Postgres;
    let Some(database) = started(kind) else {
        return;
    };
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let state = TempDir::new().unwrap();
    let start = || {
        let backend = backend(kind, &database.url(), "live");
        start_with(Setup::new().without_web(), state.path(), &backend)
    };
    let server = start();
    let status = || {
        let status = server.command(&["status"]);
        String::from_utf8(status.stdout).unwrap()
    };
    assert!(!status().contains("only here"), "{}", status());
    // This one is in the database.
    let made = server.command(&["tsig", "generate", "shared.test"]);
    assert!(made.status.success(), "{made:?}");
    let made = server.command(&["api-key", "create", "--description", "own"]);
    assert!(made.status.success(), "{made:?}");
    let line =
        "only here      1 API key; other servers on the database do not have them".to_owned();
    wait_until("the status says so", || {
        status().lines().any(|found| found == line)
    });
    let line = "state store: 1 API key on this server only";
    assert!(!server.log().contains(line), "{}", server.log());
    assert!(server.stop().success());
    let server = start();
    assert!(server.wait_for_log(line), "{}", server.log());
}
