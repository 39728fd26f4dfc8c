//! Zones of small contents for the tests of this crate.

use nameward_maintain::{CommitError, Commits, CommittedVersion, VersionSource};
use nameward_state::{JournalBounds, StateError, StateStore};
use nameward_wire::zonefile::Record;
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::{ChangeOrigin, Difference, Edit, NewRecord, RrsetData, ZoneChange};
use nameward_zone::{SerialRule, Zone, ZoneBuilder};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, UNIX_EPOCH};

type Committed = Result<CommittedVersion, CommitError>;

/// Commits that a test waits for.
pub trait CommitAndWait {
    fn change_and_wait(&self, source: VersionSource, change: &ZoneChange) -> Committed;
    fn difference_and_wait(&self, source: VersionSource, difference: Difference) -> Committed;
    fn version_and_wait(&self, source: VersionSource, zone: Zone) -> Committed;
}

impl CommitAndWait for Arc<Commits> {
    fn change_and_wait(&self, source: VersionSource, change: &ZoneChange) -> Committed {
        wait(|done| self.change(source, change, done))
    }

    fn difference_and_wait(&self, source: VersionSource, difference: Difference) -> Committed {
        wait(|done| self.difference(source, difference, done))
    }

    fn version_and_wait(&self, source: VersionSource, zone: Zone) -> Committed {
        wait(|done| self.version(source, zone, None, done))
    }
}

fn wait(begin: impl FnOnce(Box<dyn FnOnce(Committed) + Send>)) -> Committed {
    let (sender, receiver) = mpsc::sync_channel(1);
    begin(Box::new(move |result| sender.send(result).unwrap()));
    receiver.recv().unwrap()
}

pub const BOUNDS: JournalBounds = JournalBounds {
    octets: 1 << 20,
    entries: 50,
};

/// Opens the state store of a directory. Threads of a server that was dropped may hold it for a moment.
pub fn open_store(directory: &Path, bounds: JournalBounds) -> StateStore {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match StateStore::open(directory, bounds) {
            Err(StateError::InUse(..)) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.unwrap(),
        }
    }
}

/// Contents of a zone: hosts by their labels, each with the last octet of its address.
pub type Hosts = BTreeMap<u8, u8>;

pub fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

/// The times in the SOA of all zones here: refresh, retry, expire, minimum.
pub const TIMES: [u32; 4] = [3600, 600, 86_400, 300];

pub fn soa(serial: u32) -> Vec<u8> {
    let [refresh, retry, expire, minimum] = TIMES;
    let numbers = [serial, refresh, retry, expire, minimum];
    let numbers = numbers.iter().flat_map(|n| n.to_be_bytes());
    b"\x01m\0\x01h\0".iter().copied().chain(numbers).collect()
}

pub fn build(zone: &NameBuf, serial: u32, hosts: &Hosts) -> Zone {
    let host = |(host, octet): (&u8, &u8)| (owner(zone, *host), [192, 0, 2, *octet]);
    build_of(zone, serial, hosts.iter().map(host))
}

/// A zone of these names, each with its address.
fn build_of(
    zone: &NameBuf,
    serial: u32,
    addresses: impl Iterator<Item = (NameBuf, [u8; 4])>,
) -> Zone {
    let mut builder = ZoneBuilder::new(zone.as_name());
    let soa = soa(serial);
    builder.add(&Record::new(zone.as_name(), Type::SOA, 300, &soa));
    for (owner, address) in addresses {
        builder.add(&Record::new(owner.as_name(), Type::A, 300, &address));
    }
    builder.finish().0.unwrap()
}

pub fn owner(zone: &NameBuf, host: u8) -> NameBuf {
    let label = format!("h{host}");
    let prefix = [&[label.len() as u8], label.as_bytes()].concat();
    NameBuf::join(&prefix, zone.as_name()).unwrap()
}

/// The hosts of a zone, read back.
pub fn hosts_of(zone: &Zone) -> Hosts {
    let mut hosts = Hosts::new();
    for node in zone.nodes_in_order() {
        if let Some(record) = node.rrset(Type::A).and_then(|rrset| rrset.records().next()) {
            let label = node.name().labels().next().unwrap();
            let host = std::str::from_utf8(&label[1..]).unwrap().parse().unwrap();
            hosts.insert(host, record.rdata[3]);
        }
    }
    hosts
}

pub fn set_host(zone: &NameBuf, host: u8, octet: Option<u8>) -> ZoneChange {
    let records = octet.map(|octet| NewRecord {
        text: None,
        rdata: vec![192, 0, 2, octet],
        disabled: false,
    });
    ZoneChange {
        edits: vec![Edit::Replace(RrsetData {
            name: owner(zone, host),
            rtype: Type::A,
            ttl: 300,
            records: records.into_iter().collect(),
        })],
        origin: ChangeOrigin::Operator,
        now: UNIX_EPOCH,
        serial: SerialRule::default(),
    }
}

/// Sets the serial of a zone and nothing else.
pub fn set_serial(zone: &NameBuf, serial: u32) -> ZoneChange {
    let mut change = set_host(zone, 0, Some(0));
    if let Some(Edit::Replace(rrset)) = change.edits.first_mut() {
        (rrset.name, rrset.rtype) = (*zone, Type::SOA);
        rrset.records[0].rdata = soa(serial);
    }
    change
}

fn numbered(zone: &NameBuf, number: u32) -> NameBuf {
    let label = format!("n{number}");
    let prefix = [&[label.len() as u8], label.as_bytes()].concat();
    NameBuf::join(&prefix, zone.as_name()).unwrap()
}

/// A zone of many names, each with an address that says its number.
pub fn build_large(zone: &NameBuf, serial: u32, names: u32) -> Zone {
    let name = |number: u32| (numbered(zone, number), number.to_be_bytes());
    build_of(zone, serial, (0..names).map(name))
}

/// Sets the address of a name of such a zone.
pub fn set_address(zone: &NameBuf, number: u32, address: u32) -> ZoneChange {
    let mut change = set_host(zone, 0, Some(0));
    if let Some(Edit::Replace(rrset)) = change.edits.first_mut() {
        rrset.name = numbered(zone, number);
        rrset.ttl = 60;
        rrset.records[0].rdata = address.to_be_bytes().to_vec();
    }
    change
}

pub fn address_of(zone: &Zone, number: u32) -> Option<u32> {
    let apex: NameBuf = zone.apex_name().into();
    let node = zone.node_of(numbered(&apex, number).as_name())?;
    let record = node.rrset(Type::A)?.records().next()?;
    record
        .rdata
        .first_chunk()
        .map(|octets| u32::from_be_bytes(*octets))
}

/// Numbers from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
