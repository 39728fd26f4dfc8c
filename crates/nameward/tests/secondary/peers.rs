//! Every brand as the primary: whole and incremental transfers signed with TSIG, NOTIFY, hundreds of changed records.

use super::serial;
use nameward_testkit::mesh::{
    ChangingZone, KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshPeer, MeshRole, MeshSetup, dump,
};
use nameward_testkit::peers::{PeerKind, free_address};
use nameward_testkit::{Setup, TestFailure};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const ZONE: &str = "fleet.example";
const ROUNDS: usize = 4;

/// Compares two zone files; an error describes the difference.
fn compare(one: &Path, other: &Path) -> Result<(), TestFailure> {
    let output = Command::new("ldns-compare-zones")
        .args(["-a", "-s"])
        .args([one, other])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default().trim().to_owned();
    if last == "+0\t-0\t~0" {
        Ok(())
    } else {
        Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)).into())
    }
}

fn follow(kind: PeerKind) {
    if kind.require().is_none() {
        return;
    }
    let (there, here) = (free_address().unwrap(), free_address().unwrap());
    let mut zone = ChangingZone::new(ZONE, 4_294_967_290, 150, 11);
    let setup = MeshSetup {
        kind,
        role: MeshRole::Primary,
        zone: ZONE,
        address: there,
        other: here,
    };
    let peer = MeshPeer::start(&setup, &zone.text()).unwrap_or_else(|error| panic!("{error}"));
    let setup = Setup::new().without_web().listen(&[&here.to_string()]);
    let (state, copy) = (setup.dir().join("state"), setup.dir().join("copy.zone"));
    std::fs::create_dir(&state).unwrap();
    let server = setup
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[[key]]\nname = \"{KEY_NAME}\"\n\
             algorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n[[zone]]\nname = \"{ZONE}\"\n\
             kind = \"secondary\"\nfile = {copy:?}\n\
             primaries = [{{ address = \"{there}\", key = \"{KEY_NAME}\" }}]\n"
        ))
        .start();
    for round in 0..ROUNDS {
        if round > 0 {
            zone.change(20);
            peer.change(&zone.text()).unwrap();
        }
        let mut asked = Instant::now();
        server.wait_until(&format!("{kind}, round {round}"), || {
            // A NOTIFY that was sent while the server started is not repeated by every brand.
            if asked.elapsed() > Duration::from_secs(5) {
                asked = Instant::now();
                let _ = server.command(&["zone", "retrieve", ZONE]);
            }
            serial(here, ZONE) == Some(zone.serial())
        });
        let dumped = server.dir().join("dumped.zone");
        dump(there, ZONE, &dumped).unwrap();
        // The copy is written a moment after the version is served.
        let (mut result, start) = (compare(&dumped, &copy), Instant::now());
        while result.is_err() && start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(50));
            result = compare(&dumped, &copy);
        }
        result.unwrap_or_else(|difference| panic!("{kind}, round {round}: {difference}"));
    }
    let log = server.log();
    assert!(log.contains("AXFR"), "{kind}: {log}");
    // PowerDNS stores no differences.
    if kind != PeerKind::PowerDns {
        assert!(log.contains("IXFR"), "{kind}: {log}");
    }
}

#[test]
fn bind_is_a_primary() {
    follow(PeerKind::Bind);
}

#[test]
fn knot_is_a_primary() {
    follow(PeerKind::Knot);
}

#[test]
fn nsd_is_a_primary() {
    follow(PeerKind::Nsd);
}

#[test]
fn powerdns_is_a_primary() {
    follow(PeerKind::PowerDns);
}
