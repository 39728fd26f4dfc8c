//! Maps from clients to pools: by network, country, continent or distance.

use std::collections::HashMap;

use ipnet::IpNet;
use nameward_base::networks::NetworkTable;

use super::PoolClient;
use crate::geo::{GeoCode, GeoDatabases, GeoPoint};

/// Clients and their pools.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MapEntry {
    /// Networks of clients.
    pub networks: Vec<IpNet>,
    /// Countries of clients, as two letters.
    pub countries: Vec<String>,
    /// Continents of clients, as two letters.
    pub continents: Vec<String>,
    /// A location, for clients that are closer to it than to those of other entries.
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
    networks: NetworkTable<usize>,
    countries: HashMap<GeoCode, usize>,
    continents: HashMap<GeoCode, usize>,
    points: Vec<(GeoPoint, usize)>,
    /// By entry; the last one is the default.
    chosen: Vec<ChosenPools>,
}

impl PreparedMap {
    pub(super) fn new(rule: &MapRule, choose: impl Fn(&[String]) -> ChosenPools) -> Self {
        let entries = || rule.entries.iter().enumerate();
        let (mut countries, mut continents) = (HashMap::new(), HashMap::new());
        for (at, entry) in entries() {
            for code in entry.countries.iter().filter_map(|code| GeoCode::new(code)) {
                countries.entry(code).or_insert(at);
            }
            for code in entry
                .continents
                .iter()
                .filter_map(|code| GeoCode::new(code))
            {
                continents.entry(code).or_insert(at);
            }
        }
        let networks = entries().flat_map(|(at, entry)| {
            let networks = entry.networks.iter();
            networks.map(move |network| (network.network(), network.prefix_len(), at))
        });
        let lists = rule.entries.iter().map(|entry| &entry.pools);
        PreparedMap {
            networks: NetworkTable::new(networks),
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

    /// Returns the pools that are used for some clients now.
    pub(super) fn pools(&self, family: usize) -> impl Iterator<Item = usize> {
        self.chosen.iter().filter_map(move |pools| pools[family])
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
        let found = self.networks.find(address, client.prefix);
        let mut bits = found.bits;
        // RFC 7871 section 7.1.2: nothing is known about a client that has withheld its address.
        if found.value.is_some() || client.prefix == 0 {
            return (found.value, bits);
        }
        let mut entry = None;
        if !self.countries.is_empty() {
            let (country, scope) = geo.country(address);
            bits = bits.max(scope);
            entry = country.and_then(|country| self.countries.get(&country));
        }
        if entry.is_none() && !self.continents.is_empty() {
            let (continent, scope) = geo.continent(address);
            bits = bits.max(scope);
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
