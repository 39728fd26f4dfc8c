//! Plans answers from the target of an ALIAS record ([`crate::alias`]).

use super::{Current, PlanStep, Planner, owner};
use crate::AnswerKind;
use crate::alias::{AliasAddresses, TargetAddresses, TargetLocation, alias_of, find_target};
use crate::plan::{Data, Section};
use crate::view::Zones;
use nameward_wire::Name;
use nameward_zone::{NameKey, Node};
use std::sync::Arc;

impl<'z, Z: Zones> Planner<'z, '_, Z> {
    /// Answers from the target if the name has no record of the queried type, has an ALIAS, and the type is an address
    /// type; otherwise returns `None`.
    #[cold]
    pub(super) fn alias(
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
            self.alias.unresolved = Some(name.into());
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
