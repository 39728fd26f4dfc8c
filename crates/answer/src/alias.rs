//! Names with an ALIAS record (type 65401): questions for addresses are answered with those of the target.
//!
//! ```text
//! target in a zone here ── CNAME, ALIAS: on with that ──> its addresses, as they are in this snapshot
//! target elsewhere ───── known to the caller ───────────> those ([`AliasAddresses`])
//!                  └──── not known ─────────────────────> [`AnswerKind::Resolving`]: nothing is written
//! ```
//! The addresses stand under the name of the ALIAS and are signed with the keys of its zone. A record of the type that stands
//! beside the ALIAS goes before it. ALIAS is not standardised; the number and the meaning are those of PowerDNS.

use std::sync::Arc;

use nameward_dnssec::{CanonicalSet, Rrsigs};
use nameward_wire::message::OwnerForm;
use nameward_wire::{Class, Name, NameBuf, Type};
use nameward_zone::{Find, NameKey, Node, Rrset, SigningState};

use crate::encode::{Encoder, Stop};
use crate::plan::{Current, Data, MAX_CHAIN, PlanStep, Planner, Section, owner};
use crate::view::{ZoneView, Zones};
use crate::{AnswerKind, Scratch};

/// The addresses of one type that a name has which no zone here has, as a resolver gave them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasAddresses {
    /// The name.
    pub target: NameBuf,
    /// A or AAAA.
    pub rtype: Type,
    /// Their TTL.
    pub ttl: u32,
    /// Their data; none if the name has no address of the type.
    pub records: Vec<Vec<u8>>,
}

/// Room for the search of one target.
#[derive(Default)]
pub(crate) struct AliasScratch {
    pub(crate) key: NameKey,
    /// Addresses of a target elsewhere that the caller knows.
    pub(crate) known: Option<Arc<AliasAddresses>>,
    /// The target that has to be resolved.
    pub(crate) wanted: Option<NameBuf>,
    /// The contents of the zone of `key` are not here.
    pub(crate) is_pending: bool,
    /// The answer has addresses of a target elsewhere.
    pub(crate) is_used: bool,
}

impl AliasScratch {
    /// Forgets the question before; what the caller knows stays.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.wanted = None;
        self.is_pending = false;
        self.is_used = false;
    }
}

impl Scratch {
    /// After [`AnswerKind::Resolving`]: the name whose addresses are needed.
    pub fn unresolved(&self) -> Option<Name<'_>> {
        self.alias.wanted.as_ref().map(NameBuf::as_name)
    }

    /// Sets the addresses that a resolver gave for a target; `None` forgets them.
    pub fn set_addresses(&mut self, known: Option<Arc<AliasAddresses>>) {
        self.alias.known = known;
    }

    /// Whether the answer has, or lacks, addresses of a name that no zone here has: it is good only as long as these are.
    pub fn has_foreign_addresses(&self) -> bool {
        self.alias.is_used
    }
}

/// The place where the search for the addresses of a target ended.
pub enum TargetPlace<'z> {
    /// A zone here has them.
    Here(Rrset<'z>),
    /// A zone here has the name and no address of the type, or says that there is no such name.
    Nowhere,
    /// No zone here has this name: a resolver knows it.
    Outside(Name<'z>),
    /// A zone whose contents are not in memory has the name that the key was left with.
    Pending,
    /// The chain goes in circles, or through contents that cannot be used.
    Failed,
}

/// Searches the addresses of a target in the zones that are here; `key` is room for the names on the way.
pub fn find_target<'z, Z: Zones>(
    zones: &'z Z,
    (target, rtype): (Name<'z>, Type),
    key: &mut NameKey,
) -> TargetPlace<'z> {
    let mut name = target;
    for _ in 0..MAX_CHAIN {
        key.set(name);
        let Some(zone) = zones.zone_for(key, rtype) else {
            return TargetPlace::Outside(name);
        };
        if zone.is_elsewhere() {
            return match zone.is_ready() {
                true => TargetPlace::Pending,
                false => TargetPlace::Failed,
            };
        }
        let found = zone.find(key);
        if found.is_broken() {
            return TargetPlace::Failed;
        }
        let node = match found {
            Find::Exact(node) | Find::Wildcard { node, .. } => node,
            Find::Missing { .. } => return TargetPlace::Nowhere,
            // A resolver knows what is below a delegation, and makes the name that a DNAME leads to.
            Find::Cut { .. } | Find::Dname { .. } => return TargetPlace::Outside(name),
        };
        if let Some(rrset) = node.rrset(rtype) {
            return TargetPlace::Here(rrset);
        }
        let cname = node.rrset(Type::CNAME).and_then(|cname| {
            let record = cname.records().next()?;
            Name::from_wire(record.rdata).ok()
        });
        match cname.or_else(|| alias_of(node).map(|(target, _)| target)) {
            Some(next) => name = next,
            None => return TargetPlace::Nowhere,
        }
    }
    // A circle, or a chain that nobody follows.
    TargetPlace::Failed
}

/// The addresses of a target, as far as they are known.
enum TargetAddresses<'z> {
    Here(Rrset<'z>),
    Known(u32),
    None,
    Pending,
    Unknown,
    Failed,
}

/// Returns the target of the ALIAS record of a name, and the TTL of that record.
#[inline(never)]
pub fn alias_of(node: Node<'_>) -> Option<(Name<'_>, u32)> {
    let alias = node.rrset(Type::ALIAS)?;
    let record = alias.records().next()?;
    Some((Name::from_wire(record.rdata).ok()?, alias.ttl()))
}

/// Whether a name has addresses that no record of it shows.
pub(crate) fn is_alias(node: Node<'_>) -> bool {
    alias_of(node).is_some()
}

impl<'z, Z: Zones> Planner<'z, '_, Z> {
    /// The name has no record of the type; if it has an ALIAS and the type is that of addresses, the target has the answer.
    /// `None` if not.
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
            TargetAddresses::Known(ttl) => (Data::Addresses, ttl),
            TargetAddresses::None => return Some(self.no_data(zone, node, key, current)),
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
            TargetPlace::Here(rrset) => TargetAddresses::Here(rrset),
            TargetPlace::Nowhere => TargetAddresses::None,
            TargetPlace::Outside(name) => self.foreign_addresses(name),
            TargetPlace::Failed => TargetAddresses::Failed,
            TargetPlace::Pending => {
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
        match known.records.is_empty() {
            true => TargetAddresses::None,
            false => TargetAddresses::Known(known.ttl),
        }
    }
}

impl<'n> Encoder<'n, '_> {
    /// Writes the addresses of a target elsewhere, signed like any other record where the zone is signed online. A zone
    /// that brings its signatures along has none for them.
    pub(crate) fn foreign_addresses(
        &mut self,
        owner: OwnerForm<'n>,
        (node, ttl): (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<u16, Stop> {
        let Some(addresses) = self.addresses else {
            return Ok(0);
        };
        let rrsigs = match state.online() {
            Some(signing) => {
                let data = addresses.records.iter().map(|data| &data[..]);
                let set = CanonicalSet::new(
                    self.signed_as.unwrap_or(node.name()),
                    addresses.rtype,
                    ttl,
                    data,
                );
                self.rrsigs(&set, signing)?
            }
            None => Rrsigs::new(),
        };
        self.undo_if_full(|this| {
            for data in &addresses.records {
                this.writer.owner(owner)?;
                let length_at = this.writer.fixed(addresses.rtype, Class::IN, ttl)?;
                this.writer.bytes(data)?;
                this.writer.set_length(length_at);
            }
            for rrsig in &rrsigs {
                this.writer.owner(owner)?;
                this.rrsig(rrsig, ttl)?;
            }
            Ok((addresses.records.len() + rrsigs.len()) as u16)
        })
    }
}
