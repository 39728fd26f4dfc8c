//! A move from Knot: templates, lists of access, groups of remotes, a secondary, zones that Knot signs.

use nameward_testkit::peers::{Peer, PeerKind, PeerOptions};

use crate::moved::{OldServer, assert_report, compare, rcode, transfer, wait_for, zone};

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
    let signed = transfer(before, "one.example", true);
    assert!(signed.len() > 10, "{signed:?}");
    assert_eq!(transfer(after, "one.example", true), signed);
    for server in [before, after] {
        assert_eq!(transfer(server, "one.example", false), Vec::<String>::new());
        // From this address without a key, as the list has it.
        assert!(transfer(server, "two.example", false).len() > 10);
    }
}

fn old_server() -> Option<(OldServer, Peer)> {
    PeerKind::Nsd.require()?;
    PeerKind::Knot.require()?;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("copy.zone");
    std::fs::write(&file, zone("copy.example")).unwrap();
    let options = PeerOptions {
        allow_transfer: true,
        ..PeerOptions::default()
    };
    let primary = Peer::start(PeerKind::Nsd, &[("copy.example", &file)], &options).unwrap();
    let zones = ["one.example", "two.example", "signed.example"];
    let texts: Vec<(String, String)> = zones
        .iter()
        .map(|name| (format!("zones/{name}.zone"), zone(name)))
        .collect();
    let mut files: Vec<(&str, &str)> = vec![("knot.conf", CONF), ("more/zones.conf", MORE)];
    files.extend(
        texts
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
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
