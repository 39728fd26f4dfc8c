//! The table of served zones, searched by longest match.
//!
//! The table is immutable and published as a whole; it is split into shards, so that a new version after a change to
//! one zone copies one shard and shares the others. Versions for views ([`crate::view`]) are in tables of their own.

mod offer;
mod page;
mod scripted;
mod shard_values;
mod sums;
mod views;

use crate::access::{AccessClient, AccessIndex, AccessList, AccessRules, AccessSource};
use crate::key::NameKey;
use crate::packed::{first_slot, next_slot, slots_for};
use crate::prefetch::prefetch;
use crate::zone::Zone;
use nameward_wire::{Name, Type};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

pub use offer::{Contest, Offered, TableChange};
pub use page::{PageStart, TablePage};
pub use scripted::ScriptedZones;
pub use sums::{RankSums, TableSums, ZoneSums};
pub use views::ViewTables;

const SHARDS: usize = 256;

/// Rank of a placeholder that no source has offered: after all sources, and never in conflict with one.
pub const NO_SOURCE: u16 = u16::MAX;

/// Zones that stand by, keyed by name in lower case. There are few, so a change copies the whole map.
type StandbyZones = Arc<HashMap<Box<[u8]>, Vec<Arc<Zone>>>>;

#[derive(Clone, Default)]
struct Shard {
    /// Open addressing, at most three quarters full.
    slots: Box<[TableSlot]>,
    used: usize,
}

#[derive(Clone, Default)]
struct TableSlot {
    /// The low half of the hash, whose high bits choose the slot; the name is compared as well.
    hash: u32,
    /// The number of the zone's access list; 0 for none.
    access: u32,
    zone: Option<Arc<Zone>>,
}

/// All served zones at one point in time.
#[derive(Clone)]
pub struct ZoneTable {
    shards: Box<[Arc<Shard>]>,
    /// The number of zones whose names have `n` labels.
    depths: Box<[u32; 128]>,
    /// Bit `n`: `depths[n]` is not 0.
    depth_mask: u128,
    len: usize,
    standing_by: StandbyZones,
    /// The versions of zones that have a variant, by their names.
    variants: Option<Arc<ZoneTable>>,
    views: Option<Arc<ViewTables>>,
    access: Arc<AccessIndex>,
}

/// The zone that answers a query, and its access list in the table.
#[derive(Clone, Copy)]
pub struct ZoneMatch<'t> {
    /// The matched zone.
    pub zone: &'t Arc<Zone>,
    access: u32,
}

impl Default for ZoneTable {
    fn default() -> Self {
        let empty = Arc::new(Shard::default());
        ZoneTable {
            shards: vec![empty; SHARDS].into_boxed_slice(),
            depths: Box::new([0; 128]),
            depth_mask: 0,
            len: 0,
            standing_by: StandbyZones::default(),
            variants: None,
            views: None,
            access: Arc::default(),
        }
    }
}

impl ZoneTable {
    /// Returns the number of served zones; each version of a zone counts.
    pub fn len(&self) -> usize {
        self.len + self.variants.as_ref().map_or(0, |variants| variants.len)
    }

    /// Checks whether no zone is served.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all versions of all zones, in arbitrary order. A stub of no source is not a zone.
    pub fn zones(&self) -> impl Iterator<Item = &Arc<Zone>> {
        let variants = self.variants.iter().flat_map(|table| table.shards.iter());
        let shards = self.shards.iter().chain(variants);
        shards
            .flat_map(|shard| shard.slots.iter())
            .filter_map(|slot| slot.zone.as_ref())
            .filter(|zone| zone.rank() != NO_SOURCE)
    }

    /// Returns the zone, or the version of a zone, with exactly this name.
    pub fn exact(&self, name: Name<'_>) -> Option<&Arc<Zone>> {
        self.exact_by(&NameKey::new(name))
    }

    /// Returns the zone with exactly the name of this key.
    pub(crate) fn exact_by(&self, key: &NameKey) -> Option<&Arc<Zone>> {
        if key.suffix(key.labels()).variant().is_some() {
            return self.variants.as_ref()?.probe_id(key)?.zone.as_ref();
        }
        self.probe(key, key.labels())?.zone.as_ref()
    }

    /// Replaces the access rules of one source; they apply to every current and future zone in this table.
    pub fn set_access(&mut self, source: AccessSource, rules: Arc<AccessRules>) {
        if **self.access.rules(source) == *rules {
            return;
        }
        self.access = Arc::new(self.access.with(source, rules));
        let access = Arc::clone(&self.access);
        self.number_lists(&access);
        if let Some(variants) = &mut self.variants {
            Arc::make_mut(variants).number_lists(&access);
            self.fill_views();
        }
    }

    /// Gives each slot the number of its zone's access list.
    fn number_lists(&mut self, access: &AccessIndex) {
        for shard in &mut self.shards {
            let is_other = |slot: &TableSlot| {
                let zone = slot.zone.as_ref();
                zone.is_some_and(|zone| access.number_of(zone.id()) != slot.access)
            };
            if shard.slots.iter().any(is_other) {
                for slot in &mut Arc::make_mut(shard).slots {
                    if let Some(zone) = &slot.zone {
                        slot.access = access.number_of(zone.id());
                    }
                }
            }
        }
    }

    /// Returns the access rules of one source.
    pub fn access(&self, source: AccessSource) -> &Arc<AccessRules> {
        self.access.rules(source)
    }

    /// Returns the clients whose packets are dropped, if any.
    #[inline]
    pub fn blackhole(&self) -> Option<&AccessList> {
        self.access.blackhole.as_ref()
    }

    /// Checks whether some zone has an access list, or may get one by default.
    #[inline]
    pub fn has_access_lists(&self) -> bool {
        self.access.has_lists()
    }

    /// Checks whether the client subnet option of a sender is believed (RFC 7871).
    pub fn believes_subnet_of(&self, sender: IpAddr) -> bool {
        let senders = self.access.subnet_senders.as_ref();
        senders.is_some_and(|list| list.contains(sender))
    }

    /// Checks whether a client may query a zone in this table. A zone without a list costs one comparison.
    #[inline]
    pub fn allows(&self, found: ZoneMatch<'_>, client: &AccessClient<'_>) -> bool {
        found.access == 0 || self.access.allows(found.access, client)
    }

    /// Returns the zone that answers a query: the longest match, except that DS at the apex of a served zone is
    /// answered by the parent, if that is served too (RFC 4035 section 3.1.4.1).
    #[inline]
    pub fn zone_for(&self, key: &NameKey, qtype: Type) -> Option<&Arc<Zone>> {
        self.slot_for(key, qtype)?.zone.as_ref()
    }

    /// Like [`ZoneTable::zone_for`], but also returns the access list.
    #[inline]
    pub fn match_for(&self, key: &NameKey, qtype: Type) -> Option<ZoneMatch<'_>> {
        let slot = self.slot_for(key, qtype)?;
        let (zone, access) = (slot.zone.as_ref()?, slot.access);
        Some(ZoneMatch { zone, access })
    }

    #[inline]
    fn slot_for(&self, key: &NameKey, qtype: Type) -> Option<&TableSlot> {
        let labels = key.labels();
        let found = self.longest_match(key, labels)?;
        if qtype == Type::DS
            && labels > 0
            && found.zone.as_ref()?.apex_labels() == labels
            && let Some(parent) = self.longest_match(key, labels - 1)
        {
            return Some(parent);
        }
        Some(found)
    }

    #[inline]
    fn longest_match(&self, key: &NameKey, labels: usize) -> Option<&TableSlot> {
        // Only depths at which zones exist are probed, the deepest first.
        let mut limit = labels;
        loop {
            let n = self.depth_to(limit)?;
            if let Some(found) = self.probe(key, n) {
                return Some(found);
            }
            limit = n.checked_sub(1)?;
        }
    }

    /// Returns the largest number of labels, up to `limit`, that the name of some zone has.
    #[inline]
    fn depth_to(&self, limit: usize) -> Option<usize> {
        if limit < 64 {
            let depths = self.depth_mask as u64 & (u64::MAX >> (63 - limit));
            return (depths != 0).then(|| 63 - depths.leading_zeros() as usize);
        }
        self.depth_of_long_names_to(limit)
    }

    #[cold]
    fn depth_of_long_names_to(&self, limit: usize) -> Option<usize> {
        let depths = self.depth_mask & (u128::MAX >> (127 - limit));
        (depths != 0).then(|| 127 - depths.leading_zeros() as usize)
    }

    #[inline]
    fn probe(&self, key: &NameKey, labels: usize) -> Option<&TableSlot> {
        let hash = key.hash(labels);
        let shard = &self.shards[shard_of(hash)];
        shard.find(hash as u32, |zone| zone.apex_name() == key.suffix(labels))
    }

    /// Prefetches the slot that the search will most likely read first.
    #[inline]
    pub fn prefetch(&self, key: &NameKey) {
        if let Some(slot) = self.first_slot(key) {
            prefetch(slot);
        }
    }

    /// Returns the zone that the search will most likely find, without reading any zone: that with the right hash, once the
    /// slot is cached.
    #[inline]
    pub fn likely_match(&self, key: &NameKey) -> Option<&Zone> {
        let mut limit = key.labels();
        loop {
            let n = self.depth_to(limit)?;
            let hash = key.hash(n);
            let slot = self.shards[shard_of(hash)].find(hash as u32, |_| true);
            if let Some(slot) = slot {
                return slot.zone.as_deref();
            }
            limit = n.checked_sub(1)?;
        }
    }

    #[inline]
    fn first_slot(&self, key: &NameKey) -> Option<&TableSlot> {
        let hash = key.hash(self.depth_to(key.labels())?);
        let shard = &self.shards[shard_of(hash)];
        shard.slots.get(first_slot(hash as u32, shard.slots.len()))
    }

    /// Makes room for many new zones, as at the first load: shards that grow step by step leave gaps in memory.
    pub(crate) fn reserve(&mut self, zones: usize) {
        if zones <= self.len.max(16 * SHARDS) {
            return;
        }
        let average = zones / SHARDS;
        // Shards differ: with a sixteenth more, all but a few of a million zones' have room.
        let len = slots_for(average + average / 16);
        for shard in &mut self.shards {
            if shard.slots.len() < len {
                Arc::make_mut(shard).rebuild(len);
            }
        }
    }

    /// Adds a zone, or replaces the one with its name.
    pub fn insert(&mut self, zone: Arc<Zone>) {
        self.insert_by(&NameKey::new(zone.id()), zone);
    }

    /// Adds or replaces the zone with the name of this key.
    pub(crate) fn insert_by(&mut self, key: &NameKey, zone: Arc<Zone>) {
        let access = self.access.number_of(zone.id());
        if zone.id().variant().is_some() {
            self.insert_variant(key, zone, access);
        } else {
            self.put(key, zone, access);
        }
    }

    fn put(&mut self, key: &NameKey, zone: Arc<Zone>, access: u32) {
        let labels = key.labels();
        let hash = key.hash(labels);
        let shard = Arc::make_mut(&mut self.shards[shard_of(hash)]);
        if shard.put(hash as u32, access, zone) {
            self.len += 1;
            self.depths[labels] += 1;
            self.depth_mask |= 1 << labels;
        }
    }

    /// Removes a zone; returns false if it does not exist.
    pub fn remove(&mut self, name: Name<'_>) -> bool {
        if name.variant().is_some() {
            return self.remove_variant(name);
        }
        self.take(name)
    }

    fn take(&mut self, name: Name<'_>) -> bool {
        let key = NameKey::new(name);
        let labels = key.labels();
        let hash = key.hash(labels);
        let shard = Arc::make_mut(&mut self.shards[shard_of(hash)]);
        if !shard.take(hash as u32, name) {
            return false;
        }
        self.len -= 1;
        self.depths[labels] -= 1;
        if self.depths[labels] == 0 {
            self.depth_mask &= !(1 << labels);
        }
        true
    }
}

impl Shard {
    /// Returns the slot with this hash whose zone is the right one.
    #[inline]
    fn find(&self, hash: u32, is_right: impl Fn(&Zone) -> bool) -> Option<&TableSlot> {
        let mut at = first_slot(hash, self.slots.len());
        loop {
            let slot = self.slots.get(at)?;
            let zone = slot.zone.as_ref()?;
            if slot.hash == hash && is_right(zone) {
                return Some(slot);
            }
            at = next_slot(at, self.slots.len());
        }
    }

    /// Inserts a zone; returns true if its name is new.
    fn put(&mut self, hash: u32, access: u32, zone: Arc<Zone>) -> bool {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            // By half, not to twice as much: a shard of a million zones is then never less than half full.
            self.rebuild((self.slots.len() * 3 / 2).max(4));
        }
        let mut at = first_slot(hash, self.slots.len());
        let mut is_new = true;
        while let Some(existing) = &self.slots[at].zone {
            if self.slots[at].hash == hash && existing.id() == zone.id() {
                is_new = false;
                break;
            }
            at = next_slot(at, self.slots.len());
        }
        self.slots[at] = TableSlot {
            hash,
            access,
            zone: Some(zone),
        };
        self.used += usize::from(is_new);
        is_new
    }

    fn take(&mut self, hash: u32, name: Name<'_>) -> bool {
        let found = self.slots.iter_mut().find(|slot| {
            slot.hash == hash && slot.zone.as_ref().is_some_and(|zone| zone.id() == name)
        });
        let Some(slot) = found else { return false };
        slot.zone = None;
        self.used -= 1;
        // Others may have been displaced by it: rehash everything.
        self.rebuild(self.slots.len());
        true
    }

    fn rebuild(&mut self, len: usize) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![TableSlot::default(); len].into_boxed_slice();
        for slot in old.into_iter().filter(|slot| slot.zone.is_some()) {
            let mut at = first_slot(slot.hash, len);
            while self.slots[at].zone.is_some() {
                at = next_slot(at, len);
            }
            self.slots[at] = slot;
        }
    }
}

/// The low half chooses the slot, so the highest bits choose the shard.
#[inline]
fn shard_of(hash: u64) -> usize {
    (hash >> 56) as usize
}
