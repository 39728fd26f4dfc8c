//! Access lists: which clients, by address, TSIG key or TLS certificate, may query, transfer or update a zone, and the
//! rules that assign lists of query clients to zones.
//!
//! A list is evaluated like a BIND address match list: the first entry that matches decides, entries can be negated,
//! and an address that matches no entry is not in the list. Lists are stored as sorted ranges, so a lookup is a binary
//! search that does not allocate, however long the list is. A list with conditions on encrypted connections is a second
//! form for clients of such connections: its entries, evaluated one after the other.
//!
//! Rules live in the zone table next to the zones, not inside them: a changed list takes effect with the next batch of
//! queries, even if the zone's contents cannot be reloaded.

mod entries;
mod over_tls;

pub use over_tls::{SpkiPin, TlsEntry, TlsPeer, TlsTerm};

use crate::key::lower_case;
use nameward_wire::{Name, NameBuf};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// A set of clients, identified by address, by the TSIG key that signed the request (RFC 8945), or by both.
///
/// Every key named in the list has its own address set, so a lookup stays a binary search even where keys and addresses
/// are mixed and negated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AccessList {
    /// Clients whose request is unsigned, or signed with a key the list does not name.
    plain: AddressSet,
    /// Address sets for keys that make a difference, by key name in wire form and lower case. Sorted.
    keyed: Box<[(Box<[u8]>, AddressSet)]>,
    /// All entries, for clients of encrypted connections, if any entry depends on that.
    over_tls: Option<Box<[AccessEntry]>>,
}

/// A client, as far as access lists distinguish clients.
#[derive(Debug, Clone, Copy)]
pub struct AccessClient<'c> {
    /// Its address.
    pub address: IpAddr,
    /// The verified key that signed its request.
    pub key: Option<Name<'c>>,
    /// The client of an encrypted connection.
    pub tls: Option<&'c TlsPeer>,
}

impl<'c> AccessClient<'c> {
    /// Creates a client that sent a request in plain text, signed or not.
    pub fn in_plain_text(address: IpAddr, key: Option<Name<'c>>) -> Self {
        AccessClient {
            address,
            key,
            tls: None,
        }
    }
}

/// A set of addresses, stored as sorted ranges that do not touch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct AddressSet {
    v4: Box<[AddressRange]>,
    v6: Box<[AddressRange]>,
}

/// The first and last address of a range, as integers.
type AddressRange = (u128, u128);

/// One entry of a list, as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AccessEntry {
    /// Clients that match are excluded from the list.
    pub is_negated: bool,
    /// Determines which clients match.
    pub term: AccessWord,
}

/// The match condition of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AccessWord {
    /// Matches every client.
    Any,
    /// Addresses that share this many leading bits with the given one.
    Network(IpAddr, u8),
    /// Requests signed with the key of this name.
    Key(NameBuf),
    /// Requests from a network that are signed with the key of this name.
    NetworkWithKey(IpAddr, u8, NameBuf),
    /// Requests over an encrypted connection.
    OverTls(Box<TlsEntry>),
    /// Clients in another list. A client that the other list negates does not match, so two negations never let a
    /// client in; BIND does the same.
    List(AccessList),
}

impl AccessList {
    /// Builds a list from its entries; the first entry that matches decides.
    pub fn new(entries: &[AccessEntry]) -> Self {
        let mut keys = BTreeSet::new();
        for entry in entries {
            match &entry.term {
                AccessWord::Key(key) | AccessWord::NetworkWithKey(_, _, key) => {
                    keys.insert(lower_case(key.as_name()));
                }
                AccessWord::List(list) => keys.extend(list.named_keys().map(Into::into)),
                AccessWord::Any | AccessWord::Network(..) | AccessWord::OverTls(_) => {}
            }
        }
        let plain = AddressSet::from_entries(entries, None);
        let keyed = keys.into_iter().map(|key| {
            let set = AddressSet::from_entries(entries, Some(&key));
            (key, set)
        });
        // A key that makes no difference is dropped, so that equal sets compare equal.
        let keyed = keyed.filter(|(_, set)| *set != plain).collect();
        let over_tls = { entries.iter() }
            .any(AccessEntry::depends_on_tls)
            .then(|| entries.into());
        AccessList {
            plain,
            keyed,
            over_tls,
        }
    }

    /// Returns the list that contains every client.
    pub fn any() -> Self {
        Self::new(&[AccessEntry::positive(AccessWord::Any)])
    }

    /// Checks whether an unsigned request from an address, in plain text, is allowed.
    pub fn contains(&self, client: IpAddr) -> bool {
        self.plain.contains(client)
    }

    /// Checks whether a request of a client is allowed.
    pub fn allows(&self, client: &AccessClient<'_>) -> bool {
        if let (Some(entries), Some(tls)) = (&self.over_tls, client.tls) {
            return over_tls::allows(entries, client, tls);
        }
        let (client, key) = (client.address, client.key);
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

    /// Checks whether the list is empty.
    pub fn is_none(&self) -> bool {
        self.plain.is_none() && self.keyed.is_empty() && self.over_tls.is_none()
    }

    /// Checks whether the list contains every client.
    pub fn is_any(&self) -> bool {
        self.plain.is_any() && self.keyed.is_empty() && self.over_tls.is_none()
    }

    /// Checks whether the list distinguishes encrypted connections or their clients' certificates.
    pub fn depends_on_tls(&self) -> bool {
        self.over_tls.is_some()
    }

    /// Returns the names of the keys that make a difference, in wire form.
    pub fn named_keys(&self) -> impl Iterator<Item = &[u8]> {
        let over_tls = self.over_tls.iter().flatten();
        let over_tls = over_tls.filter_map(|entry| match &entry.term {
            AccessWord::OverTls(entry) => Some(entry.key.as_ref()?.as_name().as_wire()),
            _ => None,
        });
        self.keyed.iter().map(|(key, _)| &**key).chain(over_tls)
    }

    /// Returns the clients that are in both lists.
    pub fn intersection(&self, other: &Self) -> Self {
        let not = |list: &Self| {
            let negated = AccessEntry {
                is_negated: true,
                term: AccessWord::List(list.clone()),
            };
            Self::new(&[negated, AccessEntry::positive(AccessWord::Any)])
        };
        // The complement of the union of both complements.
        let (not_this, not_other) = (not(self), not(other));
        let lacking = [not_this, not_other].map(AccessWord::List);
        not(&Self::new(&lacking.map(AccessEntry::positive)))
    }

    /// Returns the clients that are in at least one of the lists.
    pub fn union(&self, other: &Self) -> Self {
        let both = [self.clone(), other.clone()].map(AccessWord::List);
        Self::new(&both.map(AccessEntry::positive))
    }

    /// Returns the addresses that are allowed with a key.
    fn with_key(&self, key: Option<&[u8]>) -> &AddressSet {
        let found = key.and_then(|key| {
            let place = self.keyed.binary_search_by(|(name, _)| (**name).cmp(key));
            place.ok()
        });
        found.map_or(&self.plain, |at| &self.keyed[at].1)
    }
}

impl AccessEntry {
    /// Creates an entry that adds its clients to the list.
    pub fn positive(term: AccessWord) -> Self {
        AccessEntry {
            is_negated: false,
            term,
        }
    }
}

impl AddressSet {
    /// Builds the set of addresses that the entries allow with a key.
    fn from_entries(entries: &[AccessEntry], key: Option<&[u8]>) -> Self {
        let (mut v4, mut v6) = (RangeSet::default(), RangeSet::default());
        // From last to first, so that earlier entries override later ones.
        for AccessEntry { is_negated, term } in entries.iter().rev() {
            let is_out = *is_negated;
            match term {
                AccessWord::Key(name) | AccessWord::NetworkWithKey(_, _, name)
                    if key.is_none_or(|key| Name::from_valid_wire(key) != name.as_name()) => {}
                // The sets are those of clients in plain text.
                AccessWord::OverTls(_) => {}
                AccessWord::Any | AccessWord::Key(_) => {
                    v4.put((0, u32::MAX.into()), is_out);
                    v6.put((0, u128::MAX), is_out);
                }
                AccessWord::Network(address, bits)
                | AccessWord::NetworkWithKey(address, bits, _) => match range(*address, *bits) {
                    (true, range) => v4.put(range, is_out),
                    (false, range) => v6.put(range, is_out),
                },
                AccessWord::List(list) => {
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

/// Returns the address range of a network, and whether it is IPv4.
fn range(address: IpAddr, bits: u8) -> (bool, AddressRange) {
    let (is_v4, address, width) = match address {
        IpAddr::V4(v4) => (true, u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (false, v6.to_bits(), 128),
    };
    let free = width - u32::from(bits).min(width);
    let host = 1_u128.checked_shl(free).map_or(u128::MAX, |next| next - 1);
    (is_v4, (address & !host, address | host))
}

/// Disjoint ranges, keyed by their first address.
#[derive(Default)]
struct RangeSet(BTreeMap<u128, u128>);

impl RangeSet {
    /// Inserts or removes a range.
    fn put(&mut self, (first, last): AddressRange, is_out: bool) {
        // Ranges that start before and reach into this one, then ranges that start inside it.
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

    /// Joins adjacent ranges, so that equal sets compare equal.
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

/// The origin of access rules. If both define a list for a zone, the operator's list wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessSource {
    /// The operator, in the Nameward configuration.
    Configured,
    /// The configuration of another name server whose zones are served.
    Imported,
}

/// The access lists defined by one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessRules {
    /// Keyed by zone name in wire form and lower case.
    zones: HashMap<Box<[u8]>, Arc<AccessList>>,
    /// For zones without a list of their own.
    pub default: Option<Arc<AccessList>>,
    /// Clients whose packets are dropped, whatever they request.
    pub blackhole: Option<Arc<AccessList>>,
    /// Resolvers whose client subnet option is believed (RFC 7871).
    pub subnet_senders: Option<Arc<AccessList>>,
}

impl AccessRules {
    /// Sets the clients that may query a zone.
    pub fn set_zone(&mut self, name: Name<'_>, list: Arc<AccessList>) {
        self.zones.insert(lower_case(name), list);
    }

    /// Returns the list set for the zone itself, ignoring the default.
    pub fn zone(&self, name: Name<'_>) -> Option<&Arc<AccessList>> {
        self.zones.get(&lower_case(name))
    }

    /// Returns these rules plus the ones that only `before` has, for use while zones that are about to be removed are
    /// still served.
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

/// The rules of all sources, indexed for the zone table: every zone is mapped to a list number.
#[derive(Clone, Default)]
pub(crate) struct AccessIndex {
    configured: Arc<AccessRules>,
    imported: Arc<AccessRules>,
    /// Keyed by zone name.
    numbers: HashMap<Box<[u8]>, u32>,
    default: u32,
    /// Number `n` is the list at `n - 1`; number 0 means no list.
    lists: Vec<Arc<AccessList>>,
    pub(crate) blackhole: Option<AccessList>,
    pub(crate) subnet_senders: Option<Arc<AccessList>>,
}

impl AccessIndex {
    pub(crate) fn rules(&self, source: AccessSource) -> &Arc<AccessRules> {
        match source {
            AccessSource::Configured => &self.configured,
            AccessSource::Imported => &self.imported,
        }
    }

    /// Builds the index with the rules of one source replaced.
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
        index.subnet_senders = configured.subnet_senders.clone();
        (index.configured, index.imported) = (configured, imported);
        index
    }

    /// Returns the number of a list; equal lists share one.
    fn number(&mut self, list: &Arc<AccessList>, known: &mut HashMap<Arc<AccessList>, u32>) -> u32 {
        if list.is_any() {
            return 0;
        }
        *known.entry(Arc::clone(list)).or_insert_with(|| {
            self.lists.push(Arc::clone(list));
            self.lists.len() as u32
        })
    }

    /// Checks whether some zone has a list.
    #[inline]
    pub(crate) fn has_lists(&self) -> bool {
        !self.lists.is_empty()
    }

    pub(crate) fn number_of(&self, name: Name<'_>) -> u32 {
        if self.numbers.is_empty() {
            return self.default;
        }
        let number = self.numbers.get(&lower_case(name));
        number.copied().unwrap_or(self.default)
    }

    /// Checks whether a client is in the list with this number.
    #[cold]
    pub(crate) fn allows(&self, number: u32, client: &AccessClient<'_>) -> bool {
        let list = (number as usize).checked_sub(1).map(|at| &self.lists[at]);
        list.is_none_or(|list| list.allows(client))
    }
}

#[cfg(test)]
mod tests;
