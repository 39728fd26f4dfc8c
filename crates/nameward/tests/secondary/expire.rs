//! The EXPIRE option (RFC 7314) in a chain of secondaries: Knot has the zone, BIND follows it, the server follows BIND, and
//! another Knot the server.

use super::serial;
use nameward_testkit::Setup;
use nameward_testkit::mesh::{
    ChangingZone, KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshPeer, MeshRole, MeshSetup,
    wait_for_serial,
};
use nameward_testkit::peers::{PeerKind, free_address};
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::Duration;

const ZONE: &str = "fleet.example";
/// The expire field of the zones of a mesh.
const SOA_EXPIRE: u32 = 86_400;

/// The seconds after which a server reports that its copy expires.
fn expire_at(server: SocketAddr) -> Option<u32> {
    let output = Command::new("dig")
        .args(["+expire", "+norec", "+tries=1", "+time=5", "-p"])
        .arg(server.port().to_string())
        .arg(format!("@{}", server.ip()))
        .args(["-t", "SOA", "-q", ZONE])
        .output()
        .expect("dig can be run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("EXPIRE:"))?;
    line.split_whitespace()
        .find_map(|word| word.trim_end_matches(',').parse().ok())
}

fn peer(
    (kind, role): (PeerKind, MeshRole),
    address: SocketAddr,
    other: SocketAddr,
    text: &str,
) -> MeshPeer {
    let setup = MeshSetup {
        kind,
        role,
        zone: ZONE,
        address,
        other,
    };
    MeshPeer::start(&setup, text).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

#[test]
fn a_chain_of_secondaries_expires_with_its_first() {
    if PeerKind::Knot.require().is_none() || PeerKind::Bind.require().is_none() {
        return;
    }
    let [first, second, here, last] = [(); 4].map(|()| free_address().unwrap());
    let zone = ChangingZone::new(ZONE, 7, 20, 8);
    let knot = peer(
        (PeerKind::Knot, MeshRole::Primary),
        first,
        second,
        &zone.text(),
    );
    let _bind = peer((PeerKind::Bind, MeshRole::Secondary), second, first, "");
    wait_for_serial(second, ZONE, 7).unwrap();
    drop(knot);
    // Without its primary BIND's copy gets old.
    thread::sleep(Duration::from_secs(3));
    let setup = Setup::new().without_web().listen(&[&here.to_string()]);
    let state = setup.dir().join("state");
    let server = setup
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[[key]]\nname = \"{KEY_NAME}\"\n\
             algorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n[[zone]]\nname = \"{ZONE}\"\n\
             kind = \"secondary\"\nallow_transfer = [\"key:{KEY_NAME}\"]\n\
             primaries = [{{ address = \"{second}\", key = \"{KEY_NAME}\" }}]\n"
        ))
        .start();
    server.wait_until("the zone", || serial(here, ZONE) == Some(7));
    let there = expire_at(second).expect("BIND answers the option");
    let ours = expire_at(here).expect("the server answers the option");
    assert!(ours <= SOA_EXPIRE - 2, "{ours} of {SOA_EXPIRE}");
    assert!(ours.abs_diff(there) <= 30, "{ours} here, {there} at BIND");
    // A check that finds the same version applies the option, too.
    assert!(server.command(&["zone", "retrieve", ZONE]).status.success());
    let _follower = peer((PeerKind::Knot, MeshRole::Secondary), last, here, "");
    wait_for_serial(last, ZONE, 7).unwrap();
    let ours = expire_at(here).expect("the server answers the option");
    let followed = expire_at(last).expect("Knot answers the option");
    assert!(ours <= SOA_EXPIRE - 2, "{ours} of {SOA_EXPIRE}");
    assert!(followed <= ours + 1, "{followed} at Knot, {ours} here");
}
