//! What can only be known when all names of a zone are there: empty non-terminals, occluded data,
//! where the hosts named by NS, MX, SRV, SVCB and HTTPS records stand.

use crate::build::{Origin, ZoneBuilder};
use crate::key::NameKey;
use crate::node::{Node, RRSET_HEADER, flags};
use crate::packed::ALIGN;
use nameward_wire::{Name, NameBuf, Type};

impl ZoneBuilder {
    /// Makes the ancestors of deep names exist (RFC 4592 section 2.2.2), counts children, marks the parents
    /// of wildcards and warns of occluded names.
    pub(crate) fn connect_ancestors(&mut self) {
        let apex_labels = self.apex_key().labels();
        let mut key = NameKey::default();
        for origin in std::mem::take(&mut self.deep) {
            key.set(self.node(origin.place).name());
            for labels in (apex_labels..key.labels()).rev() {
                let found = self.find(&key, labels);
                let created = found.is_none() && labels > apex_labels;
                let place = match found {
                    Some(place) => {
                        self.set_children(place, self.node(place).children() + 1);
                        place
                    }
                    None if created => self.insert_empty(&key, labels, 1),
                    // No apex: the missing SOA is reported elsewhere.
                    None => break,
                };
                // An empty non-terminal `*` is a wildcard too (RFC 4592 section 2.2.3).
                if key.suffix(labels + 1).is_wildcard() {
                    self.set_flags(place, flags::WILDCARD_CHILD);
                }
                if !created {
                    break;
                }
            }
            self.warn_if_occluded(&key, apex_labels, origin);
        }
    }

    /// Data below a delegation is glue or not served (RFC 1034 section 4.2.1); below a DNAME it is not
    /// served either (RFC 6672 section 2.4).
    fn warn_if_occluded(&mut self, key: &NameKey, apex_labels: usize, origin: Origin) {
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
                "{} stands below the {what} {}: not served",
                node.name(),
                key.suffix(labels)
            );
            self.findings
                .warning(origin.line, origin.file, format_args!("{message}"));
            return;
        }
    }

    /// Finds the nodes of hosts that records name, so that no answer has to search them, and warns of
    /// missing glue and of names that are aliases (RFC 2181 section 10.3).
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
                let name = self.name_at(target);
                if !ends_like(name, apex) {
                    continue;
                }
                key.set(name);
                let labels = self.apex_key().labels();
                if key.labels() < labels || key.suffix(labels) != apex {
                    continue;
                }
                let found = self.find(&key, key.labels());
                if let Some(place) = found {
                    self.set_target(target.record_at, place);
                }
                self.check_target(target, found, origin);
            }
        }
    }

    fn name_at(&self, target: &Target) -> Name<'_> {
        Name::from_valid_wire(&self.arena[target.name_at..target.name_at + target.name_len])
    }

    fn check_target(&mut self, target: &Target, found: Option<u32>, origin: Origin) {
        let rtype = target.rtype;
        if !matches!(rtype, Type::NS | Type::MX | Type::SRV) {
            return;
        }
        let (owner, name) = (self.node(origin.place), self.name_at(target));
        let node = found.map(|place| self.node(place));
        let is_address = |node: Node<'_>| node.rrset(Type::A).or(node.rrset(Type::AAAA)).is_some();
        let message = if node.is_some_and(|node| node.has(flags::CNAME)) {
            format!(
                "{} {rtype} points to {name}, which is a CNAME",
                owner.name()
            )
        } else if rtype == Type::NS
            && owner.has(flags::CUT)
            && !node.is_some_and(is_address)
            // Glue is needed for a server at or below the delegation that names it.
            && name.is_at_or_below(owner.name())
        {
            format!(
                "{} NS {name} has no glue: expected A or AAAA records",
                owner.name()
            )
        } else {
            return;
        };
        self.findings
            .warning(origin.line, origin.file, format_args!("{message}"));
    }
}

/// A record that names a host: where it and the name stand in the arena.
pub(crate) struct Target {
    rtype: Type,
    pub(crate) record_at: usize,
    pub(crate) name_at: usize,
    pub(crate) name_len: usize,
}

/// Lists the records with targets of the node that stands at `base`.
pub(crate) fn list_targets(node: Node<'_>, base: usize, targets: &mut Vec<Target>) {
    targets.clear();
    let mut at = base + node.bytes().len() - node.rrsets_len();
    for rrset in node.rrsets() {
        at += RRSET_HEADER;
        for record in rrset.records() {
            if let Some((offset, name)) = record.target_place() {
                targets.push(Target {
                    rtype: rrset.rtype(),
                    record_at: at,
                    name_at: at + record.stored_len() - record.rdata.len() + offset,
                    name_len: name.as_wire().len(),
                });
            }
            at += record.stored_len();
        }
    }
}

/// Whether the last octets of `name` are those of `apex`: cheap, and needed to be at or below it.
fn ends_like(name: Name<'_>, apex: Name<'_>) -> bool {
    let (name, apex) = (name.as_wire(), apex.as_wire());
    let tail = name
        .len()
        .checked_sub(apex.len())
        .map(|start| &name[start..]);
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(apex))
}

/// Whether a name is at or below the apex.
pub(crate) fn is_below(name: Name<'_>, apex: Name<'_>) -> bool {
    ends_like(name, apex) && name.is_at_or_below(apex)
}
