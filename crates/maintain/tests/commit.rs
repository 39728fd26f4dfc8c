//! The way of a change: refused, durable, published, notified, in that order.

use crate::common::{
    self, BOUNDS, CommitAndWait, Hosts, build, hosts_of, name, open_store, owner, set_host,
};
use nameward_maintain::{
    CommitError, Commits, CommittedVersion, TableWriter, VersionSource, read_contents,
};
use nameward_state::{JournalOrigin, StateError, StateStore, ZoneStorage};
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::{ChangeError, Edit, ZoneChange};
use nameward_zone::{Serial, TableChange};
use std::sync::{Arc, Mutex, mpsc};
use tempfile::TempDir;

const RANK: u16 = 2;

struct Server {
    commits: Arc<Commits>,
    notified: Arc<Mutex<Vec<Serial>>>,
    zone: NameBuf,
}

fn server(store: Option<StateStore>, hosts: &Hosts) -> Server {
    let notified: Arc<Mutex<Vec<Serial>>> = Arc::default();
    let listener = Arc::clone(&notified);
    let durable = store.map(|store| Arc::new(store) as Arc<_>);
    let commits = Commits::new(
        Arc::new(TableWriter::default()),
        durable,
        move |committed: &CommittedVersion| {
            listener.lock().unwrap().push(committed.zone.serial());
        },
    )
    .unwrap();
    let zone = name("example.");
    let mut first = build(&zone, 1, hosts);
    first.set_rank(RANK);
    commits
        .table()
        .publish(&[TableChange::Offer(Arc::new(first))]);
    Server {
        commits,
        notified,
        zone,
    }
}

impl Server {
    fn source(&self, storage: ZoneStorage, origin: JournalOrigin) -> VersionSource {
        VersionSource {
            zone: self.zone,
            rank: RANK,
            storage,
            origin,
            confirmed: None,
            author: None,
        }
    }

    fn served(&self) -> (u32, Hosts) {
        let zone = self
            .commits
            .table()
            .version(self.zone.as_name(), RANK)
            .unwrap();
        (zone.serial().0, hosts_of(&zone))
    }

    fn journal(&self, from: u32) -> Option<Vec<(u32, u32)>> {
        let entries = self
            .commits
            .store()
            .unwrap()
            .journal_from(&self.zone, Serial(from))
            .unwrap();
        entries.map(|entries| {
            entries
                .iter()
                .map(|entry| (entry.from.0, entry.to.0))
                .collect()
        })
    }
}

fn store(directory: &TempDir) -> StateStore {
    open_store(directory.path(), BOUNDS)
}

#[test]
fn changes_of_many_clients_are_published_in_order_and_each_has_its_own_result() {
    let directory = TempDir::new().unwrap();
    let server = server(Some(store(&directory)), &Hosts::new());
    let source = server.source(ZoneStorage::File, JournalOrigin::Change);
    let (sender, results) = mpsc::channel();
    for n in 0..40u8 {
        let sender = sender.clone();
        // Every fourth is wrong: a CNAME beside an address.
        let change = match n % 4 {
            3 => cname(&server.zone, n - 1),
            _ => set_host(&server.zone, n, Some(n)),
        };
        server
            .commits
            .change(source.clone(), &change, move |result| {
                sender.send((n, result)).unwrap()
            });
    }
    drop(sender);
    for (n, result) in results {
        match result {
            Ok(committed) => assert!(n % 4 != 3 && hosts_of(&committed.zone)[&n] == n),
            Err(CommitError::Invalid(ChangeError::Invalid { .. })) => assert_eq!(n % 4, 3),
            Err(error) => panic!("{n}: {error}"),
        }
    }
    let (serial, hosts) = server.served();
    assert_eq!((serial, hosts.len()), (31, 30));
    assert_eq!(server.journal(1).unwrap().len(), 30);
    let notified: Vec<u32> = server
        .notified
        .lock()
        .unwrap()
        .iter()
        .map(|serial| serial.0)
        .collect();
    assert_eq!(
        notified,
        (2..=31).collect::<Vec<_>>(),
        "each version was served, in order"
    );
    // Nothing to do is no change, and is acknowledged after all that went before.
    let again = server
        .commits
        .change_and_wait(source.clone(), &set_host(&server.zone, 1, Some(1)))
        .unwrap();
    assert!(again.difference.is_empty() && again.zone.serial() == Serial(31));
}

fn cname(zone: &NameBuf, host: u8) -> ZoneChange {
    let mut change = set_host(zone, host, Some(1));
    if let Some(Edit::Replace(rrset)) = change.edits.first_mut() {
        rrset.rtype = Type::CNAME;
        rrset.records[0].rdata = owner(zone, 200).as_name().as_wire().to_vec();
    }
    change
}

#[test]
fn changes_kept_only_in_the_journal_need_a_store_and_others_do_not() {
    let server = server(None, &Hosts::new());
    let source = server.source(ZoneStorage::File, JournalOrigin::Change);
    let refused = server
        .commits
        .change_and_wait(source.clone(), &set_host(&server.zone, 1, Some(1)));
    let error = refused.err().unwrap();
    assert!(
        matches!(error, CommitError::NoStore(_)) && error.to_string().contains("state_directory")
    );
    assert_eq!(server.served(), (1, Hosts::new()));
    let edited = build(&server.zone, 5, &Hosts::from([(1, 1)]));
    let source = server.source(ZoneStorage::File, JournalOrigin::Storage);
    let committed = server
        .commits
        .version_and_wait(source.clone(), edited)
        .unwrap();
    assert_eq!(
        (
            committed.difference.removed.len(),
            committed.difference.added.len()
        ),
        (1, 2)
    );
    assert_eq!(server.served(), (5, Hosts::from([(1, 1)])));
}

#[test]
fn a_file_that_changed_without_a_newer_serial_restarts_the_journal() {
    let directory = TempDir::new().unwrap();
    let server = server(Some(store(&directory)), &Hosts::new());
    let source = server.source(ZoneStorage::File, JournalOrigin::Storage);
    let load = |serial, octet| {
        let zone = build(&server.zone, serial, &Hosts::from([(1, octet)]));
        server
            .commits
            .version_and_wait(source.clone(), zone)
            .unwrap();
    };
    load(2, 1);
    load(3, 2);
    assert_eq!(server.journal(1), Some(vec![(1, 2), (2, 3)]));
    load(3, 9);
    assert_eq!(
        (server.served().1[&1], server.journal(1), server.journal(3)),
        (9, None, Some(vec![]))
    );
    load(4, 9);
    assert_eq!(server.journal(3), Some(vec![(3, 4)]));
    // Back: secondaries cannot follow that.
    load(1, 9);
    assert_eq!((server.served().0, server.journal(3)), (1, None));
}

#[test]
fn a_stored_version_is_served_even_if_the_journal_has_a_gap() {
    let directory = TempDir::new().unwrap();
    let first = server(Some(store(&directory)), &Hosts::new());
    let database = first.source(ZoneStorage::Database, JournalOrigin::Change);
    first
        .commits
        .change_and_wait(database.clone(), &set_host(&first.zone, 1, Some(1)))
        .unwrap();
    assert_eq!(first.journal(1), Some(vec![(1, 2)]));
    drop(first);
    // Changed by others while this server was down: here at serial 1 again, which is not where the journal ends.
    let second = server(Some(store(&directory)), &Hosts::new());
    second
        .commits
        .change_and_wait(database.clone(), &set_host(&second.zone, 2, Some(2)))
        .unwrap();
    assert_eq!(second.served(), (2, Hosts::from([(2, 2)])));
    second
        .commits
        .change_and_wait(database.clone(), &set_host(&second.zone, 3, Some(3)))
        .unwrap();
    assert_eq!(second.journal(2), Some(vec![(2, 3)]));
    assert_eq!(second.journal(1), None);
}

#[test]
fn a_difference_of_another_version_is_refused() {
    let directory = TempDir::new().unwrap();
    let server = server(Some(store(&directory)), &Hosts::new());
    let versions = [7, 8].map(|serial| build(&server.zone, serial, &Hosts::new()));
    let source = server.source(ZoneStorage::Database, JournalOrigin::Change);
    let stale = server
        .commits
        .difference_and_wait(source.clone(), versions[1].difference_from(&versions[0]));
    assert_eq!(
        stale.err(),
        Some(CommitError::Stale {
            have: Serial(1),
            from: Serial(7)
        })
    );
}

#[test]
fn a_zone_that_was_withdrawn_does_not_come_back() {
    let directory = TempDir::new().unwrap();
    let server = server(Some(store(&directory)), &Hosts::new());
    let source = server.source(ZoneStorage::File, JournalOrigin::Storage);
    let name = server.zone.as_name().as_wire().into();
    server
        .commits
        .table()
        .publish(&[TableChange::Withdraw(name, RANK)]);
    let late = server
        .commits
        .version_and_wait(source.clone(), build(&server.zone, 2, &Hosts::new()));
    assert_eq!(late.err(), Some(CommitError::NoSuchZone));
    assert!(server.commits.table().load().is_empty());
}

#[test]
fn a_zone_of_the_store_survives_with_all_its_changes() {
    let directory = TempDir::new().unwrap();
    let first = server(Some(store(&directory)), &Hosts::new());
    let source = first.source(ZoneStorage::Store, JournalOrigin::Change);
    // Without contents there is nothing that a journal could be read on top of.
    let early = first
        .commits
        .change_and_wait(source.clone(), &set_host(&first.zone, 1, Some(1)));
    assert!(matches!(
        early.err(),
        Some(CommitError::State(StateError::Gap { .. }))
    ));
    let name = first.zone.as_name();
    let mut stub = nameward_zone::Zone::not_ready(name);
    stub.set_rank(RANK);
    let changes = [
        TableChange::Withdraw(name.as_wire().into(), RANK),
        TableChange::Offer(Arc::new(stub)),
    ];
    first.commits.table().publish(&changes);
    let many: Hosts = (0..200).map(|host| (host, 1)).collect();
    first
        .commits
        .version_and_wait(source.clone(), build(&first.zone, 1, &many))
        .unwrap();
    for n in 0..120u8 {
        first
            .commits
            .change_and_wait(source.clone(), &set_host(&first.zone, n, Some(n + 2)))
            .unwrap();
    }
    let served = first.served();
    drop(first);
    let zone = common::name("example.");
    let kept = read_contents(&store(&directory), &zone).unwrap().unwrap();
    assert_eq!((kept.serial().0, hosts_of(&kept)), served);
}

#[test]
fn a_large_zone_with_many_changes_is_packed_while_more_come() {
    let hosts: Hosts = (0..200).map(|host| (host, 1)).collect();
    let server = server(None, &hosts);
    let source = server.source(ZoneStorage::Database, JournalOrigin::Change);
    let large = common::build_large(&server.zone, 2, 6000);
    server
        .commits
        .version_and_wait(source.clone(), large)
        .unwrap();
    let version = || {
        server
            .commits
            .table()
            .version(server.zone.as_name(), RANK)
            .unwrap()
    };
    let mut was_worth_it = false;
    // Another thread packs it; each change gives it time, and none may be lost.
    for n in 0..100_000u32 {
        let change = common::set_address(&server.zone, n % 6000, n);
        server
            .commits
            .change_and_wait(source.clone(), &change)
            .unwrap();
        let is_worth_it = version().is_worth_packing();
        if was_worth_it && !is_worth_it {
            assert_eq!(
                (version().serial().0, version().name_count()),
                (n + 3, 6001)
            );
            for last in 0..=n.min(5999) {
                assert_eq!(
                    common::address_of(&version(), last),
                    Some(n - (n - last) % 6000)
                );
            }
            return;
        }
        was_worth_it = is_worth_it;
    }
    panic!("it was never packed");
}

#[test]
fn a_long_journal_of_a_zone_of_the_store_has_its_contents_written_and_is_shortened() {
    let directory = TempDir::new().unwrap();
    let server = server(Some(store(&directory)), &Hosts::from([(1, 1)]));
    let source = server.source(ZoneStorage::Store, JournalOrigin::Transfer);
    let first = build(&server.zone, 2, &Hosts::from([(1, 2)]));
    server
        .commits
        .version_and_wait(source.clone(), first)
        .unwrap();
    let bound = usize::try_from(BOUNDS.entries).unwrap();
    for round in 0..4 * bound {
        let change = set_host(&server.zone, 1, Some((round % 200) as u8 + 5));
        server
            .commits
            .change_and_wait(source.clone(), &change)
            .unwrap();
    }
    let start = std::time::Instant::now();
    let kept = || server.commits.store().unwrap().zones().unwrap()[0].entries;
    while kept() > 2 * BOUNDS.entries {
        assert!(start.elapsed().as_secs() < 30, "{} entries", kept());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (serial, hosts) = server.served();
    let read = read_contents(server.commits.store().unwrap(), &server.zone).unwrap();
    let read = read.unwrap();
    assert_eq!((read.serial().0, hosts_of(&read)), (serial, hosts));
}

#[test]
fn without_a_store_listeners_still_get_a_new_version() {
    let server = server(None, &Hosts::from([(1, 1)]));
    for serial in [2, 2, 1, 3] {
        let mut version = build(&server.zone, serial, &Hosts::from([(1, 2)]));
        version.set_rank(RANK);
        let offer = TableChange::Offer(Arc::new(version));
        server.commits.load(vec![offer], ZoneStorage::File);
    }
    let notified: Vec<u32> = server
        .notified
        .lock()
        .unwrap()
        .iter()
        .map(|serial| serial.0)
        .collect();
    assert_eq!(notified, [2, 3]);
}
