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
        let mut key = NameKey::default();
        for origin in std::mem::take(&mut self.with_targets) {
            let base = origin.place as usize * ALIGN;
            for (rtype, record_at, target) in targets_of(self.node(origin.place), base) {
                let target = target.as_name();
                if !target.is_at_or_below(self.apex_key().suffix(self.apex_key().labels())) {
                    continue;
                }
                key.set(target);
                let found = self.find(&key, key.labels());
                if let Some(place) = found {
                    self.set_target(record_at, place);
                }
                self.check_target(rtype, target, found, origin);
            }
        }
    }

    fn check_target(&mut self, rtype: Type, target: Name<'_>, found: Option<u32>, origin: Origin) {
        if !matches!(rtype, Type::NS | Type::MX | Type::SRV) {
            return;
        }
        let owner: NameBuf = self.node(origin.place).name().into();
        let node = found.map(|place| self.node(place));
        if node.is_some_and(|node| node.has(flags::CNAME)) {
            let message = format_args!("{owner} {rtype} points to {target}, which is a CNAME");
            self.findings.warning(origin.line, origin.file, message);
            return;
        }
        let is_cut = self.node(origin.place).has(flags::CUT);
        // Glue is needed for a server at or below the delegation that names it.
        if rtype == Type::NS && is_cut && target.is_at_or_below(owner.as_name()) {
            let is_address =
                |node: Node<'_>| node.rrset(Type::A).or(node.rrset(Type::AAAA)).is_some();
            if !node.is_some_and(is_address) {
                let message =
                    format_args!("{owner} NS {target} has no glue: expected A or AAAA records");
                self.findings.warning(origin.line, origin.file, message);
            }
        }
    }
}

/// The records with targets of a node: type, where the record stands in the arena, target.
fn targets_of(node: Node<'_>, base: usize) -> Vec<(Type, usize, NameBuf)> {
    let mut list = Vec::new();
    let mut at = base + node.bytes().len() - node.rrsets_len();
    for rrset in node.rrsets() {
        at += RRSET_HEADER;
        for record in rrset.records() {
            if let Some(target) = record.target() {
                list.push((rrset.rtype(), at, target.into()));
            }
            at += record.stored_len();
        }
    }
    list
}
