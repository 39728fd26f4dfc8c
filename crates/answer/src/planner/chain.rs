//! Alias chains: from CNAME to CNAME and through DNAMEs, including into other zones served here.

use super::{Current, PlanStep, Planner, ancestor, owner};
use crate::plan::{Data, MAX_CHAIN, Section};
use crate::view::{ZoneView, Zones};
use crate::{AnswerKind, Follow};
use arrayvec::ArrayVec;
use nameward_wire::{Name, NameBuf, Rcode, Type};
use nameward_zone::{NameKey, Node};

impl<'z, Z: Zones> Planner<'z, '_, Z> {
    /// Follows aliases, including into other zones served here, until the end, a loop or the limit.
    pub(super) fn follow_chain(
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
                // A zone that is not ready ends the chain like an external one: the alias is correct and complete in
                // itself, and the client continues with its target, possibly at a server that has the zone.
                if next.is_ready() {
                    self.plan.outcome = AnswerKind::Pending;
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
            // Two fragments of one zone are the same zone.
            Follow::SameZone => core::ptr::eq(from, to) || from.apex_name() == to.apex_name(),
        }
    }

    /// Takes a step after the first; not inlined, to keep it off the path of queries without an alias.
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

    /// Adds the DNAME and the CNAME synthesised from it, and continues with the new name (RFC 6672 section 3.2).
    pub(super) fn dname(
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
        // A DNAME above its own target is visited repeatedly.
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
        // The labels in front keep the case that the client or the alias used.
        let written = match current {
            Current::Question => self.qname.as_wire(),
            Current::Name(name) => name.as_wire(),
            Current::Made(index) => made[index].as_name().as_wire(),
        };
        let Ok(name) = NameBuf::join(&written[..key.prefix_len(labels)], target) else {
            self.plan.rcode = Rcode::YxDomain;
            self.plan.outcome = AnswerKind::Other;
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
}
