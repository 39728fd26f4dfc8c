//! The cases on each database: one transaction for all, each with its own result.

use super::cases::{CASES, ZONE};
use super::change_of;
use super::text::{lines, message, rrsets};
use nameward_sql::write::{NewZone, WriteError};
use nameward_sql::{DatabaseAddress, SqlBackend, SqlOptions, db};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_wire::{NameBuf, Rcode};
use nameward_zone::change::ConditionalChange;
use std::time::UNIX_EPOCH;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(future)
}

/// Runs all cases, each on a zone of its own, and all that are well formed in one group.
fn run(address: DatabaseAddress) {
    block_on(async {
        assert!(db::init(&address).await.unwrap().is_empty());
        let backend = SqlBackend::new(SqlOptions::for_tests(address)).unwrap();
        let mut asked = Vec::new();
        for (number, case) in CASES.iter().enumerate() {
            let apex: NameBuf = format!("z{number}.example.").parse().unwrap();
            let Ok(change) = change_of(&message(case.1, &apex)) else {
                continue;
            };
            let zone = NewZone {
                attributes: Vec::new(),
                name: apex,
                kind: nameward_zone::ZoneKind::Native,
                primaries: None,
                account: String::new(),
                key: None,
                rrsets: rrsets(ZONE, &apex),
                now: UNIX_EPOCH,
            };
            let zone = backend.create_zone(&zone).await.unwrap().zone;
            asked.push((case, apex, zone, change));
        }
        let group: Vec<(NameBuf, &dyn ConditionalChange)> = asked
            .iter()
            .map(|(_, apex, _, change)| (*apex, change as &dyn ConditionalChange))
            .collect();
        let results = backend.commit_group(&group).await;
        assert_eq!(results.len(), asked.len());
        for ((case, apex, zone, _), result) in asked.iter().zip(results) {
            let committed = match result {
                Ok(committed) => committed,
                Err(WriteError::Refused(refused)) => {
                    assert_eq!(refused.rcode, case.2, "{}: {refused}", case.0);
                    continue;
                }
                Err(error) => panic!("{}: {error}", case.0),
            };
            assert_eq!(case.2, Rcode::NoError, "{}", case.0);
            assert_eq!(committed.zone, *zone);
            let difference = committed.difference.unwrap_or_default();
            let gone = lines(&difference.removed, apex).into_iter();
            let came = lines(&difference.added, apex).into_iter();
            let gone = gone.map(|line| format!("-{line}"));
            let mut found: Vec<String> = gone.chain(came.map(|line| format!("+{line}"))).collect();
            let mut expected = case.3.to_vec();
            expected.sort_unstable();
            found.sort();
            assert_eq!(found, expected, "{}", case.0);
            let serial = match (case.sets_serial(), case.3.is_empty()) {
                (true, _) => 20,
                (false, true) => 10,
                (false, false) => 11,
            };
            assert_eq!(committed.serial.0, serial, "{}", case.0);
        }
        drop(backend);
    });
}

#[test]
fn every_form_does_the_same_in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    run(DatabaseAddress::Sqlite(directory.path().join("test.db")));
}

#[test]
fn every_form_does_the_same_in_postgresql() {
    if let Some(database) = Database::start(DatabaseKind::Postgres) {
        let database = database.unwrap();
        run(DatabaseAddress::parse(&database.url()).unwrap());
    }
}

#[test]
fn every_form_does_the_same_in_mariadb() {
    if let Some(database) = Database::start(DatabaseKind::Mariadb) {
        let database = database.unwrap();
        run(DatabaseAddress::parse(&database.url()).unwrap());
    }
}
