//! Decides what an answer consists of: RFC 1034 section 4.3.2, one function a step.
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
//! Where a client wants DNSSEC and the zone is signed, what proves the answer is noted beside it ([`crate::secure`]).
//!
//! A plan is a short list of references to RRsets; nothing is copied and nothing is written here.

use crate::alias::AliasScratch;
use crate::secure::{Claim, has_own_nsec, proof_ttl};
use crate::view::{ZoneView, Zones};
use crate::{AnyPolicy, Follow, Outcome, Policy, Scratch};
use arrayvec::ArrayVec;
use nameward_wire::{Name, NameBuf, Rcode, Type};
use nameward_zone::node::flags;
use nameward_zone::{Find, NameKey, Node, Rrset, negative_ttl};

/// Names a chain of CNAMEs and DNAMEs may have; a longer one is answered up to here.
pub const MAX_CHAIN: usize = 16;
/// Each name of a chain adds two entries at the most; the end adds one more answer and one authority.
const MAX_ENTRIES: usize = 2 * MAX_CHAIN + 4;
/// Each wildcard of a chain needs one proof; the end of it needs three.
pub(crate) const MAX_PROOFS: usize = MAX_CHAIN + 4;

/// Where an RRset goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Answer,
    /// SOA of a negative answer.
    Authority,
    /// NS of a delegation: its glue is needed to use it (RFC 9471).
    Referral,
}

/// The owner of a planned RRset.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'z> {
    /// The question's name without its first octets: written as a pointer.
    Question(usize),
    /// A name of a zone.
    Name(Name<'z>),
    /// A name made by a DNAME, without its first octets.
    Made(usize, usize),
}

/// The data of a planned RRset.
#[derive(Clone, Copy)]
pub(crate) enum Data<'z> {
    Rrset(Rrset<'z>),
    /// Every RRset of a node (ANY, if so configured).
    All(Node<'z>),
    /// The CNAME that a DNAME stands for: which made name it points to, and its TTL.
    MadeCname(usize, u32),
    /// Addresses of the target of an ALIAS that is elsewhere.
    Addresses,
    /// The NSEC or NSEC3 records that prove something about the node.
    Proof(Claim),
}

pub(crate) struct PlanEntry<'z, V> {
    pub(crate) section: Section,
    pub(crate) owner: Owner<'z>,
    pub(crate) data: Data<'z>,
    pub(crate) ttl: u32,
    /// Where the RRset comes from, for its additional data.
    pub(crate) zone: &'z V,
    pub(crate) node: Node<'z>,
}

/// The parts of an answer.
pub(crate) struct Plan<'z, V> {
    pub(crate) entries: ArrayVec<PlanEntry<'z, V>, MAX_ENTRIES>,
    /// Records of the authority section that prove the answer; they follow the entries.
    pub(crate) proofs: ArrayVec<PlanEntry<'z, V>, MAX_PROOFS>,
    pub(crate) rcode: Rcode,
    pub(crate) authoritative: bool,
    /// TC asked for by policy, whatever the size.
    pub(crate) truncate: bool,
    pub(crate) outcome: Outcome,
}

impl<V> Plan<'_, V> {
    /// An authoritative answer without records yet.
    #[inline]
    pub(crate) fn new() -> Self {
        Plan {
            entries: ArrayVec::new(),
            proofs: ArrayVec::new(),
            rcode: Rcode::NoError,
            authoritative: true,
            truncate: false,
            outcome: Outcome::Answer,
        }
    }

    /// A reply without records.
    pub(crate) fn empty(rcode: Rcode) -> Self {
        Plan {
            entries: ArrayVec::new(),
            proofs: ArrayVec::new(),
            rcode,
            authoritative: false,
            truncate: false,
            outcome: Outcome::Other,
        }
    }
}

/// Where a chain has got to.
pub(crate) enum PlanStep<'z> {
    Done,
    /// Go on with this name.
    Follow(Name<'z>),
    /// Go on with the name made last.
    FollowMade,
}

pub(crate) struct Planner<'z, 'p, Z: Zones> {
    pub(crate) zones: &'z Z,
    policy: &'p Policy,
    qname: Name<'p>,
    pub(crate) qtype: Type,
    wants_proofs: bool,
    pub(crate) alias: &'p mut AliasScratch,
    pub(crate) plan: &'p mut Plan<'z, Z::View>,
}

/// A question in class IN.
#[derive(Clone, Copy)]
pub(crate) struct Question<'q> {
    pub(crate) name: Name<'q>,
    pub(crate) key: &'q NameKey,
    pub(crate) qtype: Type,
    /// RFC 3225: the client wants records of DNSSEC.
    pub(crate) dnssec_ok: bool,
}

/// Plans the answer to a question into `plan`, which is new: the list is large, so it is filled where it stands.
#[inline]
pub(crate) fn plan<'z, 'p, Z: Zones>(
    zones: &'z Z,
    zone: &'z Z::View,
    question: Question<'p>,
    (policy, scratch): (&'p Policy, &'p mut Scratch),
    plan: &'p mut Plan<'z, Z::View>,
) {
    let key = question.key;
    let Scratch {
        key: chain_key,
        made,
        alias,
        ..
    } = scratch;
    alias.begin();
    let mut planner = Planner {
        zones,
        policy,
        qname: question.name,
        qtype: question.qtype,
        wants_proofs: question.dnssec_ok,
        alias,
        plan,
    };
    made.clear();
    let step = planner.step(zone, key, Current::Question, made);
    if !matches!(step, PlanStep::Done) {
        planner.follow_chain(zone, key, step, (chain_key, made));
    }
}

/// The name in work.
#[derive(Clone, Copy)]
pub(crate) enum Current<'z> {
    Question,
    Name(Name<'z>),
    Made(usize),
}

impl<'z, Z: Zones> Planner<'z, '_, Z> {
    /// Goes from alias to alias, also into other zones that we serve, until the end, a loop or the bound.
    fn follow_chain(
        &mut self,
        first_zone: &'z Z::View,
        first: &NameKey,
        mut step: PlanStep<'z>,
        (chain_key, made): (&mut NameKey, &mut ArrayVec<NameBuf, MAX_CHAIN>),
    ) {
        let mut visited = ArrayVec::<u64, MAX_CHAIN>::new();
        visited.push(first.hash(first.labels()));
        let mut zone = first_zone;
        loop {
            let current = match step {
                PlanStep::Done => return,
                PlanStep::Follow(name) => {
                    chain_key.set(name);
                    Current::Name(name)
                }
                PlanStep::FollowMade => {
                    let last = made.len() - 1;
                    chain_key.set(made[last].as_name());
                    Current::Made(last)
                }
            };
            let key = &*chain_key;
            let hash = key.hash(key.labels());
            if visited.contains(&hash) || visited.try_push(hash).is_err() {
                return;
            }
            let next = self.zones.zone_for(key, self.qtype);
            let Some(next) = next.filter(|next| self.may_enter(zone, next)) else {
                return;
            };
            if next.is_elsewhere() {
                // A zone that is not ready ends the chain as one of others does: the alias is true and complete in
                // itself, and whoever asks goes on with its target, maybe at a server that has the zone.
                if next.is_ready() {
                    self.plan.outcome = Outcome::Pending;
                }
                return;
            }
            zone = next;
            step = self.further_step(zone, key, current, made);
        }
    }

    fn may_enter(&self, from: &Z::View, to: &Z::View) -> bool {
        match self.policy.follow {
            Follow::AllZones => true,
            // Two parts of one zone are the same zone.
            Follow::SameZone => core::ptr::eq(from, to) || from.apex().name() == to.apex().name(),
        }
    }

    /// A step after the first, away from the path of questions without an alias, into which that is built.
    #[inline(never)]
    fn further_step(
        &mut self,
        zone: &'z Z::View,
        key: &NameKey,
        current: Current<'z>,
        made: &mut ArrayVec<NameBuf, MAX_CHAIN>,
    ) -> PlanStep<'z> {
        self.step(zone, key, current, made)
    }

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
            self.plan.outcome = Outcome::BackendFailure;
            return PlanStep::Done;
        }
        match found {
            Find::Exact(node) | Find::Wildcard { node, .. } => {
                let step = self.at_name(zone, node, key, current);
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
            Find::Dname { node, labels } => self.dname(zone, (node, labels), key, current, made),
            Find::Missing { encloser } => {
                self.plan.rcode = Rcode::NxDomain;
                let step = self.negative(zone, key, current, Outcome::NxDomain);
                if self.wants_proofs {
                    self.prove_missing(zone, (key, encloser), current);
                }
                step
            }
        }
    }

    /// The name exists, or a wildcard stands for it.
    #[inline(always)]
    fn at_name(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        key: &NameKey,
        current: Current<'z>,
    ) -> PlanStep<'z> {
        if self.qtype == Type::ANY {
            return self.any(zone, node, key, current);
        }
        if node.has(flags::CNAME)
            && self.qtype != Type::CNAME
            && let Some(cname) = node.rrset(Type::CNAME)
            && node.rrset(self.qtype).is_none()
            // RFC 4035 section 2.5: an alias has an NSEC record of its own.
            && (self.qtype != Type::NSEC || !has_own_nsec(zone))
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
        match node.rrset(self.qtype) {
            Some(rrset) if self.is_said(rrset, node) => PlanStep::Done,
            Some(rrset) => {
                self.push(
                    Section::Answer,
                    owner(current),
                    Data::Rrset(rrset),
                    rrset.ttl(),
                    (zone, node),
                );
                PlanStep::Done
            }
            None if self.qtype == Type::NSEC && has_own_nsec(zone) => {
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

    pub(crate) fn no_data(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        key: &NameKey,
        current: Current<'z>,
    ) -> PlanStep<'z> {
        let step = self.negative(zone, key, current, Outcome::NoData);
        if self.wants_proofs {
            self.prove_types(zone, node);
        }
        step
    }

    /// RFC 8482: one RRset is enough for ANY; or TC on UDP; or everything.
    fn any(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        key: &NameKey,
        current: Current<'z>,
    ) -> PlanStep<'z> {
        let Some(first) = node.rrsets().next() else {
            return self.no_data(zone, node, key, current);
        };
        match self.policy.any {
            AnyPolicy::OneRrset => {
                // The shortest-lived guess of what a client may want: an alias, an address, else the first.
                let wanted = [Type::CNAME, Type::A, Type::AAAA];
                let rrset = wanted
                    .into_iter()
                    .find_map(|rtype| node.rrset(rtype))
                    .unwrap_or(first);
                if self.is_said(rrset, node) {
                    return PlanStep::Done;
                }
                self.push(
                    Section::Answer,
                    owner(current),
                    Data::Rrset(rrset),
                    rrset.ttl(),
                    (zone, node),
                );
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
        outcome: Outcome,
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
        // AA tells of the first name of the answer (RFC 1035 section 4.1.1), which may be an alias of ours.
        if self.plan.entries.is_empty() {
            self.plan.authoritative = false;
            self.plan.outcome = Outcome::Referral;
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

    /// RFC 6672 section 3.2: the DNAME, a CNAME made from it, and on with the new name.
    fn dname(
        &mut self,
        zone: &'z Z::View,
        (node, labels): (Node<'z>, usize),
        key: &NameKey,
        current: Current<'z>,
        made: &mut ArrayVec<NameBuf, MAX_CHAIN>,
    ) -> PlanStep<'z> {
        let Some(dname) = node.rrset(Type::DNAME) else {
            return PlanStep::Done;
        };
        // A DNAME above its own target is met again and again.
        if !self.is_said(dname, node) {
            let dname_owner = ancestor(current, key, labels, node);
            self.push(
                Section::Answer,
                dname_owner,
                Data::Rrset(dname),
                dname.ttl(),
                (zone, node),
            );
        }
        let Some(target) = dname
            .records()
            .next()
            .and_then(|r| Name::from_wire(r.rdata).ok())
        else {
            return PlanStep::Done;
        };
        // The labels in front are taken as the client or the alias wrote them.
        let written = match current {
            Current::Question => self.qname.as_wire(),
            Current::Name(name) => name.as_wire(),
            Current::Made(index) => made[index].as_name().as_wire(),
        };
        let Ok(name) = NameBuf::join(&written[..key.prefix_len(labels)], target) else {
            self.plan.rcode = Rcode::YxDomain;
            self.plan.outcome = Outcome::Other;
            return PlanStep::Done;
        };
        let index = made.len();
        if made.try_push(name).is_err() {
            return PlanStep::Done;
        }
        self.push(
            Section::Answer,
            owner(current),
            Data::MadeCname(index, dname.ttl()),
            dname.ttl(),
            (zone, node),
        );
        if self.qtype == Type::CNAME {
            PlanStep::Done
        } else {
            PlanStep::FollowMade
        }
    }

    /// Whether the answer has a DNAME already, because a chain went through it.
    #[inline]
    fn is_said(&self, rrset: Rrset<'_>, node: Node<'_>) -> bool {
        let entries = || self.plan.entries.iter();
        rrset.rtype() == Type::DNAME && entries().any(|entry| entry.node.is_same(node))
    }

    #[inline]
    pub(crate) fn push(
        &mut self,
        section: Section,
        owner: Owner<'z>,
        data: Data<'z>,
        ttl: u32,
        (zone, node): (&'z Z::View, Node<'z>),
    ) {
        // MAX_ENTRIES covers the longest chain, so nothing is lost here.
        let _ = self.plan.entries.try_push(PlanEntry {
            section,
            owner,
            data,
            ttl,
            zone,
            node,
        });
    }
}

#[inline]
pub(crate) fn owner(current: Current<'_>) -> Owner<'_> {
    match current {
        Current::Question => Owner::Question(0),
        Current::Name(name) => Owner::Name(name),
        Current::Made(index) => Owner::Made(index, 0),
    }
}

/// The owner of an ancestor of the current name.
#[inline]
fn ancestor<'z>(current: Current<'z>, key: &NameKey, labels: usize, node: Node<'z>) -> Owner<'z> {
    match current {
        Current::Question => Owner::Question(key.prefix_len(labels)),
        _ => Owner::Name(node.name()),
    }
}
