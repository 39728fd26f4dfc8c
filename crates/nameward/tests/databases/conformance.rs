//! The conformance suite on databases: live and resident, caches on and off.

use crate::ask::Asker;
use crate::rows::Sqlite;
use nameward_testkit::conformance::{self, Judge, Suite};
use nameward_testkit::{Setup, TestServer};
use std::path::Path;
use std::time::Duration;

pub const CACHES_OFF: &str = "[cache]\npacket_entries = 0\nquery_entries = 0\n";

pub fn suites() -> Vec<Suite> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    conformance::read_all(&directory).expect("every file of the suite reads")
}

/// Asks for answers and for silence.
pub fn asker(server: &TestServer) -> Asker {
    Asker {
        address: server.address(),
        late: Duration::from_secs(1),
    }
}

/// Runs every file, as often as `rounds` says: the second time answers come from caches.
fn run(mode: &str, caches: &str, rounds: usize) {
    let mut complaints = Vec::new();
    for suite in suites() {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        suite.zones.iter().for_each(|zone| database.add(zone));
        let backend = format!(
            "[[backend]]\ntype = \"sqlite\"\npath = \"{}\"\nmode = \"{mode}\"\n",
            database.path.display()
        );
        let config = format!("{}\n{caches}\n{backend}", suite.config);
        match setup.config(&config).try_start() {
            Err(failure) => complaints.push(format!("{}: {failure}", suite.path.display())),
            Ok(server) => {
                let asker = asker(&server);
                for _ in 0..rounds {
                    let outcome = conformance::run(&suite, &asker, Judge::Strict, None);
                    complaints.extend(outcome.failures.iter().map(ToString::to_string));
                }
            }
        }
    }
    assert!(
        complaints.is_empty(),
        "{} complaints\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

#[test]
fn sqlite_live_answers_as_the_suite_says() {
    run("live", CACHES_OFF, 1);
}

#[test]
fn sqlite_live_with_caches_answers_as_the_suite_says() {
    run("live", "", 2);
}

#[test]
fn sqlite_resident_answers_as_the_suite_says() {
    run("resident", "", 1);
}
