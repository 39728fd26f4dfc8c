//! A running server as the primary of other brands: they get its zone, and each change of it, signed and unsigned.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nameward_dnssec::tsig::{TsigAlgorithm, TsigKey, TsigKeys, sign_request};
use nameward_testkit::mesh::{
    ChangingZone, KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshPeer, MeshRole, MeshSetup, ZoneSigner,
    compare, wait_for_serial,
};
use nameward_testkit::peers::{PeerKind, free_address};
use nameward_testkit::{Setup, TestServer};
use nameward_wire::NameBuf;

const ZONE: &str = "fleet.example";

/// A server that gives the zone to whoever has the key.
fn primary(text: &str) -> TestServer {
    let setup = Setup::new();
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    let config = format!(
        "[server]\nstate_directory = {state:?}\n\
         [[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n\
         [[zone]]\nname = \"{ZONE}\"\nallow_transfer = [\"key:{KEY_NAME}\"]\n"
    );
    setup.config(&config).zone(ZONE, text).start()
}

/// Sends a NOTIFY to a secondary, as its primary would.
fn notify(peer: SocketAddr) {
    let name: NameBuf = format!("{ZONE}.").parse().unwrap();
    let mut message = b"\x12\x34\x24\x00\x00\x01\0\0\0\0\0\0".to_vec();
    message.extend_from_slice(name.as_name().as_wire());
    message.extend_from_slice(&[0, 6, 0, 1]);
    let key_name: NameBuf = KEY_NAME.parse().unwrap();
    let secret = data_encoding::BASE64.decode(KEY_SECRET.as_bytes()).unwrap();
    let algorithm = TsigAlgorithm::from_word(KEY_ALGORITHM).unwrap();
    let mut keys = TsigKeys::default();
    keys.insert(TsigKey::new(key_name.as_name(), algorithm, &secret));
    let key = keys.find(key_name.as_name()).map(Arc::clone).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    sign_request(&key, &mut message, now.as_secs());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let patience = Some(Duration::from_millis(500));
    socket.set_read_timeout(patience).unwrap();
    // Until it is answered: a secondary that just starts may not hear the first.
    for _ in 0..20 {
        socket.send_to(&message, peer).unwrap();
        if socket.recv(&mut [0; 512]).is_ok() {
            return;
        }
    }
}

/// Lets a secondary follow a changing zone, signed by `signer` or not.
fn follow(kind: PeerKind, signer: Option<&ZoneSigner>) {
    if kind.require().is_none() {
        return;
    }
    let mut zone = ChangingZone::new(ZONE, 4_294_967_000, 150, 11);
    let text = |zone: &ChangingZone| match signer {
        Some(signer) => signer.sign(&zone.text()).unwrap(),
        None => zone.text(),
    };
    let server = primary(&text(&zone));
    let address = free_address().unwrap();
    let setup = MeshSetup {
        kind,
        role: MeshRole::Secondary,
        zone: ZONE,
        address,
        other: server.address(),
    };
    let peer = MeshPeer::start(&setup, "").unwrap_or_else(|error| panic!("{kind}: {error}"));
    for round in 0..5 {
        if round > 0 {
            zone.change(4);
            server.write_zone(ZONE, &text(&zone));
            assert!(server.command(&["reload"]).status.success());
            notify(address);
        }
        wait_for_serial(address, ZONE, zone.serial()).unwrap_or_else(|there| {
            let (log, ours) = (peer.log_tail(), server.log());
            panic!(
                "{kind}, round {round}: {there:?}, not {}\n{log}\n{ours}",
                zone.serial()
            )
        });
        compare(server.address(), address, ZONE)
            .unwrap_or_else(|difference| panic!("{kind}, round {round}: {difference}"));
    }
    // The line is written after the last message has left.
    assert!(server.wait_for_log("completed: serial"), "{}", server.log());
    let log = server.log();
    assert!(log.contains("AXFR to 127.0.0.1"), "{log}");
    // Differences, not whole zones: those have some hundred records. A zone that is signed anew is all differences.
    let incremental = log
        .lines()
        .filter(|line| line.contains("IXFR to 127.0.0.1"));
    let sizes = incremental.filter_map(|line| {
        let before = line.split(" records").next()?;
        before.rsplit(' ').next()?.parse::<u32>().ok()
    });
    let small = sizes.filter(|records| *records < 60).count();
    assert!(signer.is_some() || small >= 3, "{kind}: {log}");
    assert!(
        log.contains("IXFR to 127.0.0.1"),
        "{kind} asked for no IXFR: {log}"
    );
}

#[test]
fn bind_follows_a_zone_file() {
    follow(PeerKind::Bind, None);
}

#[test]
fn knot_follows_a_zone_file() {
    follow(PeerKind::Knot, None);
}

#[test]
fn nsd_follows_a_zone_file() {
    follow(PeerKind::Nsd, None);
}

#[test]
fn powerdns_follows_a_zone_file() {
    follow(PeerKind::PowerDns, None);
}

#[test]
fn bind_and_knot_follow_a_zone_file_that_is_signed() {
    let signer = ZoneSigner::new(ZONE, true).unwrap();
    follow(PeerKind::Bind, Some(&signer));
    follow(PeerKind::Knot, Some(&signer));
}

#[test]
fn transfers_are_for_nobody_unless_the_configuration_says_so() {
    let zone = ChangingZone::new(ZONE, 7, 20, 3);
    let server = TestServer::start("", &[(ZONE, &zone.text())]);
    let port = server.address().port().to_string();
    let output = std::process::Command::new("dig")
        .args(["@127.0.0.1", "-p", &port, "+tries=1", ZONE, "AXFR"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Transfer failed"), "{said}");
    assert!(
        server.wait_for_log("AXFR refused to 127.0.0.1"),
        "{}",
        server.log()
    );
    assert!(
        server
            .log()
            .contains("allow_transfer does not have the client")
    );
}
