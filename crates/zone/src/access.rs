//! Access lists: which client addresses may ask a zone, and the rules that say which list belongs to which zone.
//!
//! A list is read as BIND reads an address match list: the first entry that matches an address decides, an entry may be
//! negated, and an address that no entry matches is not in the list. It is kept as sorted ranges, so that a look costs
//! a bisection however long the list is and allocates nothing.
//!
//! Rules stand in the zone table beside the zones, not in them: a list that changes is in force with the next batch of
//! questions, whether the contents of its zone can be read again or not.

use crate::offer::lower_case;
use nameward_wire::Name;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// A set of client addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AccessList {
    v4: Box<[AddressRange]>,
    v6: Box<[AddressRange]>,
}

/// The first and the last address of a range, as numbers.
type AddressRange = (u128, u128);

/// One entry of a list as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessEntry {
    /// Addresses that match are not in the list.
    pub is_negated: bool,
    /// The addresses that match.
    pub term: AccessTerm,
}

/// The addresses that an entry matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessTerm {
    /// All.
    Any,
    /// Addresses that share this many first bits with this one.
    Network(IpAddr, u8),
    /// Addresses in another list. One that the other list negates is not matched by it, so that two negations
    /// never let somebody in; BIND does the same.
    List(AccessList),
}

impl AccessList {
    /// Makes a list of its entries, of which the first that matches decides.
    pub fn new(entries: &[AccessEntry]) -> Self {
        let (mut v4, mut v6) = (RangeSet::default(), RangeSet::default());
        // From the last to the first, so that an earlier entry has the last word.
        for entry in entries.iter().rev() {
            match &entry.term {
                AccessTerm::Any => {
                    v4.put((0, u32::MAX.into()), entry.is_negated);
                    v6.put((0, u128::MAX), entry.is_negated);
                }
                AccessTerm::Network(address, bits) => match range(*address, *bits) {
                    (true, range) => v4.put(range, entry.is_negated),
                    (false, range) => v6.put(range, entry.is_negated),
                },
                AccessTerm::List(list) => {
                    let negated = entry.is_negated;
                    list.v4.iter().for_each(|range| v4.put(*range, negated));
                    list.v6.iter().for_each(|range| v6.put(*range, negated));
                }
            }
        }
        AccessList {
            v4: v4.finish(),
            v6: v6.finish(),
        }
    }

    /// Makes the list of all addresses.
    pub fn any() -> Self {
        Self::new(&[AccessEntry::positive(AccessTerm::Any)])
    }

    /// Whether an address is in the list.
    pub fn contains(&self, client: IpAddr) -> bool {
        let (ranges, address) = match client.to_canonical() {
            IpAddr::V4(v4) => (&self.v4, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (&self.v6, v6.to_bits()),
        };
        let next = ranges.partition_point(|(first, _)| *first <= address);
        next > 0 && ranges[next - 1].1 >= address
    }

    /// Whether no address is in the list.
    pub fn is_none(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether every address is in the list.
    pub fn is_any(&self) -> bool {
        *self.v4 == [(0, u32::MAX.into())] && *self.v6 == [(0, u128::MAX)]
    }

    /// Returns the addresses that are in both lists.
    pub fn intersection(&self, other: &Self) -> Self {
        let not = |list: &Self| {
            let negated = AccessEntry {
                is_negated: true,
                term: AccessTerm::List(list.clone()),
            };
            Self::new(&[negated, AccessEntry::positive(AccessTerm::Any)])
        };
        // All but those that one of the two lacks.
        let (not_this, not_other) = (not(self), not(other));
        let lacking = [not_this, not_other].map(AccessTerm::List);
        not(&Self::new(&lacking.map(AccessEntry::positive)))
    }

    /// Returns the addresses that are in one of the lists.
    pub fn union(&self, other: &Self) -> Self {
        let both = [self.clone(), other.clone()].map(AccessTerm::List);
        Self::new(&both.map(AccessEntry::positive))
    }
}

impl AccessEntry {
    /// Makes an entry that lets its addresses in.
    pub fn positive(term: AccessTerm) -> Self {
        AccessEntry {
            is_negated: false,
            term,
        }
    }
}

/// The addresses of a network, and whether they are of IPv4.
fn range(address: IpAddr, bits: u8) -> (bool, AddressRange) {
    let (is_v4, address, width) = match address {
        IpAddr::V4(v4) => (true, u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (false, v6.to_bits(), 128),
    };
    let free = width - u32::from(bits).min(width);
    let host = 1_u128.checked_shl(free).map_or(u128::MAX, |next| next - 1);
    (is_v4, (address & !host, address | host))
}

/// Ranges that do not overlap, by their first address.
#[derive(Default)]
struct RangeSet(BTreeMap<u128, u128>);

impl RangeSet {
    /// Puts a range in, or takes it out.
    fn put(&mut self, (first, last): AddressRange, is_out: bool) {
        // The one that begins before and reaches into the range, and those that begin inside.
        let before = self.0.range(..first).next_back();
        if let Some((&start, &end)) = before.filter(|(_, end)| **end >= first) {
            self.0.insert(start, first - 1);
            if end > last {
                self.0.insert(last + 1, end);
            }
        }
        while let Some((&start, &end)) = self.0.range(first..=last).next() {
            self.0.remove(&start);
            if end > last {
                self.0.insert(last + 1, end);
            }
        }
        if !is_out {
            self.0.insert(first, last);
        }
    }

    /// Joins ranges that touch, so that equal sets are equal lists.
    fn finish(self) -> Box<[AddressRange]> {
        let mut joined: Vec<AddressRange> = Vec::with_capacity(self.0.len());
        for (first, last) in self.0 {
            match joined.last_mut() {
                Some(before) if before.1.checked_add(1) == Some(first) => before.1 = last,
                _ => joined.push((first, last)),
            }
        }
        joined.into_boxed_slice()
    }
}

/// Who sets access rules. Where both have a list for a zone, the one of the operator counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessSource {
    /// The operator, in the configuration.
    Configured,
    /// The configuration of another server, whose zones are served.
    Imported,
}

/// The access lists that one source sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessRules {
    /// By the name of the zone, in wire form and lower case.
    zones: HashMap<Box<[u8]>, Arc<AccessList>>,
    /// For zones that have none of their own.
    pub default: Option<Arc<AccessList>>,
    /// Clients whose packets are dropped, whatever they ask.
    pub blackhole: Option<Arc<AccessList>>,
}

impl AccessRules {
    /// Sets who may ask a zone.
    pub fn set_zone(&mut self, name: Name<'_>, list: Arc<AccessList>) {
        self.zones.insert(lower_case(name), list);
    }

    /// The list of a zone itself.
    pub fn zone(&self, name: Name<'_>) -> Option<&Arc<AccessList>> {
        self.zones.get(&lower_case(name))
    }

    /// Returns these rules with those of `before` that they no longer have: for the time in which zones that are about
    /// to go away are still served.
    pub fn with_leftovers_of(&self, before: &Self) -> Self {
        let mut rules = self.clone();
        for (name, list) in &before.zones {
            let list = || Arc::clone(list);
            rules.zones.entry(name.clone()).or_insert_with(list);
        }
        rules.default = rules.default.or_else(|| before.default.clone());
        rules.blackhole = rules.blackhole.or_else(|| before.blackhole.clone());
        rules
    }
}

/// The rules of all sources, made for the zone table: a zone has the number of its list.
#[derive(Clone, Default)]
pub(crate) struct AccessIndex {
    configured: Arc<AccessRules>,
    imported: Arc<AccessRules>,
    /// By the name of the zone.
    numbers: HashMap<Box<[u8]>, u32>,
    default: u32,
    /// Number `n` is the list at `n - 1`; number 0 is no list.
    lists: Vec<Arc<AccessList>>,
    pub(crate) blackhole: Option<AccessList>,
}

impl AccessIndex {
    pub(crate) fn rules(&self, source: AccessSource) -> &Arc<AccessRules> {
        match source {
            AccessSource::Configured => &self.configured,
            AccessSource::Imported => &self.imported,
        }
    }

    /// Makes the index with the rules of one source replaced.
    pub(crate) fn with(&self, source: AccessSource, rules: Arc<AccessRules>) -> Self {
        let (configured, imported) = match source {
            AccessSource::Configured => (rules, Arc::clone(&self.imported)),
            AccessSource::Imported => (Arc::clone(&self.configured), rules),
        };
        let mut index = AccessIndex::default();
        let mut known = HashMap::new();
        for rules in [&imported, &configured] {
            for (name, list) in &rules.zones {
                let number = index.number(list, &mut known);
                index.numbers.insert(name.clone(), number);
            }
        }
        if let Some(list) = configured.default.as_ref().or(imported.default.as_ref()) {
            index.default = index.number(list, &mut known);
        }
        let blackholes = [&configured, &imported].map(|rules| rules.blackhole.as_deref());
        index.blackhole = match blackholes {
            [Some(one), Some(other)] => Some(one.union(other)),
            [one, other] => one.or(other).cloned(),
        };
        (index.configured, index.imported) = (configured, imported);
        index
    }

    /// The number of a list; equal lists have one.
    fn number(&mut self, list: &Arc<AccessList>, known: &mut HashMap<Arc<AccessList>, u32>) -> u32 {
        if list.is_any() {
            return 0;
        }
        *known.entry(Arc::clone(list)).or_insert_with(|| {
            self.lists.push(Arc::clone(list));
            self.lists.len() as u32
        })
    }

    /// The number of the list of a zone.
    pub(crate) fn number_of(&self, name: Name<'_>) -> u32 {
        if self.numbers.is_empty() {
            return self.default;
        }
        let number = self.numbers.get(&lower_case(name));
        number.copied().unwrap_or(self.default)
    }

    /// Whether a client is in the list of this number.
    #[cold]
    pub(crate) fn contains(&self, number: u32, client: IpAddr) -> bool {
        let list = (number as usize).checked_sub(1).map(|at| &self.lists[at]);
        list.is_none_or(|list| list.contains(client))
    }
}

#[cfg(test)]
mod tests;
