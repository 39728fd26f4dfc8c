//! The mesh's peers follow each other, so that a failure with a server under test is that server's.

use nameward_testkit::mesh::{
    ChangingZone, MeshPeer, MeshRole, MeshSetup, compare, wait_for_serial,
};
use nameward_testkit::peers::{PeerKind, free_address};

const ZONE: &str = "fleet.example";

fn follow(primary: PeerKind, secondary: PeerKind) {
    if primary.require().is_none() || secondary.require().is_none() {
        return;
    }
    let (first, second) = (free_address().unwrap(), free_address().unwrap());
    let mut zone = ChangingZone::new(ZONE, 4_294_967_000, 150, 7);
    let setup = |kind, role, address, other| MeshSetup {
        kind,
        role,
        zone: ZONE,
        address,
        other,
    };
    let start = |setup: MeshSetup<'_>, text: &str| {
        MeshPeer::start(&setup, text).unwrap_or_else(|error| panic!("{setup:?}: {error}"))
    };
    let from = start(
        setup(primary, MeshRole::Primary, first, second),
        &zone.text(),
    );
    let to = start(setup(secondary, MeshRole::Secondary, second, first), "");
    for round in 0..4 {
        if round > 0 {
            zone.change(3);
            from.change(&zone.text()).unwrap();
        }
        wait_for_serial(second, ZONE, zone.serial()).unwrap_or_else(|there| {
            let (one, other) = (from.log_tail(), to.log_tail());
            panic!(
                "round {round}: {there:?} instead of {}\n{one}\n{other}",
                zone.serial()
            )
        });
        compare(first, second, ZONE).unwrap_or_else(|difference| panic!("{difference}"));
    }
}

#[test]
fn bind_and_knot_follow_each_other() {
    follow(PeerKind::Bind, PeerKind::Knot);
    follow(PeerKind::Knot, PeerKind::Bind);
}

#[test]
fn nsd_and_powerdns_follow_each_other() {
    follow(PeerKind::Nsd, PeerKind::PowerDns);
    follow(PeerKind::PowerDns, PeerKind::Nsd);
}
