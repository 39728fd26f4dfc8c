//! Access lists: which clients, by address or TSIG key, may ask something of a zone, and the rules that say which list belongs to which zone.
//!
//! A list is read as BIND reads an address match list: the first entry that matches an address decides, an entry may be
//! negated, and an address that no entry matches is not in the list. It is kept as sorted ranges, so that a look costs
//! a bisection however long the list is and allocates nothing.
//!
//! Rules stand in the zone table beside the zones, not in them: a list that changes is in force with the next batch of
//! questions, whether the contents of its zone can be read again or not.

mod entries;

use crate::offer::lower_case;
use nameward_wire::{Name, NameBuf};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// A set of clients: by their addresses, by the keys that signed their requests (RFC 8945), or by both.
///
/// For each key that the list names there is a set of addresses of its own, so that a look is a bisection also where keys
/// and addresses are mixed and negated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AccessList {
    /// Clients whose request is not signed, or with a key that the list does not name.
    plain: AddressSet,
    /// Clients with a key that makes a difference: its name in wire form and lower case. Sorted.
    keyed: Box<[(Box<[u8]>, AddressSet)]>,
}

/// A set of addresses, as ranges in order that do not touch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct AddressSet {
    v4: Box<[AddressRange]>,
    v6: Box<[AddressRange]>,
}

/// The first and the last address of a range, as numbers.
type AddressRange = (u128, u128);

/// One entry of a list as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessEntry {
    /// Clients that match are not in the list.
    pub is_negated: bool,
    /// The clients that match.
    pub term: AccessTerm,
}

/// The clients that an entry matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessTerm {
    /// All.
    Any,
    /// Addresses that share this many first bits with this one.
    Network(IpAddr, u8),
    /// Requests that are signed with the key of this name.
    Key(NameBuf),
    /// Requests from a network that are signed with the key of this name.
    NetworkWithKey(IpAddr, u8, NameBuf),
    /// Clients in another list. One that the other list negates is not matched by it, so that two negations
    /// never let a client in; BIND does the same.
    List(AccessList),
}

impl AccessList {
    /// Makes a list of its entries, of which the first that matches decides.
    pub fn new(entries: &[AccessEntry]) -> Self {
        let mut keys = BTreeSet::new();
        for entry in entries {
            match &entry.term {
                AccessTerm::Key(key) | AccessTerm::NetworkWithKey(_, _, key) => {
                    keys.insert(lower_case(key.as_name()));
                }
                AccessTerm::List(list) => keys.extend(list.named_keys().map(Into::into)),
                AccessTerm::Any | AccessTerm::Network(..) => {}
            }
        }
        let plain = AddressSet::of(entries, None);
        let keyed = keys.into_iter().map(|key| {
            let set = AddressSet::of(entries, Some(&key));
            (key, set)
        });
        // A key that makes no difference is left out, so that equal sets are equal lists.
        let keyed = keyed.filter(|(_, set)| *set != plain).collect();
        AccessList { plain, keyed }
    }

    /// Makes the list of all clients.
    pub fn any() -> Self {
        Self::new(&[AccessEntry::positive(AccessTerm::Any)])
    }

    /// Whether an address is in the list without a signature.
    pub fn contains(&self, client: IpAddr) -> bool {
        self.plain.contains(client)
    }

    /// Whether a request from an address, signed with a key that was verified or with none, is let in.
    pub fn allows(&self, client: IpAddr, key: Option<Name<'_>>) -> bool {
        match key.filter(|_| !self.keyed.is_empty()) {
            Some(key) => {
                let mut lower = NameBuf::from(key);
                lower.make_lowercase();
                self.with_key(Some(lower.as_name().as_wire()))
                    .contains(client)
            }
            None => self.plain.contains(client),
        }
    }

    /// Whether nobody is in the list.
    pub fn is_none(&self) -> bool {
        self.plain.is_none() && self.keyed.is_empty()
    }

    /// Whether everybody is in the list.
    pub fn is_any(&self) -> bool {
        self.plain.is_any() && self.keyed.is_empty()
    }

    /// Returns the names of the keys that make a difference, in wire form and lower case.
    pub fn named_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keyed.iter().map(|(key, _)| &**key)
    }

    /// Returns the clients that are in both lists.
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

    /// Returns the clients that are in one of the lists.
    pub fn union(&self, other: &Self) -> Self {
        let both = [self.clone(), other.clone()].map(AccessTerm::List);
        Self::new(&both.map(AccessEntry::positive))
    }

    /// The addresses that are let in with a key.
    fn with_key(&self, key: Option<&[u8]>) -> &AddressSet {
        let found = key.and_then(|key| {
            let place = self.keyed.binary_search_by(|(name, _)| (**name).cmp(key));
            place.ok()
        });
        found.map_or(&self.plain, |at| &self.keyed[at].1)
    }
}

impl AccessEntry {
    /// Makes an entry that lets its clients in.
    pub fn positive(term: AccessTerm) -> Self {
        AccessEntry {
            is_negated: false,
            term,
        }
    }
}

impl AddressSet {
    /// Makes the set of addresses that entries let in with a key.
    fn of(entries: &[AccessEntry], key: Option<&[u8]>) -> Self {
        let (mut v4, mut v6) = (RangeSet::default(), RangeSet::default());
        // From the last to the first, so that an earlier entry has the last word.
        for AccessEntry { is_negated, term } in entries.iter().rev() {
            let is_out = *is_negated;
            match term {
                AccessTerm::Key(name) | AccessTerm::NetworkWithKey(_, _, name)
                    if key.is_none_or(|key| Name::from_valid_wire(key) != name.as_name()) => {}
                AccessTerm::Any | AccessTerm::Key(_) => {
                    v4.put((0, u32::MAX.into()), is_out);
                    v6.put((0, u128::MAX), is_out);
                }
                AccessTerm::Network(address, bits)
                | AccessTerm::NetworkWithKey(address, bits, _) => match range(*address, *bits) {
                    (true, range) => v4.put(range, is_out),
                    (false, range) => v6.put(range, is_out),
                },
                AccessTerm::List(list) => {
                    let set = list.with_key(key);
                    set.v4.iter().for_each(|range| v4.put(*range, is_out));
                    set.v6.iter().for_each(|range| v6.put(*range, is_out));
                }
            }
        }
        AddressSet {
            v4: v4.finish(),
            v6: v6.finish(),
        }
    }

    fn contains(&self, client: IpAddr) -> bool {
        let (ranges, address) = match client.to_canonical() {
            IpAddr::V4(v4) => (&self.v4, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (&self.v6, v6.to_bits()),
        };
        let next = ranges.partition_point(|(first, _)| *first <= address);
        next > 0 && ranges[next - 1].1 >= address
    }

    fn is_none(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    fn is_any(&self) -> bool {
        *self.v4 == [(0, u32::MAX.into())] && *self.v6 == [(0, u128::MAX)]
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
