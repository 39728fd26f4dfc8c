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

use std::sync::Arc;

use nameward_wire::message::OwnerForm;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{Find, NameKey, Node, Rrset, SigningState};

use crate::computed::computes;
use crate::encode::{Encoder, Stop};
use crate::plan::{Current, Data, MAX_CHAIN, PlanStep, Planner, Section, owner};
use crate::view::{ZoneView, Zones};
use crate::{AnswerKind, Scratch};

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
    pub(crate) wanted: Option<NameBuf>,
    /// The contents of the zone for `key` are not here.
    pub(crate) is_pending: bool,
    /// The answer contains addresses of an external target.
    pub(crate) is_used: bool,
}

impl AliasScratch {
    /// Resets the state for a new query; the addresses supplied by the caller are kept.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.wanted = None;
        self.is_pending = false;
        self.is_used = false;
    }
}

impl Scratch {
    /// Returns the name whose addresses are needed, after [`AnswerKind::Resolving`].
    pub fn unresolved(&self) -> Option<Name<'_>> {
        self.alias.wanted.as_ref().map(NameBuf::as_name)
    }

    /// Sets the addresses that a resolver returned for a target; `None` clears them.
    pub fn set_addresses(&mut self, known: Option<Arc<AliasAddresses>>) {
        self.alias.known = known;
    }

    /// Checks whether the answer depends on the addresses of an external name, present or not: it is only valid as long
    /// as they are.
    pub fn has_foreign_addresses(&self) -> bool {
        self.alias.is_used
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
    /// No zone here has this name: a resolver must be asked.
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

impl<'z, Z: Zones> Planner<'z, '_, Z> {
    /// Answers from the target if the name has no record of the queried type, has an ALIAS, and the type is an address
    /// type; otherwise returns `None`.
    #[cold]
    pub(crate) fn alias(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        key: &NameKey,
        current: Current<'z>,
    ) -> Option<PlanStep<'z>> {
        let (target, ttl) = alias_of(node)?;
        let (data, of_target) = match self.find_addresses(target) {
            TargetAddresses::Here(rrset) => (Data::Rrset(rrset), rrset.ttl()),
            TargetAddresses::Computed((index, number), ttl) => (Data::Computed(index, number), ttl),
            TargetAddresses::Known(ttl) => (Data::Addresses, ttl),
            TargetAddresses::None => return Some(self.no_data(zone, node, key, current)),
            // The outcome is set.
            TargetAddresses::Later => return Some(PlanStep::Done),
            TargetAddresses::Pending => {
                self.plan.outcome = AnswerKind::Pending;
                return Some(PlanStep::Done);
            }
            TargetAddresses::Unknown => {
                self.plan.outcome = AnswerKind::Resolving;
                return Some(PlanStep::Done);
            }
            TargetAddresses::Failed => {
                self.plan.outcome = AnswerKind::BackendFailure;
                return Some(PlanStep::Done);
            }
        };
        let (section, ttl) = (Section::Answer, ttl.min(of_target));
        self.push(section, owner(current), data, ttl, (zone, node));
        Some(PlanStep::Done)
    }

    fn find_addresses(&mut self, target: Name<'z>) -> TargetAddresses<'z> {
        match find_target(self.zones, (target, self.qtype), &mut self.alias.key) {
            TargetLocation::Here(rrset) => TargetAddresses::Here(rrset),
            TargetLocation::Computed(zone, node, name) => {
                let computed = self.computed_addresses((zone, node), name);
                computed.unwrap_or(TargetAddresses::Later)
            }
            TargetLocation::Nowhere => TargetAddresses::None,
            TargetLocation::Outside(name) => self.foreign_addresses(name),
            TargetLocation::Failed => TargetAddresses::Failed,
            TargetLocation::Pending => {
                self.alias.is_pending = true;
                TargetAddresses::Pending
            }
        }
    }

    fn foreign_addresses(&mut self, name: Name<'_>) -> TargetAddresses<'z> {
        let is_known = |known: &&Arc<AliasAddresses>| {
            known.target.as_name() == name && known.rtype == self.qtype
        };
        let Some(known) = self.alias.known.as_ref().filter(is_known) else {
            self.alias.wanted = Some(name.into());
            return TargetAddresses::Unknown;
        };
        self.alias.is_used = true;
        if known.records.is_empty() {
            TargetAddresses::None
        } else {
            TargetAddresses::Known(known.ttl)
        }
    }
}

impl<'n> Encoder<'n, '_> {
    /// Writes the addresses of an external target.
    pub(crate) fn foreign_addresses(
        &mut self,
        owner: OwnerForm<'n>,
        of: (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<u16, Stop> {
        let Some(addresses) = self.addresses else {
            return Ok(0);
        };
        let records = addresses.records.iter().map(|data| &data[..]);
        self.outside_rrset(owner, (addresses.rtype, records), of, state)
    }
}
