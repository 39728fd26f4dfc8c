//! Nameward compared with NSD, Knot and BIND on generated hostile zones.
//!
//! Where the three agree, ours must too. Where they do not, a class of `tests/differential/reviewed.md` must
//! say why, and whom ours then agrees with. `DIFFERENTIAL_SEEDS=FIRST..LAST` asks for other seeds than the few fixed ones.

use nameward_testkit::Setup;
use nameward_testkit::differential::{self, Findings, answers::Server, review, zones};
use nameward_testkit::peers::{Peer, PeerKind, PeerOptions};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

const REVIEWED: &str = include_str!("../../../tests/differential/reviewed.md");

fn seeds() -> Range<u64> {
    let Ok(range) = std::env::var("DIFFERENTIAL_SEEDS") else {
        return 0..5;
    };
    let (first, last) = range
        .split_once("..")
        .expect("DIFFERENTIAL_SEEDS=FIRST..LAST");
    first.parse().expect("a number")..last.parse().expect("a number")
}

fn run(seed: u64) -> Findings {
    let zones = zones::zones(seed);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut setup = Setup::new().without_web();
    let mut files: Vec<(&str, PathBuf)> = Vec::new();
    for zone in &zones {
        let file = directory.path().join(&zone.name);
        std::fs::write(&file, zone.text()).expect("a zone file can be written");
        files.push((&zone.name, file));
        setup = setup.zone(&zone.name, zone.text());
    }
    let sources: Vec<(&str, &Path)> = files
        .iter()
        .map(|(name, file)| (*name, file.as_path()))
        .collect();
    let apexes: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let connect = |name: &str, address| Server::connect(name, address, &apexes).expect("a socket");
    let ours = setup.start();
    let started: Vec<(PeerKind, Peer)> = [PeerKind::Nsd, PeerKind::Knot, PeerKind::Bind]
        .map(
            |kind| match Peer::start(kind, &sources, &PeerOptions::default()) {
                Ok(peer) => (kind, peer),
                Err(error) => panic!("seed {seed}: {kind}: {error}"),
            },
        )
        .into();
    let mut peers: Vec<Server> = started
        .iter()
        .map(|(kind, peer)| connect(&kind.to_string(), peer.addr()))
        .collect();
    let mut own = connect("ours", ours.address());
    differential::compare(&zones, seed, &mut peers, Some(&mut own))
        .expect("every question is answered")
}

#[test]
fn answers_differ_from_other_servers_only_where_reviewed() {
    if [PeerKind::Nsd, PeerKind::Knot, PeerKind::Bind]
        .iter()
        .any(|kind| kind.require().is_none())
    {
        return;
    }
    let mut unexplained = Vec::new();
    let mut met = BTreeSet::new();
    for seed in seeds() {
        let findings = run(seed);
        println!(
            "seed {seed}: {} queries, {:?}",
            findings.queries, findings.reviewed
        );
        assert!(
            findings.queries > 1000,
            "a seed asks enough to mean something"
        );
        met.extend(findings.reviewed.into_keys());
        unexplained.extend(
            findings
                .unexplained
                .iter()
                .map(|text| format!("seed {seed}: {text}")),
        );
    }
    assert!(
        unexplained.is_empty(),
        "{} unexplained\n{}",
        unexplained.len(),
        unexplained.join("\n")
    );
    let stale: Vec<&str> = review::names().filter(|name| !met.contains(name)).collect();
    assert!(stale.is_empty(), "reviewed, but met nowhere: {stale:?}");
}

#[test]
fn every_class_of_differences_is_in_the_reviewed_list_and_no_other() {
    let listed: BTreeSet<&str> = REVIEWED
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let known: BTreeSet<&str> = review::names().collect();
    assert_eq!(listed, known);
}
