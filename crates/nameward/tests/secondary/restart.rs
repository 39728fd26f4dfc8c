//! A secondary that is killed at any moment of a storm of differences: after each start it serves a version that its
//! primary had, at once and no older than it served before, and needs no whole transfer again.
//!
//! `KILLS=n` makes it n rounds; `scripts/kill-tests` does so.

use super::primary::{
    IXFR, Primary, Reply, ReplyEnd, TransferRequest, Version, difference, frame, honest, message,
    soa,
};
use super::{address, serial};
use nameward_testkit::{Setup, TestServer};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

const TIMES: [u32; 4] = [1, 1, 86_400, 60];

fn version(serial: u32) -> Version {
    Version {
        serial,
        times: TIMES,
    }
}

fn start(state: &std::path::Path, primary: &Primary) -> TestServer {
    Setup::new()
        .without_web()
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"example\"\nkind = \"secondary\"\n\
             primaries = [{{ address = \"{}\" }}]\n",
            primary.address
        ))
        .start()
}

#[test]
fn a_secondary_that_is_killed_continues_from_its_last_version() {
    let rounds = std::env::var("KILLS").ok();
    let rounds: u64 = rounds.and_then(|text| text.parse().ok()).unwrap_or(3);
    let state = tempfile::tempdir().unwrap();
    let primary = Primary::start(version(1));
    // The primary gives the whole zone once; then differences from whatever the secondary has.
    primary.set_script(move |request: &TransferRequest| {
        let Some(have) = request.have.filter(|_| request.qtype == IXFR) else {
            return honest(request);
        };
        let (mut list, newest) = (vec![soa(request.version)], request.version.serial);
        for serial in have..newest {
            list.extend(difference(version(serial), version(serial + 1)));
        }
        list.push(soa(request.version));
        Reply {
            octets: frame(&message(request.id, request.qtype, &list)),
            end: ReplyEnd::Close,
        }
    });
    let mut server = start(state.path(), &primary);
    server.wait_until("the first transfer", || {
        serial(server.address(), "example") == Some(1)
    });
    let mut newest = 1;
    for round in 0..rounds {
        // A storm: a new version every few milliseconds, requested at once.
        let is_over = AtomicBool::new(false);
        let seen = AtomicU32::new(newest);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    if let Some(now) = serial(server.address(), "example") {
                        seen.fetch_max(now, Ordering::SeqCst);
                        if now == primary.serial() {
                            primary.set_serial(now + 1);
                        }
                    }
                    let _ = server.command(&["zone", "retrieve", "example"]);
                }
            });
            thread::sleep(Duration::from_millis(900 + 170 * (round * 7 % 5)));
            server.signal("KILL");
            is_over.store(true, Ordering::SeqCst);
        });
        let before = seen.load(Ordering::SeqCst);
        drop(server);
        let whole = primary.whole.load(Ordering::SeqCst);
        primary.set_silent(true);
        server = start(state.path(), &primary);
        // At once, and without asking anybody: the primary is silent.
        let now = serial(server.address(), "example").unwrap();
        assert!(now >= before, "round {round}: {now} after {before}");
        assert_eq!(
            address(server.address(), "www.example"),
            Some(now as u8),
            "round {round}"
        );
        primary.set_silent(false);
        newest = now.max(primary.serial()) + 1;
        primary.set_serial(newest);
        let _ = server.command(&["zone", "retrieve", "example"]);
        server.wait_until("the newest version", || {
            serial(server.address(), "example") == Some(newest)
        });
        assert_eq!(primary.whole.load(Ordering::SeqCst), whole, "round {round}");
    }
    assert!(primary.incremental.load(Ordering::SeqCst) > 0);
}

#[test]
fn the_first_check_after_a_start_is_repeated_soon_if_it_fails() {
    let state = tempfile::tempdir().unwrap();
    let mut primary = Primary::start(Version {
        serial: 1,
        // A refresh that is due at the start, and a retry time of an hour.
        times: [1, 3_600, 86_400, 60],
    });
    let server = start(state.path(), &primary);
    server.wait_until("the first transfer", || {
        serial(server.address(), "example") == Some(1)
    });
    assert!(server.stop().success());
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    primary.address = closed.local_addr().unwrap();
    drop(closed);
    let server = start(state.path(), &primary);
    server.wait_until("the first check fails", || {
        server.log().contains("refresh failed (1 in a row)")
    });
    assert!(
        server.log().contains("retrying in 10 s"),
        "{}",
        server.log()
    );
    server.wait_until("the second check fails", || {
        server.log().contains("refresh failed (2 in a row)")
    });
    assert!(
        server.log().contains("retrying in 3600 s"),
        "{}",
        server.log()
    );
    assert_eq!(serial(server.address(), "example"), Some(1));
}
