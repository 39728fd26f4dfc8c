//! A move from NSD: patterns, keys, blocked networks, a secondary, a list of added zones.

use nameward_testkit::peers::{Peer, PeerKind, PeerOptions};

use crate::moved::{OldServer, assert_report, compare, rcode, transfer, wait_for, zone};

const CONF: &str = include_str!("conf/nsd.conf");
const MORE: &str = include_str!("conf/nsd-more.conf");

#[test]
fn answers_transfers_and_refusals_stay() {
    let Some((old, primary)) = old_server() else {
        return;
    };
    let output = old.import("nsd", "nsd.conf", &["--dry-run"]);
    assert_report("nsd.report", &old.report(&output, Some(primary.addr())));
    // A zone of a key for questions is left out.
    assert_eq!(output.status.code(), Some(1));
    let new = old.move_in("nsd", "nsd.conf");
    let (before, after) = (old.address, new.address());
    wait_for(after, "copy.example");
    compare(
        before,
        after,
        &[
            "one.example",
            "two.example",
            "three.example",
            "copy.example",
            "added.example",
        ],
    );
    for server in [before, after] {
        assert_eq!(
            rcode(server, "127.0.0.2", "www.two.example", "A"),
            "REFUSED"
        );
        assert_eq!(
            rcode(server, "127.0.0.1", "www.elsewhere.example", "A"),
            "REFUSED"
        );
    }
    let signed = transfer(before, "one.example", true);
    assert!(signed.len() > 10, "{signed:?}");
    assert_eq!(transfer(after, "one.example", true), signed);
    for server in [before, after] {
        assert_eq!(transfer(server, "one.example", false), Vec::<String>::new());
        assert_eq!(transfer(server, "two.example", true), Vec::<String>::new());
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
    let primary = Peer::start(PeerKind::Knot, &[("copy.example", &file)], &options).unwrap();
    let zones = [
        "one.example",
        "two.example",
        "three.example",
        "added.example",
        "secret.example",
    ];
    let texts: Vec<(String, String)> = zones
        .iter()
        .map(|name| (format!("zones/{name}.zone"), zone(name)))
        .collect();
    let mut files: Vec<(&str, &str)> = vec![
        ("nsd.conf", CONF),
        ("nsd.conf.d/more.conf", MORE),
        (
            "zone.list",
            "# NSD zone list\n# name pattern\nadd added.example plain\n",
        ),
    ];
    files.extend(
        texts
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    );
    let old = OldServer::start(
        PeerKind::Nsd,
        &files,
        &["one.example", "copy.example", "added.example"],
        Some(primary.addr()),
        |dir| {
            vec![
                "-d".into(),
                "-c".into(),
                dir.join("nsd.conf").display().to_string(),
            ]
        },
    )?;
    Some((old, primary))
}
