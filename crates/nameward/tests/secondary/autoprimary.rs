//! Zones that appear because an autoprimary notifies of them: BIND and Knot as autoprimaries, and senders that are none.

use super::{serial, status};
use nameward_testkit::mesh::{
    ChangingZone, KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshPeer, MeshRole, MeshSetup,
};
use nameward_testkit::peers::{PeerKind, free_address};
use nameward_testkit::wire::{Message, Name, Question, encode_question, type_from_text};
use nameward_testkit::{Setup, TestServer};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

const ZONE: &str = "fleet.example";
/// The name server of the zones of the mesh.
const NAME_SERVER: &str = "ns.fleet.example";
const NOERROR: u16 = 0;
const REFUSED: u16 = 5;
const NOTAUTH: u16 = 9;

fn start(state: &Path, here: SocketAddr, autoprimary: &str) -> TestServer {
    Setup::new()
        .without_web()
        .listen(&[&here.to_string()])
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[[key]]\nname = \"{KEY_NAME}\"\n\
             algorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n\
             [[template]]\nname = \"pool\"\nallow_transfer = [\"127.0.0.1\"]\n\
             [[autoprimary]]\n{autoprimary}\n"
        ))
        .start()
}

fn primary(kind: PeerKind, there: SocketAddr, here: SocketAddr, zone: &ChangingZone) -> MeshPeer {
    let setup = MeshSetup {
        kind,
        role: MeshRole::Primary,
        zone: ZONE,
        address: there,
        other: here,
    };
    MeshPeer::start(&setup, &zone.text()).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

/// Sends a NOTIFY that is not signed; returns the response code.
fn notify(server: SocketAddr, zone: &str) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut message = vec![0, 9, 0x24, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let question = Question {
        name: Name::parse(zone).unwrap(),
        rtype: type_from_text("SOA").unwrap(),
        class: 1,
    };
    encode_question(&mut message, &question);
    socket.send(&message).unwrap();
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).expect("a NOTIFY is answered");
    Message::read(&buffer[..length]).unwrap().rcode()
}

/// Counts the occurrences of a text in the log.
fn said(server: &TestServer, text: &str) -> usize {
    server.log().matches(text).count()
}

/// The NOTIFY that a peer sends with its key creates the zone, which is served again after a restart without its
/// primary.
fn makes_a_secondary(kind: PeerKind) {
    if kind.require().is_none() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let (there, here) = (free_address().unwrap(), free_address().unwrap());
    let listed = format!(
        "address = \"{there}\"\nname_server = \"{NAME_SERVER}\"\nkey = \"{KEY_NAME}\"\ntemplate = \"pool\""
    );
    let mut zone = ChangingZone::new(ZONE, 7, 50, 5);
    let server = start(state.path(), here, &listed);
    let peer = primary(kind, there, here, &zone);
    server.wait_until("the zone", || serial(here, ZONE) == Some(zone.serial()));
    assert!(server.wait_for_log("created as a secondary of autoprimary"));
    assert!(status(&server, ZONE).contains("\"secondary\""));
    zone.change(5);
    peer.change(&zone.text()).unwrap();
    server.wait_until("a change", || serial(here, ZONE) == Some(zone.serial()));
    drop(peer);
    assert!(server.stop().success());
    let server = start(state.path(), here, &listed);
    assert_eq!(serial(here, ZONE), Some(zone.serial()), "{}", server.log());
    // The template of the entry permits the client.
    let transferred = nameward_testkit::mesh::dump(here, ZONE, &state.path().join("dump"));
    transferred.unwrap_or_else(|error| panic!("{error}\n{}", server.log()));
}

#[test]
fn a_notify_of_bind_creates_a_secondary_that_survives_a_restart() {
    makes_a_secondary(PeerKind::Bind);
}

#[test]
fn a_notify_of_knot_creates_a_secondary_that_survives_a_restart() {
    makes_a_secondary(PeerKind::Knot);
}

#[test]
fn a_notify_from_another_address_creates_no_zone() {
    let state = tempfile::tempdir().unwrap();
    let here = free_address().unwrap();
    let listed = format!("address = \"127.0.0.77\"\nname_server = \"{NAME_SERVER}\"");
    let server = start(state.path(), here, &listed);
    assert_eq!(notify(here, ZONE), NOTAUTH);
    assert_eq!(notify(here, ZONE), NOTAUTH);
    assert!(server.wait_for_log("the sender is not an autoprimary"));
    assert_eq!(said(&server, "the sender is not an autoprimary"), 1);
    assert_eq!(serial(here, ZONE), None);
}

#[test]
fn a_notify_without_the_key_of_the_autoprimary_creates_no_zone() {
    let state = tempfile::tempdir().unwrap();
    let here = free_address().unwrap();
    let listed =
        format!("address = \"127.0.0.1\"\nname_server = \"{NAME_SERVER}\"\nkey = \"{KEY_NAME}\"");
    let server = start(state.path(), here, &listed);
    assert_eq!(notify(here, ZONE), REFUSED);
    assert_eq!(notify(here, ZONE), REFUSED);
    let reason = "not signed with the autoprimary's key";
    assert!(server.wait_for_log(reason));
    assert_eq!(said(&server, reason), 1);
    assert_eq!(serial(here, ZONE), None);
}

#[test]
fn a_zone_without_the_listed_name_server_is_not_created() {
    if PeerKind::Knot.require().is_none() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let (there, here) = (free_address().unwrap(), free_address().unwrap());
    let zone = ChangingZone::new(ZONE, 7, 10, 6);
    let _peer = primary(PeerKind::Knot, there, here, &zone);
    let listed = format!("address = \"{there}\"\nname_server = \"ns.nowhere.example\"");
    let server = start(state.path(), here, &listed);
    let reason = "the zone has none of the configured name servers";
    assert_eq!(notify(here, ZONE), NOERROR);
    assert!(server.wait_for_log(reason));
    assert_eq!(notify(here, ZONE), NOERROR);
    // A zone that the peer does not have is queried later, so the second query has been answered by then.
    assert_eq!(notify(here, "unknown.example"), NOERROR);
    assert!(server.wait_for_log("zone unknown.example.: not created for autoprimary"));
    assert_eq!(said(&server, reason), 1);
    assert_eq!(serial(here, ZONE), None);
}
