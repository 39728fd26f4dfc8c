//! Changes and failures of a database while the server runs.

use super::probing_client::ProbingClient;
use super::rows::Sqlite;
use nameward_testkit::conformance::ZoneText;
use nameward_testkit::wire::{Exchange, Transport};
use nameward_testkit::{Setup, TestServer};
use nameward_wire::NameBuf;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for one answer; a query whose answer was dropped is repeated.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A small zone with `www`.
pub fn zone(name: &str, address: &str) -> ZoneText {
    ZoneText {
        name: name.into(),
        text: format!(
            "@ 3600 SOA ns1 host 1 7200 3600 1209600 300\n@ 3600 NS ns1\n\
             ns1 3600 A 192.0.2.1\nwww 60 A {address}\n"
        ),
    }
}

/// The response code, and the last octet of the last address; `None` for no answer.
pub fn ask(server: &TestServer, name: &str) -> Option<(u8, u8)> {
    let name: NameBuf = name.parse().unwrap();
    let mut packet = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0".to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&[0, 1, 0, 1]);
    let client = ProbingClient {
        address: server.address(),
        late: ANSWER_TIMEOUT,
    };
    let reply = client.exchange(Transport::Udp, &packet);
    let reply = reply.unwrap()?;
    Some((reply[3] & 15, reply[reply.len() - 1]))
}

/// Queries until this is the answer.
pub fn wait_for(server: &TestServer, name: &str, wanted: (u8, u8)) {
    let start = Instant::now();
    loop {
        let last = ask(server, name);
        if last == Some(wanted) {
            return;
        }
        assert!(
            start.elapsed() < TIMEOUT,
            "{name}: {last:?}, not {wanted:?}\n{}",
            server.log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads until the value is as wanted; otherwise fails with the last value.
pub fn wait_until<T: std::fmt::Debug>(
    server: &TestServer,
    mut read: impl FnMut() -> T,
    is_wanted: impl Fn(&T) -> bool,
) -> T {
    let start = Instant::now();
    loop {
        let last = read();
        if is_wanted(&last) {
            return last;
        }
        assert!(start.elapsed() < TIMEOUT, "{last:?}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A counter of a server.
pub fn counter(server: &TestServer, name: &str) -> u64 {
    let output = server.command(&["stats", name]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = text
        .split_whitespace()
        .nth(1)
        .and_then(|text| text.parse().ok());
    value.unwrap_or_else(|| panic!("{text}"))
}

/// Queries until the answer has this code.
pub fn wait_for_code(server: &TestServer, name: &str, code: u8) {
    let start = Instant::now();
    while ask(server, name).is_none_or(|answer| answer.0 != code) {
        assert!(start.elapsed() < TIMEOUT, "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub const REFUSED: u8 = 5;
pub const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

#[test]
fn a_change_in_sql_is_answered_in_both_modes() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        let server = setup.config(&database.backend(mode)).start();
        assert_eq!(ask(&server, "www.one.test."), Some((0, 10)));
        assert_eq!(ask(&server, "www.one.test."), Some((0, 10)));
        database.run("UPDATE records SET content = '192.0.2.11' WHERE name = 'www.one.test'");
        wait_for(&server, "www.one.test.", (0, 11));
        database.add(&zone("two.test", "192.0.2.12"));
        wait_for(&server, "www.two.test.", (0, 12));
        database.run("DELETE FROM records WHERE domain_id = 1; DELETE FROM domains WHERE id = 1");
        wait_for_code(&server, "www.one.test.", REFUSED);
        assert_eq!(ask(&server, "www.two.test."), Some((0, 12)));
    }
}

#[test]
fn the_first_of_two_backends_serves_their_common_zone_which_is_logged() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("both.test", "192.0.2.20"));
    database.add(&zone("own.test", "192.0.2.22"));
    // The test kit puts its file backend last.
    let setup = setup
        .config(&database.backend("live"))
        .zone("both.test", &zone("both.test", "192.0.2.21").file_text())
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text());
    let server = setup.start();
    wait_for(&server, "www.both.test.", (0, 20));
    assert_eq!(ask(&server, "www.own.test."), Some((0, 22)));
    assert_eq!(ask(&server, "www.file.test."), Some((0, 23)));
    assert!(
        server.wait_for_log(
            "zone both.test.: in both backend 1 and backend 2; served from backend 1"
        ),
        "{}",
        server.log()
    );
}

/// A database with the zone `late.test` that is not yet where the server expects it.
struct LateDatabase {
    hidden: Sqlite,
    place: PathBuf,
}

impl LateDatabase {
    fn new(directory: &Path) -> Self {
        let later = directory.join("later");
        std::fs::create_dir(&later).unwrap();
        let hidden = Sqlite::new(&later);
        hidden.add(&zone("late.test", "192.0.2.30"));
        LateDatabase {
            hidden,
            place: directory.join("zones.db"),
        }
    }

    fn backend(&self) -> String {
        format!(
            "[[backend]]\ntype = \"sqlite\"\npath = \"{}\"\n",
            self.place.display()
        )
    }

    /// Moves the database to where the server expects it.
    fn appear(&self) {
        for end in ["", "-wal", "-shm"] {
            let from = format!("{}{end}", self.hidden.path.display());
            let _ = std::fs::rename(from, format!("{}{end}", self.place.display()));
        }
    }
}

#[test]
fn a_database_that_is_missing_at_start_is_served_when_it_appears() {
    let setup = Setup::new().without_web();
    let late = LateDatabase::new(setup.dir());
    let server = setup
        .config(&late.backend())
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
        .start();
    assert_eq!(ask(&server, "www.file.test."), Some((0, 23)));
    assert_eq!(ask(&server, "www.late.test.").map(|a| a.0), Some(SERVFAIL));
    late.appear();
    wait_for(&server, "www.late.test.", (0, 30));
}

/// The state of a server as its command shows it.
fn status(server: &TestServer) -> String {
    String::from_utf8(server.command(&["status"]).stdout).unwrap()
}

#[test]
fn a_database_that_is_down_is_a_fault_until_it_is_back() {
    let setup = Setup::new();
    let late = LateDatabase::new(setup.dir());
    let server = setup.config(&late.backend()).start();
    let text = status(&server);
    let fault = format!(
        "  backend_lost: Backend 1 (sqlite:{}) does not respond: ",
        late.place.display()
    );
    assert!(text.contains(&fault), "{text}");
    assert!(
        text.contains("\n1        sqlite    live      down   2"),
        "{text}"
    );
    assert!(
        text.contains("\n2        file      resident  up     2"),
        "{text}"
    );
    late.appear();
    wait_for(&server, "www.late.test.", (0, 30));
    let start = Instant::now();
    while !status(&server).ends_with("\nfaults: none\n") {
        assert!(start.elapsed() < TIMEOUT, "{}", status(&server));
        std::thread::sleep(Duration::from_millis(20));
    }
    // The failure is still shown.
    let text = status(&server);
    assert!(
        text.contains("\n1        sqlite    live      up     2"),
        "{text}"
    );
    assert!(text.contains("\n         last error 2"), "{text}");
}

#[test]
fn answers_that_waited_for_a_database_are_in_the_query_log() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    let file = setup.dir().join("queries.log");
    let log = format!(
        "[query_log]\nenabled = true\nfile = \"{}\"\n",
        file.display()
    );
    let server = setup.config(&(log + &database.backend("live"))).start();
    wait_for(&server, "www.one.test.", (0, 10));
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.contains("query www.one.test. A from 127.0.0.1 port ") {
            break;
        }
        assert!(start.elapsed() < TIMEOUT, "{text}{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn rows_that_do_not_parse_fail_their_name_and_the_log_names_them() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        database.add(&zone("two.test", "192.0.2.12"));
        let insert = "INSERT INTO records (id, domain_id, name, type, content)";
        database.run(&format!(
            "{insert} VALUES (777, 1, 'bad.one.test', 'A', 'nonsense');
             {insert} VALUES (778, 1, 'sub.one.test', 'NS', 'a..b');
             {insert} VALUES (779, 2, 'two.test', 'SOA', 'a..b')"
        ));
        let server = setup.config(&database.backend(mode)).start();
        wait_for(&server, "www.one.test.", (0, 10));
        for name in ["bad.one.test.", "x.sub.one.test.", "www.two.test."] {
            assert_eq!(ask(&server, name).unwrap().0, SERVFAIL, "{mode}: {name}");
            assert!(server.command(&["stats"]).status.success());
        }
        assert_eq!(ask(&server, "nothing.one.test.").unwrap().0, NXDOMAIN);
        // Look-ups of one database log one failure in five seconds.
        let logged = match mode {
            "live" => &["table records, id 777: "][..],
            _ => &["table records, id 777: ", "id 778: ", "id 779: "][..],
        };
        for text in logged {
            assert!(server.wait_for_log(text), "{mode}: {}", server.log());
        }
        assert_eq!(counter(&server, "servfail-packets"), 3, "{mode}");
        database.run("UPDATE records SET content = '192.0.2.77' WHERE id = 777; DELETE FROM records WHERE id > 777");
        wait_for(&server, "bad.one.test.", (0, 77));
        wait_for_code(&server, "x.sub.one.test.", NXDOMAIN);
        wait_for(&server, "www.two.test.", (0, 12));
    }
}

#[test]
fn the_next_source_of_a_zone_takes_over_at_once() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (Sqlite::new(setup.dir()), Sqlite::new(directory.path()));
        first.add(&zone("both.test", "192.0.2.1"));
        second.add(&zone("both.test", "192.0.2.2"));
        second.add(&zone("second.test", "192.0.2.9"));
        let both = first.backend(mode) + &second.backend(mode);
        let server = setup
            .config(&both)
            .zone("both.test", &zone("both.test", "192.0.2.3").file_text())
            .start();
        wait_for(&server, "www.second.test.", (0, 9));
        wait_for(&server, "www.both.test.", (0, 1));
        let remove = "DELETE FROM records WHERE name LIKE '%both.test'; DELETE FROM domains WHERE name = 'both.test'";
        first.run(remove);
        wait_for(&server, "www.both.test.", (0, 2));
        second.run(remove);
        wait_for(&server, "www.both.test.", (0, 3));
        first.add(&zone("both.test", "192.0.2.4"));
        wait_for(&server, "www.both.test.", (0, 4));
        // The standby source is not lost when it changes or disappears.
        server.remove_zone("both.test");
        assert!(server.command(&["reload"]).status.success());
        first.run(remove);
        wait_for_code(&server, "www.both.test.", REFUSED);
    }
}

#[test]
fn a_zone_that_takes_the_name_of_another_is_served() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.1"));
        database.add(&zone("two.test", "192.0.2.2"));
        let server = setup.config(&database.backend(mode)).start();
        wait_for(&server, "www.one.test.", (0, 1));
        // Both change their names in one transaction.
        let rename = |id: u8, from: &str, to: &str| {
            format!(
                "UPDATE domains SET name = '{to}' WHERE id = {id};
                 UPDATE records SET name = replace(name, '{from}', '{to}'),
                   content = replace(content, '{from}', '{to}') WHERE domain_id = {id};"
            )
        };
        let (one, two) = (
            rename(1, "one.test", "new.test"),
            rename(2, "two.test", "one.test"),
        );
        database.run(&format!("BEGIN; {one} {two} COMMIT"));
        wait_for(&server, "www.one.test.", (0, 2));
        wait_for(&server, "www.new.test.", (0, 1));
        wait_for_code(&server, "www.two.test.", REFUSED);
    }
}

#[test]
fn without_triggers_unchanged_zones_are_not_rebuilt() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.1"));
    database.add(&zone("two.test", "192.0.2.2"));
    database.run("INSERT INTO records (id, domain_id, name, type, content) VALUES (777, 2, 'bad.two.test', 'A', 'x')");
    database.drop_triggers();
    let server = setup.config(&database.backend("resident")).start();
    wait_for(&server, "www.two.test.", (0, 2));
    for address in 10..13 {
        database.run(&format!(
            "UPDATE records SET content = '192.0.2.{address}' WHERE name = 'www.one.test'"
        ));
        wait_for(&server, "www.one.test.", (0, address));
    }
    // Each reload would log it again.
    let log = server.log();
    assert_eq!(log.matches("id 777").count(), 1, "{log}");
}

#[test]
fn caches_are_flushed_over_the_control_socket() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    let server = setup.config(&database.backend("live")).start();
    let flush = |what: &[&str]| {
        let output = server.command(&[&["cache", "flush"], what].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let dropped = |count: &str| format!("flushed {count}\n");
    // The packet cache stores an answer at the second query.
    let ask_twice = |name: &str| {
        ask(&server, name);
        ask(&server, name);
    };
    ask_twice("www.one.test.");
    ask_twice("ns1.one.test.");
    assert_eq!(flush(&["other.test$"]), dropped("0 cache entries"));
    assert_eq!(flush(&["www.one.test"]), dropped("2 cache entries"));
    assert_eq!(flush(&["one.test"]), dropped("0 cache entries"));
    // The entries of a name in two caches, and of its zone in two more.
    assert_eq!(flush(&["one.test$"]), dropped("4 cache entries"));
    ask_twice("www.one.test.");
    assert_eq!(flush(&[]), dropped("4 cache entries"));
}
