//! Policies of zones in a database: in force before the zones are, following changes, closed where they cannot be read.

use nameward_maintain::follow::databases::{
    self, DatabaseSource, Databases, FollowSettings, ServedFrom,
};
use nameward_maintain::policy::{
    NameServerNotify, PolicySource, PolicyTable, ZoneKind, ZonePolicy,
};
use nameward_maintain::{Commits, TableWriter};
use nameward_sql::{DatabaseAddress, SqlBackend, SqlOptions, db};
use nameward_wire::NameBuf;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const RANK: u16 = 2;
/// A busy machine may take long for anything.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Followed {
    _directory: TempDir,
    path: PathBuf,
    policies: Arc<PolicyTable>,
    databases: Databases,
    _runtime: Runtime,
}

/// Follows a database that was filled by some statements.
fn follow(sql: &str) -> Followed {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("zones.db");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let address = DatabaseAddress::Sqlite(path.clone());
    runtime.block_on(db::init(&address)).unwrap();
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let backend = SqlBackend::new(SqlOptions::for_tests(address)).unwrap();
    let commits = Commits::new(Arc::new(TableWriter::default()), None, ()).unwrap();
    let policies = Arc::<PolicyTable>::default();
    let source = DatabaseSource {
        rank: RANK,
        served_from: ServedFrom::Lookups,
        lookup_source: 0,
        backend,
    };
    let terms = FollowSettings {
        refresh_interval: TIMEOUT,
        state_directory: None,
        give_back: || (),
        policies: &policies,
    };
    let (databases, asked) = {
        let _entered = runtime.enter();
        databases::start(&commits, vec![source], &terms).unwrap()
    };
    for first in asked {
        runtime.block_on(first).unwrap();
    }
    Followed {
        _directory: directory,
        path,
        policies,
        databases,
        _runtime: runtime,
    }
}

impl Followed {
    fn policy(&self, zone: &str) -> Arc<ZonePolicy> {
        let zone: NameBuf = zone.parse().unwrap();
        Arc::clone(self.policies.load().get(zone.as_name()))
    }

    fn run(&self, sql: &str) {
        let connection = Connection::open(&self.path).unwrap();
        connection.busy_timeout(TIMEOUT).unwrap();
        connection.execute_batch(sql).unwrap();
    }

    #[track_caller]
    fn wait_until(&self, zone: &str, is_right: impl Fn(&ZonePolicy) -> bool) {
        let start = Instant::now();
        while !is_right(&self.policy(zone)) {
            assert!(start.elapsed() < TIMEOUT, "{:?}", self.policy(zone));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

const ZONES: &str = "INSERT INTO domains (id, name, type, master) VALUES (1, 'one.test', 'MASTER', NULL), \
                     (2, 'two.test', 'SLAVE', '192.0.2.1:5300'), (3, 'three.test', 'NATIVE', NULL); \
                     INSERT INTO domainmetadata (domain_id, kind, content) VALUES \
                     (1, 'ALLOW-AXFR-FROM', '192.0.2.0/24'), (1, 'SOA-EDIT', 'EPOCH'), \
                     (2, 'AXFR-MASTER-TSIG', 'k'); \
                     INSERT INTO tsigkeys (name, algorithm, secret) VALUES ('k', 'hmac-sha256', 'c2VjcmV0'); \
                     INSERT INTO supermasters VALUES ('192.0.2.53', 'ns.two.test', 'x');";

#[test]
fn policies_of_a_database_are_read_and_follow_its_changes() {
    let followed = follow(ZONES);
    let peer = "192.0.2.9".parse().unwrap();
    let one = followed.policy("one.test");
    assert_eq!(
        (one.kind, one.declared_by),
        (ZoneKind::Primary, PolicySource::Backend(RANK))
    );
    assert!(
        one.allow_transfer.contains(peer) && one.notify_name_servers == NameServerNotify::Always
    );
    let two = followed.policy("two.test");
    assert_eq!(two.kind, ZoneKind::Secondary);
    assert_eq!(two.primaries[0].address, "192.0.2.1:5300".parse().unwrap());
    assert_eq!(two.primaries[0].key, Some("k.".parse().unwrap()));
    let policies = followed.policies.load();
    assert!(
        policies
            .own("three.test.".parse::<NameBuf>().unwrap().as_name())
            .is_none()
    );
    assert_eq!(policies.keys().len(), 1);
    assert_eq!(
        policies.autoprimaries()[0].address.to_string(),
        "192.0.2.53:53"
    );
    followed
        .run("UPDATE domainmetadata SET content = '198.51.100.1' WHERE kind = 'ALLOW-AXFR-FROM'");
    followed.wait_until("one.test", |policy| !policy.allow_transfer.contains(peer));
    followed.run("UPDATE domains SET type = 'NATIVE' WHERE id = 2");
    followed.wait_until("two.test", |policy| policy.kind == ZoneKind::Native);
    followed.run("DELETE FROM domains WHERE id = 1");
    followed.wait_until("one.test", |policy| policy.kind == ZoneKind::Native);
    // Keys have no notice of their own: they are read with the list.
    followed.run("DELETE FROM tsigkeys");
    followed.databases.request_refresh();
    let start = Instant::now();
    while !followed.policies.load().keys().is_empty() {
        assert!(start.elapsed() < TIMEOUT, "the key is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn zones_whose_metadata_cannot_be_read_grant_no_access() {
    let sql = format!("{ZONES} ALTER TABLE domainmetadata RENAME TO elsewhere;");
    let followed = follow(&sql);
    let mut configured = nameward_maintain::policy::PolicySet::default();
    configured.default.allow_transfer = Some(nameward_zone::AccessList::any());
    followed.policies.set(PolicySource::Configured, configured);
    for zone in ["one.test", "two.test", "three.test"] {
        assert!(followed.policy(zone).allow_transfer.is_none(), "{zone}");
    }
    assert!(followed.policy("elsewhere.test").allow_transfer.is_any());
    followed.run("ALTER TABLE elsewhere RENAME TO domainmetadata");
    followed.databases.request_refresh();
    followed.wait_until("three.test", |policy| policy.allow_transfer.is_any());
    // What was read stays when it cannot be read any more.
    followed.run("ALTER TABLE domainmetadata RENAME TO elsewhere");
    followed.databases.request_refresh();
    followed.run("INSERT INTO domains (id, name, type) VALUES (9, 'new.test', 'NATIVE')");
    followed.wait_until("new.test", |policy| policy.allow_transfer.is_none());
    assert!(followed.policy("three.test").allow_transfer.is_any());
}
