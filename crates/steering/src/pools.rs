//! Pools: addresses of which each answer has some, chosen by weight, order and health. Maps choose the pool by the client.
//!
//! ```text
//! configuration ──┐
//!                 ├─ prepare, at each change ──> alternatives: record data of every answer that is possible now
//! health ─────────┘                                 │
//! LUA record "pool('web')" ── name ──> pool ── random or by client ──> one alternative
//! LUA record "pool('geo')" ── name ──> map ── network, country, continent, distance ──> pool
//! ```
//! Such a record is read without an interpreter, so pools work in builds without LUA records. Maps and pools share their
//! names. Nothing is computed or allocated for an answer: [`PreparedPools::choose`] returns a reference.

mod maps;
mod prepared;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use nameward_base::sync::Mutex;
use nameward_wire::Type;

pub use maps::{MapEntry, MapRule};
pub use prepared::{LikelyRecords, PoolChoice, PoolClient, PoolRecords, PreparedPools};

use prepared::likely_records;

use crate::geo::GeoDatabases;
use crate::health::{HealthCheck, HealthChecks, TargetHealth};

/// An address of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolMember {
    /// The address in answers.
    pub address: IpAddr,
    /// Its share of the answers; 0 is none.
    pub weight: u32,
    /// Members of a higher order are used while none of a lower one works.
    pub order: u32,
    /// How it is checked; `None` always counts as up.
    pub check: Option<HealthCheck>,
}

/// The answer when no member of a pool works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllDown {
    /// As if all worked.
    Serve,
    /// No records.
    Empty,
    /// SERVFAIL.
    Fail,
}

/// A pool as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRule {
    /// The name in zone data.
    pub name: String,
    /// The addresses, of both families.
    pub members: Vec<PoolMember>,
    /// Records in an answer; 0 is all that work.
    pub answers: usize,
    /// Whether a client always gets the same members while they work.
    pub is_sticky: bool,
    /// The answer when none works.
    pub all_down: AllDown,
}

/// All pools and maps as configured. Names are unique.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolRules {
    /// The pools.
    pub pools: Vec<PoolRule>,
    /// The maps.
    pub maps: Vec<MapRule>,
}

/// The state of a pool, for displays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// The number of members.
    pub members: usize,
    /// The number of those that count as up.
    pub up: usize,
}

/// The pools and maps in use.
#[derive(Debug, Default)]
pub struct Pools {
    /// As configured; held while answers are prepared, so that the newest state is prepared last.
    rules: Mutex<Arc<PoolRules>>,
    prepared: ArcSwap<PreparedPools>,
}

impl Pools {
    /// Uses these pools and maps from now on; all members are checked from now on.
    pub fn configure(&self, rules: PoolRules, (health, geo): (&HealthChecks, &Arc<GeoDatabases>)) {
        let members = rules.pools.iter().flat_map(|pool| &pool.members);
        health.set_required(members.filter_map(|member| member.check.as_ref()));
        *self.rules.lock() = Arc::new(rules);
        self.prepare(health, geo);
    }

    /// Prepares all answers for the current state of the members.
    pub fn prepare(&self, health: &HealthChecks, geo: &Arc<GeoDatabases>) {
        let rules = self.rules.lock();
        let prepared = PreparedPools::new(&rules, health, geo);
        self.prepared.store(Arc::new(prepared));
    }

    /// Returns the prepared answers.
    pub fn prepared(&self) -> &ArcSwap<PreparedPools> {
        &self.prepared
    }

    /// Checks whether a pool or map has a name.
    pub fn has(&self, name: &[u8]) -> bool {
        let rules = Arc::clone(&self.rules.lock());
        let pools = rules.pools.iter().map(|pool| &pool.name);
        let mut names = pools.chain(rules.maps.iter().map(|map| &map.name));
        names.any(|known| known.as_bytes() == name)
    }

    /// Returns the checks of the members with an address.
    pub fn checks_of(&self, address: IpAddr) -> Vec<HealthCheck> {
        let rules = Arc::clone(&self.rules.lock());
        let members = rules.pools.iter().flat_map(|pool| &pool.members);
        let members = members.filter(|member| member.address == address);
        members.filter_map(|member| member.check.clone()).collect()
    }

    /// Returns the RRsets that the pool or map with a name is likely to answer with, now or after the next change of health,
    /// so that they can be signed before that. A map may use any of its pools.
    pub fn likely(&self, health: &HealthChecks, name: &[u8], rtype: Type) -> LikelyRecords {
        let is_ipv4 = match rtype {
            Type::A => true,
            Type::AAAA => false,
            _ => return LikelyRecords::new(),
        };
        let rules = Arc::clone(&self.rules.lock());
        let maps = rules.maps.iter().filter(|map| map.name.as_bytes() == name);
        let listed: HashSet<&[u8]> = maps
            .flat_map(|map| {
                let entries = map.entries.iter().flat_map(|entry| &entry.pools);
                entries.chain(&map.default)
            })
            .map(|pool| pool.as_bytes())
            .chain([name])
            .collect();
        let pools = rules.pools.iter();
        pools
            .filter(|pool| listed.contains(pool.name.as_bytes()))
            .flat_map(|pool| likely_records(pool, health, is_ipv4))
            .collect()
    }

    /// Returns the state of all pools.
    pub fn reports(&self, health: &HealthChecks) -> Vec<PoolReport> {
        let rules = Arc::clone(&self.rules.lock());
        let report = |pool: &PoolRule| PoolReport {
            name: pool.name.clone(),
            members: pool.members.len(),
            up: { pool.members.iter() }
                .filter(|member| member.is_up(health))
                .count(),
        };
        rules.pools.iter().map(report).collect()
    }
}

impl PoolRule {
    /// Returns whether each member counts as up.
    fn states(&self, health: &HealthChecks) -> Vec<bool> {
        let members = self.members.iter();
        members.map(|member| member.is_up(health)).collect()
    }
}

impl PoolMember {
    /// Checks whether the member counts as up. One that was not checked yet does: all are checked from the start, and an answer
    /// with an address that may work is better than none.
    fn is_up(&self, health: &HealthChecks) -> bool {
        let check = self.check.as_ref();
        check.is_none_or(|check| health.state_of(check) != TargetHealth::Down)
    }
}

/// Returns the name in the data of a LUA record that is nothing but a call of `pool`, with its computed type.
#[inline]
pub fn pool_name(rdata: &[u8]) -> Option<(Type, &[u8])> {
    let (rtype, rest) = rdata.split_first_chunk()?;
    let (&length, code) = rest.split_first()?;
    if usize::from(length) != code.len() {
        return None;
    }
    let code = code.trim_ascii().strip_prefix(b"pool")?.trim_ascii_start();
    let argument = code.strip_prefix(b"(")?.strip_suffix(b")")?.trim_ascii();
    let (quote, rest) = argument.split_first()?;
    let name = rest.strip_suffix(&[*quote])?;
    let is_name = matches!(quote, b'\'' | b'"') && is_pool_name(name);
    is_name.then_some((Type(u16::from_be_bytes(*rtype)), name))
}

/// Checks whether a name is one that a pool or map can have: letters, digits, "-", "_" and ".".
pub fn is_pool_name(name: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    !name.is_empty() && name.len() <= 100 && name.iter().all(is_allowed)
}
