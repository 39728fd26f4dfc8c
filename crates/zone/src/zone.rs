//! One version of a zone, and the search in it.

use crate::chain::DenialChain;
use crate::change::Changes;
use crate::key::NameKey;
use crate::live::Live;
use crate::node::{Node, RecordData, Rrset, flags};
use crate::packed::{Packed, tag};
use crate::prefetch::prefetch;
use crate::serial::Serial;
use crate::signing_state::SigningState;
use nameward_wire::{Name, Type};
use std::sync::{Arc, Mutex, OnceLock};

/// Facts about a zone that a search starts from.
#[derive(Clone, Copy, Default)]
pub(crate) struct ZoneSummary {
    /// Place of the apex in the packed contents.
    pub(crate) apex: u32,
    pub(crate) apex_labels: u8,
    /// Labels of the deepest name.
    pub(crate) max_labels: u8,
    /// Numbers of labels of which there is (or was) a delegation or a DNAME.
    pub(crate) cut_depths: DepthSet,
    pub(crate) names: u32,
}

/// A set of numbers of labels. In words of 32 bits, because an octet counts in a zone of which there may be a hundred
/// thousand.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DepthSet([u32; 4]);

impl DepthSet {
    /// The set whose members are the bits that are set.
    pub(crate) fn from_bits(bits: u128) -> Self {
        DepthSet([0, 32, 64, 96].map(|shift| (bits >> shift) as u32))
    }

    /// A bit for each member.
    #[inline]
    pub(crate) fn bits(self) -> u128 {
        let [a, b, c, d] = self.0.map(u128::from);
        a | b << 32 | c << 64 | d << 96
    }

    /// Adds a number of labels, which is below 128.
    pub(crate) fn insert(&mut self, labels: usize) {
        *self = Self::from_bits(self.bits() | 1 << labels);
    }
}

/// One immutable version of a zone.
///
/// A version is either packed as a whole or a packed base with changes over it, so that a change of a few
/// records costs its own size (see [`crate::change`]).
pub struct Zone {
    packed: Packed,
    summary: ZoneSummary,
    changes: Option<Box<Changes>>,
    /// Where the contents are looked up: this is the stand-in for them.
    live: Option<Arc<Live>>,
    signing: SigningState,
    /// Indexes over the names, behind a pointer, because few zones ever need them.
    indexes: OnceLock<Box<ZoneIndexes>>,
    /// It is known to exist and nothing else: this is the stand-in for contents that nobody has.
    is_not_ready: bool,
    /// It has only the names that one question needs.
    is_part: bool,
    /// Which source it is from: the lower one wins where two have the zone.
    rank: u16,
}

// With the counters of its `Arc` a zone takes a block of 128 octets; the next sizes that the allocator has are 160 and
// 192, which a hundred thousand zones would show.
const _: () = assert!(size_of::<Zone>() <= 112);

/// Indexes over the names of a zone, each made when it is first needed.
#[derive(Default)]
pub(crate) struct ZoneIndexes {
    /// Places of the packed names in canonical order.
    pub(crate) order: OnceLock<Box<[u32]>>,
    /// The chain of denial. Whoever changes zones uses it; answers have it from the signing state.
    pub(crate) chain: Mutex<Option<Arc<DenialChain>>>,
}

/// The match of a zone for a name (RFC 1034 section 4.3.2 step 3, RFC 4592 section 3.3).
#[derive(Clone, Copy)]
pub enum Find<'a> {
    /// The name exists and is not below a delegation or a DNAME. It may be empty (RFC 8020).
    Exact(Node<'a>),
    /// The name is at (`exact`) or below a delegation.
    Cut {
        /// The delegation.
        node: Node<'a>,
        /// Whether the name is the delegation itself.
        exact: bool,
    },
    /// The name is below a DNAME, whose owner has this many labels.
    Dname {
        /// The owner of the DNAME.
        node: Node<'a>,
        /// Its labels.
        labels: usize,
    },
    /// The name does not exist, but a wildcard stands for it (its source of synthesis).
    Wildcard {
        /// The wildcard.
        node: Node<'a>,
        /// Labels of the closest encloser.
        encloser: usize,
    },
    /// The name does not exist.
    Missing {
        /// Labels of the closest encloser.
        encloser: usize,
    },
}

impl Zone {
    pub(crate) fn new(packed: Packed, summary: ZoneSummary) -> Self {
        Zone {
            packed,
            summary,
            changes: None,
            live: None,
            signing: SigningState::Unsigned,
            indexes: OnceLock::new(),
            is_not_ready: false,
            is_part: false,
            rank: 0,
        }
    }

    pub(crate) fn with_changes(changes: Changes, summary: ZoneSummary) -> Self {
        let mut zone = Zone::new(Packed::default(), summary);
        zone.changes = Some(Box::new(changes));
        zone
    }

    /// Takes over what a version has besides its contents from the version it was made of: where it is from, and how it
    /// is signed. The chain of denial is that of the same contents; [`Zone::follow_chain`] takes over a change of them.
    pub(crate) fn inherit(&mut self, from: &Zone) {
        self.rank = from.rank;
        self.signing = match &from.signing {
            state @ (SigningState::Online(_) | SigningState::Chained(_)) => state.clone(),
            SigningState::Listed(listed) => SigningState::Online(Arc::clone(&listed.signing)),
            // Signatures may have come, and the chain of denial may have changed with the contents.
            SigningState::Stored(_) | SigningState::Unsigned => self.stored_signatures(),
        };
        if let Some(chain) = from.kept_chain() {
            self.keep_chain(Some(chain));
        }
    }

    /// Makes this the stand-in for contents that are looked up.
    pub(crate) fn set_live(&mut self, live: Arc<Live>) {
        self.live = Some(live);
    }

    /// Makes this the stand-in for contents that nobody has.
    pub(crate) fn set_not_ready(&mut self) {
        self.is_not_ready = true;
    }

    /// Whether this only stands for contents that are not in memory.
    #[inline]
    pub fn is_stand_in(&self) -> bool {
        self.is_not_ready || self.live.is_some()
    }

    /// Where the contents are looked up, if this is only the stand-in for them.
    #[inline]
    pub fn live(&self) -> Option<&Arc<Live>> {
        self.live.as_ref()
    }

    /// Whether questions can be answered from it, be it by a look-up. If not, this is all that is known of the zone.
    pub fn is_ready(&self) -> bool {
        !self.is_not_ready
    }

    /// How its answers are signed.
    #[inline]
    pub fn signing(&self) -> &SigningState {
        &self.signing
    }

    /// Says how its answers are signed. The records that a signed zone has at its apex are there already.
    pub fn set_signing(&mut self, signing: impl Into<SigningState>) {
        self.signing = signing.into();
    }

    /// The version that its home has, if this one was made of it: signed here, with a higher serial, or with a digest.
    pub fn unsigned_version(&self) -> Option<&Arc<Zone>> {
        self.changes.as_ref()?.unsigned.as_ref()
    }

    pub(crate) fn set_unsigned(&mut self, version: Arc<Zone>) {
        // `apply_over` leaves changes over a base.
        if let Some(changes) = &mut self.changes {
            changes.unsigned = Some(version);
        }
    }

    /// Whether it has only the names that one question needs: that another is missing means nothing.
    pub fn is_part(&self) -> bool {
        self.is_part
    }

    /// Says that it has only the names that one question needs.
    pub fn mark_as_part(&mut self) {
        self.is_part = true;
    }

    /// The rank of the source it is from.
    pub fn rank(&self) -> u16 {
        self.rank
    }

    /// Sets the rank of the source it is from.
    pub fn set_rank(&mut self, rank: u16) {
        self.rank = rank;
    }

    /// The packed part: the whole zone, or what the changes stand over.
    #[inline]
    pub(crate) fn packed(&self) -> &Packed {
        match &self.changes {
            None => &self.packed,
            Some(changes) => changes.base.packed(),
        }
    }

    pub(crate) fn summary(&self) -> &ZoneSummary {
        &self.summary
    }

    pub(crate) fn changes(&self) -> Option<&Changes> {
        self.changes.as_deref()
    }

    pub(crate) fn indexes(&self) -> &ZoneIndexes {
        self.indexes.get_or_init(Box::default)
    }

    pub(crate) fn indexes_if_made(&self) -> Option<&ZoneIndexes> {
        self.indexes.get().map(|indexes| &**indexes)
    }

    /// The name of the zone.
    #[inline]
    pub fn apex_name(&self) -> Name<'_> {
        // The apex cannot go away, so the packed one gives the name even when it has changed.
        self.packed().node(self.summary.apex).name()
    }

    /// The apex with its RRsets.
    #[inline]
    pub fn apex(&self) -> Node<'_> {
        match &self.changes {
            None => self.packed.node(self.summary.apex),
            Some(changes) => match &changes.apex {
                Some(apex) => Node::at(apex),
                None => self.packed().node(self.summary.apex),
            },
        }
    }

    /// Labels of the zone's name.
    #[inline]
    pub fn apex_labels(&self) -> usize {
        self.summary.apex_labels as usize
    }

    /// How many names there are, empty non-terminals included.
    pub fn name_count(&self) -> usize {
        self.summary.names as usize
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.packed().heap_bytes()
            + self
                .changes
                .as_ref()
                .map_or(0, |changes| changes.heap_bytes())
    }

    /// The SOA; every zone has one.
    pub fn soa(&self) -> Option<Rrset<'_>> {
        self.apex().rrset(Type::SOA)
    }

    /// The serial of the SOA.
    pub fn serial(&self) -> Serial {
        Serial(self.soa().and_then(|soa| soa_field(soa, 20)).unwrap_or(0))
    }

    /// Returns the seconds after which a secondary lets the zone expire (RFC 1035 section 3.3.13).
    pub fn soa_expire(&self) -> Option<u32> {
        self.soa().and_then(|soa| soa_field(soa, 8))
    }

    /// The node of the suffix of `labels` labels.
    #[inline]
    pub fn node(&self, key: &NameKey, labels: usize) -> Option<Node<'_>> {
        if let Some(changes) = &self.changes
            && let Some(changed) = changes
                .overlay
                .find(tag(key.hash(labels)), key.suffix(labels))
        {
            return changed;
        }
        self.packed().find(key.hash(labels), key.suffix(labels))
    }

    /// The node of a name, whatever stands above it.
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
        // Only depths at which delegations or DNAMEs stand are looked at, from the top: what stands
        // below one is not visible.
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

    /// All ancestors of a name exist, so the deepest existing one is found by bisection: at most seven
    /// probes, however many labels a hostile question has.
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
        if let Some(changes) = &self.changes {
            let name = nameward_wire::NameBuf::join(b"\x01*", parent).ok()?;
            let tag = tag(key.wildcard_hash(encloser));
            if let Some(changed) = changes.overlay.find(tag, name.as_name()) {
                return changed;
            }
        }
        self.packed()
            .find_wildcard(key.wildcard_hash(encloser), parent)
    }

    /// The node of the host that a record names, if it is in the zone.
    #[inline]
    pub fn target(&self, record: RecordData<'_>) -> Option<Node<'_>> {
        if self.changes.is_none() {
            return (record.place != 0).then(|| self.packed.node(record.place));
        }
        // The places in records of the base may be out of date.
        let target = record.target()?;
        if !target.is_at_or_below(self.apex_name()) {
            return None;
        }
        self.node_of(target)
    }

    /// Prefetches the apex.
    #[inline]
    pub(crate) fn prefetch_apex(&self) {
        let packed = self.packed();
        if let Some(byte) = packed
            .arena
            .get(self.summary.apex as usize * crate::packed::ALIGN)
        {
            prefetch(byte);
        }
    }

    /// Prefetches what [`Zone::find`] will read first for this key.
    #[inline]
    pub fn prefetch_slots(&self, key: &NameKey) {
        if let Some(slot) = self.packed().slot(key.hash(self.first_probe(key))) {
            prefetch(slot);
        }
    }

    /// Prefetches the node that [`Zone::find`] will read first, once its slot is there.
    #[inline]
    pub fn prefetch_node(&self, key: &NameKey) {
        let packed = self.packed();
        if let Some(&slot) = packed.slot(key.hash(self.first_probe(key)))
            && slot != 0
        {
            let bytes = &packed.arena[slot as u32 as usize * crate::packed::ALIGN..];
            prefetch(&bytes[0]);
            if let Some(next_line) = bytes.get(64) {
                prefetch(next_line);
            }
        }
    }

    /// The depths at which delegations or DNAMEs stand, down to `limit` labels. Most zones have none.
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

/// A 32-bit field of a SOA, counted in octets from the end of its data.
fn soa_field(soa: Rrset<'_>, from_end: usize) -> Option<u32> {
    let rdata = soa.records().next()?.rdata;
    let at = rdata.len().checked_sub(from_end)?;
    rdata
        .get(at..)?
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes))
}

/// TTL of the SOA in a negative answer: the lesser of its TTL and its minimum (RFC 2308 section 3).
pub fn negative_ttl(soa: Rrset<'_>) -> u32 {
    soa.ttl().min(soa_field(soa, 4).unwrap_or(0))
}
