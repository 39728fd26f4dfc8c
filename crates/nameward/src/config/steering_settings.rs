//! The `[lua]`, `[health]` and `[geoip]` tables: answers that depend on who asks.

use std::path::PathBuf;

use nameward_steering::{ScriptRules, lua};

use super::Config;
use super::read::{Count, Paths};
use super::setting::section;

section! {
    /// LUA records, as in PowerDNS ([lua.md](lua.md)). Changes take effect on reload.
    LuaTable = "lua" {
        /// Run the LUA records of all zones; `lua_records` in a zone, or ENABLE-LUA-RECORDS in a database, overrides this
        /// for one zone. LUA records that are not run are never returned to clients.
        records: bool = "false";
        /// Share global variables between scripts, within each thread. By default every run starts with its own globals,
        /// which are discarded after it.
        shared: bool = "false";
        /// Maximum number of calls and loop iterations of a script for one query; above it the answer is SERVFAIL. 0
        /// removes the limit: only for scripts that you wrote yourself.
        instructions_max: Count<0, 4_000_000_000> = "1000";
    }
}

impl LuaTable {
    /// Returns the settings for scripts.
    pub fn script_settings(&self) -> ScriptRules {
        ScriptRules {
            is_enabled: self.records,
            is_shared: self.shared,
            instructions_max: self.instructions_max.get() as u32,
        }
    }
}

section! {
    /// Health checks of pool members ([pools.md](pools.md#checks)) and of the targets of LUA records
    /// ([lua.md](lua.md#health-checks)). Changes take effect on reload.
    HealthTable = "health" {
        /// Seconds between two checks of a target, unless its script sets another interval.
        interval: Count<1, 86_400> = "5";
        /// Share the results, and the states that `nameward health force` sets, with the other servers on the first database in the
        /// configuration ([pools.md](pools.md#in-a-fleet)): a target is down if more than half of the servers find it down.
        share: bool = "false";
        /// PEM file with the CAs that `https` checks trust; "" means those of the system.
        tls_ca: Option<PathBuf> = r#""""#;
    }
}

section! {
    /// GeoIP databases for LUA records ([lua.md](lua.md#location)). Changes take effect on reload.
    GeoipTable = "geoip" {
        /// Files in MaxMind format (`.mmdb`), such as GeoLite2-City and GeoLite2-ASN; each property is taken from the
        /// first file that has it. A changed file is read within ten seconds; if it is damaged, the previous contents
        /// stay in use, with a fault.
        databases: Paths = "[]";
    }
}

/// Returns a warning if LUA records are turned on and this build has no interpreter for them.
pub fn missing_interpreter(config: &Config) -> Option<String> {
    let is_on =
        config.lua.records || { config.zones.iter() }.any(|zone| zone.lua_records.0 == Some(true));
    (is_on && !lua::IS_BUILT).then(|| {
        "LUA records are turned on, but this build has none (Cargo feature `lua`): their names are answered SERVFAIL"
            .to_owned()
    })
}
