//! The answer planner: RFC 1034 section 4.3.2, one function per step.
//!
//! ```text
//!            find(name)
//!   Exact, Wildcard ── type there ──> answer
//!        │  └───────── CNAME ───────> follow: find(target) again, in whichever zone we serve
//!        └──────────── neither ─────> NODATA: SOA
//!   Cut ───────────────────────────> referral (DS at the cut itself: answer, the parent has it)
//!   Dname ── too long: YXDOMAIN ───> follow the synthesised CNAME
//!   Missing ───────────────────────> NXDOMAIN: SOA
//! ```
//! If a client requests DNSSEC and the zone is signed, the records that prove the answer are planned along with it
//! ([`proofs`]).

mod alias;
mod chain;
mod computed;
mod proofs;

use crate::alias::AliasScratch;
use crate::claim::Claim;
use crate::computed::ComputedScratch;
use crate::hints::service_data;
use crate::plan::{Data, MAX_CHAIN, Owner, Plan, PlanEntry, Section};
use crate::view::{ZoneView, Zones};
use crate::{AnswerKind, AnswerPolicy, AnyPolicy, Scratch};
use arrayvec::ArrayVec;
use nameward_wire::message::Query;
use nameward_wire::{Name, NameBuf, Rcode, Type};
use nameward_zone::node::flags;
use nameward_zone::{Find, NameKey, Node, Rrset, negative_ttl};
use proofs::{has_own_nsec, proof_ttl};

/// The next action for a chain.
enum PlanStep<'z> {
    Done,
    /// Continue with this name.
    Follow(Name<'z>),
    /// Continue with the name synthesised last.
    FollowMade,
}

struct Planner<'z, 'p, Z: Zones> {
    zones: &'z Z,
    policy: &'p AnswerPolicy,
    query: &'p Query<'p>,
    qname: Name<'p>,
    qtype: Type,
    wants_proofs: bool,
    compact_ok: bool,
    alias: &'p mut AliasScratch,
    computed: &'p mut ComputedScratch,
    plan: &'p mut Plan<'z, Z::View>,
}

/// A query in class IN.
#[derive(Clone, Copy)]
pub(crate) struct Question<'q> {
    pub(crate) query: &'q Query<'q>,
    pub(crate) name: Name<'q>,
    pub(crate) key: &'q NameKey,
    pub(crate) qtype: Type,
    /// The client requests DNSSEC records (RFC 3225).
    pub(crate) dnssec_ok: bool,
    /// A compact denial can have its real response code (RFC 9824 section 5.1).
    pub(crate) compact_ok: bool,
}

/// Plans the answer to a query into `plan`, which must be new: the list is large, so it is filled in place.
#[inline]
pub(crate) fn plan<'z, 'p, Z: Zones>(
    zones: &'z Z,
    zone: &'z Z::View,
    question: Question<'p>,
    (policy, scratch): (&'p AnswerPolicy, &'p mut Scratch),
    plan: &'p mut Plan<'z, Z::View>,
) {
    let key = question.key;
    let Scratch {
        key: chain_key,
        made,
        alias,
        computed,
        ..
    } = scratch;
    alias.begin();
    computed.begin();
    let mut planner = Planner {
        zones,
        policy,
        query: question.query,
        qname: question.name,
        qtype: question.qtype,
        wants_proofs: question.dnssec_ok,
        compact_ok: question.compact_ok,
        alias,
        computed,
        plan,
    };
    made.clear();
    let step = planner.step(zone, key, Current::Question, made);
    if !matches!(step, PlanStep::Done) {
        planner.follow_chain(zone, key, step, (chain_key, made));
    }
}

/// The current name of a chain.
#[derive(Clone, Copy)]
enum Current<'z> {
    Question,
    Name(Name<'z>),
    Made(usize),
}

impl<'z, Z: Zones> Planner<'z, '_, Z> {
    #[inline(always)]
    fn step(
        &mut self,
        zone: &'z Z::View,
        key: &NameKey,
        current: Current<'z>,
        made: &mut ArrayVec<NameBuf, MAX_CHAIN>,
    ) -> PlanStep<'z> {
        let found = zone.find(key);
        if found.is_broken() {
            self.plan.outcome = AnswerKind::BackendFailure;
            return PlanStep::Done;
        }
        match found {
            Find::Exact(node) | Find::Wildcard { node, .. } => {
                self.plan.is_expanded |=
                    matches!((found, current), (Find::Wildcard { .. }, Current::Question));
                let step = self.at_name(zone, node, key, current, made);
                if self.wants_proofs
                    && let Find::Wildcard { encloser, .. } = found
                {
                    self.prove_expansion(zone, (key, encloser), current);
                }
                step
            }
            Find::Cut { node, exact: true } if self.qtype == Type::DS => {
                // RFC 4035 section 3.1.4.1: the parent is authoritative for DS.
                self.at_cut(zone, node, key, current)
            }
            Find::Cut { node, .. } => self.referral(zone, node, key, current),
            Find::Dname { node, labels } => {
                self.plan.is_expanded |= matches!(current, Current::Question);
                self.dname(zone, (node, labels), key, current, made)
            }
            Find::Missing { encloser } => {
                self.plan.rcode = Rcode::NxDomain;
                let step = self.negative(zone, key, current, AnswerKind::NxDomain);
                if self.wants_proofs {
                    self.prove_missing(zone, (key, encloser), current);
                }
                step
            }
        }
    }

    /// Handles a name that exists, or that a wildcard matches.
    #[inline(always)]
    fn at_name(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        key: &NameKey,
        current: Current<'z>,
        made: &mut ArrayVec<NameBuf, MAX_CHAIN>,
    ) -> PlanStep<'z> {
        if self.qtype == Type::ANY {
            return self.any(zone, node, key, current, made);
        }
        if node.has(flags::CNAME_OR_LUA) {
            if self.qtype != Type::CNAME
                && let Some(cname) = node.rrset(Type::CNAME)
                && node.rrset(self.qtype).is_none()
                // RFC 4035 section 2.5: an alias has its own NSEC record.
                && (self.qtype != Type::NSEC || !has_own_nsec(zone, node, node.name()))
            {
                self.push(
                    Section::Answer,
                    owner(current),
                    Data::Rrset(cname),
                    cname.ttl(),
                    (zone, node),
                );
                let target = cname
                    .records()
                    .next()
                    .and_then(|record| Name::from_wire(record.rdata).ok());
                return target.map_or(PlanStep::Done, PlanStep::Follow);
            }
            if let Some(step) = self.computed(zone, node, current, made) {
                return step;
            }
        }
        self.at_name_without_alias(zone, node, key, current)
    }

    #[cold]
    fn at_cut(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        key: &NameKey,
        current: Current<'z>,
    ) -> PlanStep<'z> {
        self.at_name_without_alias(zone, node, key, current)
    }

    #[inline(always)]
    fn at_name_without_alias(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        key: &NameKey,
        current: Current<'z>,
    ) -> PlanStep<'z> {
        let found = if self.qtype.is_server_internal() {
            None
        } else {
            node.rrset(self.qtype)
        };
        match found {
            Some(rrset) if self.is_said(rrset, node) => PlanStep::Done,
            Some(rrset) => {
                let (owner, ttl) = (owner(current), rrset.ttl());
                // Two calls, so that the entry is written where it stays in the usual case.
                if matches!(self.qtype, Type::SVCB | Type::HTTPS) {
                    let data = service_data(zone, rrset);
                    self.push(Section::Answer, owner, data, ttl, (zone, node));
                } else {
                    let data = Data::Rrset(rrset);
                    self.push(Section::Answer, owner, data, ttl, (zone, node));
                }
                PlanStep::Done
            }
            None if self.qtype == Type::NSEC
                && has_own_nsec(zone, node, key.suffix(key.labels())) =>
            {
                let ttl = proof_ttl(zone);
                let proof = Data::Proof(Claim::Types);
                self.push(Section::Answer, owner(current), proof, ttl, (zone, node));
                PlanStep::Done
            }
            None if matches!(self.qtype, Type::A | Type::AAAA) => {
                match self.alias(zone, node, key, current) {
                    Some(step) => step,
                    None => self.no_data(zone, node, key, current),
                }
            }
            None => self.no_data(zone, node, key, current),
        }
    }

    fn no_data(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        key: &NameKey,
        current: Current<'z>,
    ) -> PlanStep<'z> {
        let step = self.negative(zone, key, current, AnswerKind::NoData);
        if self.wants_proofs {
            self.prove_no_type(zone, node, current);
        }
        step
    }

    /// Answers ANY (RFC 8482): with one RRset, with TC on UDP, or with everything.
    fn any(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        key: &NameKey,
        current: Current<'z>,
        made: &mut ArrayVec<NameBuf, MAX_CHAIN>,
    ) -> PlanStep<'z> {
        let mut shown = node.rrsets();
        let Some(first) = shown.find(|rrset| !rrset.rtype().is_server_internal()) else {
            // A name with scripts alone: there are no records of its own to choose from.
            let computed = self.computed(zone, node, current, made);
            return computed.unwrap_or_else(|| self.no_data(zone, node, key, current));
        };
        match self.policy.any {
            AnyPolicy::OneRrset => {
                // A guess at what a client may need: an alias, an address, else the first RRset.
                let wanted = [Type::CNAME, Type::A, Type::AAAA];
                let rrset = wanted
                    .into_iter()
                    .find_map(|rtype| node.rrset(rtype))
                    .unwrap_or(first);
                if self.is_said(rrset, node) {
                    return PlanStep::Done;
                }
                let (data, ttl) = (service_data(zone, rrset), rrset.ttl());
                self.push(Section::Answer, owner(current), data, ttl, (zone, node));
            }
            AnyPolicy::TruncateOnUdp | AnyPolicy::All => {
                self.plan.truncate = self.policy.any == AnyPolicy::TruncateOnUdp;
                self.push(
                    Section::Answer,
                    owner(current),
                    Data::All(node),
                    0,
                    (zone, node),
                );
            }
        }
        PlanStep::Done
    }

    fn negative(
        &mut self,
        zone: &'z Z::View,
        key: &NameKey,
        current: Current<'z>,
        outcome: AnswerKind,
    ) -> PlanStep<'z> {
        self.plan.outcome = outcome;
        let apex = zone.apex();
        if let Some(soa) = apex.rrset(Type::SOA) {
            let owner = ancestor(current, key, zone.apex_labels(), apex);
            self.push(
                Section::Authority,
                owner,
                Data::Rrset(soa),
                negative_ttl(soa),
                (zone, apex),
            );
        }
        PlanStep::Done
    }

    fn referral(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        key: &NameKey,
        current: Current<'z>,
    ) -> PlanStep<'z> {
        // AA refers to the first name in the answer (RFC 1035 section 4.1.1), which may be an alias in our zone.
        if self.plan.entries.is_empty() {
            self.plan.authoritative = false;
            self.plan.outcome = AnswerKind::Referral;
        }
        if let Some(ns) = node.rrset(Type::NS) {
            let owner = ancestor(current, key, node.name().label_count(), node);
            self.push(
                Section::Referral,
                owner,
                Data::Rrset(ns),
                ns.ttl(),
                (zone, node),
            );
        }
        if self.wants_proofs {
            self.prove_delegation(zone, node);
        }
        PlanStep::Done
    }

    /// Checks whether the answer already has a DNAME, because a chain went through it.
    #[inline]
    fn is_said(&self, rrset: Rrset<'_>, node: Node<'_>) -> bool {
        let entries = || self.plan.entries.iter();
        rrset.rtype() == Type::DNAME && entries().any(|entry| entry.node.is_same(node))
    }

    #[inline]
    fn push(
        &mut self,
        section: Section,
        owner: Owner<'z>,
        data: Data<'z>,
        ttl: u32,
        (zone, node): (&'z Z::View, Node<'z>),
    ) {
        // MAX_ENTRIES covers the longest chain, so nothing is lost here. Without the check the entry would be made elsewhere
        // and copied, to be returned if there is no room.
        if !self.plan.entries.is_full() {
            self.plan.entries.push(PlanEntry {
                section,
                owner,
                data,
                ttl,
                zone,
                node,
            });
        }
    }
}

#[inline]
fn owner(current: Current<'_>) -> Owner<'_> {
    match current {
        Current::Question => Owner::Question(0),
        Current::Name(name) => Owner::Name(name),
        Current::Made(index) => Owner::Made(index, 0),
    }
}

/// Returns the owner for an ancestor of the current name.
#[inline]
fn ancestor<'z>(current: Current<'z>, key: &NameKey, labels: usize, node: Node<'z>) -> Owner<'z> {
    match current {
        Current::Question => Owner::Question(key.prefix_len(labels)),
        _ => Owner::Name(node.name()),
    }
}
