//! A move from Knot: templates, lists of access, groups of remotes, a secondary, zones that Knot signs.

use nameward_testkit::peers::{Peer, PeerKind};

use crate::moved::{
    OldServer, assert_report, compare, compare_transfers, primary_of_copy, rcode, transfer,
    wait_for, with_zones,
};

const CONF: &str = include_str!("conf/knot.conf");
const MORE: &str = include_str!("conf/knot-more.conf");

#[test]
fn answers_transfers_and_refusals_stay() {
    let Some((old, primary)) = old_server() else {
        return;
    };
    let output = old.import("knot", "knot.conf", &["--dry-run"]);
    assert_report("knot.report", &old.report(&output, Some(primary.addr())));
    // The signed zone is left out.
    assert_eq!(output.status.code(), Some(1));
    let new = old.move_in("knot", "knot.conf");
    let (before, after) = (old.address, new.address());
    wait_for(after, "copy.example");
    compare(
        before,
        after,
        &["one.example", "two.example", "copy.example"],
    );
    assert_eq!(
        rcode(after, "127.0.0.1", "www.signed.example", "A"),
        "REFUSED"
    );
    compare_transfers(before, after);
    for server in [before, after] {
        // From this address without a key, as the list has it.
        assert!(transfer(server, "two.example", false).len() > 10);
    }
}

fn old_server() -> Option<(OldServer, Peer)> {
    let primary = primary_of_copy(PeerKind::Nsd)?;
    let zones = ["one.example", "two.example", "signed.example"];
    let files = with_zones(
        &[("knot.conf", CONF), ("more/zones.conf", MORE)],
        &zones,
        ".zone",
    );
    let old = OldServer::start(
        PeerKind::Knot,
        &files,
        &["one.example", "two.example", "copy.example"],
        Some(primary.addr()),
        |dir| vec!["-c".into(), dir.join("knot.conf").display().to_string()],
    )?;
    Some((old, primary))
}
