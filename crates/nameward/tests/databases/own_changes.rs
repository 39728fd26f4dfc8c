//! Changes of resident database zones: those of this server cost only their own size, those of other programs are
//! detected by reading the zone, and the journal has both.

use super::operation::{ask, wait_for, zone};
use super::rows::Sqlite;
use super::servers::{backend, fill, run, started};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::{Setup, TestServer};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than the notification of a change takes.
const NOTICE: Duration = Duration::from_millis(1500);
/// Ahead of all serials that these zones had before (RFC 1982).
const FAR_SERIAL: u32 = 2_100_000_000;

/// A database of any engine.
enum Engine {
    Sqlite(Sqlite),
    Server(DatabaseKind, Database),
}

impl Engine {
    fn run(&self, sql: &str) {
        match self {
            Engine::Sqlite(sqlite) => sqlite.run(sql),
            Engine::Server(kind, database) => run(database, *kind, sql),
        }
    }

    /// Changes rows without a notification, which only a test does.
    fn run_silently(&self, sql: &str) {
        match self {
            Engine::Server(DatabaseKind::Postgres, _) => {
                self.run(&format!("SET session_replication_role = replica; {sql};"));
            }
            // What the triggers write is undone in the same transaction, which waits for others before it reads.
            engine => self.run(&format!(
                "BEGIN{}; CREATE TEMPORARY TABLE kept AS SELECT * FROM nameward_changes; {sql}; \
                 DELETE FROM nameward_changes; INSERT INTO nameward_changes SELECT * FROM kept; COMMIT;",
                match engine {
                    Engine::Sqlite(_) => " IMMEDIATE",
                    Engine::Server(..) => "",
                }
            )),
        }
    }

    fn config(&self) -> String {
        match self {
            Engine::Sqlite(database) => format!(
                "[[backend]]\ntype = \"sqlite\"\npath = \"{}\"\nmode = \"resident\"\n",
                database.path.display()
            ),
            Engine::Server(kind, database) => backend(*kind, &database.url(), "resident"),
        }
    }
}

/// The journalled changes in a server's state store, which must be complete.
pub fn journalled(server: &TestServer) -> usize {
    let directory = server.dir().join("state").display().to_string();
    let output = server.command(&["state", "check", "--json", "--directory", &directory]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let entries = text
        .split("\"entries\":")
        .nth(1)
        .unwrap_or_else(|| panic!("{text}"));
    let digits = entries.trim_start().split(|c: char| !c.is_ascii_digit());
    digits.into_iter().next().unwrap().parse().unwrap()
}

fn set(server: &TestServer, address: &str) {
    let arguments = ["record", "set", "one.test", "www", "A", "60", address];
    let output = server.command(&arguments);
    assert!(output.status.success(), "{}", server.log());
}

fn check(setup: Setup, engine: &Engine) {
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    let setup = setup.config(&format!(
        "[server]\nstate_directory = \"{}\"",
        state.display()
    ));
    let server = setup.config(&engine.config()).start();
    wait_for(&server, "www.one.test.", (0, 10));
    // Shows whether the whole zone is read.
    engine.run_silently("UPDATE records SET content = '192.0.2.99' WHERE name = 'ns1.one.test'");
    for octet in 20..30 {
        set(&server, &format!("192.0.2.{octet}"));
        assert_eq!(ask(&server, "www.one.test."), Some((0, octet)));
    }
    std::thread::sleep(NOTICE);
    assert_eq!(
        ask(&server, "ns1.one.test."),
        Some((0, 1)),
        "read as a whole"
    );
    assert_eq!(journalled(&server), 10);
    // A change by another program, which raises the serial like PowerDNS.
    engine.run(&format!(
        "BEGIN; UPDATE records SET content = '192.0.2.40' WHERE name = 'www.one.test'; \
         UPDATE records SET content = 'ns1.one.test host.one.test {FAR_SERIAL} 7200 3600 1209600 300' \
         WHERE type = 'SOA'; COMMIT;"
    ));
    wait_for(&server, "www.one.test.", (0, 40));
    assert_eq!(ask(&server, "ns1.one.test."), Some((0, 99)));
    let start = Instant::now();
    while journalled(&server) < 11 {
        assert!(start.elapsed() < TIMEOUT, "{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    // On top of that.
    set(&server, "192.0.2.50");
    assert_eq!(ask(&server, "www.one.test."), Some((0, 50)));
    assert_eq!(journalled(&server), 12);
}

fn check_server(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    check(Setup::new().without_web(), &Engine::Server(kind, database));
}

#[test]
fn an_own_change_reads_nothing_again_and_every_change_is_journalled_sqlite() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    check(setup, &Engine::Sqlite(database));
}

#[test]
fn an_own_change_reads_nothing_again_and_every_change_is_journalled_postgres() {
    check_server(DatabaseKind::Postgres);
}

#[test]
fn an_own_change_reads_nothing_again_and_every_change_is_journalled_mariadb() {
    check_server(DatabaseKind::Mariadb);
}
