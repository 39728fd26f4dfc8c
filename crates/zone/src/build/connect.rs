//! Checks and links that need all names of a zone: empty non-terminals, occluded data, and the nodes of the hosts named
//! by NS, MX, SRV, SVCB and HTTPS records.

use super::advice::has_address;
use super::{CHAIN_STEP, PlacedNode, ZoneBuilder};
use crate::key::NameKey;
use crate::node::{Node, RRSET_HEADER, flags, read_u32};
use crate::packed::ALIGN;
use nameward_wire::name::same_octets;
use nameward_wire::{Name, NameBuf, Type};

impl ZoneBuilder {
    /// Creates the ancestors of deep names (RFC 4592 section 2.2.2), counts children, flags the parents of wildcards
    /// and warns about occluded names.
    pub(crate) fn connect_ancestors(&mut self) {
        // Most fragments have no deep names, and a key takes more than a kilobyte.
        if self.is_full || self.deep.is_empty() {
            return;
        }
        let apex_labels = self.apex_key().labels();
        let mut key = NameKey::default();
        for origin in std::mem::take(&mut self.deep) {
            key.set(self.node(origin.place).name());
            let parent = key.labels() - 1;
            // The deepest existing ancestor. Without an apex there is none: the missing SOA is reported elsewhere.
            let mut depth = parent;
            let found = loop {
                match self.find(&key, depth) {
                    Some(place) => break place,
                    None if depth <= apex_labels => return,
                    None => depth -= 1,
                }
            };
            let made = match parent - depth {
                0 => Ok(found),
                missing => self.insert_chain(&key, parent, missing),
            };
            let deepest = match made {
                Ok(place) => place,
                Err(full) => return self.refuse(full, origin.from),
            };
            self.set_children(deepest, self.node(deepest).children() + 1);
            if deepest != found {
                self.set_children(found, self.node(found).children() + 1);
            }
            for labels in depth..=parent {
                // An empty non-terminal `*` is a wildcard too (RFC 4592 section 2.2.3).
                if key.suffix(labels + 1).is_wildcard() {
                    let place = if labels == depth {
                        found
                    } else {
                        deepest + (parent - labels) as u32 * CHAIN_STEP
                    };
                    self.set_flags(place, flags::WILDCARD_CHILD);
                }
            }
            if !self.findings.are_silent() {
                self.advise_on_owner(&key, origin);
                self.warn_if_occluded(&key, apex_labels, origin);
            }
        }
    }

    /// Warns about occluded data: below a delegation it is glue or not served (RFC 1034 section 4.2.1), below a DNAME
    /// it is not served either (RFC 6672 section 2.4).
    fn warn_if_occluded(&mut self, key: &NameKey, apex_labels: usize, origin: PlacedNode) {
        if self.cut_depths == 0 {
            return;
        }
        let above = (apex_labels..key.labels()).filter(|&n| self.cut_depths >> n & 1 != 0);
        for labels in above {
            let Some(cut) = self.find(key, labels) else {
                return;
            };
            let bits = self.node(cut).flags();
            let node = self.node(origin.place);
            let is_glue = || {
                node.rrsets()
                    .all(|r| matches!(r.rtype(), Type::A | Type::AAAA | Type::RRSIG))
            };
            let what = match bits {
                _ if bits & flags::CUT != 0 && is_glue() => return,
                _ if bits & flags::CUT != 0 => "delegation",
                _ if bits & flags::DNAME != 0 => "DNAME",
                _ => continue,
            };
            let message = format!(
                "{} is below the {what} {}: not served",
                node.name(),
                key.suffix(labels)
            );
            self.findings
                .warning(origin.from, format_args!("{message}"));
            return;
        }
    }

    /// Resolves the hosts that records name to their nodes, so that no answer has to search for them, and warns about
    /// missing glue and targets that are aliases (RFC 2181 section 10.3).
    pub(crate) fn check_targets(&mut self) {
        let apex: NameBuf = self.apex_key().suffix(self.apex_key().labels()).into();
        let apex = apex.as_name();
        let (mut key, mut targets) = (NameKey::default(), Vec::new());
        for origin in std::mem::take(&mut self.with_targets) {
            list_targets(
                self.node(origin.place),
                origin.place as usize * ALIGN,
                &mut targets,
            );
            for target in &targets {
                let origin = self.origin_of(target, origin);
                self.set_target(target.record_at, 0);
                if target.name_len == 0 {
                    continue;
                }
                let name = self.name_at(target);
                let labels = self.apex_key().labels();
                let is_inside = ends_like(name, apex) && {
                    key.set(name);
                    key.labels() >= labels && key.suffix(labels) == apex
                };
                let found = if is_inside {
                    self.find(&key, key.labels())
                } else {
                    None
                };
                if let Some(place) = found {
                    self.set_target(target.record_at, place);
                }
                if self.findings.are_silent() {
                    continue;
                }
                let message = if is_inside {
                    self.warning_about_target(target, &key, found, origin.place)
                } else {
                    let owner = (self.node(origin.place), target.rtype);
                    self.advice_on_foreign_host(owner, self.name_at(target))
                };
                if let Some(message) = message {
                    self.findings
                        .warning(origin.from, format_args!("{message}"));
                }
            }
        }
    }

    /// Returns the source location of the record itself, whose lower half is kept in the target field until now.
    fn origin_of(&self, target: &HostReference, owner: PlacedNode) -> PlacedNode {
        let lower = read_u32(&self.arena, target.record_at + 2);
        let from = match self.elsewhere.get(&target.record_at) {
            Some(&place) => place,
            None => owner.from.beside(lower),
        };
        PlacedNode { from, ..owner }
    }

    fn name_at(&self, target: &HostReference) -> Name<'_> {
        Name::from_valid_wire(&self.arena[target.name_at..target.name_at + target.name_len])
    }

    /// Returns the warning about an in-zone host that a record of the node at `owner` names, if any.
    fn warning_about_target(
        &self,
        target: &HostReference,
        host: &NameKey,
        found: Option<u32>,
        owner: u32,
    ) -> Option<String> {
        let rtype = target.rtype;
        let (owner, name) = (self.node(owner), self.name_at(target));
        let node = found.map(|place| self.node(place));
        let is_host = matches!(rtype, Type::NS | Type::MX | Type::SRV);
        if is_host && node.is_some_and(|node| node.rrset(Type::CNAME).is_some()) {
            let owner = owner.name();
            Some(format!(
                "{owner} {rtype} points to {name}, which is a CNAME"
            ))
        } else if rtype == Type::NS
            && owner.has(flags::CUT)
            && !node.is_some_and(has_address)
            // Glue is needed for a server at or below the delegation that names it.
            && name.is_at_or_below(owner.name())
        {
            let owner = owner.name();
            Some(format!("{owner} NS {name} has no glue (A or AAAA records)"))
        } else {
            self.advice_on_host((owner, rtype), host, node)
        }
    }
}

/// A record that names a host: arena offsets of the record and of the name.
pub(crate) struct HostReference {
    rtype: Type,
    pub(crate) record_at: usize,
    pub(crate) name_at: usize,
    pub(crate) name_len: usize,
}

/// Lists the records with targets of the node at `base`.
pub(crate) fn list_targets(node: Node<'_>, base: usize, targets: &mut Vec<HostReference>) {
    targets.clear();
    let mut at = base + node.rrsets_at();
    for rrset in node.rrsets() {
        at += RRSET_HEADER;
        for record in rrset.records() {
            let place = record.target_place();
            if rrset.has_targets() {
                let (offset, len) = place.map_or((0, 0), |(at, name)| (at, name.as_wire().len()));
                targets.push(HostReference {
                    rtype: rrset.rtype(),
                    record_at: at,
                    name_at: at + record.stored_len() - record.rdata.len() + offset,
                    name_len: len,
                });
            }
            at += record.stored_len();
        }
    }
}

/// Checks whether the last octets of `name` equal `apex`: a cheap necessary condition for being at or below it.
#[inline]
pub(crate) fn ends_like(name: Name<'_>, apex: Name<'_>) -> bool {
    let (name, apex) = (name.as_wire(), apex.as_wire());
    let tail = name
        .len()
        .checked_sub(apex.len())
        .map(|start| &name[start..]);
    tail.is_some_and(|tail| same_octets(tail, apex) || tail.eq_ignore_ascii_case(apex))
}

/// Checks whether a name is at or below the apex.
pub(crate) fn is_below(name: Name<'_>, apex: Name<'_>) -> bool {
    ends_like(name, apex) && name.is_at_or_below(apex)
}
