//! The follower of catalog zones: what it makes of policies and of versions that are served.

use crate::common::{name, open_store};
use nameward_maintain::catalog::{CatalogHandle, make_catalog, read_catalog, start};
use nameward_maintain::leases::Leases;
use nameward_maintain::policy::{
    PolicyFragment, PolicySet, PolicySource, PolicyTable, RemoteServer, StoredPolicies,
    UNCONFIGURED_RANK, ZoneKind,
};
use nameward_maintain::stored_views::StoredViews;
use nameward_maintain::{
    Commits, Core, Durable, TableWriter, WrittenDone, follow::databases::Databases,
};
use nameward_sql::CatalogProperties;
use nameward_state::{JournalBounds, StateChange, StateError, StateStore};
use nameward_testkit::wait_until;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{Serial, TableChange, Zone};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Server {
    commits: Arc<Commits>,
    policies: Arc<PolicyTable>,
    catalogs: CatalogHandle,
}

fn store(directory: &Path) -> StateStore {
    let bounds = JournalBounds {
        octets: 64 << 20,
        entries: 1000,
    };
    open_store(directory, bounds)
}

fn server(directory: &Path) -> Server {
    server_on(Arc::new(store(directory)))
}

fn server_on(durable: Arc<dyn Durable>) -> Server {
    let commits = Commits::new(Arc::new(TableWriter::default()), Some(durable), ()).unwrap();
    let policies = Arc::<PolicyTable>::default();
    let template = PolicyFragment {
        transfer_octets_max: Some(7),
        ..PolicyFragment::default()
    };
    let core = Core {
        commits: Arc::clone(&commits),
        policies: Arc::clone(&policies),
        stored_policies: Arc::new(StoredPolicies::new(None, Arc::clone(&policies))),
        stored_views: Arc::new(StoredViews::new(None, Arc::clone(commits.table()))),
        databases: Databases::default(),
        leases: Leases::default(),
    };
    let templates = HashMap::from([("small".to_string(), template)]);
    let catalogs = CatalogHandle::default();
    start(&core, &catalogs, templates).unwrap();
    Server {
        commits,
        policies,
        catalogs,
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.catalogs.end();
    }
}

#[track_caller]
/// Policies of a producer and of so many members.
fn producing(members: usize) -> PolicySet {
    let mut set = PolicySet::default();
    let producer = PolicyFragment {
        kind: Some(ZoneKind::Producer),
        ..PolicyFragment::default()
    };
    set.set_zone(name("catz.example.").as_name(), Arc::new(producer));
    let member = Arc::new(PolicyFragment {
        kind: Some(ZoneKind::Primary),
        catalog: Some(name("CATZ.example.")),
        catalog_group: Some("small".into()),
        ..PolicyFragment::default()
    });
    for number in 0..members {
        let zone = name(&format!("z{number}.example."));
        set.set_zone(zone.as_name(), Arc::clone(&member));
    }
    set
}

impl Server {
    fn produced(&self) -> Option<Arc<Zone>> {
        let zone = self
            .commits
            .table()
            .version(name("catz.example.").as_name(), 0);
        zone.filter(|zone| !zone.is_stub())
    }

    fn members(&self) -> Option<usize> {
        Some(read_catalog(&*self.produced()?).unwrap().members.len())
    }

    fn is_member(&self, zone: &NameBuf) -> bool {
        self.policies.load().own(zone.as_name()).is_some()
    }
}

#[test]
fn a_produced_catalog_follows_the_policies_and_its_serial_increases_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let first = server(directory.path());
    first.policies.set(PolicySource::Configured, producing(3));
    wait_until("it is made", || first.members() == Some(3));
    let serial = first.produced().unwrap().serial();
    first.policies.set(PolicySource::Configured, producing(2));
    wait_until("a member went", || first.members() == Some(2));
    let later = first.produced().unwrap().serial();
    assert!(later.is_after(serial));
    drop(first);
    let second = server(directory.path());
    second.policies.set(PolicySource::Configured, producing(2));
    wait_until("it is served again", || second.members() == Some(2));
    assert_eq!(
        second.produced().unwrap().serial(),
        later,
        "nothing changed"
    );
    second.policies.set(PolicySource::Configured, producing(4));
    wait_until("it is produced again", || second.members() == Some(4));
    assert!(second.produced().unwrap().serial().is_after(later));
    second
        .policies
        .set(PolicySource::Configured, PolicySet::default());
    wait_until("it is gone", || second.produced().is_none());
}

/// Serves a version of a catalog that is followed.
/// Changes that wait to be written.
type HeldChanges = Vec<(Vec<StateChange>, WrittenDone)>;

/// A disk that takes nothing while it is held.
struct HeldDisk {
    store: StateStore,
    held: Mutex<Option<HeldChanges>>,
}

impl HeldDisk {
    fn count(&self) -> usize {
        self.held.lock().unwrap().as_ref().map_or(0, Vec::len)
    }

    /// Refuses what it holds, and takes everything from then on.
    fn refuse(&self) {
        let held = self.held.lock().unwrap().take();
        for (_, done) in held.into_iter().flatten() {
            done(Err(StateError::Closed));
        }
    }

    fn release(&self) {
        let held = self.held.lock().unwrap().take();
        for (changes, done) in held.into_iter().flatten() {
            self.store.submit(changes, done);
        }
    }
}

impl Durable for HeldDisk {
    fn submit(&self, changes: Vec<StateChange>, done: WrittenDone) {
        match &mut *self.held.lock().unwrap() {
            Some(held) => held.push((changes, done)),
            None => self.store.submit(changes, done),
        }
    }

    fn store(&self) -> &StateStore {
        &self.store
    }
}

#[test]
fn a_produced_catalog_that_changes_during_its_commit_follows_the_change() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(HeldDisk {
        store: store(directory.path()),
        held: Mutex::new(Some(Vec::new())),
    });
    let server = server_on(Arc::clone(&disk) as Arc<dyn Durable>);
    server.policies.set(PolicySource::Configured, producing(1));
    wait_until("it is being committed", || disk.count() == 1);
    server.policies.set(PolicySource::Configured, producing(2));
    // Time for a mistake: the second version must not be made of what the first one began with.
    std::thread::sleep(Duration::from_millis(300));
    disk.release();
    wait_until("the change", || server.members() == Some(2));
}

#[test]
fn a_produced_catalog_that_could_not_be_committed_is_produced_again() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(HeldDisk {
        store: store(directory.path()),
        held: Mutex::new(Some(Vec::new())),
    });
    let server = server_on(Arc::clone(&disk) as Arc<dyn Durable>);
    server.policies.set(PolicySource::Configured, producing(3));
    wait_until("it is being committed", || disk.count() == 1);
    disk.refuse();
    wait_until("it is made again", || server.members() == Some(3));
}

fn serve(server: &Server, members: &[(NameBuf, Option<&str>)], serial: u32) {
    let properties = |group: Option<&str>| CatalogProperties {
        groups: group.into_iter().map(str::to_owned).collect(),
        ..CatalogProperties::default()
    };
    let members = members.iter();
    let members: Vec<_> = members
        .map(|(zone, group)| (zone.as_name(), properties(*group)))
        .collect();
    let members = members.iter().map(|(zone, properties)| (*zone, properties));
    let zone = make_catalog(name("consumed.example.").as_name(), members, Serial(serial));
    publish(server, zone.unwrap());
}

fn publish(server: &Server, zone: Zone) {
    let offer = TableChange::Offer(Arc::new(zone));
    server.commits.table().publish(&[offer]);
    server.catalogs.wake();
}

fn consume(server: &Server) {
    let primary = RemoteServer {
        address: "192.0.2.1:5300".parse().unwrap(),
        key: Some(name("k.")),
        source: None,
        tls: None,
    };
    let consumer = PolicyFragment {
        kind: Some(ZoneKind::Consumer),
        primaries: Some(vec![primary]),
        ..PolicyFragment::default()
    };
    let mut set = PolicySet::default();
    set.set_zone(name("consumed.example.").as_name(), Arc::new(consumer));
    server.policies.set(PolicySource::Configured, set);
}

#[test]
fn members_of_a_catalog_appear_and_vanish_as_secondaries_of_its_primaries() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    consume(&server);
    let [a, b, file] = ["a.test.", "b.test.", "file.test."].map(name);
    let mut from_file = Zone::not_ready(file.as_name());
    from_file.set_rank(1);
    publish(&server, from_file);
    serve(&server, &[(a, None), (b, Some("small")), (file, None)], 1);
    wait_until("they appear", || {
        server.is_member(&a) && server.is_member(&b)
    });
    let policies = server.policies.load();
    let policy = policies.get(a.as_name());
    assert_eq!(
        (policy.kind, policy.declared_by),
        (ZoneKind::Secondary, PolicySource::Catalogs)
    );
    assert_eq!(
        policy.primaries[0].address,
        "192.0.2.1:5300".parse().unwrap()
    );
    assert_eq!(policy.primaries[0].key, Some(name("k.")));
    assert_eq!(
        policies.get(b.as_name()).transfer_octets_max,
        7,
        "its group is a template"
    );
    assert!(!server.is_member(&file), "it is served from a file");
    // A broken version changes nothing.
    let broken = name("consumed.example.");
    publish(&server, without_version(broken.as_name()));
    server.catalogs.wake();
    std::thread::sleep(Duration::from_millis(500));
    assert!(server.is_member(&a) && server.is_member(&b));
    serve(&server, &[(b, None)], 3);
    wait_until("one vanishes", || !server.is_member(&a));
    assert!(server.is_member(&b));
    server
        .policies
        .set(PolicySource::Configured, PolicySet::default());
    wait_until("all vanish with the catalog", || !server.is_member(&b));
}

/// A zone that is no catalog.
fn without_version(apex: Name<'_>) -> Zone {
    use nameward_wire::zonefile::{Options, parse_bytes};
    let mut builder = nameward_zone::ZoneBuilder::new(apex);
    let text = b"@ 0 SOA invalid. invalid. 2 3600 600 2147483646 0\n@ 0 NS invalid.\n";
    parse_bytes("x", text, &Options::new(apex.into()), &mut builder);
    builder.finish().0.unwrap()
}

#[test]
fn a_member_with_another_label_is_removed_before_it_is_added_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    consume(&server);
    let with_label = |label: &str, serial: u32| {
        use nameward_wire::zonefile::{Options, parse_bytes};
        let apex = name("consumed.example.");
        let mut builder = nameward_zone::ZoneBuilder::new(apex.as_name());
        let text = format!(
            "@ 0 SOA invalid. invalid. {serial} 3600 600 2147483646 0\n@ 0 NS invalid.\n\
             version 0 TXT \"2\"\n{label}.zones 0 PTR a.test.\n"
        );
        parse_bytes("x", text.as_bytes(), &Options::new(apex), &mut builder);
        builder.finish().0.unwrap()
    };
    let a = name("a.test.");
    publish(&server, with_label("one", 1));
    wait_until("it appears", || server.is_member(&a));
    let mut transferred = Zone::not_ready(a.as_name());
    transferred.set_rank(UNCONFIGURED_RANK);
    publish(&server, transferred);
    publish(&server, with_label("two", 2));
    wait_until("it is let go", || !server.is_member(&a));
    // The life of secondary zones takes it out of the table.
    let gone = TableChange::Withdraw(a.as_name().as_wire().into(), UNCONFIGURED_RANK);
    server.commits.table().publish(&[gone]);
    wait_until("it comes again", || server.is_member(&a));
}

#[test]
fn many_members_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    consume(&server);
    let members: Vec<_> = (0..20_000)
        .map(|number| (name(&format!("z{number}.test.")), None))
        .collect();
    serve(&server, &members, 1);
    let (last, first) = (members[19_999].0, members[0].0);
    wait_until("they appear", || server.is_member(&last));
    assert_eq!(server.policies.load().zones().count(), 20_001);
    serve(&server, &members[1..], 2);
    wait_until("one vanishes", || !server.is_member(&first));
    assert!(server.is_member(&last));
}
