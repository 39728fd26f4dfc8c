//! Names whose records are computed for each query: LUA records (type 65402).
//!
//! ```text
//! name with a LUA record for the queried type ── names a pool ────────────> its addresses ([`Zones::prepared`])
//!                                             ├─ computed by the caller ──> these RRsets ([`ComputedName`])
//!                                             └─ not computed ─────────────> [`AnswerKind::Computing`]: nothing is written
//! ```
//! The engine runs no scripts: the caller does, hands over the RRsets, and lets the engine run again. A pool needs no script,
//! so its addresses are planned at once, unless the name has other records that belong to the answer. Computed RRsets are
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
    /// Whether the answer depends on a script or pool.
    pub(crate) is_used: bool,
    /// The leading bits of the client's address that the choice from a pool depends on.
    pub(crate) prepared_bits: u8,
}

impl ComputedScratch {
    /// Resets the state for a new plan; the names that the caller computed are kept.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.is_used = false;
        self.prepared_bits = 0;
    }
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
    }

    /// Checks whether the answer depends on a script or pool, so that it holds for this query alone.
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
        if let Some((addresses, ttl)) = self.find_prepared(zone, node) {
            if addresses.is_empty() {
                return None;
            }
            let data = Data::Prepared(self.qtype, addresses);
            self.push(Section::Answer, owner(current), data, ttl, (zone, node));
            return Some(PlanStep::Done);
        }
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

    /// Finds the addresses that a pool has for the client, and their TTL, if nothing but the pool is the answer.
    fn find_prepared(&mut self, zone: &'z Z::View, node: Node<'z>) -> Option<(&'z [u8], u32)> {
        if !matches!(self.qtype, Type::A | Type::AAAA) {
            return None;
        }
        let scripts = node.rrset(Type::LUA)?;
        let mut applying = scripts.records().filter(|record| {
            script_type(record.rdata).is_some_and(|script| applies(script, self.qtype, false))
        });
        let script = applying.next()?;
        let is_alone = applying.next().is_none() && node.rrset(self.qtype).is_none();
        if !is_alone || matches!(zone.signing(), SigningState::Stored(_)) {
            return None;
        }
        let prepared = self.zones.prepared(script.rdata, self.query)?;
        self.computed.is_used = true;
        self.computed.prepared_bits = self.computed.prepared_bits.max(prepared.client_bits);
        Some((prepared.octets, scripts.ttl()))
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
                apex: zone.apex_name().into(),
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
    /// Writes a computed RRset.
    pub(crate) fn computed(
        &mut self,
        owner: OwnerForm<'n>,
        (index, number): (usize, usize),
        of: (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<u16, Stop> {
        let rrsets = self.computed_names[index].rrsets.as_deref();
        let Some(rrset) = rrsets.and_then(|rrsets| rrsets.get(number)) else {
            return Ok(0);
        };
        let records = rrset.records.iter().map(|data| &data[..]);
        self.outside_rrset(owner, (rrset.rtype, records), of, state)
    }

    /// Writes prepared addresses.
    pub(crate) fn prepared(
        &mut self,
        owner: OwnerForm<'n>,
        (rtype, octets): (Type, &'n [u8]),
        of: (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<u16, Stop> {
        let each = if rtype == Type::A { 4 } else { 16 };
        self.outside_rrset(owner, (rtype, octets.chunks_exact(each)), of, state)
    }

    /// Returns the signatures of records that are not stored as they are sent; none if the zone is not signed online.
    pub(crate) fn made_rrsigs<'r>(
        &mut self,
        (rtype, records): (Type, impl Iterator<Item = &'r [u8]> + Clone),
        (node, ttl): (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<Rrsigs, Stop> {
        match state.online() {
            Some(signing) if self.dnssec_ok => {
                let name = self.signed_as.unwrap_or(node.name());
                let set = CanonicalSet::new(name, rtype, ttl, records);
                self.rrsigs(&set, signing)
            }
            _ => Ok(Rrsigs::new()),
        }
    }

    /// Writes an RRset that is not in the zone, signed like any other record if the zone is signed online. A zone with
    /// stored signatures has none for it. The node is the one it belongs to.
    #[inline]
    pub(crate) fn outside_rrset(
        &mut self,
        owner: OwnerForm<'n>,
        (rtype, records): (Type, impl Iterator<Item = &'n [u8]> + Clone),
        (node, ttl): (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<u16, Stop> {
        let rrsigs = self.made_rrsigs((rtype, records.clone()), (node, ttl), state)?;
        self.undo_if_full(|this| {
            let mut count = rrsigs.len() as u16;
            for data in records {
                this.writer.owner(owner)?;
                let length_at = this.writer.fixed(rtype, Class::IN, ttl)?;
                match CompressibleNames::for_type(rtype) {
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
                count += 1;
            }
            for rrsig in &rrsigs {
                this.writer.owner(owner)?;
                this.rrsig(rrsig, ttl)?;
            }
            Ok(count)
        })
    }
}
