//! DNS over QUIC (RFC 9250), with aioquic: answers, transfers, client certificates, UPDATE, early data, Retry packets, and
//! clients that break its rules.

use super::{client_identity, counted, run_tool, setup};
use crate::databases::api_clients::clients;
use nameward_testkit::certificates::{Authority, IssuedCertificate, Validity};
use nameward_testkit::{Setup, TestServer};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

const LISTEN: &str = "[server]\nlisten_quic = [\"127.0.0.1:0\"]\n";

/// Runs a scenario of tests/clients/quic.py; returns its output.
fn scenario(server: &TestServer, name: &str) -> Option<String> {
    scenario_as(server, name, None)
}

/// As [`scenario`], with a client certificate.
fn scenario_as(
    server: &TestServer,
    name: &str,
    identity: Option<&IssuedCertificate>,
) -> Option<String> {
    let clients = clients()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/quic.py");
    let output = Command::new(clients.join("python/bin/python3"))
        .arg(script)
        .arg(name)
        .arg(server.dir().join("authority.pem"))
        .arg(server.encrypted("QUIC").port().to_string())
        .args(
            identity
                .into_iter()
                .flat_map(|it| [&it.certificate, &it.key]),
        )
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
fn early_data_is_answered_after_a_retry() {
    let server = setup(LISTEN).config("[quic]\nretry = \"always\"\n").start();
    let Some(_) = scenario(&server, "early_data_after_retry") else {
        return;
    };
    assert_eq!(counted(&server, "quic-queries"), 51);
}

#[test]
fn clients_show_their_addresses_while_many_handshakes_are_running() {
    // Long enough for all of them to be running at the same time.
    let long_timeout = "handshake_timeout_ms = 60000\n";
    let server = setup(LISTEN).config(long_timeout).start();
    scenario(&server, "retry_under_load");
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
fn datagrams_that_are_garbage_or_cut_short_leave_nothing_behind() {
    let server = setup(LISTEN).start();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.encrypted("QUIC")).unwrap();
    // A QUIC version 1 Initial with its two connection IDs, and nothing that can be decrypted.
    let mut initial = vec![0xc3, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 8];
    initial.extend([9; 8]);
    initial.extend([0, 0x44, 0x9e]);
    initial.resize(1200, 0x55);
    let unknown_version = [&[0xc3, 0xba, 0xba, 0xba, 0xba][..], &initial[5..]].concat();
    for round in 0..200 {
        let length = round * 6;
        // The server may have answered with an ICMP error by way of the kernel: that is not an error here.
        for datagram in [
            &initial[..length],
            &unknown_version[..length],
            &vec![round as u8; 1400],
        ] {
            let _ = socket.send(datagram);
        }
    }
    let Some(_) = scenario(&server, "queries") else {
        return;
    };
    assert_eq!(counted(&server, "quic-queries"), 50);
    server.wait_until("the connections are closed", || {
        counted(&server, "quic-connections-open") == 0
    });
}

#[test]
fn streams_that_are_not_finished_are_reset_and_violations_close_the_connection() {
    let server = setup(LISTEN).start();
    let Some(_) = scenario(&server, "violations") else {
        return;
    };
    scenario(&server, "queries");
}

/// A server that can store updates.
fn updatable() -> Setup {
    let setup = setup(&format!("{LISTEN}state_directory = \"state\"\n"));
    std::fs::create_dir(setup.dir().join("state")).unwrap();
    setup
}

#[test]
fn client_certificates_decide_about_queries_and_updates() {
    let setup = updatable();
    let clients = Authority::new(setup.dir(), "clients").unwrap();
    let (known, pinned) = client_identity(setup.dir(), &clients);
    let other = clients
        .issue("other", &["other.example"], Validity::Current)
        .unwrap();
    let server = setup
        .config(&format!(
            "client_ca = \"clients.pem\"\n[[zone]]\nname = \"example.org\"\n\
             allow_query = [\"tls-name:known.example\", \"tls-pin:{pin}\"]\n\
             allow_update = [\"127.0.0.1 tls-name:known.example\"]\n",
            pin = pinned.pin,
        ))
        .start();
    for (name, identity, expected) in [
        ("query", Some(&known), "NOERROR"),
        ("query", Some(&pinned), "NOERROR"),
        ("query", Some(&other), "REFUSED"),
        ("query", None, "REFUSED"),
        ("update", None, "REFUSED"),
        ("update", Some(&pinned), "REFUSED"),
        ("update", Some(&known), "NOERROR"),
    ] {
        let Some(output) = scenario_as(&server, name, identity) else {
            return;
        };
        assert_eq!(output.trim(), expected, "{name} {identity:?}");
    }
    assert_eq!(counted(&server, "dnsupdate-changes"), 1);
}

#[test]
fn a_replay_of_early_data_changes_nothing() {
    let server = updatable()
        .config(
            "[zone_defaults]\nallow_update = [\"127.0.0.1\"]\nallow_transfer = [\"127.0.0.1\"]\n",
        )
        .start();
    let Some(_) = scenario(&server, "early_changes") else {
        return;
    };
    // The one that broke off is waited for until its time is over.
    server.wait_until("all handshakes have ended", || {
        counted(&server, "tls-handshakes") + counted(&server, "tls-handshakes-failed") == 4
    });
    assert!(counted(&server, "tls-handshakes-failed") >= 1);
    // Of its messages only the query was answered.
    assert_eq!(counted(&server, "quic-queries"), 50 + 1 + 50 + 2);
    assert_eq!(counted(&server, "dnsupdate-queries"), 1);
    assert_eq!(counted(&server, "incoming-notifications"), 0);
    let ask = |name: &str| {
        let port = server.address().port();
        run_tool(
            &server,
            &format!("dig +short -p {port} @127.0.0.1 {name} A"),
        )
        .1
    };
    assert_eq!(ask("late.example.org").trim(), "192.0.2.77");
    assert_eq!(ask("early.example.org").trim(), "");
}
