//! Followers of databases: they continue after a panic, and changes of this server cost their own size.

use crate::common::{name, owner, soa};
use nameward_maintain::follow::databases::{
    self, DatabaseSource, Databases, FollowSettings, ServedFrom,
};
use nameward_maintain::{Commits, TableWriter};
use nameward_sql::write::NewZone;
use nameward_sql::{DatabaseAddress, SqlBackend, SqlOptions, db};
use nameward_wire::{NameBuf, Type};
use nameward_zone::Zone;
use nameward_zone::change::{NewRecord, RrsetData};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

const RANK: u16 = 3;
/// Of a database whose thread is counted.
const OTHER_RANK: u16 = 4;
/// A busy machine may take long for anything.
const TIMEOUT: Duration = Duration::from_secs(60);

fn rrset(owner: NameBuf, rtype: Type, rdata: Vec<u8>) -> RrsetData {
    RrsetData {
        name: owner,
        rtype,
        ttl: 300,
        records: vec![NewRecord {
            text: None,
            rdata,
            disabled: false,
        }],
    }
}

/// A database with one zone.
async fn backend(directory: &Path) -> SqlBackend {
    let address = DatabaseAddress::Sqlite(directory.join("zones.db"));
    assert_eq!(db::init(&address).await.unwrap(), Vec::<String>::new());
    let backend = SqlBackend::new(SqlOptions::for_tests(address)).unwrap();
    let apex = name("one.test.");
    let zone = NewZone {
        attributes: Vec::new(),
        name: apex,
        kind: nameward_zone::ZoneKind::Native,
        primaries: None,
        account: String::new(),
        key: None,
        rrsets: vec![
            rrset(apex, Type::SOA, soa(1)),
            rrset(owner(&apex, 1), Type::A, vec![192, 0, 2, 1]),
        ],
        now: SystemTime::now(),
    };
    backend.create_zone(&zone).await.unwrap();
    backend
}

fn follow(commits: &Arc<Commits>, backend: &SqlBackend, give_back: fn()) -> Databases {
    let source = DatabaseSource {
        rank: RANK,
        served_from: ServedFrom::Memory,
        lookup_source: 0,
        backend: backend.clone(),
    };
    let terms = FollowSettings {
        refresh_interval: TIMEOUT,
        state_directory: None,
        give_back,
        policies: &Arc::default(),
    };
    databases::start(commits, vec![source], &terms).unwrap().0
}

/// Waits until the zone in memory is as it should be.
fn wait_until(commits: &Commits, is_right: impl Fn(&Zone) -> bool) {
    let (zone, start) = (name("one.test."), Instant::now());
    loop {
        let version = commits.table().version(zone.as_name(), RANK);
        if version.is_some_and(|version| !version.is_stub() && is_right(&version)) {
            return;
        }
        assert!(start.elapsed() < TIMEOUT, "the zone is not as it should be");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_follower_that_panics_is_started_again_and_reads_everything() {
    static LEFT: AtomicUsize = AtomicUsize::new(2);
    fn panic_twice() {
        let before = LEFT.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            left.checked_sub(1)
        });
        assert!(before.is_err(), "a panic for the test");
    }
    let directory = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let backend = runtime.block_on(backend(directory.path()));
    let commits = Commits::new(Arc::new(TableWriter::default()), None, ()).unwrap();
    let _entered = runtime.enter();
    let _databases = follow(&commits, &backend, panic_twice);
    wait_until(&commits, |zone| zone.serial().0 == 1);
    assert_eq!(LEFT.load(Ordering::Acquire), 0);
}

/// The runtime ends after the databases are closed. A follower that still waited for its database then would panic.
#[test]
fn followers_have_ended_when_their_databases_are_closed() {
    let directory = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let backend = runtime.block_on(backend(directory.path()));
    let commits = Commits::new(Arc::new(TableWriter::default()), None, ()).unwrap();
    let followers = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
        let is_ours = |name: &String| name.trim() == format!("database-{OTHER_RANK}");
        names.flatten().filter(is_ours).count()
    };
    let databases = {
        let _entered = runtime.enter();
        let source = DatabaseSource {
            rank: OTHER_RANK,
            served_from: ServedFrom::Memory,
            lookup_source: 0,
            backend,
        };
        let terms = FollowSettings {
            refresh_interval: TIMEOUT,
            state_directory: None,
            give_back: || (),
            policies: &Arc::default(),
        };
        databases::start(&commits, vec![source], &terms).unwrap().0
    };
    // A thread gives itself its name.
    nameward_testkit::wait_until("the follower runs", || followers() == 1);
    databases.close();
    assert_eq!(followers(), 0);
}
