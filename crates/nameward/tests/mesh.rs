//! Nameward in a fleet of other brands: a primary of each and a secondary of each, through random changes, over AXFR, IXFR,
//! TSIG and NOTIFY, ending with equal zones.
//!
//! `NAMEWARD_MESH_ROUNDS` is the number of changes (`scripts/mesh` runs hundreds).

use std::env;
use std::net::SocketAddr;

use nameward_testkit::mesh::{
    ChangingZone, KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshPeer, MeshRole, MeshSetup, ZoneSigner,
    compare, wait_for_serial,
};
use nameward_testkit::peers::{PeerKind, free_address};
use nameward_testkit::server::{Setup, TestServer};

const ZONE: &str = "fleet.example";

/// How the versions of the zone are signed.
#[derive(Clone, Copy, PartialEq)]
enum Signed {
    No,
    Nsec,
    Nsec3,
}

struct Mesh {
    zone: ChangingZone,
    signer: Option<ZoneSigner>,
    ours: SocketAddr,
    theirs: SocketAddr,
}

impl Mesh {
    fn new(signed: Signed, seed: u64) -> Self {
        let signer = (signed != Signed::No)
            .then(|| ZoneSigner::new(ZONE, signed == Signed::Nsec3).expect("a zone can be signed"));
        Mesh {
            zone: ChangingZone::new(ZONE, 4_294_967_000, 150, seed),
            signer,
            ours: free_address().expect("a free port"),
            theirs: free_address().expect("a free port"),
        }
    }

    fn text(&self) -> String {
        let text = self.zone.text();
        match &self.signer {
            Some(signer) => signer.sign(&text).expect("a zone can be signed"),
            None => text,
        }
    }

    fn peer(&self, kind: PeerKind, role: MeshRole) -> MeshPeer {
        let setup = MeshSetup {
            kind,
            role,
            zone: ZONE,
            address: self.theirs,
            other: self.ours,
        };
        MeshPeer::start(&setup, &self.text()).unwrap_or_else(|error| panic!("{kind}: {error}"))
    }

    fn server(&self, zone: &str) -> Setup {
        Setup::new()
            .listen(&[&self.ours.to_string()])
            .without_web()
            .config(&format!(
                "[server]\nstate_directory = \"state\"\nlog_level = \"debug\"\n\
                 [[key]]\nname = \"{KEY_NAME}\"\nalgorithm = \"{KEY_ALGORITHM}\"\nsecret = \"{KEY_SECRET}\"\n\
                 [[zone]]\nname = \"{ZONE}\"\nallow_transfer = [\"key:{KEY_NAME}\"]\n{zone}"
            ))
    }

    /// Runs the changes; `change` gives a version to the primary, which the secondary at `copy` must then have.
    fn run(&mut self, copy: SocketAddr, change: impl Fn(&str), logs: impl Fn() -> String) {
        let rounds = env::var("NAMEWARD_MESH_ROUNDS").ok();
        let rounds: usize = rounds.map_or(8, |text| text.parse().expect("a number of changes"));
        for round in 0..=rounds {
            if round > 0 {
                self.zone.change(1 + round % 7);
                change(&self.text());
            }
            let serial = self.zone.serial();
            wait_for_serial(copy, ZONE, serial).unwrap_or_else(|there| {
                panic!(
                    "round {round}: serial {there:?} instead of {serial}\n{}",
                    logs()
                )
            });
            if round % 10 == 4 || round == rounds {
                compare(self.ours, self.theirs, ZONE)
                    .unwrap_or_else(|difference| panic!("round {round}: {difference}\n{}", logs()));
            }
        }
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

fn logs(server: &TestServer, peer: &MeshPeer) -> String {
    format!(
        "nameward:\n{}\npeer:\n{}",
        tail(&server.log()),
        peer.log_tail()
    )
}

/// The peer changes its zone and Nameward follows.
fn follows(kind: PeerKind, signed: Signed, seed: u64) {
    if kind.require().is_none() {
        return;
    }
    let mut mesh = Mesh::new(signed, seed);
    let peer = mesh.peer(kind, MeshRole::Primary);
    let server = mesh
        .server(&format!(
            "kind = \"secondary\"\nprimaries = [{{ address = \"{}\", key = \"{KEY_NAME}\" }}]\n",
            mesh.theirs
        ))
        .start();
    let ours = mesh.ours;
    let change = |text: &str| peer.change(text).expect("the primary takes a new version");
    mesh.run(ours, change, || logs(&server, &peer));
}

/// Nameward's zone file changes and the peer follows.
fn is_followed_by(kind: PeerKind, signed: Signed, seed: u64) {
    if kind.require().is_none() {
        return;
    }
    let mut mesh = Mesh::new(signed, seed);
    let server = mesh
        .server(&format!(
            "kind = \"primary\"\nalso_notify = [{{ address = \"{}\", key = \"{KEY_NAME}\" }}]\n",
            mesh.theirs
        ))
        .zone(ZONE, &mesh.text())
        .watched()
        .start();
    let peer = mesh.peer(kind, MeshRole::Secondary);
    let theirs = mesh.theirs;
    let change = |text: &str| server.write_zone(ZONE, text);
    mesh.run(theirs, change, || logs(&server, &peer));
}

#[test]
fn bind_is_followed_through_random_changes() {
    follows(PeerKind::Bind, Signed::No, 11);
}

#[test]
fn knot_is_followed_through_random_changes() {
    follows(PeerKind::Knot, Signed::No, 12);
}

#[test]
fn nsd_is_followed_through_random_changes() {
    follows(PeerKind::Nsd, Signed::No, 13);
}

#[test]
fn powerdns_is_followed_through_random_changes() {
    follows(PeerKind::PowerDns, Signed::No, 14);
}

#[test]
fn bind_follows_through_random_changes() {
    is_followed_by(PeerKind::Bind, Signed::No, 21);
}

#[test]
fn knot_follows_through_random_changes() {
    is_followed_by(PeerKind::Knot, Signed::No, 22);
}

#[test]
fn nsd_follows_through_random_changes() {
    is_followed_by(PeerKind::Nsd, Signed::No, 23);
}

#[test]
fn powerdns_follows_through_random_changes() {
    is_followed_by(PeerKind::PowerDns, Signed::No, 24);
}

#[test]
fn signed_zones_of_bind_and_knot_are_followed() {
    follows(PeerKind::Bind, Signed::Nsec, 31);
    follows(PeerKind::Knot, Signed::Nsec3, 32);
}

#[test]
fn signed_zones_of_nsd_are_followed() {
    follows(PeerKind::Nsd, Signed::Nsec3, 33);
}

#[test]
fn bind_and_knot_follow_signed_zones() {
    is_followed_by(PeerKind::Bind, Signed::Nsec3, 41);
    is_followed_by(PeerKind::Knot, Signed::Nsec, 42);
}

#[test]
fn nsd_and_powerdns_follow_signed_zones() {
    is_followed_by(PeerKind::Nsd, Signed::Nsec3, 43);
    is_followed_by(PeerKind::PowerDns, Signed::Nsec, 44);
}
