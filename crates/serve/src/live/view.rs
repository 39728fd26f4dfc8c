//! The zones as the answer engine sees them while an answer needs live zones: the zone table, with the fragments
//! fetched so far in place of their stand-ins.

use std::cell::Cell;
use std::sync::Arc;

use arrayvec::ArrayVec;
use nameward_answer::{MAX_CHAIN, PreparedAddresses, Zones};
use nameward_wire::Type;
use nameward_wire::message::Query;
use nameward_zone::{Live, NameKey, Zone};

use crate::access::ClientZones;

/// Maximum number of fragments per answer: one for each time a CNAME chain enters a live zone.
const MAX_PARTS: usize = MAX_CHAIN + 1;

/// A fragment fetched for one query.
#[derive(Clone)]
pub struct FetchedFragment {
    zone: u64,
    name: u64,
    pub(crate) generation: u32,
    pub(crate) part: Arc<Zone>,
}

impl FetchedFragment {
    /// Names the zone and the name that `part` was fetched for, and the zone's generation at that time.
    pub fn new(live: &Live, name: &NameKey, generation: u32, part: Arc<Zone>) -> Self {
        FetchedFragment {
            zone: live.number(),
            name: name.hash(name.labels()),
            generation,
            part,
        }
    }
}

/// The fragments fetched for one query.
pub type Parts = ArrayVec<FetchedFragment, MAX_PARTS>;

/// How an answer used the zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Used {
    /// No zone yet.
    Nothing,
    /// One live zone, through the fragment with this index.
    One(usize),
    /// More than one zone.
    Several,
}

/// The zones as one query sees them: those in memory, and the fragments fetched for it.
pub struct LiveView<'a> {
    table: ClientZones<'a>,
    parts: &'a Parts,
    /// The live zone that a CNAME chain is in: a fragment has every name that it leads to inside the zone.
    current: Cell<Option<(u64, usize)>>,
    used: Cell<Used>,
}

impl<'a> LiveView<'a> {
    /// Combines the zones of a client with the fragments.
    pub fn new(table: ClientZones<'a>, parts: &'a Parts) -> Self {
        LiveView {
            table,
            parts,
            current: Cell::new(None),
            used: Cell::new(Used::Nothing),
        }
    }

    pub(crate) fn used(&self) -> Used {
        self.used.get()
    }

    fn index_of(&self, live: &Live, key: &NameKey) -> Option<usize> {
        if let Some((zone, index)) = self.current.get()
            && zone == live.number()
        {
            return Some(index);
        }
        let name = key.hash(key.labels());
        self.parts
            .iter()
            .position(|held| held.zone == live.number() && held.name == name)
    }
}

impl Zones for LiveView<'_> {
    type View = Zone;

    fn leave_zone(&self) {
        self.current.set(None);
    }

    fn prepared(&self, script: &[u8], query: &Query<'_>) -> Option<PreparedAddresses<'_>> {
        self.table.prepared(script, query)
    }

    fn zone_for(&self, key: &NameKey, qtype: Type) -> Option<&Zone> {
        let zone = self.table.find(key, qtype);
        let live = zone.and_then(|zone| zone.live());
        let index = live.and_then(|live| self.index_of(live, key));
        self.used.set(match (self.used.get(), index) {
            (Used::Nothing, Some(index)) => Used::One(index),
            (Used::One(before), Some(index)) if before == index => Used::One(index),
            _ => Used::Several,
        });
        self.current
            .set(live.zip(index).map(|(live, index)| (live.number(), index)));
        match index {
            Some(index) => Some(&self.parts[index].part),
            None => zone.map(|zone| &**zone),
        }
    }
}
