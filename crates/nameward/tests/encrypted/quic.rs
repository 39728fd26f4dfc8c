//! DNS over QUIC (RFC 9250), with aioquic: answers, transfers, Retry packets, and clients that break its rules.

use super::{counted, setup};
use crate::databases::api_clients::clients;
use nameward_testkit::TestServer;
use std::path::Path;
use std::process::Command;

const LISTEN: &str = "[server]\nlisten_quic = [\"127.0.0.1:0\"]\n";

/// Runs a scenario of tests/clients/quic.py; returns its output.
fn scenario(server: &TestServer, name: &str) -> Option<String> {
    let clients = clients()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/quic.py");
    let output = Command::new(clients.join("python/bin/python3"))
        .arg(script)
        .arg(name)
        .arg(server.dir().join("authority.pem"))
        .arg(server.encrypted("QUIC").port().to_string())
        .output()
        .expect("Python can be run");
    assert!(output.status.success(), "{name}: {output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn queries_share_a_connection_and_sessions_are_resumed_with_early_data() {
    let server = setup(LISTEN).start();
    let Some(_) = scenario(&server, "early_data") else {
        return;
    };
    assert_eq!(counted(&server, "quic-queries"), 51);
    assert_eq!(counted(&server, "quic4-answers"), 51);
    // A client that leaves at once may be gone before its handshake is noted.
    server.wait_until("both handshakes have ended", || {
        counted(&server, "tls-handshakes") + counted(&server, "tls-handshakes-failed") == 2
    });
    server.wait_until("the connections are closed", || {
        counted(&server, "quic-connections-open") == 0
    });
}

#[test]
fn clients_show_their_addresses_where_that_is_configured() {
    let server = setup(LISTEN).config("[quic]\nretry = \"always\"\n").start();
    let Some(_) = scenario(&server, "queries") else {
        return;
    };
    assert_eq!(counted(&server, "quic-queries"), 50);
}

#[test]
fn a_zone_is_transferred_over_quic() {
    let mut zone = super::ZONE.to_owned();
    for number in 0..20_000 {
        zone += &format!("host{number} A 198.51.100.{}\n", number % 256);
    }
    let server = setup(LISTEN)
        .zone("example.org", &zone)
        .config("[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n")
        .start();
    scenario(&server, "transfer");
}

#[test]
fn streams_that_are_not_finished_are_reset_and_violations_close_the_connection() {
    let server = setup(LISTEN).start();
    let Some(_) = scenario(&server, "violations") else {
        return;
    };
    scenario(&server, "queries");
}
