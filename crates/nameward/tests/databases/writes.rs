//! Changes through the server: in its next answer, in those of other servers on the database within a second, and in the
//! database when the command returns.

use crate::operation::{ask, zone};
use crate::rows::Sqlite;
use nameward_store::sql::{Address, db};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::{Setup, TestServer};
use std::time::{Duration, Instant};

const REFUSED: u8 = 5;
const NXDOMAIN: u8 = 3;
const PATIENCE: Duration = Duration::from_secs(20);

/// What a command that succeeds says.
fn run(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?}: {said}{error}\n{}",
        server.log()
    );
    said
}

/// The line of a command that fails.
fn fail(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

fn sqlite(database: &Sqlite, mode: &str) -> String {
    let path = database.path.display();
    format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\nmode = \"{mode}\"\n")
}

#[test]
fn a_change_is_in_the_next_answer() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        let server = setup.config(&sqlite(&database, mode)).start();
        assert_eq!(ask(&server, "www.new.test.").map(|a| a.0), Some(REFUSED));
        run(
            &server,
            &["zone", "create", "new.test", "--ns", "ns1.new.test"],
        );
        assert_eq!(ask(&server, "www.new.test.").map(|a| a.0), Some(NXDOMAIN));
        for i in 1..=20u8 {
            let address = format!("192.0.2.{i}");
            run(
                &server,
                &["record", "set", "new.test", "www", "A", "300", &address],
            );
            assert_eq!(ask(&server, "www.new.test."), Some((0, i)), "{mode}");
        }
        run(
            &server,
            &["record", "delete", "new.test", "www", "A", "192.0.2.20"],
        );
        assert_eq!(ask(&server, "www.new.test.").map(|a| a.0), Some(NXDOMAIN));
        run(
            &server,
            &["record", "add", "new.test", "a.b", "TXT", "1h", "two words"],
        );
        let listed = run(&server, &["record", "list", "new.test", "a.b"]);
        assert_eq!(listed, "a.b.new.test. 3600 IN TXT \"two words\"\n");
        assert_eq!(
            ask(&server, "b.new.test.").map(|a| a.0),
            Some(0),
            "an empty non-terminal"
        );
        let shown = run(&server, &["zone", "show", "new.test"]);
        assert!(shown.contains("\nrecords 3\n"), "{shown}");
        assert!(shown.contains(&format!("\nmode {mode}\n")), "{shown}");
        assert_eq!(run(&server, &["zone", "list"]), "new.test. native 1\n");
        run(&server, &["zone", "delete", "new.test"]);
        assert_eq!(ask(&server, "www.new.test.").map(|a| a.0), Some(REFUSED));
    }
}

#[test]
fn what_cannot_be_changed_is_refused_with_a_reason() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    database.run(
        "UPDATE records SET type = 'CNAME', content = 'ns1.one.test' WHERE name = 'www.one.test'",
    );
    let server = setup
        .config(&sqlite(&database, "live"))
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
        .start();
    for (arguments, reason) in [
        (
            &["record", "set", "file.test", "www", "A", "60", "192.0.2.1"][..],
            "comes from a file (backend 2)",
        ),
        (
            &["zone", "delete", "file.test"],
            "comes from a file (backend 2)",
        ),
        (
            &["record", "set", "none.test", "www", "A", "60", "192.0.2.1"],
            "there is no zone none.test.",
        ),
        (
            &["record", "add", "one.test", "www", "A", "60", "192.0.2.1"],
            "a CNAME stands alone",
        ),
        (
            &[
                "record",
                "set",
                "one.test",
                "www.two.test.",
                "A",
                "60",
                "192.0.2.1",
            ],
            "outside the zone",
        ),
        (
            &["record", "set", "one.test", "m", "MX", "60", "10 mail"],
            "no final dot",
        ),
        (
            &["record", "set", "one.test", "m", "MX", "60", "10", "mail"],
            "one argument",
        ),
        (
            &["record", "set", "one.test", "m", "A", "never", "192.0.2.1"],
            "expected a TTL",
        ),
        (
            &["record", "set", "one.test", "m", "NONE", "60", "192.0.2.1"],
            "no record type",
        ),
        (&["record", "delete", "one.test", "@"], "zone delete"),
        (
            &["zone", "create", "one.test", "--ns", "a.b"],
            "there already",
        ),
        (&["zone", "create", "two.test"], "--ns NAME"),
        (
            &[
                "zone",
                "create",
                "two.test",
                "--ns",
                "a.b",
                "--backend",
                "2",
            ],
            "is no database",
        ),
        (
            &["zone", "create", "two.test", "--kind", "secondary"],
            "--primary ADDRESS",
        ),
    ] {
        let error = fail(&server, arguments);
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
    run(
        &server,
        &[
            "zone",
            "create",
            "sec.test",
            "--kind",
            "secondary",
            "--primary",
            "192.0.2.53",
        ],
    );
    let error = fail(
        &server,
        &["record", "set", "sec.test", "www", "A", "60", "192.0.2.1"],
    );
    assert!(error.contains("change it at its primary"), "{error}");
}

#[test]
fn what_was_acknowledged_survives_the_end_of_the_server() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    let server = setup.config(&sqlite(&database, "live")).start();
    for i in 0..10 {
        let name = format!("h{i}");
        run(
            &server,
            &["record", "set", "one.test", &name, "A", "60", "192.0.2.7"],
        );
    }
    server.signal("KILL");
    let connection = rusqlite::Connection::open(&database.path).unwrap();
    let sql = "SELECT count(*) FROM records WHERE content = '192.0.2.7'";
    let count: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(count, 10);
    let sql = "SELECT content FROM records WHERE type = 'SOA'";
    let soa: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(
        soa.contains(" 11 "),
        "the serial was raised each time: {soa}"
    );
}

/// A database made with the schema of PowerDNS, if that is installed, and then told to tell of changes.
fn started(kind: DatabaseKind) -> Option<Database> {
    let Some(database) = Database::start(kind) else {
        eprintln!("{kind:?} is not installed: skipped");
        return None;
    };
    let database = database.unwrap();
    let schema = match kind {
        DatabaseKind::Postgres => "/usr/share/pdns-backend-pgsql/schema/schema.pgsql.sql",
        DatabaseKind::Mariadb => "/usr/share/pdns-backend-mysql/schema/schema.mysql.sql",
    };
    if let Ok(schema) = std::fs::read_to_string(schema) {
        database.run(&schema).unwrap();
    }
    let address = Address::parse(&database.url()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    assert_eq!(
        runtime.block_on(db::init(&address)).unwrap(),
        Vec::<String>::new()
    );
    Some(database)
}

fn backend(kind: DatabaseKind, database: &Database, mode: &str) -> String {
    let (name, url) = match kind {
        DatabaseKind::Postgres => ("postgres", database.url()),
        DatabaseKind::Mariadb => ("mysql", database.url()),
    };
    format!("[[backend]]\ntype = \"{name}\"\nurl = \"{url}\"\nmode = \"{mode}\"\n")
}

/// How long it takes until a server gives this answer.
fn time_until(server: &TestServer, name: &str, wanted: (u8, u8)) -> Duration {
    let start = Instant::now();
    while ask(server, name) != Some(wanted) {
        assert!(
            start.elapsed() < PATIENCE,
            "{name}: not {wanted:?}\n{}",
            server.log()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

/// Two servers on one database: what is changed through one is in its own next answer, and in those of the other within
/// a second. The fastest of some changes is judged, so that a busy machine fails nothing.
fn check_fleet(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let start = |mode: &str| {
        let config = backend(kind, &database, mode);
        Setup::new().without_web().config(&config).start()
    };
    let servers = [start("live"), start("resident")];
    run(
        &servers[0],
        &["zone", "create", "one.test", "--ns", "ns1.one.test"],
    );
    time_until_there(&servers[1]);
    let mut times = [Vec::new(), Vec::new()];
    for i in 1..=10u8 {
        let (through, other) = (usize::from(i % 2), usize::from((i + 1) % 2));
        let address = format!("192.0.2.{i}");
        // Kept by both, so that a cache that is not told would answer.
        let _ = servers
            .each_ref()
            .map(|server| ask(server, "www.one.test."));
        run(
            &servers[through],
            &["record", "set", "one.test", "www", "A", "300", &address],
        );
        assert_eq!(
            ask(&servers[through], "www.one.test."),
            Some((0, i)),
            "{kind:?}"
        );
        times[other].push(time_until(&servers[other], "www.one.test.", (0, i)));
    }
    for i in 11..=14u8 {
        let _ = servers
            .each_ref()
            .map(|server| ask(server, "www.one.test."));
        let sql = format!("UPDATE records SET content = '192.0.2.{i}' WHERE name = 'www.one.test'");
        database.run(&sql).unwrap();
        for (server, times) in servers.iter().zip(&mut times) {
            times.push(time_until(server, "www.one.test.", (0, i)));
        }
    }
    eprintln!("{kind:?}: changes were answered after {times:?}");
    for times in &times {
        let fastest = times.iter().min().unwrap();
        assert!(*fastest < Duration::from_secs(1), "{kind:?}: {times:?}");
    }
    check_without_triggers(kind, &database, &servers);
    run(&servers[1], &["zone", "delete", "one.test"]);
    assert_eq!(
        ask(&servers[1], "www.one.test.").map(|a| a.0),
        Some(REFUSED)
    );
    let count = database.run("SELECT count(*) FROM records").unwrap();
    assert_eq!(count.trim(), "0");
}

/// The one who writes tells the others where no trigger does.
fn check_without_triggers(kind: DatabaseKind, database: &Database, servers: &[TestServer; 2]) {
    let sql = match kind {
        DatabaseKind::Postgres => "DROP FUNCTION nameward_changed() CASCADE",
        DatabaseKind::Mariadb => {
            "DROP TRIGGER nameward_records_insert; DROP TRIGGER nameward_records_update; \
             DROP TRIGGER nameward_records_delete"
        }
    };
    database.run(sql).unwrap();
    for i in 21..=24u8 {
        let (through, other) = (usize::from(i % 2), usize::from((i + 1) % 2));
        let _ = servers
            .each_ref()
            .map(|server| ask(server, "www.one.test."));
        let address = format!("192.0.2.{i}");
        let arguments = ["record", "set", "one.test", "www", "A", "300", &address];
        run(&servers[through], &arguments);
        time_until(&servers[other], "www.one.test.", (0, i));
    }
}

fn time_until_there(server: &TestServer) {
    let start = Instant::now();
    while ask(server, "www.one.test.").map(|a| a.0) != Some(NXDOMAIN) {
        assert!(start.elapsed() < PATIENCE, "{}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn changes_go_to_the_primary_and_are_waited_for_at_the_replica() {
    let kind = DatabaseKind::Postgres;
    let Some(primary) = started(kind) else {
        return;
    };
    let replica = primary.replica().unwrap();
    let start = |mode: &str| {
        let backend = backend(kind, &primary, mode);
        let config = format!("{backend}replica_url = \"{}\"\n", replica.url());
        Setup::new().without_web().config(&config).start()
    };
    for mode in ["live", "resident"] {
        let server = start(mode);
        run(
            &server,
            &["zone", "create", "one.test", "--ns", "ns1.one.test"],
        );
        for i in 1..=5u8 {
            let address = format!("192.0.2.{i}");
            run(
                &server,
                &["record", "set", "one.test", "www", "A", "300", &address],
            );
            assert_eq!(ask(&server, "www.one.test."), Some((0, i)), "{mode}");
        }
        run(&server, &["zone", "delete", "one.test"]);
        assert_eq!(ask(&server, "www.one.test.").map(|a| a.0), Some(REFUSED));
    }
    let server = start("live");
    replica.run("SELECT pg_wal_replay_pause()").unwrap();
    let said = run(
        &server,
        &["zone", "create", "late.test", "--ns", "ns1.late.test"],
    );
    assert!(said.contains("the replica does not show"), "{said}");
    replica.run("SELECT pg_wal_replay_resume()").unwrap();
}

#[test]
fn two_servers_on_postgres_answer_with_a_change_within_a_second() {
    check_fleet(DatabaseKind::Postgres);
}

#[test]
fn two_servers_on_mariadb_answer_with_a_change_within_a_second() {
    check_fleet(DatabaseKind::Mariadb);
}
