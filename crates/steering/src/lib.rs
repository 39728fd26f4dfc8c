//! Answers that depend on the client and its location: LUA records, pools and maps, GeoIP databases, the health of
//! targets.
//!
//! What this crate returns are records; the answer engine does not know how they were chosen. Nothing here waits for the
//! network or for a database: what is not known is reported, and the caller finds it.

#![forbid(unsafe_code)]

pub mod geo;
mod hash;
pub mod health;
pub mod lua;
pub mod pools;
mod random;

use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Limits and modes of scripts, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScriptRules {
    /// Whether LUA records of all zones are run.
    pub is_enabled: bool,
    /// Whether scripts share one environment per thread, which keeps the global names that they set.
    pub is_shared: bool,
    /// Maximum number of calls and loop iterations of a run; 0 means no limit.
    pub instructions_max: u32,
}

/// Everything that scripts read besides the query.
#[derive(Debug, Default)]
pub struct Steering {
    scripts: ArcSwap<ScriptRules>,
    geo: Arc<geo::GeoDatabases>,
    health: health::HealthChecks,
    pools: pools::Pools,
}

impl Steering {
    /// Returns the GeoIP databases.
    pub fn geo(&self) -> &geo::GeoDatabases {
        &self.geo
    }

    /// Returns the targets that are checked, and their state.
    pub fn health(&self) -> &health::HealthChecks {
        &self.health
    }

    /// Returns the pools and maps.
    pub fn pools(&self) -> &pools::Pools {
        &self.pools
    }

    /// Uses these pools and maps from now on.
    pub fn set_pools(&self, rules: pools::PoolRules) {
        self.pools.configure(rules, (&self.health, &self.geo));
    }

    /// Prepares the answers of pools after a change of health.
    pub fn prepare_pools(&self) {
        self.pools.prepare(&self.health, &self.geo);
    }

    /// Forces the state of the targets with an address, and of pool members with it; returns how many there are.
    pub fn force(&self, address: IpAddr, forced: health::ForcedHealth) -> usize {
        let of_members = self.pools.checks_of(address);
        let count = self.health.force(address, &of_members, forced);
        self.prepare_pools();
        count
    }

    /// Forces the states of these addresses, and of no others, as [`Steering::force`] does for one.
    pub fn force_only(&self, forced: &BTreeMap<IpAddr, health::ForcedHealth>) -> bool {
        let with_checks = |(address, state): (&IpAddr, &health::ForcedHealth)| {
            (*address, self.pools.checks_of(*address), *state)
        };
        let forced: Vec<_> = forced.iter().map(with_checks).collect();
        self.health.force_only(&forced)
    }

    /// Returns the settings for scripts.
    pub fn script_settings(&self) -> ScriptRules {
        **self.scripts.load()
    }

    /// Changes the settings for scripts; runs in progress keep theirs.
    pub fn set_script_settings(&self, settings: ScriptRules) {
        self.scripts.store(Arc::new(settings));
    }
}
