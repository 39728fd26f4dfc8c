//! Maps from clients to pools: by network, country, continent or distance.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

use super::PoolClient;
use crate::geo::{GeoAttribute, GeoDatabases, GeoPoint};

/// Clients and their pools.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MapEntry {
    /// Networks of clients.
    pub networks: Vec<IpNet>,
    /// Countries of clients, as two letters.
    pub countries: Vec<String>,
    /// Continents of clients, as two letters.
    pub continents: Vec<String>,
    /// A place, for clients that are closer to it than to those of other entries.
    pub point: Option<GeoPoint>,
    /// The pools in order of preference: the first one with members that work is used.
    pub pools: Vec<String>,
}

/// A map as configured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MapRule {
    /// The name in zone data.
    pub name: String,
    /// Clients and their pools.
    pub entries: Vec<MapEntry>,
    /// The pools of all other clients.
    pub default: Vec<String>,
}

/// The pools that are used for clients: for IPv4 and for IPv6 answers.
type ChosenPools = [Option<usize>; 2];

/// A map with the pools that it chooses now.
#[derive(Debug)]
pub(super) struct PreparedMap {
    networks: [MapNetworks; 2],
    countries: HashMap<[u8; 2], usize>,
    continents: HashMap<[u8; 2], usize>,
    points: Vec<(GeoPoint, usize)>,
    /// By entry; the last one is the default.
    chosen: Vec<ChosenPools>,
}

/// The networks of one address family with their entries, by prefix length: the cost of a search does not grow with their number.
#[derive(Debug, Default)]
struct MapNetworks(BTreeMap<u8, HashMap<u128, usize>>);

/// Returns the leading bits of an address as a number.
fn leading_bits(address: IpAddr, prefix: u8) -> u128 {
    let bits = match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    };
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix));
    bits & mask.unwrap_or(0)
}

impl MapNetworks {
    fn insert(&mut self, network: IpNet, entry: usize) {
        let (address, prefix) = (network.network(), network.prefix_len());
        let of_length = self.0.entry(prefix).or_default();
        of_length
            .entry(leading_bits(address, prefix))
            .or_insert(entry);
    }

    /// Returns the entry of the narrowest network that contains a client.
    fn find(&self, address: IpAddr, known: u8) -> Option<usize> {
        let lengths = self.0.range(..=known).rev();
        let mut found = lengths.filter_map(|(prefix, networks)| {
            networks.get(&leading_bits(address, *prefix)).copied()
        });
        found.next()
    }

    /// Returns the longest prefix, which bounds what a search depends on.
    fn longest(&self) -> u8 {
        self.0.last_key_value().map_or(0, |(prefix, _)| *prefix)
    }
}

/// Returns a code of two letters in upper case.
fn code_of(text: &str) -> Option<[u8; 2]> {
    let code: [u8; 2] = text.as_bytes().try_into().ok()?;
    Some(code.map(|letter| letter.to_ascii_uppercase()))
}

impl PreparedMap {
    pub(super) fn new(rule: &MapRule, choose: impl Fn(&[String]) -> ChosenPools) -> Self {
        let entries = || rule.entries.iter().enumerate();
        let mut networks = [MapNetworks::default(), MapNetworks::default()];
        let (mut countries, mut continents) = (HashMap::new(), HashMap::new());
        for (at, entry) in entries() {
            for network in &entry.networks {
                networks[usize::from(network.addr().is_ipv6())].insert(*network, at);
            }
            for code in entry.countries.iter().filter_map(|code| code_of(code)) {
                countries.entry(code).or_insert(at);
            }
            for code in entry.continents.iter().filter_map(|code| code_of(code)) {
                continents.entry(code).or_insert(at);
            }
        }
        let lists = rule.entries.iter().map(|entry| &entry.pools);
        PreparedMap {
            networks,
            countries,
            continents,
            points: entries()
                .filter_map(|(at, entry)| Some((entry.point?, at)))
                .collect(),
            chosen: lists
                .chain([&rule.default])
                .map(|list| choose(list))
                .collect(),
        }
    }

    /// Returns the pool for a client, and the number of leading bits of its address that were considered.
    pub(super) fn find(
        &self,
        geo: &GeoDatabases,
        client: PoolClient,
        family: usize,
    ) -> (Option<usize>, u8) {
        let (entry, bits) = self.entry_for(geo, client);
        let entry = entry.unwrap_or(self.chosen.len() - 1);
        (self.chosen[entry][family], bits)
    }

    fn entry_for(&self, geo: &GeoDatabases, client: PoolClient) -> (Option<usize>, u8) {
        let address = client.address;
        let networks = &self.networks[usize::from(address.is_ipv6())];
        let found = networks.find(address, client.prefix);
        let mut bits = networks.longest();
        // RFC 7871 section 7.1.2: nothing is known about a client that has withheld its address.
        if found.is_some() || client.prefix == 0 {
            return (found, bits);
        }
        let mut code = |attribute| {
            let (code, scope) = geo.find(address, attribute);
            bits = bits.max(scope);
            code_of(&code?)
        };
        let mut entry = None;
        if !self.countries.is_empty() {
            let country = code(GeoAttribute::Country);
            entry = country.and_then(|country| self.countries.get(&country));
        }
        if entry.is_none() && !self.continents.is_empty() {
            let continent = code(GeoAttribute::Continent);
            entry = continent.and_then(|continent| self.continents.get(&continent));
        }
        if entry.is_none() && !self.points.is_empty() {
            let (place, scope) = geo.locate(address);
            bits = bits.max(scope);
            let nearest = place.and_then(|place| {
                let distance = |point: &GeoPoint| point.distance(place);
                { self.points.iter() }.min_by(|(a, _), (b, _)| distance(a).total_cmp(&distance(b)))
            });
            entry = nearest.map(|(_, at)| at);
        }
        (entry.copied(), bits)
    }
}
