//! A move from BIND: lists with names, keys, views, inherited statements, a secondary, zones that BIND signs.

use nameward_testkit::peers::{Peer, PeerKind};

use crate::moved::{
    OldServer, assert_report, compare, compare_transfers, primary_of_copy, rcode, transfer,
    wait_for, with_zones,
};

const CONF: &str = include_str!("conf/named.conf");
const ZONES: &str = include_str!("conf/named.conf.local");

#[test]
fn answers_transfers_and_refusals_stay() {
    let Some((old, primary)) = old_server() else {
        return;
    };
    let output = old.import("bind", "named.conf", &["--dry-run"]);
    assert_report("named.report", &old.report(&output, Some(primary.addr())));
    // The signed zone is left out.
    assert_eq!(output.status.code(), Some(1));
    let new = old.move_in("bind", "named.conf");
    let (before, after) = (old.address, new.address());
    wait_for(after, "copy.example");
    compare(
        before,
        after,
        &["one.example", "two.example", "copy.example"],
    );
    for server in [before, after] {
        assert_eq!(
            rcode(server, "127.0.0.2", "www.two.example", "A"),
            "REFUSED"
        );
        assert_eq!(
            rcode(server, "127.0.0.3", "www.two.example", "A"),
            "NOERROR"
        );
    }
    compare_transfers(before, after);
    for server in [before, after] {
        assert_eq!(transfer(server, "two.example", true), Vec::<String>::new());
    }
}

fn old_server() -> Option<(OldServer, Peer)> {
    let primary = primary_of_copy(PeerKind::Nsd)?;
    let zones = ["one.example", "two.example", "signed.example"];
    let files = with_zones(
        &[("named.conf", CONF), ("named.conf.local", ZONES)],
        &zones,
        "",
    );
    let old = OldServer::start(
        PeerKind::Bind,
        &files,
        &["one.example", "two.example", "copy.example"],
        Some(primary.addr()),
        |dir| {
            let conf = dir.join("named.conf").display().to_string();
            let log = dir.join("log").display().to_string();
            ["-f", "-4", "-n", "1", "-L", &log, "-c", &conf]
                .map(String::from)
                .into()
        },
    )?;
    Some((old, primary))
}
