//! TCP connections that clients keep open: the edns-tcp-keepalive option (RFC 7828) with dig and kdig.

use std::process::Command;

use nameward_testkit::{Setup, TestServer};

use super::ask::zone;

fn run(tool: &str, server: &TestServer, arguments: &[&str]) -> String {
    let port = server.address().port().to_string();
    let output = Command::new(tool)
        .args(["@127.0.0.1", "-p", &port])
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{tool} runs: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn dig_gets_the_idle_timeout_and_keeps_its_connection() {
    let config = "[server]\ntcp_idle_timeout_ms = 7500\n";
    let setup = Setup::new()
        .config(config)
        .zone("example.org", &zone("www"));
    let server = setup.start();
    let two = ["www.example.org", "A", "example.org", "SOA"];
    let printed = run(
        "dig",
        &server,
        &[&["+tcp", "+keepopen", "+keepalive"], &two[..]].concat(),
    );
    assert_eq!(
        printed.matches("; TCP KEEPALIVE: 7.5 secs").count(),
        2,
        "{printed}"
    );
    assert_eq!(printed.matches("status: NOERROR").count(), 2, "{printed}");
    let printed = run(
        "kdig",
        &server,
        &[&["+tcp", "+keepopen"], &two[..]].concat(),
    );
    assert_eq!(printed.matches("status: NOERROR").count(), 2, "{printed}");
    let printed = run(
        "dig",
        &server,
        &["+notcp", "+keepalive", "www.example.org", "A"],
    );
    assert!(
        !printed.contains("TCP KEEPALIVE") && printed.contains("NOERROR"),
        "{printed}"
    );
}
