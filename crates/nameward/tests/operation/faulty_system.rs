//! A server on a system that fails: disk errors, a slow and a hanging disk, no descriptors, no memory, a clock that jumps. Queries are
//! answered, nothing acknowledged is lost, a fault says what is wrong, and all is well when the system is.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nameward_testkit::{Fault, FaultySystem, Setup, TestServer};

use super::ask::{answered_address, rcode, serial};
use super::secure::dig;
use super::update::ZONE;
use super::update_kill::{address_of, client, update};

const EIO: i32 = 5;
const ENOMEM: i32 = 12;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const DAY: i64 = 86_400;
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server on a faulty system; the directory with all its files outlives it.
fn start(home: &Path, system: &FaultySystem, settings: &str) -> TestServer {
    let file = home.join("dyn.zone");
    if !file.exists() {
        fs::write(&file, ZONE).unwrap();
    }
    let mut setup = Setup::new().without_web().config(&format!(
        "[server]\nstate_directory = {:?}\n\
         [[zone]]\nname = \"dyn.example\"\nfile = {file:?}\nallow_update = [\"127.0.0.1\"]\n{settings}",
        home.join("state")
    ));
    for (name, value) in system.environment() {
        setup = setup.environment(name, value);
    }
    setup.start()
}

/// Sends an update that adds a name with this number; its response code.
fn add(server: &TestServer, number: u32) -> Option<u16> {
    let socket = client(server.address(), TIMEOUT);
    let name = format!("n{number}.dyn.example");
    update(&socket, number as u16, &name, address_of(number))
}

fn has(server: &TestServer, number: u32) -> bool {
    let found = answered_address(server.address(), &format!("n{number}.dyn.example"));
    found == Some(address_of(number))
}

fn status(server: &TestServer) -> String {
    let output = server.command(&["status", "--json"]);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn disk_errors_refuse_changes_with_a_fault_and_lose_nothing() {
    let (home, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let system = FaultySystem::new(tools.path(), home.path());
    let mut server = start(home.path(), &system, "");
    let mut acknowledged = Vec::new();
    let faults = [
        (Fault::Write(EIO), Fault::Write(0)),
        (Fault::Write(ENOSPC), Fault::Write(0)),
        (Fault::Sync(EIO), Fault::Sync(0)),
    ];
    for (round, (fault, end)) in faults.into_iter().enumerate() {
        let first = round as u32 * 100;
        assert_eq!(add(&server, first), Some(0), "{}", server.log());
        acknowledged.push(first);
        system.set(fault);
        let refused = add(&server, first + 1);
        assert_eq!(
            refused,
            Some(2),
            "SERVFAIL under {fault:?}: {}",
            server.log()
        );
        assert!(!has(&server, first + 1), "what failed is not served");
        assert_eq!(rcode(server.address(), "dyn.example"), 0);
        server.wait_until("a fault", || status(&server).contains("state_store"));
        system.set(end);
        let mut next = first + 2;
        server.wait_until("changes are possible again", || {
            next += 1;
            add(&server, next) == Some(0)
        });
        acknowledged.push(next);
        server.wait_until("the fault ends", || {
            !status(&server).contains("state_store")
        });
        server.signal("KILL");
        drop(server);
        server = start(home.path(), &system, "");
        for &number in &acknowledged {
            assert!(has(&server, number), "n{number} after {fault:?}");
        }
    }
}

#[test]
fn queries_are_answered_while_the_disk_hangs_and_changes_wait() {
    let (home, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let system = FaultySystem::new(tools.path(), home.path());
    let server = start(home.path(), &system, "");
    assert_eq!(add(&server, 1), Some(0));
    system.set(Fault::Hang(1));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| add(&server, 2));
        for _ in 0..100 {
            assert!(has(&server, 1));
        }
        server.wait_until("a fault", || status(&server).contains("state_store"));
        assert!(!has(&server, 2), "served before it is durable");
        system.set(Fault::Hang(0));
        assert_eq!(waiting.join().unwrap(), Some(0));
    });
    assert!(has(&server, 2));
    server.wait_until("the fault ends", || {
        !status(&server).contains("state_store")
    });
}

#[test]
fn a_slow_disk_delays_changes_and_answers_no_query_late() {
    let (home, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let system = FaultySystem::new(tools.path(), home.path());
    let server = start(home.path(), &system, "");
    system.set(Fault::SlowSync(300));
    thread::scope(|scope| {
        let changes: Vec<_> = (0..8)
            .map(|number| {
                scope.spawn({
                    let server = &server;
                    move || add(server, number)
                })
            })
            .collect();
        for _ in 0..100 {
            assert_eq!(rcode(server.address(), "dyn.example"), 0);
        }
        for change in changes {
            assert_eq!(change.join().unwrap(), Some(0));
        }
    });
    assert!((0..8).all(|number| has(&server, number)));
}

#[test]
fn without_descriptors_or_memory_datagrams_are_answered_and_connections_wait() {
    let (home, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let system = FaultySystem::new(tools.path(), home.path());
    let server = start(home.path(), &system, "");
    for (number, error) in [(1, EMFILE), (2, ENOMEM)] {
        system.set(Fault::Accept(error));
        system.set(Fault::Open(error));
        let connection = TcpStream::connect(server.address()).unwrap();
        assert!(server.wait_for_log("cannot accept TCP connections"));
        assert_eq!(rcode(server.address(), "dyn.example"), 0);
        assert_eq!(add(&server, number), Some(0), "the state store is open");
        drop(connection);
        system.set(Fault::Accept(0));
        system.set(Fault::Open(0));
        let answer = dig(server.address(), &["dyn.example", "SOA", "+tcp", "+short"]);
        assert!(answer.starts_with("ns1."), "{answer}");
    }
}

#[test]
fn signatures_are_valid_whenever_the_clock_is_set() {
    let (home, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let system = FaultySystem::new(tools.path(), home.path());
    let policy = "dnssec_policy = \"p\"\n[[dnssec_policy]]\nname = \"p\"\n";
    let server = start(home.path(), &system, policy);
    let now = || {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        i64::try_from(since.as_secs()).unwrap()
    };
    let mut number = 0;
    for jump in [0, 30 * DAY, 3650 * DAY, 0, -30 * DAY, 0] {
        system.set(Fault::Clock(jump));
        server.wait_until("a signature that is valid now", || {
            let answer = dig(
                server.address(),
                &["dyn.example", "SOA", "+dnssec", "+short", "+nocookie"],
            );
            let signature = answer.lines().find(|line| line.starts_with("SOA "));
            let Some(signature) = signature else {
                return false;
            };
            let fields: Vec<&str> = signature.split(' ').collect();
            let (until, from) = (time(fields[4]), time(fields[5]));
            let clock = now() + jump;
            from <= clock && clock < until
        });
        number += 1;
        assert_eq!(add(&server, number), Some(0), "{}", server.log());
        assert!(has(&server, number));
    }
    assert!(serial(server.address(), "dyn.example") >= 10 + number);
}

/// Seconds since 1970 of a time as in RRSIG records: YYYYMMDDHHMMSS.
fn time(text: &str) -> i64 {
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap();
    let (year, month, day) = (number(0, 4), number(4, 6), number(6, 8));
    // Days since 1970 by the rule for Gregorian years that start in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    days * DAY + number(8, 10) * 3600 + number(10, 12) * 60 + number(12, 14)
}
