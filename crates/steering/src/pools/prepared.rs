//! The answers of all pools and maps for the current state of health, ready to be copied.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use nameward_wire::Type;

use super::maps::PreparedMap;
use super::{AllDown, PoolMember, PoolRule, PoolRules};
use crate::geo::GeoDatabases;
use crate::hash::{hash_address, lookup2, rendezvous_score};
use crate::health::HealthChecks;
use crate::random::random_below;

/// Members of a pool whose next change is provided for.
const CHANGES_MAX: usize = 64;

/// Data of RRsets: for each, the addresses one after the other.
pub type LikelyRecords = BTreeSet<Vec<u8>>;

/// The client that an answer is chosen for.
#[derive(Debug, Clone, Copy)]
pub struct PoolClient {
    /// Its address, or that of its network.
    pub address: IpAddr,
    /// The number of leading bits that are known; 0 is an unknown client.
    pub prefix: u8,
}

/// The data of the records of an answer, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolRecords<'p> {
    /// Sorted, without duplicates.
    pub octets: &'p [u8],
    /// Octets of each record.
    pub each: usize,
}

impl<'p> PoolRecords<'p> {
    const NONE: PoolRecords<'static> = PoolRecords {
        octets: &[],
        each: 4,
    };

    /// Returns the data of each record.
    pub fn iter(self) -> impl Iterator<Item = &'p [u8]> + Clone {
        self.octets.chunks_exact(self.each)
    }
}

/// A chosen answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolChoice<'p> {
    /// Records, possibly none; `None` is SERVFAIL.
    pub records: Option<PoolRecords<'p>>,
    /// The number of leading bits of the client's address that were considered.
    pub bits: u8,
}

/// Record data of an answer that is possible.
#[derive(Debug)]
struct PoolAlternative {
    /// The data of its records, one after the other.
    records: Vec<u8>,
    /// The sum of the weights up to and including this one.
    end: u64,
    weight: u32,
    /// The hash of the address that it is for, which clients are assigned to.
    hash: u32,
}

/// The answers of a pool for one address family.
#[derive(Debug)]
struct PreparedFamily {
    alternatives: Vec<PoolAlternative>,
    /// Octets of an address.
    each: usize,
    total: u64,
    is_sticky: bool,
    /// Whether any member works.
    is_up: bool,
    /// Whether the answer is SERVFAIL.
    fails: bool,
}

/// The answers of a pool: for IPv4 and for IPv6.
#[derive(Debug)]
struct PreparedPool {
    families: [PreparedFamily; 2],
}

/// The target of a name in zone data.
#[derive(Debug)]
enum NamedTarget {
    Pool(usize),
    Map(Box<PreparedMap>),
}

/// The answers of all pools and maps.
#[derive(Debug, Default)]
pub struct PreparedPools {
    names: HashMap<Box<[u8]>, NamedTarget>,
    pools: Vec<PreparedPool>,
    geo: Arc<GeoDatabases>,
}

/// Returns the position of the answers for a type; `None` if it is not an address type.
fn family_of(rtype: Type) -> Option<usize> {
    match rtype {
        Type::A => Some(0),
        Type::AAAA => Some(1),
        _ => None,
    }
}

impl PreparedPools {
    pub(super) fn new(rules: &PoolRules, health: &HealthChecks, geo: &Arc<GeoDatabases>) -> Self {
        let pools = rules.pools.iter().map(|rule| {
            let is_up: Vec<bool> = rule.states(health);
            PreparedPool {
                families: [true, false].map(|is_ipv4| PreparedFamily::new(rule, &is_up, is_ipv4)),
            }
        });
        let pools: Vec<PreparedPool> = pools.collect();
        let mut names = HashMap::new();
        for (index, rule) in rules.pools.iter().enumerate() {
            names.insert(rule.name.as_bytes().into(), NamedTarget::Pool(index));
        }
        let index_of = |name: &String| rules.pools.iter().position(|pool| pool.name == *name);
        let choose = |list: &[String]| {
            // The first pool with members that work; if there is none, the first one decides what its clients get.
            let indexes: Vec<usize> = list.iter().filter_map(index_of).collect();
            [0, 1].map(|family| {
                let mut up = indexes.iter();
                let up = up.find(|index| pools[**index].families[family].is_up);
                up.or(indexes.first()).copied()
            })
        };
        for rule in &rules.maps {
            let map = PreparedMap::new(rule, choose);
            names.insert(rule.name.as_bytes().into(), NamedTarget::Map(Box::new(map)));
        }
        PreparedPools {
            names,
            pools,
            geo: Arc::clone(geo),
        }
    }

    /// Checks whether there are no pools.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns records of a type for a client from the pool or map with a name; `None` if there is none.
    pub fn choose(&self, name: &[u8], rtype: Type, client: PoolClient) -> Option<PoolChoice<'_>> {
        let target = self.names.get(name)?;
        let Some(family) = family_of(rtype) else {
            return Some(PoolChoice {
                records: Some(PoolRecords::NONE),
                bits: 0,
            });
        };
        let (pool, bits) = match target {
            NamedTarget::Pool(index) => (Some(*index), 0),
            NamedTarget::Map(map) => map.find(&self.geo, client, family),
        };
        let Some(pool) = pool.and_then(|index| self.pools.get(index)) else {
            return Some(PoolChoice {
                records: Some(PoolRecords::NONE),
                bits,
            });
        };
        Some(pool.families[family].choose(client, bits))
    }

    /// Checks whether records of a type from the pool or map with a name are SERVFAIL, for some clients at least.
    pub fn is_failing(&self, name: &[u8], rtype: Type) -> bool {
        let Some(target) = self.names.get(name) else {
            return true;
        };
        let Some(family) = family_of(rtype) else {
            return false;
        };
        let mut pools = self.pools_of(target, family);
        pools.any(|pool| pool.families[family].fails)
    }

    /// Returns the pools that a target chooses from for an address family.
    fn pools_of<'p>(
        &'p self,
        target: &'p NamedTarget,
        family: usize,
    ) -> impl Iterator<Item = &'p PreparedPool> {
        let (one, map) = match target {
            NamedTarget::Pool(index) => (Some(*index), None),
            NamedTarget::Map(map) => (None, Some(map)),
        };
        let of_map = map.into_iter().flat_map(move |map| map.pools(family));
        one.into_iter()
            .chain(of_map)
            .filter_map(|index| self.pools.get(index))
    }
}

impl PreparedFamily {
    /// Prepares the answers for a state of the members.
    fn new(rule: &PoolRule, states: &[bool], is_ipv4: bool) -> Self {
        let usable = |member: &PoolMember| member.address.is_ipv4() == is_ipv4 && member.weight > 0;
        let members = rule.members.iter().zip(states);
        let members: Vec<_> = members.filter(|(member, _)| usable(member)).collect();
        let working = members.iter().filter(|(_, is_up)| **is_up);
        let mut serving = lowest_order(working.map(|(member, _)| *member));
        let is_up = !serving.is_empty();
        if !is_up && rule.all_down == AllDown::Serve {
            serving = lowest_order(members.iter().map(|(member, _)| *member));
        }
        let mut family = PreparedFamily {
            alternatives: Vec::new(),
            each: if is_ipv4 { 4 } else { 16 },
            total: 0,
            is_sticky: rule.is_sticky,
            is_up,
            fails: !is_up && !members.is_empty() && rule.all_down == AllDown::Fail,
        };
        family.prepare(&serving, rule.answers);
        family
    }

    /// Prepares the answers: one with all members, or for each member one that it leads, with the members after it.
    fn prepare(&mut self, serving: &[&PoolMember], answers: usize) {
        let is_whole = answers == 0 || answers >= serving.len();
        let leaders = if is_whole {
            serving.len().min(1)
        } else {
            serving.len()
        };
        let length = if is_whole { serving.len() } else { answers };
        for leader in 0..leaders {
            let around = serving.iter().cycle().skip(leader).take(length);
            let mut records: Vec<Vec<u8>> = around.map(|member| octets(member.address)).collect();
            // RFC 2181 section 5: an RRset has no duplicates.
            records.sort_unstable();
            records.dedup();
            let weight = serving[leader].weight;
            self.total += u64::from(weight);
            self.alternatives.push(PoolAlternative {
                records: records.concat(),
                end: self.total,
                weight,
                hash: hash_address(serving[leader].address),
            });
        }
    }

    fn choose(&self, client: PoolClient, mut bits: u8) -> PoolChoice<'_> {
        if self.fails {
            return PoolChoice {
                records: None,
                bits,
            };
        }
        let chosen = match &self.alternatives[..] {
            [] => None,
            [only] => Some(only),
            several if self.is_sticky => {
                bits = if client.address.is_ipv4() { 32 } else { 128 };
                let hash = hash_address(client.address);
                let score = |one: &PoolAlternative| {
                    rendezvous_score(
                        lookup2(&one.hash.to_be_bytes(), hash),
                        u64::from(one.weight),
                    )
                };
                several.iter().max_by(|a, b| score(a).total_cmp(&score(b)))
            }
            several => {
                let point = random_below(self.total);
                several.get(several.partition_point(|one| one.end <= point))
            }
        };
        PoolChoice {
            records: Some(PoolRecords {
                octets: chosen.map_or(&[], |chosen| &chosen.records),
                each: self.each,
            }),
            bits,
        }
    }
}

/// Returns the data of all RRsets that a pool answers with in its current state, and after the next change of any member.
pub(super) fn likely_records(
    rule: &PoolRule,
    health: &HealthChecks,
    is_ipv4: bool,
) -> LikelyRecords {
    let mut states = rule.states(health);
    let mut likely = BTreeSet::new();
    let mut add = |states: &[bool]| {
        let family = PreparedFamily::new(rule, states, is_ipv4);
        likely.extend(family.alternatives.into_iter().map(|one| one.records));
    };
    add(&states);
    for at in 0..states.len().min(CHANGES_MAX) {
        states[at] = !states[at];
        add(&states);
        states[at] = !states[at];
    }
    likely
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn lowest_order<'m>(members: impl Iterator<Item = &'m PoolMember> + Clone) -> Vec<&'m PoolMember> {
    let lowest = members.clone().map(|member| member.order).min();
    members
        .filter(|member| Some(member.order) == lowest)
        .collect()
}
