//! Plans answers from the scripts and pools of a name ([`crate::computed`]).

use super::{Current, PlanStep, Planner, owner};
use crate::AnswerKind;
use crate::alias::TargetAddresses;
use crate::computed::{NeededScripts, script_type};
use crate::plan::{Data, MAX_CHAIN, Section};
use crate::view::{ZoneView, Zones};
use arrayvec::ArrayVec;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{Node, SigningState};

/// Maximum number of computed RRsets in an answer to an ANY query.
const MAX_COMPUTED: usize = 8;

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
    pub(super) fn computed(
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
            self.computed.needed = Some(NeededScripts {
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
    pub(super) fn computed_addresses(
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
