//! The conformance suite against servers of other brands: it keeps the expectations honest.
//!
//! A deviation of a name server is recorded in the file as `differs BRAND: reason`; everything else must conform to
//! the suite. A `differs` that no longer applies is an error, too.

use nameward_testkit::TestFailure;
use nameward_testkit::conformance::{self, Judge, Suite};
use nameward_testkit::peers::{Peer, PeerKind, PeerOptions};
use nameward_testkit::wire::Sockets;
use std::path::{Path, PathBuf};

fn suites() -> Vec<Suite> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    conformance::read_all(&directory).expect("every file of the suite reads")
}

/// Started with the zones of the file; an error when the peer does not serve them.
fn serve(suite: &Suite, kind: PeerKind) -> Result<(tempfile::TempDir, Peer), TestFailure> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut zones: Vec<(String, PathBuf)> = Vec::new();
    for (index, zone) in suite.zones.iter().enumerate() {
        let file = directory.path().join(format!("{index}.zone"));
        std::fs::write(&file, zone.file_text()).expect("written");
        zones.push((format!("{}.", zone.name), file));
    }
    let zones: Vec<(&str, &Path)> = zones
        .iter()
        .map(|(name, file)| (name.as_str(), file.as_path()))
        .collect();
    let peer = Peer::start(kind, &zones, &PeerOptions::default());
    let peer = peer.map_err(|error| format!("{}: {error}", suite.path.display()))?;
    Ok((directory, peer))
}

fn judge(kind: PeerKind) {
    if kind.require().is_none() {
        return;
    }
    let name = kind.to_string();
    let mut complaints = Vec::new();
    for suite in suites() {
        if suite.unloadable.iter().any(|(peer, _)| *peer == name) {
            continue;
        }
        let (_directory, peer) = match serve(&suite, kind) {
            Ok(peer) => peer,
            Err(error) => {
                complaints.push(error.to_string());
                continue;
            }
        };
        let server = Sockets {
            address: peer.addr(),
        };
        let outcome = conformance::run(&suite, &server, Judge::Lenient, Some(&name));
        complaints.extend(outcome.failures.iter().map(ToString::to_string));
        complaints.extend(
            outcome
                .stale
                .iter()
                .map(|place| format!("{place}: {name} does not differ")),
        );
    }
    assert!(
        complaints.is_empty(),
        "{} complaints\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

#[test]
fn every_file_of_the_suite_reads() {
    let cases: usize = suites().iter().map(|suite| suite.cases.len()).sum();
    assert!(cases >= 150, "{cases} cases");
}

#[test]
fn nsd_conforms_to_the_suite() {
    judge(PeerKind::Nsd);
}

#[test]
fn knot_conforms_to_the_suite() {
    judge(PeerKind::Knot);
}

#[test]
fn bind_conforms_to_the_suite() {
    judge(PeerKind::Bind);
}
