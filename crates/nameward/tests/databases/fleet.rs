//! Several servers on one database: one of them does what must be done once, and another takes over when it is killed.

use super::operation::{wait_for, zone};
use super::servers::{backend, fill, run, started};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::{Setup, TestServer, wait_until};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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
    let backend = backend(kind, &database.url(), mode);
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

    // A server that is stopped leaves its task at once.
    let holder = servers.remove(sent.iter().position(|count| *count > 0).unwrap());
    assert!(holder.stop().success());
    let before = secondary.count();
    set(&servers[0], octet + 2);
    wait_until("a NOTIFY of the last server", || secondary.count() > before);
}

#[test]
fn a_change_of_sqlite_is_seen_whatever_the_clock_was_before() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = super::rows::Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        // The clock was ahead when the triggers of an older version wrote its time.
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
