//! Transfers of zones that take longer to sign than any secondary waits for an octet: they arrive while they are signed.

use super::secure::{check_transfer, done};
use nameward_testkit::{Setup, TestServer};

const ZONE: &str = "large.test";

/// A server that signs with RSA, and has a hundredth of the machine for it.
fn slow_signer(hosts: usize) -> (TestServer, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut text = String::from(
        "$TTL 300\n@ SOA ns1 hostmaster 10 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n",
    );
    for host in 0..hosts {
        text += &format!("host{host} A 192.0.2.7\n");
    }
    let config = format!(
        "[server]\nstate_directory = {:?}\n[overload]\nsigning_cpu_percent = 1\n\
         [[zone]]\nname = \"{ZONE}\"\nallow_transfer = [\"127.0.0.0/8\"]\n",
        home.path().join("state")
    );
    let setup = Setup::new().without_web().config(&config);
    let server = setup.zone(ZONE, &text).start();
    done(&server, &["zone", "secure", ZONE, "--algorithm", "8"]);
    (server, home)
}

/// Transfers and verifies a zone with this many hosts while it is signed.
fn check_slow_transfer(hosts: usize) {
    let (server, home) = slow_signer(hosts);
    check_transfer(server.address(), ZONE, home.path());
    // The line is written after the last message has left.
    assert!(
        server.wait_for_log("completed: serial "),
        "{}",
        server.log()
    );
    assert!(server.log().contains("AXFR to 127.0.0.1:"));
}

#[test]
fn a_zone_that_is_signed_for_seconds_arrives_whole_and_verifies() {
    check_slow_transfer(120);
}

mod long {
    #[test]
    #[ignore = "scripts/long-tests"]
    fn a_zone_that_is_signed_for_a_minute_arrives_whole_and_verifies() {
        super::check_slow_transfer(700);
    }
}
