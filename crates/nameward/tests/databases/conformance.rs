//! The contract of all backends: for every query of the conformance suite, a database answers with the same octets as
//! a zone file, live and resident, with caches and without, over UDP and TCP, from the database and from the caches.

use super::operation::counter;
use super::probing_client::ProbingClient;
use super::rows::Sqlite;
use super::servers::{backend, fill, run, started};
use nameward_testkit::conformance::{self, Judge, Suite};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::wire::{Exchange, Transport};
use nameward_testkit::{Setup, TestFailure, TestServer};
use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

const CACHES_OFF: &str = "[cache]\npacket_entries = 0\nquery_entries = 0\n";
/// Mode, caches, and how often each query is sent: the second answer is from the caches.
type Variant = (&'static str, &'static str, usize);
const VARIANTS: [Variant; 4] = [
    ("live", CACHES_OFF, 1),
    // The first is looked up, the second enters the packet cache, the third comes from it.
    ("live", "", 3),
    ("resident", "", 1),
    ("resident", CACHES_OFF, 1),
];
/// How long to wait for a reply where the zone file gave none.
const SILENCE: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(60);

fn suites() -> Vec<Suite> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    conformance::read_all(&directory).expect("every file of the suite reads")
}

/// Sends the same query to two servers, and compares the replies.
struct Contract<'s> {
    file: &'s TestServer,
    database: &'s TestServer,
    rounds: usize,
    differences: RefCell<Vec<String>>,
}

impl Exchange for Contract<'_> {
    fn exchange(
        &self,
        transport: Transport,
        message: &[u8],
    ) -> Result<Option<Vec<u8>>, TestFailure> {
        let client = |server: &TestServer, late| ProbingClient {
            address: server.address(),
            late,
        };
        let expected = client(self.file, SILENCE).exchange(transport, message)?;
        let late = match expected {
            Some(_) => TIMEOUT,
            None => SILENCE,
        };
        for round in 1..=self.rounds {
            let reply = client(self.database, late).exchange(transport, message)?;
            if reply != expected {
                let text = format!(
                    "{transport}, round {round}, {message:x?}: {reply:x?}, not {expected:x?}"
                );
                self.differences.borrow_mut().push(text);
            }
        }
        Ok(expected)
    }
}

/// Runs a file of the suite with its zones in a database, which `backend` describes for a mode.
fn check(
    suite: &Suite,
    variants: &[Variant],
    total_hits: &mut u64,
    backend: impl Fn(&str) -> String,
) -> Vec<String> {
    let setup = Setup::new().without_web().config(&suite.config);
    let zones = suite.zones.iter();
    let file = zones.fold(setup, |setup, zone| {
        setup.zone(&zone.name, &zone.file_text())
    });
    let file = file.start();
    let mut complaints = Vec::new();
    for &(mode, caches, rounds) in variants {
        let config = format!("{}\n{caches}\n{}", suite.config, backend(mode));
        let database = Setup::new().without_web().config(&config).start();
        let contract = Contract {
            file: &file,
            database: &database,
            rounds,
            differences: RefCell::default(),
        };
        let outcome = conformance::run(suite, &contract, Judge::Strict, None);
        let failures = outcome.failures.iter().map(ToString::to_string);
        let all = failures.chain(contract.differences.into_inner());
        let hits = counter(&database, "packetcache-hit");
        // Zones in memory do not use the caches.
        let may_hit = mode == "live" && caches.is_empty();
        assert!(may_hit || hits == 0, "{mode}, {caches:?}: {hits} hits");
        *total_hits += hits;
        let path = suite.path.display();
        complaints.extend(all.map(|text| format!("{path}, {mode}, {caches:?}: {text}")));
    }
    complaints
}

fn assert_none(complaints: &[String], hits: u64) {
    let count = complaints.len();
    assert!(
        complaints.is_empty(),
        "{count} complaints\n{}",
        complaints.join("\n")
    );
    assert!(hits > 200, "{hits} answers from the packet cache");
}

#[test]
fn sqlite_conforms_to_the_suite() {
    let (mut complaints, mut hits) = (Vec::new(), 0);
    for suite in suites() {
        let directory = tempfile::tempdir().unwrap();
        let database = Sqlite::new(directory.path());
        suite.zones.iter().for_each(|zone| database.add(zone));
        let path = database.path.display();
        complaints.extend(check(&suite, &VARIANTS, &mut hits, |mode| {
            format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\nmode = \"{mode}\"\n")
        }));
    }
    assert_none(&complaints, hits);
}

fn check_database(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let (mut complaints, mut hits) = (Vec::new(), 0);
    for suite in suites() {
        run(&database, kind, &fill(&suite.zones));
        complaints.extend(check(&suite, &VARIANTS[..3], &mut hits, |mode| {
            backend(kind, &database.url(), mode)
        }));
    }
    assert_none(&complaints, hits);
}

#[test]
fn postgres_conforms_to_the_suite() {
    check_database(DatabaseKind::Postgres);
}

#[test]
fn mariadb_conforms_to_the_suite() {
    check_database(DatabaseKind::Mariadb);
}
