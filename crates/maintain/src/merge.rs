//! Merges a zone file that was edited while it lacked changes made through this server: both are applied, or none.
//!
//! ```text
//! base     what the file had when it was last read or written
//! tip      base and the changes through this server
//! file     base and the edits by hand
//! merged   file and the changes through this server, with a serial after all of them
//! ```
//! If both change one RRset to different results, the intention is unclear and the edited file is rejected. The
//! journal continues from tip to merged, for secondaries; the difference from file to merged is stored next to it,
//! for the next start. After a start the tip of an edited file is no longer known, and the journal restarts.

use crate::commit::outcome::CommitError;
use nameward_base::time::now_seconds;
use nameward_state::{JournalEntry, JournalOrigin, RebasedVersion, StateChange, ZoneStorage};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::{Difference, set_soa_serial};
use nameward_zone::{RecordList, Serial, WireRecord, Zone};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

/// The outcome of a merge with an edited file.
pub(crate) enum Merge {
    /// The file is unchanged.
    Unchanged,
    /// The file has everything that is served, and more.
    AsFile,
    /// The file and the changes that it lacks.
    Both(Rebased),
}

/// A version based on the current file.
pub(crate) struct Rebased {
    /// The version in the file.
    pub(crate) file: Arc<Zone>,
    /// The changes that the file lacks.
    pub(crate) lacking: Arc<Difference>,
    /// Both together.
    pub(crate) merged: Arc<Zone>,
}

impl Rebased {
    /// Returns the journal change that makes it durable: `forward` leads from the previous version to this one, so
    /// that the journal continues.
    pub(crate) fn journal(&self, forward: &Difference) -> StateChange {
        StateChange::Rebase {
            zone: NameBuf::from(self.file.id()),
            version: RebasedVersion {
                forward: Arc::new(forward.clone()),
                lacking: Arc::clone(&self.lacking),
                time: now_seconds(),
            },
        }
    }

    /// Returns the journal changes that make it durable if the previous version is no longer known: the journal
    /// restarts.
    pub(crate) fn restarted_journal(&self) -> Vec<StateChange> {
        let (zone, storage) = (NameBuf::from(self.file.id()), ZoneStorage::File);
        let restart = StateChange::RestartJournal {
            zone,
            storage,
            serial: self.file.serial(),
        };
        let append = StateChange::Append {
            zone,
            storage,
            origin: JournalOrigin::Change,
            difference: Arc::clone(&self.lacking),
            time: now_seconds(),
            author: None,
        };
        vec![restart, append]
    }
}

type RrsetKey = (Vec<u8>, Type);

fn key(record: &WireRecord<'_>) -> RrsetKey {
    (record.owner.as_wire().to_ascii_lowercase(), record.rtype)
}

/// Returns the RRsets of a difference besides the SOA.
fn touched(difference: &Difference) -> HashSet<RrsetKey> {
    let records = difference.removed.iter().chain(&difference.added);
    let records = records.filter(|record| record.rtype != Type::SOA);
    records.map(|record| key(&record)).collect()
}

/// Merges the edits of a file with the changes that it lacks.
pub(crate) fn merge(
    file: &Arc<Zone>,
    base: &Zone,
    tip: &Zone,
    now: SystemTime,
) -> Result<Merge, CommitError> {
    let by_hand = file.difference_from(base);
    if by_hand.is_empty() {
        return Ok(Merge::Unchanged);
    }
    let ours = tip.difference_from(base);
    let by_hand = touched(&by_hand);
    for (owner, rtype) in touched(&ours).intersection(&by_hand) {
        let owner = Name::from_valid_wire(owner);
        if !is_same_rrset(tip, file, owner, *rtype) {
            return Err(clash(owner, *rtype));
        }
    }
    let is_lacking =
        |record: &WireRecord<'_>| record.rtype != Type::SOA && !by_hand.contains(&key(record));
    let lacking = Difference {
        removed: ours.removed.iter().filter(is_lacking).collect(),
        added: ours.added.iter().filter(is_lacking).collect(),
    };
    rebase(file, lacking, tip.serial(), now)
}

/// Like [`merge`], if the previous contents of the file are no longer known: after a restart. A change fits if the
/// file has everything it removes and nothing it adds, and is already applied in the opposite case.
pub(crate) fn merge_journal(
    file: &Arc<Zone>,
    entries: &[JournalEntry],
    last: Serial,
    now: SystemTime,
) -> Result<Merge, CommitError> {
    let ours = sum_of(entries);
    let mut by_rrset: BTreeMap<RrsetKey, [Vec<WireRecord<'_>>; 2]> = BTreeMap::new();
    for (side, list) in [&ours.removed, &ours.added].into_iter().enumerate() {
        for record in list.iter().filter(|record| record.rtype != Type::SOA) {
            by_rrset.entry(key(&record)).or_default()[side].push(record);
        }
    }
    let mut lacking = Difference::default();
    for ((owner, rtype), [removed, added]) in &by_rrset {
        let is_there = |record: &WireRecord<'_>| has_record(file, record);
        let fits = removed.iter().all(is_there) && !added.iter().any(is_there);
        let is_done = added.iter().all(is_there) && !removed.iter().any(is_there);
        match (fits, is_done) {
            (true, _) => {
                let (removed, added) = (removed.iter().copied(), added.iter().copied());
                removed.for_each(|record| lacking.removed.push(record));
                added.for_each(|record| lacking.added.push(record));
            }
            (false, true) => {}
            (false, false) => return Err(clash(Name::from_valid_wire(owner), *rtype)),
        }
    }
    rebase(file, lacking, last, now)
}

/// A record by owner in lower case, type, TTL and data.
type RecordKey = (Vec<u8>, Type, u32, Vec<u8>);

/// Combines the differences of a journal into one.
fn sum_of(entries: &[JournalEntry]) -> Difference {
    let record_key = |record: WireRecord<'_>| -> RecordKey {
        let (owner, rtype) = key(&record);
        (owner, rtype, record.ttl, record.rdata.to_vec())
    };
    let mut sum: BTreeMap<RecordKey, i32> = BTreeMap::new();
    for entry in entries {
        for record in &entry.difference.removed {
            *sum.entry(record_key(record)).or_default() -= 1;
        }
        for record in &entry.difference.added {
            *sum.entry(record_key(record)).or_default() += 1;
        }
    }
    let list = |wanted: fn(i32) -> bool| -> RecordList {
        let own = sum.iter().filter(|(_, count)| wanted(**count));
        let records = own.map(|((owner, rtype, ttl, rdata), _)| WireRecord {
            owner: Name::from_valid_wire(owner),
            rtype: *rtype,
            ttl: *ttl,
            rdata,
        });
        records.collect()
    };
    Difference {
        removed: list(|count| count < 0),
        added: list(|count| count > 0),
    }
}

/// Applies what a file lacks on top of it, with a serial after both.
fn rebase(
    file: &Arc<Zone>,
    mut lacking: Difference,
    last: Serial,
    now: SystemTime,
) -> Result<Merge, CommitError> {
    if lacking.is_empty() {
        return Ok(Merge::AsFile);
    }
    let soa = file
        .soa()
        .and_then(|soa| Some((soa.ttl(), soa.records().next()?.rdata)));
    let Some((ttl, rdata)) = soa else {
        return Ok(Merge::AsFile);
    };
    let serial = if file.serial().is_after(last) {
        file.serial().next(now)
    } else {
        last.next(now)
    };
    let mut next = rdata.to_vec();
    set_soa_serial(&mut next, serial);
    let (owner, rtype) = (file.apex_name(), Type::SOA);
    let record = |rdata| WireRecord {
        owner,
        rtype,
        ttl,
        rdata,
    };
    lacking.removed.push(record(rdata));
    lacking.added.push(record(&next));
    let merged = Arc::new(file.apply(&lacking)?);
    Ok(Merge::Both(Rebased {
        file: Arc::clone(file),
        lacking: Arc::new(lacking),
        merged,
    }))
}

fn clash(owner: Name<'_>, rtype: Type) -> CommitError {
    CommitError::Clash {
        owner: NameBuf::from(owner).to_string(),
        rtype,
    }
}

fn is_same_rrset(a: &Zone, b: &Zone, owner: Name<'_>, rtype: Type) -> bool {
    let find = |zone: &'_ Zone| -> Option<(u32, Vec<Vec<u8>>)> {
        let rrset = zone.node_of(owner)?.rrset(rtype)?;
        let data = rrset.records().map(|record| record.rdata.to_vec());
        Some((rrset.ttl(), data.collect()))
    };
    find(a) == find(b)
}

fn has_record(zone: &Zone, wanted: &WireRecord<'_>) -> bool {
    let rrset = zone
        .node_of(wanted.owner)
        .and_then(|node| node.rrset(wanted.rtype));
    rrset.is_some_and(|rrset| {
        rrset.ttl() == wanted.ttl && rrset.records().any(|record| record.rdata == wanted.rdata)
    })
}
