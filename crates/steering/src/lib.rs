//! Answers that depend on who asks and on where they are: LUA records, GeoIP databases, the health of targets.
//!
//! What this crate returns are records; the answer engine does not know how they were chosen. Nothing here waits for the
//! network or for a database: what is not known is reported, and the caller finds it.

#![forbid(unsafe_code)]

pub mod geo;
pub mod health;
pub mod lua;
#[cfg(feature = "lua")]
mod random;

use arc_swap::ArcSwap;
use std::sync::Arc;

/// Limits and modes of scripts, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScriptRules {
    /// Whether LUA records of all zones are run.
    pub is_enabled: bool,
    /// Whether scripts share one environment per thread, which keeps the global names that they set.
    pub is_shared: bool,
    /// Maximum number of calls and loop iterations of a run; 0 is no limit.
    pub instructions_max: u32,
}

/// Everything that scripts read besides the query.
#[derive(Debug, Default)]
pub struct Steering {
    scripts: ArcSwap<ScriptRules>,
    geo: geo::GeoDatabases,
    health: health::HealthChecks,
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

    /// Returns the settings for scripts.
    pub fn script_settings(&self) -> ScriptRules {
        **self.scripts.load()
    }

    /// Changes the settings for scripts; runs in progress keep theirs.
    pub fn set_script_settings(&self, settings: ScriptRules) {
        self.scripts.store(Arc::new(settings));
    }
}
