//! The `[lua]`, `[health]` and `[geoip]` tables: answers that depend on who asks.

use std::path::PathBuf;

use nameward_steering::{ScriptRules, lua};

use super::Config;
use super::read::{Count, Paths};
use super::setting::section;

section! {
    /// LUA records, as in PowerDNS ([lua.md](lua.md)). Changes take effect on reload.
    LuaTable = "lua" {
        /// Run the LUA records of all zones; `lua_records` of a zone, or ENABLE-LUA-RECORDS in a database, decides for one.
        /// Where they are not run, they are plain data that no client sees.
        records: bool = "false";
        /// Let scripts share their global names, within each thread: what one sets, later ones see. By default every run
        /// starts without them, and nothing that a script sets outlives it.
        shared: bool = "false";
        /// Calls and loop iterations that a script may make for one query; more is SERVFAIL. 0 removes the limit: only for scripts
        /// that you wrote yourself.
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
    /// Checks of pool members ([pools.md](pools.md#checks)) and of the targets that LUA records name ([lua.md](lua.md#health-checks)). Changes take effect on reload.
    HealthTable = "health" {
        /// Seconds between two checks of a target, unless its script says otherwise.
        interval: Count<1, 86_400> = "5";
        /// Share the results, and the states that `nameward health force` sets, with the other servers on the first database in the
        /// configuration ([pools.md](pools.md#in-a-fleet)): a target is down if more than half of the servers find it down.
        share: bool = "false";
        /// File with the certificate authorities that `https` checks trust, in PEM; "" is those of the system.
        tls_ca: Option<PathBuf> = r#""""#;
    }
}

section! {
    /// GeoIP databases, which LUA records read ([lua.md](lua.md#location)). Changes take effect on reload.
    GeoipTable = "geoip" {
        /// Files in the MaxMind format (`.mmdb`), such as GeoLite2-City and GeoLite2-ASN; of each property the first file that has
        /// it counts. A file that changes is read within ten seconds; if it is damaged, the previous contents stay in use, with a
        /// fault.
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
