//! Names whose records are computed for each query: LUA records (type 65402).
//!
//! ```text
//! name with a LUA record for the queried type ── computed by the caller ──> these RRsets ([`ComputedName`])
//!                                             └─ not computed ─────────────> [`AnswerKind::Computing`]: nothing is written
//! ```
//! The engine runs no scripts: the caller does, hands over the RRsets, and lets the engine run again. Computed RRsets are
//! returned under the queried name and signed with the keys of its zone. A computed CNAME is followed like any other. A
//! zone with stored signatures has none for such records, so its scripts are not run, as in PowerDNS.

use arrayvec::ArrayVec;
use nameward_dnssec::{CanonicalSet, Rrsigs};
use nameward_wire::message::OwnerForm;
use nameward_wire::{Class, Name, NameBuf, Type};
use nameward_zone::node::flags;
use nameward_zone::{CompressibleNames, Node, SigningState};

use crate::alias::TargetAddresses;
use crate::encode::{Encoder, Stop, split_name};
use crate::plan::{Current, Data, MAX_CHAIN, PlanStep, Planner, Section, owner};
use crate::view::{ZoneView, Zones};
use crate::{AnswerKind, Scratch};

/// Records of one type that were computed for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputedRrset {
    /// The type of the records.
    pub rtype: Type,
    /// The TTL in seconds.
    pub ttl: u32,
    /// Record data in uncompressed wire form; at least one.
    pub records: Vec<Vec<u8>>,
}

/// The results of the scripts of a name for one query type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputedName {
    /// The queried name.
    pub name: NameBuf,
    /// The RRsets; none if the scripts returned nothing, and the records that the name has are the answer. `None` if one
    /// failed.
    pub rrsets: Option<Vec<ComputedRrset>>,
    /// The leading bits of the client's address that they depend on, if they do.
    pub client_bits: Option<u8>,
}

/// The scripts that an answer needs, after [`AnswerKind::Computing`].
#[derive(Debug, Clone)]
pub struct WantedScripts {
    /// The queried name.
    pub name: NameBuf,
    /// The zone of the name.
    pub apex: NameBuf,
    /// The name by which this version of the zone is known.
    pub zone: NameBuf,
    /// The owner of the LUA records: the queried name, or the wildcard that it matches.
    pub owner: NameBuf,
    /// The TTL of the LUA records.
    pub ttl: u32,
    /// Data of the LUA records that apply to the query type.
    pub scripts: Vec<Vec<u8>>,
    /// Data of the records of the queried type that the name has besides.
    pub records: Vec<Vec<u8>>,
}

/// Working memory for computed names.
#[derive(Default)]
pub(crate) struct ComputedScratch {
    /// Names computed for the current query.
    pub(crate) known: Vec<ComputedName>,
    pub(crate) wanted: Option<WantedScripts>,
    /// Whether the answer depends on a script.
    pub(crate) is_used: bool,
}

impl Scratch {
    /// Returns the scripts that are needed, after [`AnswerKind::Computing`].
    pub fn wanted_scripts(&mut self) -> Option<WantedScripts> {
        self.computed.wanted.take()
    }

    /// Adds what the wanted scripts returned.
    pub fn add_computed(&mut self, computed: ComputedName) {
        self.computed.known.push(computed);
    }

    /// Forgets what was computed: every query has its own answer.
    #[inline]
    pub fn clear_computed(&mut self) {
        self.computed.known.clear();
        self.computed.is_used = false;
    }

    /// Checks whether the answer depends on a script, so that it holds for this query alone.
    pub fn has_computed(&self) -> bool {
        self.computed.is_used
    }
}

/// Returns the type that a LUA record computes.
fn script_type(rdata: &[u8]) -> Option<Type> {
    let (octets, _) = rdata.split_first_chunk()?;
    Some(Type(u16::from_be_bytes(*octets)))
}

/// Returns the types that the scripts of a node compute. Those for other scripts to include compute none.
pub(crate) fn script_types(node: Node<'_>) -> impl Iterator<Item = Type> {
    let scripts = node.rrset(Type::LUA);
    let records = scripts.into_iter().flat_map(|scripts| scripts.records());
    records
        .filter_map(|record| script_type(record.rdata))
        .filter(|rtype| !rtype.is_server_internal())
}

/// Checks whether a script of a node computes records of a type.
pub(crate) fn computes<V: ZoneView>(zone: &V, node: Node<'_>, rtype: Type) -> bool {
    node.has(flags::CNAME_OR_LUA)
        && !matches!(zone.signing(), SigningState::Stored(_))
        && script_types(node).any(|script| script == rtype)
}

/// The results of the scripts that a query needs.
enum ComputedState {
    /// They are at this position.
    Known(usize),
    /// They are needed first, or a script failed; the outcome of the plan says which.
    Unavailable,
}

/// Checks whether a script for records of one type applies to a query.
fn applies(script: Type, qtype: Type, has_type: bool) -> bool {
    match qtype {
        Type::ANY => !script.is_server_internal(),
        _ if script == qtype => !script.is_server_internal(),
        // A CNAME takes the place of records that do not exist.
        _ => script == Type::CNAME && !has_type && qtype != Type::NSEC,
    }
}

impl<'z, Z: Zones> Planner<'z, '_, Z> {
    /// Answers from the scripts of a name, if any applies to the query; otherwise returns `None`.
    #[cold]
    #[inline(never)]
    pub(crate) fn computed(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        current: Current<'z>,
        made: &mut ArrayVec<NameBuf, MAX_CHAIN>,
    ) -> Option<PlanStep<'z>> {
        let name = match current {
            Current::Question => self.qname,
            Current::Name(name) => name,
            Current::Made(index) => made[index].as_name(),
        };
        let index = match self.find_computed(zone, node, name)? {
            ComputedState::Known(index) => index,
            ComputedState::Unavailable => return Some(PlanStep::Done),
        };
        let rrsets = self.computed.known[index].rrsets.iter().flatten();
        let types = rrsets.map(|rrset| (rrset.rtype, rrset.ttl));
        let types: ArrayVec<_, MAX_COMPUTED> = types.take(MAX_COMPUTED).collect();
        if types.is_empty() {
            return None;
        }
        let mut step = PlanStep::Done;
        for (number, (rtype, ttl)) in types.into_iter().enumerate() {
            let data = Data::Computed(index, number);
            self.push(Section::Answer, owner(current), data, ttl, (zone, node));
            if rtype == Type::CNAME && !matches!(self.qtype, Type::CNAME | Type::ANY) {
                step = self.follow_computed((index, number), made);
                break;
            }
        }
        Some(step)
    }

    /// Finds the results of the scripts of a name, or reports which ones are needed; `None` if none applies to the query.
    fn find_computed(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        name: Name<'_>,
    ) -> Option<ComputedState> {
        let scripts = node.rrset(Type::LUA)?;
        let is_stored = matches!(zone.signing(), SigningState::Stored(_));
        let own = node.rrset(self.qtype);
        let mut wanted = scripts.records().filter(|record| {
            script_type(record.rdata)
                .is_some_and(|script| applies(script, self.qtype, own.is_some()))
        });
        if is_stored || wanted.clone().next().is_none() {
            return None;
        }
        let mut known = self.computed.known.iter();
        let Some(index) = known.position(|known| known.name.as_name() == name) else {
            self.computed.wanted = Some(WantedScripts {
                name: name.into(),
                apex: zone.apex().name().into(),
                zone: zone.id().into(),
                owner: node.name().into(),
                ttl: scripts.ttl(),
                scripts: wanted
                    .by_ref()
                    .map(|record| record.rdata.to_vec())
                    .collect(),
                records: own.map_or_else(Vec::new, |own| {
                    own.records().map(|record| record.rdata.to_vec()).collect()
                }),
            });
            self.plan.outcome = AnswerKind::Computing;
            return Some(ComputedState::Unavailable);
        };
        self.computed.is_used = true;
        if self.computed.known[index].rrsets.is_none() {
            self.plan.outcome = AnswerKind::BackendFailure;
            return Some(ComputedState::Unavailable);
        }
        Some(ComputedState::Known(index))
    }

    /// Finds the addresses that the scripts of an ALIAS target return; `None` if they cannot be used now.
    pub(crate) fn computed_addresses(
        &mut self,
        (zone, node): (&'z Z::View, Node<'z>),
        name: Name<'z>,
    ) -> Option<TargetAddresses<'z>> {
        let qtype = self.qtype;
        let own = || {
            let own = node.rrset(qtype);
            own.map_or(TargetAddresses::None, TargetAddresses::Here)
        };
        let index = match self.find_computed(zone, node, name) {
            Some(ComputedState::Known(index)) => index,
            Some(ComputedState::Unavailable) => return None,
            None => return Some(own()),
        };
        let mut rrsets = self.computed.known[index].rrsets.iter().flatten();
        let number = rrsets.position(|rrset| rrset.rtype == qtype);
        let rrset = number.and_then(|number| {
            let rrsets = self.computed.known[index].rrsets.as_ref()?;
            Some((number, rrsets.get(number)?.ttl))
        });
        Some(match rrset {
            Some((number, ttl)) => TargetAddresses::Computed((index, number), ttl),
            None => own(),
        })
    }

    fn follow_computed(
        &mut self,
        (index, number): (usize, usize),
        made: &mut ArrayVec<NameBuf, MAX_CHAIN>,
    ) -> PlanStep<'z> {
        let rrsets = self.computed.known[index].rrsets.as_ref();
        let record = rrsets.and_then(|rrsets| rrsets.get(number)?.records.first());
        let target = record.and_then(|data| Name::from_wire(data).ok());
        match target {
            Some(target) if !made.is_full() => {
                made.push(target.into());
                self.zones.leave_zone();
                PlanStep::FollowMade
            }
            _ => PlanStep::Done,
        }
    }
}

/// Maximum number of computed RRsets in an answer to an ANY query.
pub(crate) const MAX_COMPUTED: usize = 8;

impl<'n> Encoder<'n, '_> {
    /// Returns the signatures of records that are not stored as they are sent; none if the zone is not signed online.
    pub(crate) fn made_rrsigs(
        &mut self,
        (rtype, records): (Type, &[Vec<u8>]),
        (node, ttl): (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<Rrsigs, Stop> {
        let Some(signing) = state.online() else {
            return Ok(Rrsigs::new());
        };
        let data = records.iter().map(|data| &data[..]);
        let name = self.signed_as.unwrap_or(node.name());
        let set = CanonicalSet::new(name, rtype, ttl, data);
        self.rrsigs(&set, signing)
    }

    /// Writes a computed RRset, signed like any other record if the zone is signed online.
    pub(crate) fn computed(
        &mut self,
        owner: OwnerForm<'n>,
        (index, number): (usize, usize),
        (node, ttl): (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<u16, Stop> {
        let rrsets = self.computed_names[index].rrsets.as_deref();
        let Some(rrset) = rrsets.and_then(|rrsets| rrsets.get(number)) else {
            return Ok(0);
        };
        let rrsigs = self.made_rrsigs((rrset.rtype, &rrset.records), (node, ttl), state)?;
        self.undo_if_full(|this| {
            for data in &rrset.records {
                this.writer.owner(owner)?;
                let length_at = this.writer.fixed(rrset.rtype, Class::IN, ttl)?;
                match CompressibleNames::of(rrset.rtype) {
                    CompressibleNames::Opaque => this.writer.bytes(data)?,
                    CompressibleNames::NameAt(offset) => {
                        let (head, name) = data.split_at(usize::from(offset).min(data.len()));
                        this.writer.bytes(head)?;
                        this.writer.name(name)?;
                    }
                    CompressibleNames::TwoNames => {
                        let (first, rest) = split_name(data);
                        let (second, rest) = split_name(rest);
                        this.writer.name(first)?;
                        this.writer.name(second)?;
                        this.writer.bytes(rest)?;
                    }
                }
                this.writer.set_length(length_at);
            }
            for rrsig in &rrsigs {
                this.writer.owner(owner)?;
                this.rrsig(rrsig, ttl)?;
            }
            Ok((rrset.records.len() + rrsigs.len()) as u16)
        })
    }
}
