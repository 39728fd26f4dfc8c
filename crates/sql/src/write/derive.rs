//! The columns that PowerDNS derives from names: `auth`, `ordername`, and the rows of empty non-terminals.
//!
//! Nameward does not trust them, but PowerDNS does, and both must be able to answer from one database. The rules are
//! what `pdnsutil rectify-zone` leaves in the table, including its oddities (data at and, with NSEC, below a delegation
//! keeps its position in the order, addresses do not; DS is authoritative wherever it is). Only served rows count.

use super::super::row::write_label;
use nameward_dnssec::{Nsec3, Nsec3Param};
use nameward_wire::{Name, Type};
use nameward_zone::Zone;
use std::collections::HashMap;

/// How a zone denies existence, as far as PowerDNS stores it in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CachedDenial {
    Unsigned,
    Nsec,
    Nsec3 {
        param: Nsec3Param,
        /// Denied by ranges computed for each query: nothing is stored.
        narrow: bool,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ServedTypes {
    pub(super) ns: bool,
    pub(super) ds: bool,
    pub(super) other: bool,
}

impl ServedTypes {
    pub(super) fn add(&mut self, rtype: Option<Type>) {
        match rtype {
            Some(Type::NS) => self.ns = true,
            Some(Type::DS) => self.ds = true,
            _ => self.other = true,
        }
    }

    pub(super) fn exists(self) -> bool {
        self.ns || self.ds || self.other
    }
}

/// A name in lower case and wire form.
pub(super) type CanonicalName = Box<[u8]>;

/// Returns the canonical form of a name.
pub(super) fn key(name: Name<'_>) -> CanonicalName {
    let mut wire: CanonicalName = name.as_wire().into();
    wire.make_ascii_lowercase();
    wire
}

/// Returns the ancestors of a name from its parent up to and including the apex.
pub(super) fn ancestors<'k>(name: &'k [u8], apex: &'k [u8]) -> impl Iterator<Item = &'k [u8]> {
    let mut rest = name;
    std::iter::from_fn(move || {
        if rest.len() <= apex.len() {
            return None;
        }
        rest = &rest[rest[0] as usize + 1..];
        Some(rest)
    })
}

/// A source of the types at names.
pub(super) trait KnownNames: Sync {
    fn facts_of(&self, name: &[u8]) -> ServedTypes;
}

impl KnownNames for HashMap<CanonicalName, ServedTypes> {
    fn facts_of(&self, name: &[u8]) -> ServedTypes {
        self.get(name).copied().unwrap_or_default()
    }
}

impl KnownNames for Zone {
    fn facts_of(&self, name: &[u8]) -> ServedTypes {
        let mut facts = ServedTypes::default();
        let node = Name::from_wire(name)
            .ok()
            .and_then(|name| self.node_of(name));
        let rrsets = node.into_iter().flat_map(|node| node.rrsets());
        rrsets.for_each(|rrset| facts.add(Some(rrset.rtype())));
        facts
    }
}

/// The facts about a zone: about each relevant name, and about all its ancestors.
pub(super) struct Knowledge<'k> {
    pub(super) apex: &'k [u8],
    pub(super) denial: &'k CachedDenial,
    pub(super) facts: &'k dyn KnownNames,
}

/// The derived columns of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Derived {
    pub(super) auth: bool,
    pub(super) ordername: Option<String>,
}

/// The effect of a name on the empty non-terminals above it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NameEffect {
    pub(super) exists: bool,
    pub(super) auth: bool,
    /// It has a position in the NSEC3 order of a zone with opt-out.
    pub(super) ordered: bool,
}

impl NameEffect {
    /// Returns the effect of a name with rows that have these derived columns.
    pub(super) fn stored(derived: Option<&Derived>) -> Self {
        NameEffect {
            exists: true,
            auth: derived.is_some_and(|derived| derived.auth),
            ordered: derived.is_some_and(|derived| derived.ordername.is_some()),
        }
    }

    pub(super) fn or(self, other: NameEffect) -> NameEffect {
        NameEffect {
            exists: self.exists || other.exists,
            auth: self.auth || other.auth,
            ordered: self.ordered || other.ordered,
        }
    }

    /// Checks whether something has been lost compared to `before`.
    pub(super) fn is_less_than(self, before: NameEffect) -> bool {
        self.or(before) != self
    }
}

impl Knowledge<'_> {
    fn facts(&self, name: &[u8]) -> ServedTypes {
        self.facts.facts_of(name)
    }

    fn is_cut(&self, name: &[u8]) -> bool {
        name != self.apex && self.facts(name).ns
    }

    fn is_below_cut(&self, name: &[u8]) -> bool {
        ancestors(name, self.apex).any(|ancestor| self.is_cut(ancestor))
    }

    pub(super) fn standing(&self, name: &[u8]) -> NameEffect {
        let facts = self.facts(name);
        let below = self.is_below_cut(name);
        let only_ns = self.is_cut(name) && !facts.ds && !facts.other;
        NameEffect {
            exists: facts.exists(),
            auth: facts.exists() && !below && !self.is_cut(name),
            ordered: facts.exists() && !below && !only_ns,
        }
    }

    /// Returns the columns of a row with a type.
    pub(super) fn for_row(&self, name: &[u8], rtype: Option<Type>) -> Derived {
        let (cut, below) = (self.is_cut(name), self.is_below_cut(name));
        let is_ds = rtype == Some(Type::DS);
        let is_glue = (cut || below) && matches!(rtype, Some(Type::A | Type::AAAA));
        let ordername = match self.denial {
            CachedDenial::Unsigned => None,
            CachedDenial::Nsec if is_glue => None,
            CachedDenial::Nsec => Some(order(name, self.apex)),
            CachedDenial::Nsec3 { param, narrow } => {
                let opted_out =
                    param.opt_out && cut && rtype == Some(Type::NS) && !self.facts(name).ds;
                let hidden = *narrow || is_glue || below || opted_out;
                (!hidden).then(|| hash(name, &param.hashing))
            }
        };
        Derived {
            auth: is_ds || !cut && !below,
            ordername,
        }
    }

    /// Returns the columns of an empty non-terminal with these names below it.
    pub(super) fn for_empty(&self, name: &[u8], below: NameEffect) -> Derived {
        match self.denial {
            CachedDenial::Unsigned | CachedDenial::Nsec => Derived {
                auth: below.auth,
                ordername: None,
            },
            CachedDenial::Nsec3 { param, narrow } => {
                let (auth, ordered) = if param.opt_out {
                    (below.auth, below.ordered)
                } else {
                    (!self.is_below_cut(name), !self.is_below_cut(name))
                };
                Derived {
                    auth,
                    ordername: (ordered && !*narrow).then(|| hash(name, &param.hashing)),
                }
            }
        }
    }
}

/// Returns the name relative to the apex, labels reversed and separated by spaces: text in this form sorts in canonical
/// order.
fn order(name: &[u8], apex: &[u8]) -> String {
    let mut labels = Vec::new();
    let mut rest = name;
    while rest.len() > apex.len() {
        let (label, behind) = rest[1..].split_at(rest[0] as usize);
        let mut text = String::new();
        write_label(label, &mut text);
        labels.push(text);
        rest = behind;
    }
    labels.reverse();
    labels.join(" ")
}

/// Returns the hash in base32hex and lower case.
fn hash(name: &[u8], nsec3: &Nsec3) -> String {
    let name = Name::from_wire(name).unwrap_or(Name::ROOT);
    data_encoding::BASE32HEX_NOPAD
        .encode(&nsec3.hash(name))
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::NameBuf;

    fn wire(text: &str) -> CanonicalName {
        key(text.parse::<NameBuf>().unwrap().as_name())
    }

    #[test]
    fn hashes_are_those_of_rfc_5155() {
        let param = Nsec3Param::read("1 1 12 aabbccdd").unwrap();
        assert!(param.opt_out);
        for (name, expected) in [
            ("example", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("a.example", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            ("*.w.example", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
        ] {
            assert_eq!(hash(&wire(name), &param.hashing), expected);
        }
    }

    #[test]
    fn the_order_is_written_backwards_with_spaces() {
        let apex = wire("example.org");
        assert_eq!(order(&apex, &apex), "");
        assert_eq!(order(&wire("a.b.example.org"), &apex), "b a");
        assert_eq!(
            order(&wire(r"sp\032ace.do\.t.example.org"), &apex),
            r"do\.t sp\032ace"
        );
    }

    #[test]
    fn ancestors_end_with_the_apex() {
        let (name, apex) = (wire("a.b.example"), wire("example"));
        let above: Vec<CanonicalName> = ancestors(&name, &apex).map(CanonicalName::from).collect();
        assert_eq!(above, [wire("b.example"), wire("example")]);
        assert_eq!(ancestors(&apex, &apex).count(), 0);
    }
}
