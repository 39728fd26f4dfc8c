//! Changes through the server: in its next answer, in those of other servers on the database within a second, and in the
//! database when the command returns.

use super::operation::{ask, wait_for_code, zone};
use super::rows::Sqlite;
use nameward_sql::{DatabaseAddress, db};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::{Setup, TestServer};
use std::time::{Duration, Instant};

const REFUSED: u8 = 5;
const NXDOMAIN: u8 = 3;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the output of a command that succeeds.
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

#[test]
fn a_change_is_in_the_next_answer() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        let server = setup.config(&database.backend(mode)).start();
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
        // An empty non-terminal. Those of a live zone are read again after a pause where reading took long.
        wait_for_code(&server, "b.new.test.", 0);
        let shown = run(&server, &["zone", "show", "new.test"]);
        assert!(shown.contains("\nrecords 3\n"), "{shown}");
        assert!(shown.contains(&format!("\nmode {mode}\n")), "{shown}");
        let serial = shown.lines().find_map(|line| line.strip_prefix("serial "));
        let state = if mode == "live" { "live" } else { "current" };
        assert_eq!(
            run(&server, &["zone", "list"]),
            format!("new.test. native 1 {} {state} no\n", serial.unwrap())
        );
        run(&server, &["zone", "delete", "new.test"]);
        assert_eq!(ask(&server, "www.new.test.").map(|a| a.0), Some(REFUSED));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn unsupported_changes_are_refused_with_a_reason() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    database.add(&zone("sec.test", "192.0.2.11"));
    database.run(
        "UPDATE records SET type = 'CNAME', content = 'ns1.one.test' WHERE name = 'www.one.test';
         UPDATE domains SET type = 'SLAVE', master = '192.0.2.53' WHERE name = 'sec.test'",
    );
    let server = setup
        .config(&database.backend("live"))
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
        .start();
    for (arguments, reason) in [
        (
            &["record", "set", "file.test", "www", "A", "60", "192.0.2.1"][..],
            "set server.state_directory",
        ),
        (
            &["zone", "set", "file.test", "--kind", "primary"],
            "set server.state_directory",
        ),
        (
            &["record", "set", "none.test", "www", "A", "60", "192.0.2.1"],
            "zone none.test. not found",
        ),
        (
            &["record", "add", "one.test", "www", "A", "60", "192.0.2.1"],
            "a CNAME cannot coexist with other records",
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
            "outside zone",
        ),
        (
            &["record", "set", "one.test", "m", "MX", "60", "10 mail"],
            "no trailing dot",
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
            "unknown record type",
        ),
        (&["record", "delete", "one.test", "@"], "zone delete"),
        (
            &["zone", "create", "one.test", "--ns", "a.b"],
            "zone one.test. already exists",
        ),
        (
            &[
                "zone",
                "create",
                "two.test",
                "--ns",
                "a.b",
                "--backend",
                "9",
            ],
            "backend 9 cannot store new zones: it is neither a database",
        ),
        (
            &["zone", "create", "two.test", "--kind", "secondary"],
            "--primary ADDRESS[,KEY], once or more",
        ),
        (
            &["zone", "create", "two.test", "--kind", "producer"],
            "cannot create a zone of kind producer",
        ),
        (
            &["zone", "create", "two.test", "--kind", "odd"],
            "expected kind native, primary, secondary, producer or consumer",
        ),
    ] {
        let error = fail(&server, arguments);
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
    let error = fail(
        &server,
        &["record", "set", "sec.test", "www", "A", "60", "192.0.2.1"],
    );
    assert!(error.contains("change it at its primary"), "{error}");
}

#[test]
fn acknowledged_updates_survive_the_end_of_the_server() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    let server = setup.config(&database.backend("live")).start();
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

#[test]
fn records_are_listed_whole_and_those_not_served_are_comments() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    database.run(
        "INSERT INTO records (id, domain_id, name, type, content, ttl, disabled) VALUES \
         (501, 1, 'a..b.one.test', 'A', '192.0.2.1', 60, 0), \
         (502, 1, 'off.one.test', 'A', '192.0.2.2', 60, 1), \
         (503, 1, 'wrong.one.test', 'A', 'a' || char(10) || 'b' || char(27), 60, 0), \
         (504, 1, 'odd.one.test', 'NONSENSE', 'x', 60, 0)",
    );
    let server = setup.config(&database.backend("live")).start();
    let listed = run(&server, &["record", "list", "one.test"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(
        lines[0].starts_with("one.test. 3600 IN SOA ns1.one.test. "),
        "{listed}"
    );
    assert_eq!(lines[1], "one.test. 3600 IN NS ns1.one.test.");
    assert_eq!(lines.len(), 8, "{listed}");
    assert!(
        lines.contains(&"; disabled: off.one.test. 60 IN A 192.0.2.2"),
        "{listed}"
    );
    for id in [501, 503, 504] {
        let start = format!("; cannot be served, id {id}: ");
        assert!(
            lines.iter().any(|line| line.starts_with(&start)),
            "{listed}"
        );
    }
    assert!(!listed.contains('\u{1b}'), "{listed}");
    // Without its comments it is a zone file with what is served.
    let apex: nameward_wire::NameBuf = "one.test.".parse().unwrap();
    nameward_files::zone_from_text(apex.as_name(), "listed", listed.as_bytes()).unwrap();
    let json = run(&server, &["record", "list", "one.test", "off", "--json"]);
    assert_eq!(
        json,
        "{\"id\":502,\"name\":\"off.one.test.\",\"ttl\":60,\"type\":\"A\",\"content\":\"192.0.2.2\",\"disabled\":true}\n"
    );
}

#[test]
fn a_listing_of_more_than_16_mib_is_complete() {
    const ROWS: usize = 9_000;
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    database.run(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) \
         INSERT INTO records (domain_id, name, type, content, ttl) \
         SELECT 1, printf('h%05d.one.test', i), 'TXT', '\"' || hex(zeroblob(1000)) || '\"', 60 FROM n"
    ));
    let server = setup.config(&database.backend("live")).start();
    let listed = run(&server, &["record", "list", "one.test"]);
    assert!(listed.len() > 16 << 20, "{}", listed.len());
    assert_eq!(listed.lines().count(), ROWS + 4);
    let last = listed.lines().last().unwrap();
    assert!(last.starts_with("www.one.test. "), "{last}");
}

#[test]
fn a_clean_stop_leaves_a_file_that_can_be_copied() {
    for how in ["stop", "TERM"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        let server = setup.config(&database.backend("live")).start();
        assert_eq!(ask(&server, "www.one.test."), Some((0, 10)));
        let arguments = ["record", "set", "one.test", "www", "A", "60", "192.0.2.99"];
        run(&server, &arguments);
        let copies = tempfile::tempdir().unwrap();
        let copy = copies.path().join("copy.db");
        match how {
            "stop" => {
                run(&server, &["stop"]);
                // The command returned, so the server has ended.
                std::fs::copy(&database.path, &copy).unwrap();
            }
            signal => {
                server.signal(signal);
                // Its directory is deleted with the server, so a reader keeps the file open.
                let path = database.path.clone();
                let file = std::fs::File::open(&path).unwrap();
                assert_eq!(server.wait().code(), Some(0));
                std::io::copy(&mut &file, &mut std::fs::File::create(&copy).unwrap()).unwrap();
            }
        }
        let connection = rusqlite::Connection::open(&copy).unwrap();
        let sql = "SELECT content FROM records WHERE name = 'www.one.test'";
        let content: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(content, "192.0.2.99", "{how}");
    }
}

/// A database with the schema of PowerDNS, if that is installed, with the triggers of `nameward db init`.
pub fn started(kind: DatabaseKind) -> Option<Database> {
    let database = Database::start(kind)?.unwrap();
    let schema = match kind {
        DatabaseKind::Postgres => "/usr/share/pdns-backend-pgsql/schema/schema.pgsql.sql",
        DatabaseKind::Mariadb => "/usr/share/pdns-backend-mysql/schema/schema.mysql.sql",
    };
    if let Ok(schema) = std::fs::read_to_string(schema) {
        database.run(&schema).unwrap();
    }
    let address = DatabaseAddress::parse(&database.url()).unwrap();
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

pub fn backend(kind: DatabaseKind, database: &Database, mode: &str) -> String {
    let (name, url) = match kind {
        DatabaseKind::Postgres => ("postgres", database.url()),
        DatabaseKind::Mariadb => ("mysql", database.url()),
    };
    format!("[[backend]]\ntype = \"{name}\"\nurl = \"{url}\"\nmode = \"{mode}\"\n")
}

/// Measures how long it takes until a server gives this answer.
fn time_until(server: &TestServer, name: &str, wanted: (u8, u8)) -> Duration {
    let start = Instant::now();
    while ask(server, name) != Some(wanted) {
        assert!(
            start.elapsed() < TIMEOUT,
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
        // Kept by both, so that a cache without the notice would answer.
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
    let listed = run(&servers[0], &["record", "list", "one.test"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("one.test. 3600 IN SOA "), "{listed}");
    assert_eq!(
        lines[1..],
        [
            "one.test. 3600 IN NS ns1.one.test.",
            "www.one.test. 300 IN A 192.0.2.14"
        ]
    );
    check_without_triggers(kind, &database, &servers);
    run(&servers[1], &["zone", "delete", "one.test"]);
    assert_eq!(
        ask(&servers[1], "www.one.test.").map(|a| a.0),
        Some(REFUSED)
    );
    let count = database.run("SELECT count(*) FROM records").unwrap();
    assert_eq!(count.trim(), "0");
}

/// The writing server notifies the others where no trigger does.
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
        assert!(start.elapsed() < TIMEOUT, "{}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn changes_are_written_to_the_primary_and_awaited_on_the_replica() {
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
    let output = server.command(&["zone", "create", "late.test", "--ns", "ns1.late.test"]);
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(warned.contains("the replica does not have"), "{warned}");
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
