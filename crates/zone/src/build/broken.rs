//! Names with unreadable records: queries that need such a record fail, all others are answered.
//!
//! A broken record affects the name itself; names below it, if the record is about a delegation or a DNAME; and a
//! delegation to the host, if the record is about an address, because a referral needs its glue (RFC 9471 section 3).
//! Other answers that refer to the host omit its addresses: the additional section may be incomplete. A zone with a
//! broken SOA or broken apex NS records fails as a whole.

use super::{PlacedNode, ZoneBuilder};
use crate::draft::Draft;
use crate::finding::KEPT;
use crate::key::NameKey;
use crate::node::Node;
use crate::node::flags::{BROKEN, BROKEN_ABOVE, BROKEN_HOST, CUT, DNAME};
use nameward_wire::zonefile::RecordLocation;
use nameward_wire::{Name, Type};
use std::collections::HashMap;

/// Names in wire form and lower case, with their [`crate::node::flags`] bits.
pub(crate) type Broken = HashMap<Box<[u8]>, u8>;

impl ZoneBuilder {
    /// Records that the zone has an unreadable record at this name; `None` if not even its type is known.
    pub fn add_broken(&mut self, name: Name<'_>, rtype: Option<Type>) {
        let key = NameKey::new(name);
        let is_apex = key.labels() == self.apex_key().labels();
        let bits = match rtype {
            Some(rtype) if is_apex && matches!(rtype, Type::SOA | Type::NS) => {
                return self.findings.error(
                    RecordLocation::NONE,
                    format_args!("{name} {rtype}: invalid record data"),
                );
            }
            Some(Type::NS) => BROKEN | BROKEN_ABOVE | CUT,
            Some(Type::DS) => BROKEN | BROKEN_ABOVE,
            Some(Type::DNAME) => BROKEN | BROKEN_ABOVE | DNAME,
            Some(Type::A | Type::AAAA | Type::SVCB | Type::HTTPS) => BROKEN | BROKEN_HOST,
            _ => BROKEN,
        };
        let name = key.suffix(key.labels()).as_wire();
        *self.broken.entry(name.into()).or_default() |= bits;
    }

    /// Treats a name with conflicting records as broken from now on; otherwise such a name is an error for the whole
    /// zone.
    pub fn tolerate_broken_names(&mut self) {
        self.is_tolerant = true;
    }

    /// Sorts the records of a name and reports conflicts between them.
    pub(crate) fn normalise(&mut self, draft: &mut Draft, owner: Name<'_>) {
        let (mut flaws, mut more) = (Vec::new(), 0);
        draft.normalise(|flaw, entry| {
            if flaw.is_error() || flaws.len() < KEPT {
                flaws.push((flaw, *entry))
            } else {
                more += 1
            }
        });
        self.findings.count_warnings(more);
        for (flaw, entry) in flaws {
            self.findings.flaw(flaw, owner, &entry, self.is_tolerant);
            if self.is_tolerant && flaw.is_error() {
                draft.shorten(flaw);
                self.add_broken(owner, flaw.rtype());
            }
        }
    }

    /// Creates nodes for broken names, so that they exist.
    pub(crate) fn insert_broken(&mut self) {
        let names: Vec<_> = self.broken.keys().cloned().collect();
        for name in &names {
            self.insert_existing(Name::from_valid_wire(name));
        }
    }

    /// Flags broken names, and delegations to hosts with broken addresses.
    pub(crate) fn mark_broken(&mut self, with_targets: &[PlacedNode]) {
        if self.broken.is_empty() {
            return;
        }
        let mut key = NameKey::default();
        for (name, bits) in std::mem::take(&mut self.broken) {
            key.set(Name::from_valid_wire(&name));
            if let Some(place) = self.find(&key, key.labels()) {
                self.set_flags(place, bits);
                if bits & BROKEN_ABOVE != 0 {
                    self.cut_depths |= 1 << key.labels();
                }
            }
        }
        for origin in with_targets {
            let bits = self.bits_of_targets(origin.place);
            if bits != 0 {
                self.set_flags(origin.place, bits);
            }
        }
    }

    fn bits_of_targets(&self, place: u32) -> u8 {
        let mut key = NameKey::default();
        bits_of_targets(self.node(place), |target| {
            key.set(target);
            let found = self.find(&key, key.labels());
            found.is_some_and(|place| self.node(place).has(BROKEN_HOST))
        })
    }
}

/// Returns the flags of a node whose records refer to hosts with broken addresses: only a delegation needs them.
pub(crate) fn bits_of_targets(node: Node<'_>, is_broken_host: impl FnMut(Name<'_>) -> bool) -> u8 {
    let servers = node.rrset(Type::NS).filter(|_| node.has(CUT));
    let records = servers.into_iter().flat_map(|servers| servers.records());
    if records
        .filter_map(|record| record.target())
        .any(is_broken_host)
    {
        BROKEN | BROKEN_ABOVE
    } else {
        0
    }
}
