//! kill -9 at any moment: what was acknowledged is there, whole, and the journal leads to it.
//!
//! A child process changes zones of every home as fast as it can and says which serials were acknowledged. It is killed
//! at a random moment; then the store is opened and compared with what a zone of that serial must have. The suite does
//! this a few times; `KILLS=1000 cargo nextest run -p nameward-maintain --test maintain kill::` does it longer.

use crate::common::{self, BOUNDS, CommitAndWait, Hosts, Random, build, hosts_of, name, set_host};
use nameward_maintain::{Commits, TableWriter, VersionSource, read_contents};
use nameward_state::{JournalOrigin, StateChange, StateStore, ZoneStorage};
use nameward_wire::NameBuf;
use nameward_zone::{Serial, TableChange, Zone};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const RANK: u16 = 1;
const ZONES: [(&str, ZoneStorage); 3] = [
    ("store.test.", ZoneStorage::Store),
    ("file.test.", ZoneStorage::File),
    ("database.test.", ZoneStorage::Database),
];

/// The change that leads to a serial, and the contents that a zone has with it.
fn step(serial: u32) -> (u8, Option<u8>) {
    let octet = (serial % 250) as u8;
    (
        (serial % 7) as u8,
        (!serial.is_multiple_of(5)).then_some(octet),
    )
}

fn contents(serial: u32) -> Hosts {
    let mut hosts = Hosts::from([(100, 1)]);
    for (host, octet) in (2..=serial).map(step) {
        match octet {
            Some(octet) => hosts.insert(host, octet),
            None => hosts.remove(&host),
        };
    }
    hosts
}

/// The version of a zone that is kept: from the store, or for other homes from what the journal makes of the last version
/// that its home has.
fn kept(store: &StateStore, zone: &NameBuf, storage: ZoneStorage) -> Option<Zone> {
    if storage == ZoneStorage::Store {
        return read_contents(store, zone).unwrap();
    }
    let tip = store
        .zones()
        .unwrap()
        .into_iter()
        .find(|kept| kept.name == *zone)?;
    // The home of these tests has the version that the journal begins at.
    let missing = match storage {
        ZoneStorage::File => store.journal_after_base(zone).unwrap(),
        _ => Vec::new(),
    };
    let from = missing.first().map_or(tip.serial, |entry| entry.from);
    let mut version = Arc::new(build(zone, from.0, &contents(from.0)));
    for entry in missing {
        version = Arc::new(version.apply(&entry.difference).unwrap());
    }
    assert_eq!(version.serial(), tip.serial);
    version.pack()
}

/// The child: changes zones until it is killed.
#[test]
#[ignore = "run by the other test, which kills it"]
fn child() {
    let directory = std::env::var_os("STATE").expect("run by another test");
    let store = StateStore::open(directory.as_ref(), BOUNDS).unwrap();
    let versions: Vec<_> = ZONES
        .iter()
        .map(|(zone, storage)| kept(&store, &name(zone), *storage))
        .collect();
    let commits =
        Commits::new(Arc::new(TableWriter::default()), Some(Arc::new(store)), ()).unwrap();
    let workers = ZONES
        .iter()
        .zip(versions)
        .map(|((zone, storage), version)| {
            let (zone, storage, commits) = (name(zone), *storage, Arc::clone(&commits));
            std::thread::spawn(move || change_for_ever(&commits, zone, storage, version))
        });
    for worker in workers.collect::<Vec<_>>() {
        worker.join().unwrap();
    }
}

fn change_for_ever(
    commits: &Arc<Commits>,
    zone: NameBuf,
    storage: ZoneStorage,
    version: Option<Zone>,
) {
    let source = VersionSource {
        zone,
        rank: RANK,
        storage,
        origin: JournalOrigin::Change,
        confirmed: None,
        author: None,
    };
    let is_new = version.is_none();
    let mut first = match (storage, version) {
        (ZoneStorage::Store, None) => Zone::not_ready(zone.as_name()),
        (_, None) => build(&zone, 1, &contents(1)),
        (_, Some(version)) => version,
    };
    first.set_rank(RANK);
    let mut serial = first.serial().0.max(1);
    commits
        .table()
        .publish(&[TableChange::Offer(Arc::new(first))]);
    if is_new && storage == ZoneStorage::Store {
        commits
            .version_and_wait(source.clone(), build(&zone, 1, &contents(1)))
            .unwrap();
    }
    let mut waiting = std::collections::VecDeque::new();
    for round in 0u64.. {
        let next = serial + 1;
        let (host, octet) = step(next);
        let mut change = set_host(&zone, host, octet);
        if octet.is_none() && !contents(serial).contains_key(&host) {
            // Nothing would change: the serial is raised by hand.
            change = common::set_serial(&zone, next);
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        commits.change(source.clone(), &change, move |result| {
            let _ = sender.send(result.map(|committed| committed.zone.serial()));
        });
        waiting.push_back(receiver);
        serial = next;
        // Several are on their way at a time.
        if waiting.len() >= 4 {
            let acknowledged = waiting.pop_front().unwrap().recv().unwrap().unwrap();
            let mut out = std::io::stdout().lock();
            writeln!(out, "ack {zone} {acknowledged}").unwrap();
        }
        if storage == ZoneStorage::Store && round % 40 == 39 {
            // As the schedule does when the journal is long.
            while let Some(receiver) = waiting.pop_front() {
                receiver.recv().unwrap().unwrap();
            }
            let version = commits.table().version(zone.as_name(), RANK).unwrap();
            let parts = Arc::new(nameward_maintain::contents_of(&version));
            let serial = version.serial();
            commits
                .store()
                .unwrap()
                .write(vec![StateChange::SetContents {
                    zone,
                    serial,
                    parts,
                }])
                .unwrap();
        }
        if storage == ZoneStorage::File && round % 50 == 49 {
            // The file is written: it has all up to this serial.
            let serial = Serial(serial - 4);
            commits
                .store()
                .unwrap()
                .write(vec![StateChange::Settle { zone, serial }])
                .unwrap();
        }
    }
}

#[test]
fn acknowledged_changes_survive_kill_9() {
    let kills: u32 = std::env::var("KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(6);
    let directory = TempDir::new().unwrap();
    let seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    let mut random = Random(seed | 1);
    let mut acknowledged: BTreeMap<String, u32> = BTreeMap::new();
    for round in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kill::child", "--exact", "--ignored", "--nocapture"])
            .env("STATE", directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        let enough = 10 + random.below(150);
        while seen < enough {
            let line = lines
                .next()
                .expect("the child has ended by itself")
                .unwrap();
            seen += u64::from(note(&line, &mut acknowledged));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it was killed counts too.
        lines.map_while(Result::ok).for_each(|line| {
            note(&line, &mut acknowledged);
        });
        check(
            &directory,
            &acknowledged,
            &format!("round {round}, seed {seed}"),
        );
    }
}

fn note(line: &str, acknowledged: &mut BTreeMap<String, u32>) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let ["ack", zone, serial] = words[..] else {
        return false;
    };
    // The last line may have been cut short.
    let Ok(serial) = serial.parse::<u32>() else {
        return false;
    };
    let last = acknowledged.entry(zone.into()).or_default();
    *last = serial.max(*last);
    true
}

fn check(directory: &TempDir, acknowledged: &BTreeMap<String, u32>, what: &str) {
    let report = StateStore::check(directory.path()).unwrap();
    assert_eq!(report.faults, [""; 0], "{what}");
    let store = StateStore::open(directory.path(), BOUNDS).unwrap();
    for (zone, storage) in ZONES {
        let Some(last) = acknowledged.get(zone) else {
            continue;
        };
        let zone = name(zone);
        let version = kept(&store, &zone, storage).unwrap();
        let serial = version.serial().0;
        assert!(
            serial >= *last,
            "{what}: {zone} has {serial}, acknowledged was {last}"
        );
        assert_eq!(
            hosts_of(&version),
            contents(serial),
            "{what}: {zone} serial {serial}"
        );
        for back in 1..20.min(serial) {
            let from = serial - back;
            let Some(entries) = store.journal_from(&zone, Serial(from)).unwrap() else {
                continue;
            };
            let mut reached = Arc::new(build(&zone, from, &contents(from)));
            for entry in entries {
                reached = Arc::new(reached.apply(&entry.difference).unwrap());
            }
            assert_eq!(
                (reached.serial().0, hosts_of(&reached)),
                (serial, contents(serial)),
                "{what}: {zone}"
            );
        }
    }
}
