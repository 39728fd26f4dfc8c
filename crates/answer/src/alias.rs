//! ALIAS records (type 65401): address queries are answered with the addresses of the target.
//!
//! ```text
//! target in a zone here ── CNAME, ALIAS: follow it ─────> its addresses, as they are in this snapshot
//!                         LUA: computed by the caller ──> the results ([`crate::ComputedName`])
//! target elsewhere ───── known to the caller ───────────> these ([`AliasAddresses`])
//!                  └──── not known ─────────────────────> [`AnswerKind::Resolving`]: nothing is written
//! ```
//! The addresses are returned under the name of the ALIAS and signed with the keys of its zone. A record of the queried
//! type at the same name takes precedence over the ALIAS. ALIAS is not standardised; number and meaning are those of
//! PowerDNS.

use crate::computed::computes;
use crate::plan::MAX_CHAIN;
use crate::view::{ZoneView, Zones};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{Find, NameKey, Node, Rrset};
use std::sync::Arc;

/// The records of one type for a name outside the zones served here, as returned by a resolver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasAddresses {
    /// The resolved name.
    pub target: NameBuf,
    /// A or AAAA for an ALIAS; scripts request other types, too.
    pub rtype: Type,
    /// The TTL in seconds.
    pub ttl: u32,
    /// Record data; empty if the name has no record of this type.
    pub records: Vec<Vec<u8>>,
    /// They were resolved for a client subnet, and are valid for this many leading bits of its address.
    pub client_bits: Option<u8>,
}

/// Working memory for resolving one target.
#[derive(Default)]
pub(crate) struct AliasScratch {
    pub(crate) key: NameKey,
    /// Addresses of an external target that the caller knows.
    pub(crate) known: Option<Arc<AliasAddresses>>,
    /// The target that must be resolved.
    pub(crate) unresolved: Option<NameBuf>,
    /// The contents of the zone for `key` are not here.
    pub(crate) is_pending: bool,
    /// The answer contains addresses of an external target.
    pub(crate) is_used: bool,
}

impl AliasScratch {
    /// Resets the state for a new query; the addresses supplied by the caller are kept.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.unresolved = None;
        self.is_pending = false;
        self.is_used = false;
    }
}

/// Where the search for the addresses of a target ended.
pub enum TargetLocation<'z, V> {
    /// A zone here has them.
    Here(Rrset<'z>),
    /// A zone here has scripts that compute them, at this name.
    Computed(&'z V, Node<'z>, Name<'z>),
    /// A zone here has the name without an address of this type, or the name does not exist.
    Nowhere,
    /// No zone here has this name: a resolver must be queried.
    Outside(Name<'z>),
    /// The name left in the key is in a zone whose contents are not in memory.
    Pending,
    /// The chain is a loop, or leads through unusable contents.
    Failed,
}

/// Searches for the addresses of a target in the zones served here; `key` is a buffer for the names on the way.
pub fn find_target<'z, Z: Zones>(
    zones: &'z Z,
    (target, rtype): (Name<'z>, Type),
    key: &mut NameKey,
) -> TargetLocation<'z, Z::View> {
    let mut name = target;
    for _ in 0..MAX_CHAIN {
        key.set(name);
        let Some(zone) = zones.zone_for(key, rtype) else {
            return TargetLocation::Outside(name);
        };
        if zone.is_elsewhere() {
            return if zone.is_ready() {
                TargetLocation::Pending
            } else {
                TargetLocation::Failed
            };
        }
        let found = zone.find(key);
        if found.is_broken() {
            return TargetLocation::Failed;
        }
        let node = match found {
            Find::Exact(node) | Find::Wildcard { node, .. } => node,
            Find::Missing { .. } => return TargetLocation::Nowhere,
            // A resolver knows the names below a delegation, and synthesises the name that a DNAME leads to.
            Find::Cut { .. } | Find::Dname { .. } => return TargetLocation::Outside(name),
        };
        if computes(zone, node, rtype) {
            return TargetLocation::Computed(zone, node, name);
        }
        if let Some(rrset) = node.rrset(rtype) {
            return TargetLocation::Here(rrset);
        }
        let cname = node.rrset(Type::CNAME).and_then(|cname| {
            let record = cname.records().next()?;
            Name::from_wire(record.rdata).ok()
        });
        match cname.or_else(|| alias_of(node).map(|(target, _)| target)) {
            Some(next) => name = next,
            None => return TargetLocation::Nowhere,
        }
    }
    // A loop, or a chain too long to follow.
    TargetLocation::Failed
}

/// The addresses of a target, as far as they are known.
pub(crate) enum TargetAddresses<'z> {
    Here(Rrset<'z>),
    /// The position of a computed RRset, and its TTL.
    Computed((usize, usize), u32),
    Known(u32),
    None,
    Pending,
    /// Scripts must run first, or failed.
    Later,
    Unknown,
    Failed,
}

/// Returns the target of a name's ALIAS record, and the TTL of that record.
#[inline(never)]
pub fn alias_of(node: Node<'_>) -> Option<(Name<'_>, u32)> {
    let alias = node.rrset(Type::ALIAS)?;
    let record = alias.records().next()?;
    Some((Name::from_wire(record.rdata).ok()?, alias.ttl()))
}

/// Checks whether a name has addresses that none of its records shows.
pub(crate) fn is_alias(node: Node<'_>) -> bool {
    alias_of(node).is_some()
}
