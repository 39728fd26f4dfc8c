//! The walk to a name through the fetched rows: what its answer needs, and what is still missing.

use super::super::empty_nonterminals::AncestorSet;
use super::super::error::SqlError;
use super::super::shared_fragments::FragmentKind;
use super::{Gathering, need};
use nameward_wire::rdata::names as names_in;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::NameKey;
use std::sync::Arc;

/// Maximum number of hosts whose addresses are fetched for one query.
const MAX_TARGETS: usize = 256;

/// Maximum depth, in labels below the apex of a signed zone, of hosts whose addresses are fetched: whether they are
/// glue depends on each of their ancestors.
const MAX_DEPTH_OF_HOSTS: usize = 8;

/// Which name is walked to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WalkTarget {
    Question,
    Alias,
}

impl Gathering {
    /// Walks to all pending names, each prepared in `key`. Returns false if `ancestors` is needed first.
    pub(crate) fn walk(
        &mut self,
        key: &mut NameKey,
        ancestors: Option<&AncestorSet>,
    ) -> Result<bool, SqlError> {
        if self.ready.is_some() {
            return Ok(true);
        }
        // Aliases found on the way are left to the next round: their rows are not here yet.
        let mut names = std::mem::take(&mut self.pending);
        if self.is_pending {
            key.set(self.qname());
            if !self.walk_to(key, WalkTarget::Question, ancestors)? {
                return Ok(false);
            }
            self.is_pending = false;
        }
        while let Some(name) = names.pop() {
            key.set(name.as_name());
            if !self.walk_to(key, WalkTarget::Alias, ancestors)? {
                self.pending.push(name);
                self.pending.append(&mut names);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies RFC 1034 section 4.3.2 step 3 to the rows. Returns false for a name without rows: `ancestors` shows whether
    /// it or its ancestors are empty non-terminals.
    fn walk_to(
        &mut self,
        key: &NameKey,
        target: WalkTarget,
        ancestors: Option<&AncestorSet>,
    ) -> Result<bool, SqlError> {
        let (labels, apex_labels) = (key.labels(), self.known.apex_labels);
        let kept = match target {
            WalkTarget::Question => self.shared.as_ref().map(|fragment| fragment.labels),
            WalkTarget::Alias => None,
        };
        let mut encloser = kept.unwrap_or(apex_labels);
        for n in kept.map_or(apex_labels, |kept| kept + 1)..=labels {
            let Some(at) = self.requested.position(key.suffix(n)) else {
                break;
            };
            self.check_size(at)?;
            let below_apex = n > apex_labels;
            if below_apex && self.has_type(at, Type::NS) && n < labels {
                self.requested[at].needs |= need::CUT;
                if target == WalkTarget::Question {
                    self.kind = Some((FragmentKind::Delegation, n));
                }
                self.fetch_targets(at, &[Type::NS])?;
                return Ok(true);
            }
            if n < labels && self.has_type(at, Type::DNAME) {
                self.requested[at].needs |= need::DNAME;
                self.follow_dname(at, (key, key.prefix_len(n)), ancestors)?;
                return Ok(true);
            }
            if n == labels && (self.requested[at].has_rows || !below_apex) {
                self.take_all(at, ancestors)?;
                return Ok(true);
            }
            if n < labels && self.requested[at].has_rows {
                encloser = n;
            }
        }
        let Some(ancestors) = ancestors else {
            return Ok(false);
        };
        self.walk_without_rows((key, target), encloser, ancestors)?;
        Ok(true)
    }

    /// Handles a name without rows. `encloser`: label count of the deepest ancestor that has some.
    fn walk_without_rows(
        &mut self,
        (key, target): (&NameKey, WalkTarget),
        mut encloser: usize,
        ancestors: &AncestorSet,
    ) -> Result<(), SqlError> {
        let labels = key.labels();
        for n in encloser + 1..=labels {
            let hinted = ancestors.is_partial
                && self
                    .requested
                    .position(key.suffix(n))
                    .is_some_and(|at| self.requested[at].has_empty_row);
            if !ancestors.contains(key, n) && !hinted {
                break;
            }
            encloser = n;
        }
        if target == WalkTarget::Question && encloser < labels {
            let shared = self
                .shared
                .as_ref()
                .filter(|fragment| fragment.labels == encloser);
            if let Some(fragment) = shared {
                self.ready = Some(Arc::clone(&fragment.zone));
                return Ok(());
            }
            self.kind = Some((FragmentKind::Encloser, encloser));
        }
        if let Some(at) = self.requested.position(key.suffix(encloser)) {
            self.requested[at].needs |= need::ENCLOSER;
            if encloser > self.known.apex_labels {
                self.requested[at].needs |= need::EXISTENCE;
            }
        }
        if encloser == labels {
            return Ok(());
        }
        // RFC 4592 section 3.3: only the wildcard below the closest encloser counts.
        let Ok(wildcard) = NameBuf::join(b"\x01*", key.suffix(encloser)) else {
            return Ok(());
        };
        match self.requested.position(wildcard.as_name()) {
            Some(at) if self.requested[at].has_rows => self.take_all(at, Some(ancestors))?,
            _ if ancestors.contains(&NameKey::new(wildcard.as_name()), encloser + 1) => {
                let at = self.requested.add(wildcard.as_name());
                self.requested[at].is_requested = true;
                self.requested[at].needs |= need::EXISTENCE;
            }
            _ => {}
        }
        Ok(())
    }

    /// Requests everything of a name: the hosts its records name, and its target if it is an alias.
    fn take_all(&mut self, at: usize, ancestors: Option<&AncestorSet>) -> Result<(), SqlError> {
        self.check_size(at)?;
        self.requested[at].needs |= need::ALL;
        self.fetch_targets(at, &[])?;
        // An ALIAS leads to addresses like a CNAME.
        for rtype in [Type::CNAME, Type::ALIAS] {
            let Some(row) = self.row_of(at, rtype) else {
                continue;
            };
            let mut rdata = Vec::new();
            self.parse(row, &mut rdata)?;
            if let Ok(target) = Name::from_wire(&rdata) {
                self.follow(target, ancestors);
            }
        }
        Ok(())
    }

    fn follow_dname(
        &mut self,
        at: usize,
        (name, prefix): (&NameKey, usize),
        ancestors: Option<&AncestorSet>,
    ) -> Result<(), SqlError> {
        let Some(row) = self.row_of(at, Type::DNAME) else {
            return Ok(());
        };
        let mut rdata = Vec::new();
        self.parse(row, &mut rdata)?;
        if let Ok(target) = Name::from_wire(&rdata)
            && let Ok(made) = NameBuf::join(&name.suffix(name.labels()).as_wire()[..prefix], target)
        {
            self.follow(made.as_name(), ancestors);
        }
        Ok(())
    }

    /// Requests the addresses of in-zone hosts named by the records of a name; an empty list of types means all.
    fn fetch_targets(&mut self, at: usize, types: &[Type]) -> Result<(), SqlError> {
        let mut rdata = Vec::new();
        let mut targets: Vec<(NameBuf, u16, bool)> = Vec::new();
        for (i, row) in self.rows.iter().enumerate() {
            let Ok(rtype) = row.rtype else { continue };
            if row.of != at || !(types.is_empty() || types.contains(&rtype)) {
                continue;
            }
            if !may_have_targets(rtype) {
                continue;
            }
            rdata.clear();
            self.parse(i, &mut rdata)?;
            let hosts = names_in(rtype, &rdata).filter(|(_, _, name_use)| name_use.additional);
            // Addresses of a delegation's name servers are not signed, whatever is above them.
            let is_delegation = rtype == Type::NS && at != 0;
            let is_signed = self.signing.is_some() && !is_delegation;
            let needs = if is_delegation {
                need::ADDRESSES | need::GLUE
            } else {
                need::ADDRESSES
            };
            targets.extend(
                hosts
                    .map(|(_, host, _)| host)
                    .filter(|host| host.is_at_or_below(self.known.zone.apex.as_name()))
                    .filter(|host| {
                        let depth = host.label_count() - self.known.apex_labels;
                        !is_signed || depth <= MAX_DEPTH_OF_HOSTS
                    })
                    .map(|host| (host.into(), needs, is_signed)),
            );
        }
        for (target, needs, is_signed) in targets.iter_mut().take(MAX_TARGETS) {
            target.make_lowercase();
            let at = self.requested.add(target.as_name());
            if at == 0 {
                self.fetch_apex();
            }
            self.requested[at].needs |= *needs;
            if *is_signed {
                self.want_ancestors(target.as_name());
            }
        }
        Ok(())
    }

    /// Requests whether there is a delegation or a DNAME at or above a host.
    fn want_ancestors(&mut self, host: Name<'_>) {
        let mut name = host;
        while name.as_wire().len() > self.known.zone.apex.as_name().as_wire().len() {
            let at = self.requested.add(name);
            self.requested[at].needs |= need::HIDING;
            match name.parent() {
                Some(parent) => name = parent,
                None => return,
            }
        }
    }
}

/// Checks whether records of a type may name hosts whose addresses belong in the additional section.
fn may_have_targets(rtype: Type) -> bool {
    !matches!(
        rtype,
        Type::A | Type::AAAA | Type::TXT | Type::SOA | Type::CNAME | Type::PTR
    )
}
