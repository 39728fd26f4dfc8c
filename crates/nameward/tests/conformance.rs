//! The conformance suite against the real server, through its sockets, over UDP and TCP.

use nameward_testkit::conformance::{self, Judge, Suite};
use nameward_testkit::wire::Sockets;
use nameward_testkit::{Setup, TestFailure, TestServer};
use std::net::SocketAddr;
use std::path::Path;

fn suites() -> Vec<Suite> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    conformance::read_all(&directory).expect("every file of the suite reads")
}

fn serve(suite: &Suite) -> Result<TestServer, TestFailure> {
    let setup = Setup::new().without_web().config(&suite.config);
    let add =
        |setup: Setup, zone: &conformance::ZoneText| setup.zone(&zone.name, &zone.file_text());
    let setup = suite.zones.iter().fold(setup, add);
    setup
        .try_start()
        .map_err(|failure| format!("{}: {failure}", suite.path.display()).into())
}

/// Runs every file against its own server, reached at the address that `address` selects.
fn complaints(address: fn(&TestServer) -> SocketAddr) -> Vec<String> {
    let mut complaints = Vec::new();
    for suite in suites() {
        match serve(&suite) {
            Err(error) => complaints.push(error.to_string()),
            Ok(server) => {
                let sockets = Sockets {
                    address: address(&server),
                };
                let outcome = conformance::run(&suite, &sockets, Judge::Strict, None);
                complaints.extend(outcome.failures.iter().map(ToString::to_string));
            }
        }
    }
    complaints
}

#[test]
fn the_server_conforms_to_the_suite() {
    let complaints = complaints(TestServer::address);
    assert!(
        complaints.is_empty(),
        "{} complaints\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

#[test]
fn the_server_conforms_to_the_suite_over_ipv6() {
    let complaints = complaints(TestServer::address_v6);
    assert!(
        complaints.is_empty(),
        "{} complaints\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}
