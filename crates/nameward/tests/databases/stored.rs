//! Zones with stored signatures, in files and in databases (PRESIGNED): signed by BIND's tools, and secure for BIND
//! as a resolver.

use super::rows::Sqlite;
use super::signed::{Judged, anchors, is_complete, judge_all, set_meta};
use nameward_testkit::conformance::ZoneText;
use nameward_testkit::differential::queries::TestQuery;
use nameward_testkit::differential::{generate_queries, zones};
use nameward_testkit::validator::Validator;
use nameward_testkit::wire::Message;
use nameward_testkit::{Setup, TestFailure};
use std::path::Path;
use std::process::Command;

const CNAME: u16 = 5;
const DS: u16 = 43;
const NSEC: u16 = 47;

/// Runs a tool of BIND in a directory.
fn run(dir: &Path, tool: &str, arguments: &[&str]) -> Result<(), TestFailure> {
    let output = Command::new(tool).current_dir(dir).args(arguments).output();
    let output = output.map_err(|error| format!("{tool}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(said.into())
}

/// Signs a zone; returns the signed text.
fn sign(dir: &Path, zone: &str, text: &str, denial: &[&str]) -> Result<String, TestFailure> {
    let origin = if zone.is_empty() { "." } else { zone };
    for flag in [&["-f", "KSK"][..], &[]] {
        let new = ["-q", "-a", "ECDSAP256SHA256"];
        run(dir, "dnssec-keygen", &[&new[..], flag, &[origin]].concat())?;
    }
    std::fs::write(dir.join("unsigned"), text).unwrap();
    // Smart signing uses the keys in the directory; the full format can be read by any server.
    let arguments = ["-S", "-O", "full", "-o", origin, "-f", "signed"];
    run(
        dir,
        "dnssec-signzone",
        &[&arguments[..], denial, &["unsigned"]].concat(),
    )?;
    Ok(std::fs::read_to_string(dir.join("signed")).unwrap())
}

/// Checks whether BIND as a resolver can validate the answer: it does not accept an alias as an answer to NSEC, and
/// the DS that an alias leads to may belong to a parent that is not served.
fn can_judge(ask: &TestQuery, own: &Message) -> bool {
    let is_alias = own.answer.iter().any(|record| record.rtype == CNAME);
    is_complete(ask, own) && !(is_alias && matches!(ask.question.rtype, NSEC | DS))
}

/// Where the zones are.
#[derive(PartialEq)]
enum Home {
    Files,
    /// A database in this mode.
    Database(&'static str),
}

/// All queries that a seed generates for its zones in files.
fn check(seed: u64, denial: &[&str], expected: Judged) {
    check_at(Home::Files, seed, denial, expected);
}

fn check_at(home: Home, seed: u64, denial: &[&str], expected: Judged) {
    let mut setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let made = zones::zones(seed);
    let mut signed = Vec::new();
    for zone in &made {
        let dir = tempfile::tempdir().unwrap();
        // Zones that BIND does not load are not queried.
        if let Ok(text) = sign(dir.path(), &zone.name, zone.text(), denial) {
            match home {
                Home::Files => setup = setup.zone(&zone.name, &text),
                Home::Database(_) => {
                    let name = zone.name.clone();
                    database.add(&ZoneText { name, text });
                    set_meta(&database, &zone.name, "PRESIGNED", "1");
                }
            }
            signed.push(zone.name.as_str());
        }
    }
    assert!(signed.len() * 2 > made.len(), "{signed:?}");
    if let Home::Database(mode) = home {
        setup = setup.config(&database.backend(mode));
    }
    let server = setup.start();
    let validator = Validator::start(server.address(), &anchors(server.address(), &signed));
    let validator = validator.expect("named");
    let queries = (generate_queries(&made, seed), can_judge);
    let validated = judge_all(&validator, server.address(), queries, expected);
    assert!(validated > 200, "{validated} asked");
}

#[test]
fn presigned_zones_of_databases_are_secure() {
    check_at(Home::Database("resident"), 3, &[], Judged::Secure);
}

#[test]
fn presigned_zones_of_live_databases_are_secure() {
    check_at(
        Home::Database("live"),
        4,
        &["-3", "aabb", "-H", "2"],
        Judged::Secure,
    );
}

#[test]
fn zone_files_signed_with_nsec_are_secure() {
    check(3, &[], Judged::Secure);
}

#[test]
fn zone_files_signed_with_nsec3_are_secure() {
    check(4, &["-3", "aabb", "-H", "2"], Judged::Secure);
}

#[test]
fn zone_files_signed_with_nsec3_and_opt_out_are_not_bogus() {
    check(5, &["-3", "-", "-A"], Judged::NotBogus);
}
