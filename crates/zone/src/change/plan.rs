//! Computes the difference that a change makes to an in-memory zone.
//!
//! Edits are applied in order to copies of the affected names; the difference is what these names have lost and gained
//! in the end. The serial is increased unless the change sets the SOA or changes nothing.

use super::difference::push_missing;
use super::{ChangeError, Difference, Edit, RrsetData, ZoneChange, set_soa_serial};
use crate::draft::{Draft, Keep, MAX_RRSET_OCTETS};
use crate::layout;
use crate::node::{Node, rrset_octets};
use crate::serial::Serial;
use crate::sort_key::sort_key;
use crate::zone::Zone;
use nameward_wire::rdata::validate;
use nameward_wire::zonefile::RecordLocation;
use nameward_wire::{Name, NameBuf, Type};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The highest TTL (RFC 2181 section 8).
const MAX_TTL: u32 = i32::MAX as u32;

impl Edit {
    /// Checks an edit independently of the zone's contents.
    pub fn check(&self, apex: Name<'_>) -> Result<(), ChangeError> {
        let name = self.name();
        if !name.as_name().is_at_or_below(apex) {
            return Err(ChangeError::OutOfZone(name.to_string()));
        }
        match self {
            Edit::Replace(rrset) | Edit::Add(rrset) => rrset.check(),
            _ => Ok(()),
        }
    }
}

impl RrsetData {
    fn check(&self) -> Result<(), ChangeError> {
        let rtype = self.rtype;
        let invalid = |what| {
            Err(ChangeError::Invalid {
                owner: self.name.to_string(),
                what,
            })
        };
        if rtype.is_meta() {
            return invalid(format!("type {rtype} is not allowed in a zone"));
        }
        if self.ttl > MAX_TTL {
            return invalid(format!("TTL {} is larger than {MAX_TTL}", self.ttl));
        }
        for record in &self.records {
            if let Err(error) = validate(rtype, &record.rdata) {
                return invalid(format!("invalid {rtype} record data: {error}"));
            }
        }
        Ok(())
    }
}

impl Zone {
    /// Returns the difference that a change makes to this version, with the serial increased; empty if the change has
    /// no effect. [`Zone::apply`] checks the rules that the result must follow.
    pub fn difference_of(&self, change: &ZoneChange) -> Result<Difference, ChangeError> {
        if self.is_stub() {
            return Err(ChangeError::NotResident);
        }
        let mut owners: BTreeMap<Vec<u8>, ChangedOwner> = BTreeMap::new();
        let mut key = Vec::new();
        for edit in &change.edits {
            edit.check(self.apex_name())?;
            sort_key(edit.name().as_name(), &mut key);
            let owner = owners.entry(key.clone()).or_insert_with(|| {
                ChangedOwner::from_node(*edit.name(), self.node_of(edit.name().as_name()))
            });
            owner.take(edit, self.apex_name());
        }
        for owner in owners.values() {
            owner.check_sizes(self.node_of(owner.name.as_name()))?;
        }
        let sets_soa = change.edits.iter().any(Edit::sets_soa);
        let difference = self.difference_at(&owners);
        if difference.is_empty() || sets_soa {
            return Ok(difference);
        }
        let apex = NameBuf::from(self.apex_name());
        sort_key(apex.as_name(), &mut key);
        let owner = owners
            .entry(key)
            .or_insert_with(|| ChangedOwner::from_node(apex, Some(self.apex())));
        owner.set_serial(self.serial().raised(change.serial, change.now));
        Ok(self.difference_at(&owners))
    }

    fn difference_at(&self, owners: &BTreeMap<Vec<u8>, ChangedOwner>) -> Difference {
        let mut difference = Difference::default();
        let mut bytes = Vec::new();
        for owner in owners.values() {
            bytes.clear();
            let old = self.node_of(owner.name.as_name());
            owner
                .draft()
                .encode(owner.name.as_name(), false, Keep::default(), &mut bytes);
            let new = Node::at(&bytes);
            push_missing(old, Some(new), &mut difference.removed);
            push_missing(Some(new), old, &mut difference.added);
        }
        difference
    }
}

/// The records of one name while edits are applied to them.
struct ChangedOwner {
    name: NameBuf,
    rrsets: BTreeMap<Type, (u32, BTreeSet<Rdata>)>,
}

/// Record data, ordered canonically for its type.
struct Rdata {
    rtype: Type,
    octets: Vec<u8>,
}

impl Ord for Rdata {
    fn cmp(&self, other: &Self) -> Ordering {
        layout::compare(self.rtype, &self.octets, &other.octets)
    }
}

impl PartialOrd for Rdata {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rdata {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rdata {}

impl ChangedOwner {
    fn from_node(name: NameBuf, node: Option<Node<'_>>) -> Self {
        let mut rrsets: BTreeMap<Type, (u32, BTreeSet<Rdata>)> = BTreeMap::new();
        for rrset in node.into_iter().flat_map(|node| node.rrsets()) {
            let rtype = rrset.rtype();
            let octets = |record: crate::RecordData<'_>| Rdata {
                rtype,
                octets: record.rdata.to_vec(),
            };
            rrsets.insert(rtype, (rrset.ttl(), rrset.records().map(octets).collect()));
        }
        ChangedOwner {
            name: node.map_or(name, |node| node.name().into()),
            rrsets,
        }
    }

    fn take(&mut self, edit: &Edit, apex: Name<'_>) {
        match edit {
            Edit::Replace(rrset) => {
                self.rrsets.remove(&rrset.rtype);
                self.add(rrset);
            }
            Edit::Add(rrset) => self.add(rrset),
            Edit::DeleteRecords { rtype, rdata, .. } => {
                let Some((_, records)) = self.rrsets.get_mut(rtype) else {
                    return;
                };
                for octets in rdata {
                    records.remove(&Rdata {
                        rtype: *rtype,
                        octets: octets.clone(),
                    });
                }
            }
            Edit::DeleteRrset { rtype, .. } => {
                self.rrsets.remove(rtype);
            }
            Edit::DeleteName { name } => {
                let is_apex = name.as_name() == apex;
                self.rrsets
                    .retain(|rtype, _| is_apex && matches!(*rtype, Type::SOA | Type::NS));
            }
        }
    }

    fn add(&mut self, rrset: &RrsetData) {
        let served = rrset.records.iter().filter(|record| !record.disabled);
        let (ttl, records) = self.rrsets.entry(rrset.rtype).or_default();
        *ttl = rrset.ttl;
        records.extend(served.map(|record| Rdata {
            rtype: rrset.rtype,
            octets: record.rdata.clone(),
        }));
    }

    /// Rejects an RRset that grows beyond the size of a message. An oversized one from a file or a primary may shrink.
    fn check_sizes(&self, before: Option<Node<'_>>) -> Result<(), ChangeError> {
        for (rtype, (_, records)) in &self.rrsets {
            let octets = rrset_octets(records.iter().map(|record| record.octets.len()));
            if octets <= MAX_RRSET_OCTETS {
                continue;
            }
            let before = before.and_then(|node| node.rrset(*rtype));
            let lengths = before.iter().flat_map(|rrset| rrset.records());
            if octets > rrset_octets(lengths.map(|record| record.rdata.len())) {
                return Err(ChangeError::Invalid {
                    owner: self.name.to_string(),
                    what: format!(
                        "the {rtype} RRset would have {octets} octets and not fit in a DNS message"
                    ),
                });
            }
        }
        Ok(())
    }

    fn set_serial(&mut self, serial: Serial) {
        let Some((_, records)) = self.rrsets.get_mut(&Type::SOA) else {
            return;
        };
        if let Some(mut soa) = records.pop_first() {
            set_soa_serial(&mut soa.octets, serial);
            records.insert(soa);
        }
    }

    fn draft(&self) -> Draft {
        let mut draft = Draft::default();
        for (rtype, (ttl, records)) in &self.rrsets {
            for record in records {
                draft.push(*rtype, *ttl, &record.octets, RecordLocation::NONE);
            }
        }
        draft
    }
}
