//! One version of a zone, and lookups in it.

mod body;
mod signing;

use crate::key::NameKey;
use crate::live::Live;
use crate::node::{Node, RecordData, Rrset, flags, soa_field};
use crate::packed::{Packed, tag};
use crate::prefetch::prefetch;
use crate::serial::Serial;
use crate::signing_state::SigningState;
use crate::summary::ZoneSummary;
pub(crate) use body::Changes;
use body::{MemoryContents, ZoneBody, ZoneIndexes, no_contents};
use nameward_wire::{Name, Type};
use std::sync::Arc;

/// One immutable version of a zone.
///
/// A version is either packed as a whole, or a packed base with changes over it, so that the cost of changing a few
/// records is proportional to the change (see [`crate::change`]).
pub struct Zone {
    body: ZoneBody,
    summary: ZoneSummary,
    /// Only the zone's existence is known; this is the placeholder for contents that are not available.
    is_not_ready: bool,
    /// The zone only has the names that a single query needs.
    is_fragment: bool,
    /// Rank of the source: the lower one wins if two sources have the zone.
    rank: u16,
}

// With its `Arc` counters, a zone takes a block of 112 octets; the allocator's next sizes are 128 and 160, which would
// be noticeable with a million zones.
const _: () = assert!(size_of::<Zone>() <= 96);

/// The result of searching a name in a zone (RFC 1034 section 4.3.2 step 3, RFC 4592 section 3.3).
#[allow(missing_docs)] // fields whose names say it
#[derive(Clone, Copy)]
pub enum Find<'a> {
    /// The name exists and is not below a delegation or a DNAME. It may be empty (RFC 8020).
    Exact(Node<'a>),
    /// The name is at (`exact`) or below a delegation.
    Cut {
        node: Node<'a>,
        /// Whether the name is the delegation itself.
        exact: bool,
    },
    /// The name is below a DNAME, whose owner has this many labels.
    Dname {
        node: Node<'a>,
        /// Label count of the owner.
        labels: usize,
    },
    /// The name does not exist but matches a wildcard (its source of synthesis).
    Wildcard {
        node: Node<'a>,
        /// Label count of the closest encloser.
        encloser: usize,
    },
    /// The name does not exist.
    Missing {
        /// Label count of the closest encloser.
        encloser: usize,
    },
}

impl Zone {
    pub(crate) fn new(packed: Packed, summary: ZoneSummary) -> Self {
        Zone::with_body(ZoneBody::Memory(MemoryContents::new(packed)), summary)
    }

    pub(crate) fn with_changes(changes: Changes, summary: ZoneSummary) -> Self {
        let mut contents = MemoryContents::new(Packed::default());
        contents.changes = Some(Box::new(changes));
        Zone::with_body(ZoneBody::Memory(contents), summary)
    }

    /// Creates the placeholder for contents that are looked up.
    pub(crate) fn looked_up(live: Live, summary: ZoneSummary) -> Self {
        Zone::with_body(ZoneBody::Backend(live), summary)
    }

    fn with_body(body: ZoneBody, summary: ZoneSummary) -> Self {
        Zone {
            body,
            summary,
            is_not_ready: false,
            is_fragment: false,
            rank: 0,
        }
    }

    #[inline]
    fn contents(&self) -> &MemoryContents {
        match &self.body {
            ZoneBody::Memory(contents) => contents,
            ZoneBody::Backend(_) => no_contents(),
        }
    }

    /// Copies the rank and signing state from the version this one was derived from. The denial chain is that of the
    /// same contents; [`Zone::follow_chain`] applies changes to it.
    pub(crate) fn inherit(&mut self, from: &Zone) {
        self.rank = from.rank;
        self.set_id(from.id());
        let signing = match from.signing() {
            state @ (SigningState::Online(_) | SigningState::Chained(_)) => state.clone(),
            SigningState::Listed(listed) => SigningState::Online(Arc::clone(&listed.signing)),
            // Signatures may have been added, and the denial chain may have changed with the contents.
            SigningState::Stored(_) | SigningState::Unsigned => self.stored_signatures(),
        };
        self.set_signing(signing);
        if let Some(chain) = from.kept_chain() {
            self.keep_chain(Some(chain));
        }
    }

    /// Makes this the placeholder for contents that are not available.
    pub(crate) fn set_not_ready(&mut self) {
        self.is_not_ready = true;
    }

    /// Checks whether this is only a placeholder for contents that are not in memory.
    #[inline]
    pub fn is_stub(&self) -> bool {
        self.is_not_ready || self.live().is_some()
    }

    /// Returns where the contents are looked up, if this is only a placeholder for them.
    #[inline]
    pub fn live(&self) -> Option<&Live> {
        match &self.body {
            ZoneBody::Memory(_) => None,
            ZoneBody::Backend(live) => Some(live),
        }
    }

    /// Checks whether queries can be answered from the zone, possibly by a lookup. If not, only its existence is known.
    pub fn is_ready(&self) -> bool {
        !self.is_not_ready
    }

    /// Returns how answers are signed.
    #[inline]
    pub fn signing(&self) -> &SigningState {
        &self.contents().signing
    }

    /// Sets how answers are signed. The apex records of a signed zone must already be present. Without effect on a
    /// placeholder for contents that are looked up: they are signed as their backend says.
    pub fn set_signing(&mut self, signing: impl Into<SigningState>) {
        if let ZoneBody::Memory(contents) = &mut self.body {
            contents.signing = signing.into();
        }
    }

    /// Returns the stored version, if this one was derived from it: signed here, with a higher serial, or with a
    /// digest.
    pub fn unsigned_version(&self) -> Option<&Arc<Zone>> {
        self.changes()?.unsigned.as_ref()
    }

    pub(crate) fn set_unsigned(&mut self, version: Arc<Zone>) {
        // `apply_over` always yields changes over a base.
        if let Some(changes) = self.changes_mut() {
            changes.unsigned = Some(version);
        }
    }

    pub(crate) fn set_stored(&mut self, version: Arc<Zone>) {
        // `Editor::finish` always yields changes over a base.
        if let Some(changes) = self.changes_mut() {
            changes.stored = Some(version);
        }
    }

    /// Checks whether the zone only has the names that a single query needs, so that the absence of other names means
    /// nothing.
    pub fn is_fragment(&self) -> bool {
        self.is_fragment
    }

    /// Marks the zone as having only the names that a single query needs.
    pub fn mark_as_fragment(&mut self) {
        self.is_fragment = true;
    }

    /// Returns the rank of the source.
    pub fn rank(&self) -> u16 {
        self.rank
    }

    /// Sets the rank of the source.
    pub fn set_rank(&mut self, rank: u16) {
        self.rank = rank;
    }

    /// Returns the packed contents: the whole zone, or the base below the changes.
    #[inline]
    pub(crate) fn packed(&self) -> &Packed {
        let contents = self.contents();
        match &contents.changes {
            None => &contents.packed,
            Some(changes) => changes.base.packed(),
        }
    }

    pub(crate) fn summary(&self) -> &ZoneSummary {
        &self.summary
    }

    pub(crate) fn changes(&self) -> Option<&Changes> {
        self.contents().changes.as_deref()
    }

    fn changes_mut(&mut self) -> Option<&mut Changes> {
        match &mut self.body {
            ZoneBody::Memory(contents) => contents.changes.as_deref_mut(),
            ZoneBody::Backend(_) => None,
        }
    }

    pub(crate) fn indexes(&self) -> &ZoneIndexes {
        self.contents().indexes.get_or_init(Box::default)
    }

    pub(crate) fn indexes_if_made(&self) -> Option<&ZoneIndexes> {
        match &self.body {
            ZoneBody::Memory(contents) => contents.indexes.get(),
            ZoneBody::Backend(_) => None,
        }
    }

    /// Returns the zone name.
    #[inline]
    pub fn apex_name(&self) -> Name<'_> {
        match &self.body {
            // The apex cannot be deleted, so the packed node has the name even if it has changed.
            ZoneBody::Memory(_) => self.packed().node(self.summary.apex).name(),
            ZoneBody::Backend(live) => live.name().zone(),
        }
    }

    /// Returns the apex node. That of a placeholder for contents that are looked up has neither records nor its name.
    #[inline]
    pub fn apex(&self) -> Node<'_> {
        let contents = self.contents();
        match &contents.changes {
            None => contents.packed.node(self.summary.apex),
            Some(changes) => match &changes.apex {
                Some(apex) => Node::at(apex),
                None => self.packed().node(self.summary.apex),
            },
        }
    }

    /// Returns the label count of the zone name.
    #[inline]
    pub fn apex_labels(&self) -> usize {
        self.summary.apex_labels as usize
    }

    /// Returns the number of names, including empty non-terminals.
    pub fn name_count(&self) -> usize {
        self.summary.names as usize
    }

    /// Returns the octets on the heap.
    pub fn heap_bytes(&self) -> usize {
        match &self.body {
            ZoneBody::Memory(_) => {
                let changes = self.changes().map_or(0, Changes::heap_bytes);
                self.packed().heap_bytes() + changes
            }
            ZoneBody::Backend(live) => live.heap_bytes(),
        }
    }

    /// Returns the SOA RRset; every zone with contents has one.
    pub fn soa(&self) -> Option<Rrset<'_>> {
        self.apex().rrset(Type::SOA)
    }

    /// Returns the SOA serial.
    pub fn serial(&self) -> Serial {
        Serial(self.soa().and_then(|soa| soa_field(soa, 20)).unwrap_or(0))
    }

    /// Returns the seconds after which a secondary lets the zone expire (RFC 1035 section 3.3.13).
    pub fn soa_expire(&self) -> Option<u32> {
        self.soa().and_then(|soa| soa_field(soa, 8))
    }

    /// Returns the node of the suffix with `labels` labels.
    #[inline]
    pub fn node(&self, key: &NameKey, labels: usize) -> Option<Node<'_>> {
        let contents = self.contents();
        let Some(changes) = &contents.changes else {
            return contents.packed.find(key.hash(labels), key.suffix(labels));
        };
        let changed = changes
            .overlay
            .find(tag(key.hash(labels)), key.suffix(labels));
        match changed {
            Some(changed) => changed,
            None => {
                let base = changes.base.packed();
                base.find(key.hash(labels), key.suffix(labels))
            }
        }
    }

    /// Returns the node of a name, even if it is occluded.
    pub fn node_of(&self, name: Name<'_>) -> Option<Node<'_>> {
        let key = NameKey::new(name);
        self.node(&key, key.labels())
    }

    /// Searches a name that is at or below the apex.
    #[inline]
    pub fn find(&self, key: &NameKey) -> Find<'_> {
        let labels = key.labels();
        // `exists` is the deepest ancestor known to exist, `limit` the deepest that may.
        let mut exists = self.apex_labels();
        let mut limit = labels.min(self.summary.max_labels as usize);
        // Only depths with delegations or DNAMEs are probed, from the top: names below one are not visible.
        let mut depths = self.cut_depths_to(limit);
        while depths != 0 {
            let n = depths.trailing_zeros() as usize;
            depths &= depths - 1;
            match self.node(key, n) {
                None => {
                    limit = n - 1;
                    break;
                }
                Some(node) if node.has(flags::CUT) => {
                    return Find::Cut {
                        node,
                        exact: n == labels,
                    };
                }
                Some(node) if node.has(flags::DNAME) && n < labels => {
                    return Find::Dname { node, labels: n };
                }
                Some(node) if n == labels => return Find::Exact(node),
                Some(_) => exists = exists.max(n),
            }
        }
        if limit == labels {
            if let Some(node) = self.node(key, labels) {
                return Find::Exact(node);
            }
            limit -= 1;
        }
        self.find_encloser(key, exists, limit)
    }

    /// Finds the closest encloser. All ancestors of a name exist, so the deepest existing one is found by binary
    /// search: at most seven probes, however many labels a hostile query has.
    fn find_encloser(&self, key: &NameKey, mut exists: usize, mut limit: usize) -> Find<'_> {
        let mut encloser = None;
        while exists < limit {
            let middle = (exists + limit).div_ceil(2);
            match self.node(key, middle) {
                Some(node) => {
                    encloser = Some(node);
                    exists = middle;
                }
                None => limit = middle - 1,
            }
        }
        let encloser = match encloser {
            Some(node) => Some(node),
            None if exists == self.apex_labels() => Some(self.apex()),
            None => self.node(key, exists),
        };
        if encloser.is_some_and(|node| node.has(flags::WILDCARD_CHILD))
            && let Some(node) = self.wildcard(key, exists)
        {
            return Find::Wildcard {
                node,
                encloser: exists,
            };
        }
        Find::Missing { encloser: exists }
    }

    fn wildcard(&self, key: &NameKey, encloser: usize) -> Option<Node<'_>> {
        let parent = key.suffix(encloser);
        if let Some(changes) = self.changes() {
            let name = nameward_wire::NameBuf::join(b"\x01*", parent).ok()?;
            let tag = tag(key.wildcard_hash(encloser));
            if let Some(changed) = changes.overlay.find(tag, name.as_name()) {
                return changed;
            }
        }
        self.packed()
            .find_wildcard(key.wildcard_hash(encloser), parent)
    }

    /// Returns the node of the host that a record names, if it is in the zone.
    #[inline]
    pub fn target(&self, record: RecordData<'_>) -> Option<Node<'_>> {
        let contents = self.contents();
        if contents.changes.is_none() {
            return (record.place != 0).then(|| contents.packed.node(record.place));
        }
        // Locations in base records may be outdated.
        let target = record.target()?;
        if !target.is_at_or_below(self.apex_name()) {
            return None;
        }
        self.node_of(target)
    }

    /// Prefetches what leads to the contents.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.body);
        prefetch(&self.summary);
    }

    /// Prefetches the apex, once the zone is cached.
    #[inline]
    pub fn prefetch_apex(&self) {
        let packed = self.packed();
        if let Some(byte) = packed
            .arena
            .get(self.summary.apex as usize * crate::packed::ALIGN)
        {
            prefetch(byte);
        }
    }

    /// Prefetches the slot that [`Zone::find`] will read first for this key.
    #[inline]
    pub fn prefetch_slots(&self, key: &NameKey) {
        if let Some(slot) = self.packed().slot(key.hash(self.first_probe(key))) {
            prefetch(slot);
        }
    }

    /// Prefetches the node that [`Zone::find`] will read first, once its slot is cached.
    #[inline]
    pub fn prefetch_node(&self, key: &NameKey) {
        let packed = self.packed();
        if let Some(place) = packed.likely_place(key.hash(self.first_probe(key))) {
            let bytes = &packed.arena[place as usize * crate::packed::ALIGN..];
            for line in [0, 64, 128] {
                if let Some(octet) = bytes.get(line) {
                    prefetch(octet);
                }
            }
        }
    }

    /// Returns the depths with delegations or DNAMEs, down to `limit` labels. Most zones have none.
    #[inline]
    fn cut_depths_to(&self, limit: usize) -> u128 {
        match self.summary.cut_depths.bits() {
            0 => 0,
            depths => depths & (u128::MAX >> (127 - limit)),
        }
    }

    #[inline]
    fn first_probe(&self, key: &NameKey) -> usize {
        let limit = key.labels().min(self.summary.max_labels as usize);
        let depths = self.cut_depths_to(limit);
        if depths != 0 {
            depths.trailing_zeros() as usize
        } else {
            limit
        }
    }
}

impl Find<'_> {
    /// Checks whether the answer needs an unreadable record.
    #[inline]
    pub fn is_broken(&self) -> bool {
        match *self {
            Find::Exact(node) | Find::Wildcard { node, .. } => node.has(flags::BROKEN),
            Find::Cut { node, exact: true } => node.has(flags::BROKEN),
            Find::Cut { node, .. } | Find::Dname { node, .. } => node.has(flags::BROKEN_ABOVE),
            Find::Missing { .. } => false,
        }
    }
}
