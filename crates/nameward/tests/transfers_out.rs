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
use nameward_testkit::{Setup, TestServer, wait_until};
use nameward_wire::NameBuf;

const ZONE: &str = "fleet.example";

/// A server that transfers the zone to every client with the key.
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
    let time_limit = Some(Duration::from_millis(500));
    socket.set_read_timeout(time_limit).unwrap();
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
    // Differences, not whole zones: those have some hundred records. A zone that is signed again consists of differences only.
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
fn transfers_are_refused_unless_configured() {
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
        server.wait_for_log(": AXFR to 127.0.0.1"),
        "{}",
        server.log()
    );
    assert!(server.log().contains("not in allow_transfer"));
}

/// A server whose zone is signed by command, and a secondary of another brand that follows it.
fn secure_for(kind: PeerKind) {
    if kind.require().is_none() {
        return;
    }
    let zone = ChangingZone::new(ZONE, 10, 20, 11);
    let address = free_address().unwrap();
    let setup = Setup::new();
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    let config = format!(
        "[server]\nstate_directory = {state:?}\n\
         [[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n\
         [[zone]]\nname = \"{ZONE}\"\nkind = \"primary\"\nallow_transfer = [\"key:{KEY_NAME}\"]\n\
         also_notify = [{{ address = \"{address}\", key = \"{KEY_NAME}\" }}]\n"
    );
    let server = setup.config(&config).zone(ZONE, &zone.text()).start();
    let setup = MeshSetup {
        kind,
        role: MeshRole::Secondary,
        zone: ZONE,
        address,
        other: server.address(),
    };
    let peer = MeshPeer::start(&setup, "").unwrap_or_else(|error| panic!("{kind}: {error}"));
    let run = |arguments: &[&str]| -> String {
        let output = server.command(arguments);
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kind}: {arguments:?}: {text}");
        text.into_owned()
    };
    let followed = |serial: u32| {
        wait_for_serial(address, ZONE, serial).unwrap_or_else(|there| {
            let (log, ours) = (peer.log_tail(), server.log());
            panic!("{kind}: {there:?}, not {serial}\n{log}\n{ours}")
        });
        compare(server.address(), address, ZONE)
            .unwrap_or_else(|difference| panic!("{kind}, serial {serial}: {difference}"));
    };
    followed(10);
    // Each change that a transfer shows comes with a serial of its own, and a NOTIFY.
    run(&["zone", "secure", ZONE]);
    followed(11);
    run(&["key", "add", ZONE, "--role", "zsk", "--inactive"]);
    followed(12);
    run(&["key", "activate", ZONE, "2"]);
    followed(13);
    run(&["key", "deactivate", ZONE, "2"]);
    followed(14);
    run(&["key", "remove", ZONE, "2"]);
    followed(15);
    // A key that is not published changes nothing.
    run(&[
        "key",
        "add",
        ZONE,
        "--role",
        "zsk",
        "--inactive",
        "--unpublished",
    ]);
    run(&["zone", "secure", ZONE, "--denial", "nsec3"]);
    followed(16);
    run(&["zone", "unsecure", ZONE, "--force"]);
    followed(17);
    // And again, above all serials that the secondary has seen.
    run(&["zone", "secure", ZONE]);
    followed(18);
}

#[test]
fn bind_gets_each_version_of_a_zone_that_is_signed_by_command() {
    secure_for(PeerKind::Bind);
}

#[test]
fn knot_gets_each_version_of_a_zone_that_is_signed_by_command() {
    secure_for(PeerKind::Knot);
}

#[test]
fn nsd_gets_each_version_of_a_zone_that_is_signed_by_command() {
    secure_for(PeerKind::Nsd);
}

#[test]
fn zone_ds_names_the_secondaries_that_are_behind() {
    if PeerKind::Knot.require().is_none() {
        return;
    }
    let address = free_address().unwrap();
    let setup = Setup::new();
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    let config = format!(
        "[server]\nstate_directory = {state:?}\n\
         [[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n\
         [[zone]]\nname = \"{ZONE}\"\nkind = \"primary\"\nallow_transfer = [\"key:{KEY_NAME}\"]\n\
         also_notify = [{{ address = \"{address}\", key = \"{KEY_NAME}\" }}]\n"
    );
    let text = "$TTL 1\n@ SOA ns1 hostmaster 10 3600 600 86400 1\n@ NS ns1\nns1 A 192.0.2.1\n";
    let server = setup.config(&config).zone(ZONE, text).start();
    let run = |arguments: &[&str]| -> String {
        let output = server.command(arguments);
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}");
        text.into_owned()
    };
    // The port is not open yet.
    let secured = run(&["zone", "secure", ZONE]);
    let expected = format!("secondary {address} may not have serial 11");
    assert!(secured.contains(&expected), "{secured}");
    assert!(
        secured.contains("do not submit the DS to the parent yet"),
        "{secured}"
    );
    let setup = MeshSetup {
        kind: PeerKind::Knot,
        role: MeshRole::Secondary,
        zone: ZONE,
        address,
        other: server.address(),
    };
    let peer = MeshPeer::start(&setup, "").unwrap_or_else(|error| panic!("{error}"));
    wait_for_serial(address, ZONE, 11).unwrap_or_else(|there| {
        panic!("{there:?}\n{}\n{}", peer.log_tail(), server.log());
    });
    let is_safe = || run(&["zone", "ds", ZONE]).contains("its secondary has serial 11");
    wait_until("a DS that may go to the parent", is_safe);
}
