//! Packs the records of a zone, in the order a zone file or a transfer gives them.
//!
//! Records of one owner mostly stand together, so each name is packed as soon as the next owner begins:
//! one pass, no allocation for each record, no second copy of the zone. Records of an owner that comes
//! back later are put aside and merged once at the end, so a file in any order costs no more than sorting
//! what was put aside.

use crate::broken::Broken;
use crate::draft::{Draft, Keep};
use crate::finding::{Finding, Findings};
use crate::key::NameKey;
use crate::node::{self, Node, flags};
use crate::packed::{ALIGN, Packed, first_slot, put_slot, slots_for, tag};
use crate::zone::Zone;
use nameward_wire::zonefile::{Record, Sink};
use nameward_wire::{Class, Name, NameBuf, Type};
use std::collections::HashMap;

/// NSEC3 iterations a zone may ask for.
const MAX_ITERATIONS: u16 = 100;

/// Collects the records of one zone.
pub struct ZoneBuilder {
    apex: NameKey,
    apex_name: NameBuf,
    pub(crate) arena: Vec<u8>,
    pub(crate) slots: Vec<u64>,
    pub(crate) names: usize,
    /// The owner in work.
    current: Draft,
    current_name: NameBuf,
    current_key: NameKey,
    current_in_zone: bool,
    /// Records of owners that were packed before.
    late: Draft,
    late_of: Vec<u32>,
    /// Names that exist whether they have records here or not.
    empties: Vec<NameBuf>,
    pub(crate) broken: Broken,
    pub(crate) is_tolerant: bool,
    pub(crate) deep: Vec<Origin>,
    pub(crate) with_targets: Vec<Origin>,
    pub(crate) cut_depths: u128,
    pub(crate) max_labels: usize,
    pub(crate) findings: Findings,
}

/// A node and the line its first record came from.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) place: u32,
    pub(crate) line: u32,
    pub(crate) file: u16,
}

/// A zone file goes straight into the builder.
impl Sink for ZoneBuilder {
    #[inline]
    fn record(&mut self, record: &Record<'_>) -> Result<(), String> {
        self.add(record);
        Ok(())
    }
}

impl ZoneBuilder {
    /// Starts a zone.
    pub fn new(apex: Name<'_>) -> Self {
        Self::with_capacity(apex, 0)
    }

    /// Starts a zone whose text or transfer has about this many bytes.
    pub fn with_capacity(apex: Name<'_>, bytes: usize) -> Self {
        let mut arena = Vec::with_capacity(bytes.max(256));
        arena.resize(ALIGN, 0);
        let key = NameKey::new(apex);
        ZoneBuilder {
            max_labels: key.labels(),
            apex: key.clone(),
            apex_name: apex.into(),
            arena,
            slots: vec![0; 16],
            names: 0,
            current: Draft::default(),
            current_name: apex.into(),
            current_key: key,
            current_in_zone: true,
            late: Draft::default(),
            late_of: Vec::new(),
            empties: Vec::new(),
            broken: Broken::default(),
            is_tolerant: false,
            deep: Vec::new(),
            with_targets: Vec::new(),
            cut_depths: 0,
            findings: Findings::default(),
        }
    }

    /// Takes one record.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>) {
        let continues =
            record.same_owner || record.owner.as_wire() == self.current_name.as_name().as_wire();
        if !continues || self.names == 0 && self.current.is_empty() {
            self.begin_owner(record);
        }
        if !self.current_in_zone {
            // Said once an owner, by begin_owner.
            return;
        }
        if record.class != Class::IN {
            self.findings.error(
                record.line,
                record.file,
                format_args!("expected class IN, found {:?}", record.class),
            );
            return;
        }
        self.current.push(
            record.rtype,
            record.ttl,
            record.rdata,
            record.line,
            record.file,
        );
    }

    /// Tells that a name of the zone exists although none of the records added makes it exist: a part of a
    /// zone is built, and what stands below the name is not in that part.
    pub fn add_empty(&mut self, name: Name<'_>) {
        self.empties.push(name.into());
    }

    fn insert_empties(&mut self) {
        for name in std::mem::take(&mut self.empties) {
            self.insert_existing(name.as_name());
        }
    }

    /// Makes a name of the zone exist.
    pub(crate) fn insert_existing(&mut self, name: Name<'_>) {
        let (key, apex_labels) = (NameKey::new(name), self.apex.labels());
        let labels = key.labels();
        if labels <= apex_labels
            || key.suffix(apex_labels) != self.apex.suffix(apex_labels)
            || self.find(&key, labels).is_some()
        {
            return;
        }
        let place = self.insert_empty(&key, labels, 0);
        if labels > apex_labels + 1 || name.is_wildcard() {
            self.deep.push(Origin {
                place,
                line: 0,
                file: 0,
            });
        }
        self.max_labels = self.max_labels.max(labels);
    }

    fn begin_owner(&mut self, record: &Record<'_>) {
        self.pack_current();
        self.current_name = record.owner.into();
        self.current_key.set(record.owner);
        let (key, apex) = (&self.current_key, &self.apex);
        self.current_in_zone = key.labels() >= apex.labels()
            && key.hash(apex.labels()) == apex.hash(apex.labels())
            && key.suffix(apex.labels()) == apex.suffix(apex.labels());
        if !self.current_in_zone {
            let message = format_args!(
                "{} is outside the zone {}: ignored",
                record.owner, self.apex_name
            );
            self.findings.warning(record.line, record.file, message);
        }
    }

    fn is_apex(&self, key: &NameKey) -> bool {
        key.labels() == self.apex.labels()
    }

    /// Packs the owner in work, or puts its records aside if that name is packed already.
    fn pack_current(&mut self) {
        let Some(&first) = self.current.entries.first() else {
            return;
        };
        let labels = self.current_key.labels();
        let hash = self.current_key.hash(labels);
        if let Some(slot) = self.find_slot(hash, self.current_name.as_name()) {
            let place = self.slots[slot] as u32;
            for entry in &self.current.entries {
                self.late.push(
                    entry.rtype,
                    entry.ttl,
                    self.current.rdata(entry),
                    entry.line,
                    entry.file,
                );
                self.late_of.push(place);
            }
            self.current.clear();
            return;
        }
        let mut draft = std::mem::take(&mut self.current);
        let place = self.pack(&mut draft, hash, None);
        let origin = Origin {
            place,
            line: first.line,
            file: first.file,
        };
        if labels > self.apex.labels() + 1 || self.current_name.as_name().is_wildcard() {
            self.deep.push(origin);
        }
        self.max_labels = self.max_labels.max(labels);
        draft.clear();
        self.current = draft;
    }

    /// Writes `draft` as the node of the current name and points its slot to it.
    fn pack(&mut self, draft: &mut Draft, hash: u64, slot: Option<usize>) -> u32 {
        let is_apex = self.is_apex(&self.current_key);
        let name = self.current_name;
        self.normalise(draft, name.as_name());
        let place = self.arena.len() / ALIGN;
        draft.encode(name.as_name(), is_apex, Keep::default(), &mut self.arena);
        self.arena
            .resize(self.arena.len().next_multiple_of(ALIGN), 0);
        let place = self.place(place);
        let node = Node::at(&self.arena[place as usize * ALIGN..]);
        let node_flags = node.flags();
        if node_flags & (flags::CUT | flags::DNAME) != 0 {
            self.cut_depths |= 1 << self.current_key.labels();
        }
        let first = draft.entries[0];
        if node.rrsets().any(|rrset| rrset.has_targets()) {
            self.with_targets.push(Origin {
                place,
                line: first.line,
                file: first.file,
            });
        }
        if !is_apex && let Some(soa) = draft.entries.iter().find(|e| e.rtype == Type::SOA) {
            let message = format_args!(
                "expected the SOA at {}, found one at {name}",
                self.apex_name
            );
            match self.is_tolerant {
                true => self.findings.error_of_name(soa.line, soa.file, message),
                false => self.findings.error(soa.line, soa.file, message),
            }
            self.add_broken(name.as_name(), None);
        }
        self.check_iterations(draft);
        if node_flags & flags::CUT != 0 {
            self.warn_of_data_at_cut(draft);
        }
        match slot {
            Some(slot) => self.slots[slot] = (tag(hash) as u64) << 32 | place as u64,
            None => self.insert(hash, place),
        }
        place
    }

    /// RFC 9276: many NSEC3 iterations cost a server and its clients dearly (CVE-2023-50868).
    fn check_iterations(&mut self, draft: &Draft) {
        for entry in &draft.entries {
            if matches!(entry.rtype, Type::NSEC3 | Type::NSEC3PARAM)
                && let Some(&[_, _, high, low]) = draft.rdata(entry).first_chunk()
                && u16::from_be_bytes([high, low]) > MAX_ITERATIONS
            {
                let found = u16::from_be_bytes([high, low]);
                let message = format_args!(
                    "expected at most {MAX_ITERATIONS} NSEC3 iterations, found {found}"
                );
                match self.is_tolerant {
                    true => self.findings.error_of_name(entry.line, entry.file, message),
                    false => self.findings.error(entry.line, entry.file, message),
                }
                let name = self.current_name;
                self.add_broken(name.as_name(), None);
            }
        }
    }

    fn warn_of_data_at_cut(&mut self, draft: &Draft) {
        // RFC 4035 section 2.6 and RFC 1034 section 4.2.1: what may stand at the parent's side of a cut.
        let allowed = |t| {
            matches!(
                t,
                Type::NS | Type::DS | Type::NSEC | Type::RRSIG | Type::A | Type::AAAA
            )
        };
        if let Some(other) = draft.entries.iter().find(|e| !allowed(e.rtype)) {
            let message = format_args!(
                "{} {} stands at a delegation: not served",
                self.current_name, other.rtype
            );
            self.findings.warning(other.line, other.file, message);
        }
    }

    fn place(&mut self, place: usize) -> u32 {
        u32::try_from(place).unwrap_or_else(|_| {
            self.findings
                .error(0, 0, format_args!("the zone is larger than 16 GiB"));
            0
        })
    }

    /// The slot of a packed name.
    pub(crate) fn find_slot(&self, hash: u64, name: Name<'_>) -> Option<usize> {
        let tag = tag(hash);
        let mut at = first_slot(tag, self.slots.len());
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == tag && self.node(slot as u32).name() == name {
                return Some(at);
            }
            at = if at + 1 == self.slots.len() {
                0
            } else {
                at + 1
            };
        }
    }

    pub(crate) fn find(&self, key: &NameKey, labels: usize) -> Option<u32> {
        self.find_slot(key.hash(labels), key.suffix(labels))
            .map(|slot| self.slots[slot] as u32)
    }

    pub(crate) fn node(&self, place: u32) -> Node<'_> {
        Node::at(&self.arena[place as usize * ALIGN..])
    }

    fn insert(&mut self, hash: u64, place: u32) {
        // At most three quarters full, so that runs of slots stay short.
        if (self.names + 1) * 4 > self.slots.len() * 3 {
            let larger = self.slots.len() * 2;
            let old = std::mem::replace(&mut self.slots, vec![0; larger]);
            // Slots are ordered by hash, so this writes the new table front to back.
            old.into_iter()
                .filter(|&slot| slot != 0)
                .for_each(|slot| put(&mut self.slots, slot));
        }
        self.names += 1;
        put(&mut self.slots, (tag(hash) as u64) << 32 | place as u64);
    }

    /// Adds an empty non-terminal (RFC 4592 section 2.2.2).
    pub(crate) fn insert_empty(&mut self, key: &NameKey, labels: usize, children: u32) -> u32 {
        let place = self.arena.len() / ALIGN;
        Draft::default().encode(
            key.suffix(labels),
            false,
            Keep { children, flags: 0 },
            &mut self.arena,
        );
        self.arena
            .resize(self.arena.len().next_multiple_of(ALIGN), 0);
        let place = self.place(place);
        self.insert(key.hash(labels), place);
        place
    }

    /// Merges the records that were put aside, one rebuild a name however many there are.
    fn merge_late(&mut self) {
        if self.late_of.is_empty() {
            return;
        }
        let mut moved = HashMap::new();
        let mut order: Vec<u32> = (0..self.late_of.len() as u32).collect();
        order.sort_by_key(|&i| self.late_of[i as usize]);
        let (late, late_of) = (
            std::mem::take(&mut self.late),
            std::mem::take(&mut self.late_of),
        );
        for group in order.chunk_by(|&a, &b| late_of[a as usize] == late_of[b as usize]) {
            let old = late_of[group[0] as usize];
            let first = late.entries[group[0] as usize];
            self.current_name = self.node(old).name().into();
            self.current_key.set(self.current_name.as_name());
            let mut draft = Draft::default();
            draft.push_node(self.node(old), first.line, first.file);
            for &i in group {
                let entry = &late.entries[i as usize];
                draft.push(
                    entry.rtype,
                    entry.ttl,
                    late.rdata(entry),
                    entry.line,
                    entry.file,
                );
            }
            let hash = self.current_key.hash(self.current_key.labels());
            let slot = self.find_slot(hash, self.current_name.as_name());
            let place = self.pack(&mut draft, hash, slot);
            moved.insert(old, place);
        }
        self.with_targets
            .retain(|origin| !moved.contains_key(&origin.place));
        for origin in &mut self.deep {
            origin.place = *moved.get(&origin.place).unwrap_or(&origin.place);
        }
    }

    /// Ends the zone: connects its names, runs the checks and packs it for serving.
    ///
    /// If there is no zone, at least one finding is an error. If there is one, they are warnings, or errors that broke
    /// one name (see [`ZoneBuilder::tolerate_broken_names`]).
    pub fn finish(mut self) -> (Option<Zone>, Vec<Finding>) {
        self.pack_current();
        self.merge_late();
        self.insert_empties();
        self.insert_broken();
        self.connect_ancestors();
        let with_targets = match self.broken.is_empty() {
            true => Vec::new(),
            false => self.with_targets.clone(),
        };
        self.check_targets();
        self.mark_broken(&with_targets);
        let apex_labels = self.apex.labels();
        let apex = self.find(&self.apex, apex_labels);
        let soa = apex.and_then(|place| self.node(place).rrset(Type::SOA));
        if soa.is_none() {
            self.findings.error(
                0,
                0,
                format_args!("expected a SOA at {}, found none", self.apex_name),
            );
        } else if apex.is_some_and(|place| self.node(place).rrset(Type::NS).is_none()) {
            self.findings.warning(
                0,
                0,
                format_args!("expected NS records at {}, found none", self.apex_name),
            );
        }
        if self.findings.are_fatal() {
            return (None, self.findings.into_list());
        }
        let summary = crate::zone::Summary {
            apex: apex.unwrap_or(0),
            apex_labels: apex_labels as u8,
            max_labels: self.max_labels as u8,
            cut_depths: self.cut_depths,
            names: self.names as u32,
        };
        let packed = Packed {
            slots: fitting_slots(self.slots, self.names),
            arena: fitting_arena(self.arena),
        };
        (Some(Zone::new(packed, summary)), self.findings.into_list())
    }

    pub(crate) fn apex_key(&self) -> &NameKey {
        &self.apex
    }

    pub(crate) fn set_children(&mut self, place: u32, children: u32) {
        let at = place as usize * ALIGN;
        self.arena[at..at + 4].copy_from_slice(&children.to_le_bytes());
    }

    pub(crate) fn set_flags(&mut self, place: u32, bits: u8) {
        self.arena[place as usize * ALIGN + 4] |= bits;
    }

    /// Notes where the node of a record's target stands.
    pub(crate) fn set_target(&mut self, record_at: usize, place: u32) {
        debug_assert_eq!(node::read_u32(&self.arena, record_at + 2), 0);
        self.arena[record_at + 2..record_at + 6].copy_from_slice(&place.to_le_bytes());
    }
}

#[inline]
fn put(slots: &mut [u64], slot: u64) {
    put_slot(slots, (slot >> 32) as u32, slot as u32);
}

/// The table in its final size: growing by doubling leaves up to two thirds of it empty.
fn fitting_slots(slots: Vec<u64>, names: usize) -> Box<[u64]> {
    let wanted = slots_for(names);
    if slots.len() == wanted {
        return slots.into_boxed_slice();
    }
    let mut fitting = vec![0; wanted].into_boxed_slice();
    slots
        .into_iter()
        .filter(|&slot| slot != 0)
        .for_each(|slot| put(&mut fitting, slot));
    fitting
}

/// The arena in its final size. Allocators keep the room of a small block that shrinks, so that is copied: a
/// hundred thousand small zones would waste a quarter of their memory.
fn fitting_arena(arena: Vec<u8>) -> Box<[u8]> {
    const SMALL: usize = 64 << 10;
    if arena.len() < SMALL {
        Box::from(&arena[..])
    } else {
        arena.into_boxed_slice()
    }
}
