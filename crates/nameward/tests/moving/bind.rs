//! A move from BIND: lists with names, keys, views, inherited statements, a secondary, zones that BIND signs.

use nameward_testkit::peers::{Peer, PeerKind, PeerOptions};

use crate::moved::{OldServer, assert_report, compare, rcode, transfer, wait_for, zone};

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
    let signed = transfer(before, "one.example", true);
    assert!(signed.len() > 10, "{signed:?}");
    assert_eq!(transfer(after, "one.example", true), signed);
    for server in [before, after] {
        assert_eq!(transfer(server, "one.example", false), Vec::<String>::new());
        assert_eq!(transfer(server, "two.example", true), Vec::<String>::new());
    }
}

fn old_server() -> Option<(OldServer, Peer)> {
    PeerKind::Bind.require()?;
    PeerKind::Nsd.require()?;
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
        .map(|name| (format!("zones/{name}"), zone(name)))
        .collect();
    let mut files: Vec<(&str, &str)> = vec![("named.conf", CONF), ("named.conf.local", ZONES)];
    files.extend(
        texts
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
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
