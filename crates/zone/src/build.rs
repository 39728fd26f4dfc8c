//! The zone builder: packs records in the order in which a zone file or a transfer delivers them.
//!
//! Records of one owner are usually adjacent, so each name is packed as soon as the next owner starts: one pass, no
//! allocation per record, no second copy of the zone. Records of an owner that reappears later are set aside and merged
//! once at the end, so a file in arbitrary order costs no more than sorting the records set aside.

mod advice;
mod apex;
mod broken;
mod check;
mod connect;
mod glue;
mod memory;
mod merge;
mod reuse;

use crate::capacity::{ZoneFull, ZoneLimits, try_push};
use crate::draft::{Draft, Keep};
use crate::finding::Findings;
use crate::key::NameKey;
use crate::layout;
use crate::node::{self, Node, flags};
use crate::packed::{ALIGN, first_slot, next_slot, put_slot, tag};
use crate::prefetch::prefetch;
use nameward_wire::zonefile::{Record, RecordLocation, RecordLocations, Sink, SinkRefusal};
use nameward_wire::{Class, Name, NameBuf, Type};
use std::collections::HashMap;

pub use advice::ScriptCheck;
pub use apex::PackedApex;
use broken::Broken;
pub(crate) use broken::bits_of_targets;
use check::is_checked_alone;
pub(crate) use connect::{HostReference, is_below, list_targets};
use glue::LastCut;

/// Distance, in node locations, from one empty non-terminal of a chain to the one above it.
pub(crate) const CHAIN_STEP: u32 = (node::CHAIN_NODE / ALIGN) as u32;

/// Collects the records of one zone, or of several zones in sequence.
pub struct ZoneBuilder {
    apex: NameKey,
    apex_name: NameBuf,
    /// The name of the version, if it has a variant.
    id: Option<Box<[u8]>>,
    arena: Vec<u8>,
    slots: Vec<u64>,
    names: usize,
    /// The owner currently being collected.
    current: Draft,
    current_name: NameBuf,
    current_key: NameKey,
    current_in_zone: bool,
    /// Records of owners that are already packed.
    late: Draft,
    late_of: Vec<u32>,
    /// Names that exist regardless of whether they have records here.
    empties: Vec<NameBuf>,
    broken: Broken,
    is_tolerant: bool,
    script_check: ScriptCheck,
    deep: Vec<PlacedNode>,
    with_targets: Vec<PlacedNode>,
    cut_depths: u128,
    has_scripts: bool,
    max_labels: usize,
    has_auto_hints: bool,
    findings: Findings,
    /// Source locations of records that name hosts and are in a different file than the first record of their owner,
    /// keyed by their offset in the arena.
    elsewhere: HashMap<usize, RecordLocation>,
    /// Source locations of the records.
    locations: RecordLocations,
    last_cut: LastCut,
    /// Delegations whose name servers are resolved.
    connected: Vec<u32>,
    /// Source location of the SOA, once it is packed.
    soa_from: RecordLocation,
    limits: ZoneLimits,
    records: u64,
    /// Octets of text read so far and in total, if known.
    text_read: Option<(u64, u64)>,
    /// Octets the current owner may still take.
    octets_left: usize,
    /// All records have been added and the ones set aside have been merged.
    is_merging: bool,
    /// A limit has been reached and reported.
    is_full: bool,
    /// The limit is the memory of the system.
    lacks_memory: bool,
}

/// A node and the source location of its first record.
#[derive(Clone, Copy)]
pub(crate) struct PlacedNode {
    pub(crate) place: u32,
    pub(crate) from: RecordLocation,
}

/// Zone file records go straight into the builder.
impl Sink for ZoneBuilder {
    #[inline]
    fn record(&mut self, record: &Record<'_>) -> Result<(), SinkRefusal> {
        self.add(record);
        if !self.is_full {
            Ok(())
        } else {
            Err(SinkRefusal::Stop)
        }
    }

    fn progress(&mut self, read: u64, of: u64) {
        self.text_read = Some((read, of));
    }
}

impl ZoneBuilder {
    /// Adds one record. A zone that has reached one of its limits ignores further records.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>) {
        if self.is_full {
            return;
        }
        let continues =
            record.same_owner || record.owner.as_wire() == self.current_name.as_name().as_wire();
        if !continues || self.names == 0 && self.current.is_empty() {
            self.begin_owner(record);
        }
        if !self.current_in_zone {
            // Reported once per owner, by begin_owner.
            return;
        }
        if record.class != Class::IN {
            self.findings.error(
                record.from,
                format_args!("expected class IN, found {:?}", record.class),
            );
            return;
        }
        self.locations.add(record.from);
        self.records += 1;
        if let Err(full) = self.push(record) {
            self.refuse(full, record.from);
        }
    }

    #[inline]
    fn push(&mut self, record: &Record<'_>) -> Result<(), ZoneFull> {
        if self.is_full {
            return Ok(());
        }
        if self.records > self.limits.records {
            return Err(ZoneFull::Records(self.limits.records));
        }
        if self.current.octets() > self.octets_left {
            return Err(ZoneFull::Octets(self.limits.octets));
        }
        self.current
            .try_push(record.rtype, record.ttl, record.rdata, record.from)
    }

    /// Returns how many records were added.
    pub fn record_count(&self) -> u64 {
        self.records
    }

    /// Declares that a name exists although none of the added records makes it exist: the zone is built as a fragment,
    /// and the data below the name is not part of it.
    pub fn add_empty(&mut self, name: Name<'_>) {
        self.empties.push(name.into());
    }

    fn insert_empties(&mut self) {
        for name in std::mem::take(&mut self.empties) {
            self.insert_existing(name.as_name());
        }
    }

    /// Creates a node for a name, so that it exists.
    pub(crate) fn insert_existing(&mut self, name: Name<'_>) {
        let (key, apex_labels) = (NameKey::new(name), self.apex.labels());
        let labels = key.labels();
        if labels <= apex_labels
            || key.suffix(apex_labels) != self.apex.suffix(apex_labels)
            || self.find(&key, labels).is_some()
        {
            return;
        }
        let made = self.insert_chain(&key, labels, 1).and_then(|place| {
            if labels > apex_labels + 1 || name.is_wildcard() {
                let from = RecordLocation::NONE;
                try_push(&mut self.deep, PlacedNode { place, from })?;
            }
            Ok(())
        });
        if let Err(full) = made {
            self.refuse(full, RecordLocation::NONE);
        }
        self.max_labels = self.max_labels.max(labels);
    }

    fn begin_owner(&mut self, record: &Record<'_>) {
        self.pack_current();
        self.current_name.assign(record.owner);
        self.current_key.set(record.owner);
        let (key, apex) = (&self.current_key, &self.apex);
        // The slot is read when the owner is packed. Parsing its records first takes longer than a cache miss.
        let first = first_slot(tag(key.hash(key.labels())), self.slots.len());
        if let Some(slot) = self.slots.get(first) {
            prefetch(slot);
        }
        // Both are in lower case.
        self.current_in_zone = key.labels() >= apex.labels()
            && key.hash(apex.labels()) == apex.hash(apex.labels())
            && key.suffix(apex.labels()).as_wire() == apex.suffix(apex.labels()).as_wire();
        if !self.current_in_zone {
            let message = format_args!(
                "{} is outside zone {}: ignored",
                record.owner, self.apex_name
            );
            self.findings.warning(record.from, message);
        }
    }

    fn is_apex(&self, key: &NameKey) -> bool {
        key.labels() == self.apex.labels()
    }

    /// Packs the current owner, or sets its records aside if that name is packed already.
    fn pack_current(&mut self) {
        let Some(&first) = self.current.entries.first() else {
            return;
        };
        let mut draft = std::mem::take(&mut self.current);
        let packed = self
            .pack_or_put_aside(&mut draft, first.from)
            .and_then(|()| self.check_octets());
        if let Err(full) = packed {
            self.refuse(full, first.from);
        }
        draft.clear();
        self.current = draft;
    }

    fn pack_or_put_aside(
        &mut self,
        draft: &mut Draft,
        from: RecordLocation,
    ) -> Result<(), ZoneFull> {
        let labels = self.current_key.labels();
        let hash = self.current_key.hash(labels);
        // Must precede the search for a free slot, so that the slot found remains valid.
        self.reserve_slots(1)?;
        let slot = match self.probe(hash, self.current_name.as_name()) {
            Err(free) => free,
            Ok(slot) => return self.put_aside(draft, self.slots[slot] as u32),
        };
        let place = self.pack(draft, hash, Keep::default())?;
        self.slots[slot] = (tag(hash) as u64) << 32 | place as u64;
        self.names += 1;
        self.max_labels = self.max_labels.max(labels);
        let is_deep = labels > self.apex.labels() + 1;
        if is_deep && self.connect_glue(place, draft)? {
            return Ok(());
        }
        let is_below = labels > self.apex.labels();
        if is_deep || is_below && self.current_name.as_name().is_wildcard() {
            try_push(&mut self.deep, PlacedNode { place, from })?;
        }
        Ok(())
    }

    /// Keeps records of an owner that is already packed until all records are read.
    fn put_aside(&mut self, draft: &Draft, place: u32) -> Result<(), ZoneFull> {
        for entry in &draft.entries {
            let rdata = draft.rdata(entry);
            self.late
                .try_push(entry.rtype, entry.ttl, rdata, entry.from)?;
            try_push(&mut self.late_of, place)?;
        }
        Ok(())
    }

    /// Writes `draft` as the node of the current name; the caller must point a slot to it.
    fn pack(&mut self, draft: &mut Draft, hash: u64, keep: Keep) -> Result<u32, ZoneFull> {
        let is_apex = self.is_apex(&self.current_key);
        if draft.entries.len() > 1 {
            let name = self.current_name;
            self.normalise(draft, name.as_name());
        }
        let name = self.current_name.as_name();
        let place = self.arena.len() / ALIGN;
        let most = draft.encoded_len_max(name) + ALIGN;
        self.arena.try_reserve(most).map_err(|_| ZoneFull::Memory)?;
        draft.encode(name, is_apex, keep, &mut self.arena);
        self.arena
            .resize(self.arena.len().next_multiple_of(ALIGN), 0);
        let place = self.place(place);
        let node_flags = self.arena[place as usize * ALIGN + 4];
        if node_flags & (flags::CUT | flags::DNAME) != 0 {
            self.cut_depths |= 1 << self.current_key.labels();
        }
        if node_flags & flags::CNAME_OR_LUA != 0 {
            self.has_scripts |= draft.entries.iter().any(|entry| entry.rtype == Type::LUA);
        }
        let (mut has_targets, mut is_special) = (false, false);
        for entry in &draft.entries {
            has_targets |= layout::layout(entry.rtype).target != node::NO_TARGET;
            is_special |= is_checked_alone(entry.rtype);
        }
        if has_targets {
            self.has_auto_hints |= draft.has_auto_hints();
            self.note_targets(draft, place, hash)?;
        }
        if is_special {
            self.check_soa(draft, is_apex);
            self.check_iterations(draft);
            self.advise_on_aliases(draft);
        }
        self.warn_of_large_rrset(draft);
        if node_flags & flags::CUT != 0 {
            self.warn_of_data_at_cut(draft);
            self.warn_of_wildcard_cut(draft);
        }
        Ok(place)
    }

    /// Registers a node whose records name hosts.
    fn note_targets(&mut self, draft: &Draft, place: u32, hash: u64) -> Result<(), ZoneFull> {
        let first = draft.entries[0];
        let from = first.from;
        self.end_cut()?;
        let is_cut = self.node(place).has(flags::CUT);
        if is_cut && !self.is_merging && self.begin_cut(place, hash, from) {
            return Ok(());
        }
        try_push(&mut self.with_targets, PlacedNode { place, from })?;
        if self.locations.are_plain() {
            Ok(())
        } else {
            self.note_record_locations(draft, place, from)
        }
    }

    /// Records the source locations that are not beside the first one of the owner. The lower halves of the locations
    /// of records that name hosts are kept in their nodes until all names are known.
    fn note_record_locations(
        &mut self,
        draft: &Draft,
        place: u32,
        first: RecordLocation,
    ) -> Result<(), ZoneFull> {
        let base = place as usize * ALIGN;
        let mut at = base + Node::at(&self.arena[base..]).rrsets_at();
        for group in draft.entries.chunk_by(|a, b| a.rtype == b.rtype) {
            at += node::RRSET_HEADER;
            let has_target = layout::layout(group[0].rtype).target != node::NO_TARGET;
            for entry in group {
                if has_target && !entry.from.is_beside(first) {
                    self.elsewhere
                        .try_reserve(1)
                        .map_err(|_| ZoneFull::Memory)?;
                    self.elsewhere.insert(at, entry.from);
                }
                at += draft.rdata(entry).len() + if has_target { 6 } else { 2 };
            }
        }
        Ok(())
    }

    fn place(&mut self, place: usize) -> u32 {
        u32::try_from(place).unwrap_or_else(|_| {
            self.findings.error(
                RecordLocation::NONE,
                format_args!("the zone is larger than 16 GiB"),
            );
            0
        })
    }

    /// Returns the slot of a packed name, or the free slot that it would get.
    fn probe(&self, hash: u64, name: Name<'_>) -> Result<usize, usize> {
        let tag = tag(hash);
        let mut at = first_slot(tag, self.slots.len());
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return Err(at);
            }
            if (slot >> 32) as u32 == tag && self.node(slot as u32).name() == name {
                return Ok(at);
            }
            at = next_slot(at, self.slots.len());
        }
    }

    pub(crate) fn find(&self, key: &NameKey, labels: usize) -> Option<u32> {
        let slot = self.probe(key.hash(labels), key.suffix(labels)).ok()?;
        Some(self.slots[slot] as u32)
    }

    pub(crate) fn node(&self, place: u32) -> Node<'_> {
        Node::at(&self.arena[place as usize * ALIGN..])
    }

    fn insert(&mut self, hash: u64, place: u32) -> Result<(), ZoneFull> {
        self.reserve_slots(1)?;
        self.names += 1;
        put_slot(&mut self.slots, tag(hash), place);
        Ok(())
    }

    /// Adds `count` empty non-terminals (RFC 4592 section 2.2.2): the suffix of `labels` labels and its ancestors.
    /// Returns the location of the deepest one; the others follow at intervals of [`CHAIN_STEP`].
    pub(crate) fn insert_chain(
        &mut self,
        key: &NameKey,
        labels: usize,
        count: usize,
    ) -> Result<u32, ZoneFull> {
        let name = key.suffix(labels);
        let octets = count * node::CHAIN_NODE + name.as_wire().len() + ALIGN;
        self.arena
            .try_reserve(octets)
            .map_err(|_| ZoneFull::Memory)?;
        self.reserve_slots(count)?;
        let first = self.arena.len() / ALIGN;
        node::encode_chain(name, count, &mut self.arena);
        self.arena
            .resize(self.arena.len().next_multiple_of(ALIGN), 0);
        for n in 0..count {
            let place = self.place(first + n * CHAIN_STEP as usize);
            self.insert(key.hash(labels - n), place)?;
        }
        self.check_octets()?;
        Ok(self.place(first))
    }

    /// Returns the source location of the SOA at the apex.
    pub fn soa_location(&self) -> RecordLocation {
        let mut current = self.current.entries.iter();
        match current.find(|entry| entry.rtype == Type::SOA) {
            Some(soa) if self.is_apex(&self.current_key) => soa.from,
            _ => self.soa_from,
        }
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

    /// Sets the location of the node of a record's target; 0 if the target is not in the zone.
    pub(crate) fn set_target(&mut self, record_at: usize, place: u32) {
        self.arena[record_at + 2..record_at + 6].copy_from_slice(&place.to_le_bytes());
    }
}
