//! Servers on one database that share the results of health checks: a target that some of them cannot reach, states
//! forced by an operator, servers that stop, and a database that is down for a while.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::{Setup, TestServer};

use super::rows::Sqlite;
use super::servers::{backend, started};
use crate::lua::ask;
use crate::operation::secure::done;

const ZONE: &str = "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\nwww LUA A \"pool('web')\"\n";
const FAST: &str = "127.0.0.2";
/// Answers after [`DELAY`]: servers with a shorter timeout consider it down.
const SLOW: &str = "127.0.0.3";
const DELAY: Duration = Duration::from_secs(2);
/// Timeouts of servers.
const SHORT_TIMEOUT_MS: u32 = 1000;
const LONG_TIMEOUT_MS: u32 = 30_000;

/// Answers HTTP requests on both addresses; returns the port.
fn targets() -> u16 {
    let fast = TcpListener::bind((FAST, 0)).unwrap();
    let port = fast.local_addr().unwrap().port();
    let slow = TcpListener::bind((SLOW, port)).unwrap();
    for (listener, delay) in [(fast, Duration::ZERO), (slow, DELAY)] {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let _ = stream.read(&mut [0; 1024]);
                    std::thread::sleep(delay);
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                });
            }
        });
    }
    port
}

fn start(backend: &str, port: u16, timeout: u32) -> TestServer {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    let config = format!(
        "[server]\nstate_directory = {state:?}\n[health]\ninterval = 1\nshare = true\n\
         [[pool]]\nname = \"web\"\nmembers = [\"{FAST}\", \"{SLOW}\"]\nanswers = 0\nall_down = \"empty\"\n\
         check = \"http\"\nport = {port}\nhost = \"www.up.test\"\ntimeout_ms = {timeout}\n{backend}"
    );
    setup.config(&config).zone("up.test", ZONE).start()
}

fn answered(server: &TestServer) -> Vec<String> {
    let (_, answers) = ask(server.address(), "127.0.0.1", &["www.up.test", "A"]);
    let data = answers.iter().filter_map(|line| line.split(' ').nth(4));
    data.map(str::to_owned).collect()
}

/// Waits until a server answers with some addresses, and lists the slow target with a text.
fn wait_for(server: &TestServer, addresses: &[&str], text: &str) {
    server.wait_until(&format!("{addresses:?}, {text}"), || {
        let list = done(server, &["health", "list"]);
        let mut slow = list.lines().filter(|line| line.contains(SLOW));
        answered(server) == addresses && slow.any(|line| line.contains(text))
    });
}

/// Votes, states forced by an operator, and a server that stops.
fn check(backend: &str) -> (u16, TestServer, TestServer) {
    let port = targets();
    let one = start(backend, port, SHORT_TIMEOUT_MS);
    let two = start(backend, port, SHORT_TIMEOUT_MS);
    wait_for(&one, &[FAST], "up at 0 of 2 servers (timed out)");
    wait_for(&two, &[FAST], "up at 0 of 2 servers (timed out)");
    // The third server reaches it, but two of three do not.
    let three = start(backend, port, LONG_TIMEOUT_MS);
    wait_for(&three, &[FAST], "up at 1 of 3 servers");
    assert!(done(&three, &["status"]).contains("shared with 2 other servers"));
    let list = done(&three, &["health", "list"]);
    assert!(list.contains("down     127.0.0.3"), "{list}");
    three.wait_until("the fault", || {
        done(&three, &["status"]).contains("down at 2 other servers")
    });

    // A state forced on one server applies to all of them.
    done(&two, &["health", "force", SLOW, "up"]);
    for server in [&one, &three] {
        wait_for(server, &[FAST, SLOW], "forced up");
    }
    done(&one, &["health", "force", SLOW, "auto"]);
    for server in [&two, &three] {
        wait_for(server, &[FAST], "1 of 3 servers");
    }

    // One of two: it stays in service, on both.
    assert!(one.stop().success());
    for server in [&two, &three] {
        wait_for(server, &[FAST, SLOW], "up at 1 of 2 servers");
    }
    (port, two, three)
}

fn started_database(kind: DatabaseKind) -> Option<(Database, String)> {
    let database = started(kind)?;
    let backend = backend(kind, &database.url(), "live");
    Some((database, backend))
}

#[test]
fn postgres_shares_health_and_without_it_each_server_uses_its_own_checks() {
    let Some((mut database, backend)) = started_database(DatabaseKind::Postgres) else {
        return;
    };
    let (port, two, three) = check(&backend);
    done(&three, &["health", "force", FAST, "down"]);
    wait_for(&two, &[SLOW], "up at 1 of 2 servers");
    database.kill();
    two.wait_until("the fault", || {
        let status = done(&two, &["status"]);
        status.contains("Results of health checks are not shared through")
    });
    // The forced state remains, and the checks of others count for twenty seconds.
    wait_for(&two, &[], "down     127.0.0.3");
    wait_for(&three, &[SLOW], "up       127.0.0.3");
    done(&two, &["health", "force", FAST, "auto"]);
    assert_eq!(answered(&two), [FAST]);
    assert_eq!(answered(&three), [SLOW]);
    database.restart().unwrap();
    for server in [&two, &three] {
        wait_for(server, &[FAST, SLOW], "up at 1 of 2 servers");
    }
    two.wait_until("no fault", || {
        !done(&two, &["status"]).contains("are not shared")
    });
    // A server that starts has the states that an operator forced before.
    done(&two, &["health", "force", FAST, "down"]);
    wait_for(&three, &[SLOW], "up at 1 of 2 servers");
    assert!(two.stop().success());
    let four = start(&backend, port, LONG_TIMEOUT_MS);
    wait_for(&four, &[SLOW], "up at 2 of 2 servers");
}

#[test]
fn mariadb_shares_health() {
    if let Some((_database, backend)) = started_database(DatabaseKind::Mariadb) {
        check(&backend);
    }
}

#[test]
fn sqlite_shares_health() {
    let directory = tempfile::tempdir().unwrap();
    let database = Sqlite::new(directory.path());
    check(&database.backend("live"));
}

#[test]
fn a_database_without_the_tables_is_a_fault_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let database = Sqlite::new(directory.path());
    database.run("DROP TABLE nameward_health; DROP TABLE nameward_health_servers");
    let port = targets();
    let server = start(&database.backend("live"), port, SHORT_TIMEOUT_MS);
    server.wait_until("the fault", || {
        done(&server, &["status"]).contains("`nameward db init` creates the tables")
    });
    server.wait_until("its own checks", || answered(&server) == [FAST]);
}
