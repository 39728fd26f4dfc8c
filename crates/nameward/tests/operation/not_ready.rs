//! Zones that are known but cannot be answered for: SERVFAIL, counted as a failure of their source.

use nameward_testkit::{Setup, TestServer};

use super::ask::{eventually, rcode, zone};

const SERVFAIL: u16 = 2;
const REFUSED: u16 = 5;

fn broken() -> String {
    zone("www").replace("192.0.2.2", "here")
}

pub fn counter(server: &TestServer, name: &str) -> u64 {
    let output = server.command(&["stats", name]);
    let text = String::from_utf8(output.stdout).unwrap();
    let value = text.split_ascii_whitespace().nth(1);
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[test]
fn a_zone_with_errors_is_answered_servfail_until_it_is_fixed() {
    let server = Setup::new()
        .zone("good.example", &zone("www"))
        .zone("bad.example", &broken())
        .start();
    let at = server.address();
    assert_eq!(rcode(at, "www.good.example"), 0);
    assert_eq!(rcode(at, "www.bad.example"), SERVFAIL);
    assert_eq!(rcode(at, "www.other.example"), REFUSED);
    assert!(server.wait_for_log("no previous version to serve; answered SERVFAIL"));
    let failed = eventually(|| counter(&server, "servfail-packets"), |n| *n == 1);
    assert_eq!(failed, 1);
    assert_eq!(counter(&server, "ring-servfail-queries-size"), 1);

    server.write_zone("bad.example", &zone("www"));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(rcode(at, "www.bad.example"), 0);
}

#[test]
fn a_new_zone_with_errors_is_servfail_and_refused_again_when_it_is_gone() {
    let server = TestServer::start("", &[("good.example", &zone("www"))]);
    let at = server.address();
    assert_eq!(rcode(at, "www.bad.example"), REFUSED);
    server.write_zone("bad.example", &broken());
    assert!(!server.command(&["reload"]).status.success());
    assert_eq!(rcode(at, "www.bad.example"), SERVFAIL);
    server.remove_zone("bad.example");
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(rcode(at, "www.bad.example"), REFUSED);
}
