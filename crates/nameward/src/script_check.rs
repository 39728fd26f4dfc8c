//! Checks of LUA records when a zone is loaded or changed: their scripts, and the pools that they name.

use std::collections::HashSet;
use std::sync::Arc;

use nameward_steering::Steering;
use nameward_steering::lua::check_script;
use nameward_steering::pools::pool_name;
use nameward_zone::ScriptCheck;

use crate::config::Config;

/// Returns the check for zones that are loaded with a configuration.
pub fn for_config(config: &Config) -> ScriptCheck {
    let pools = config.pools.iter().map(|pool| &pool.name);
    let names = pools.chain(config.maps.iter().map(|map| &map.name));
    let names: HashSet<Box<[u8]>> = names.map(|name| name.as_bytes().into()).collect();
    ScriptCheck::new(move |rdata| problems(rdata, |name| names.contains(name)))
}

/// Returns the check for changes of a running server, whose pools may change.
pub fn for_server(steering: &Arc<Steering>) -> ScriptCheck {
    let steering = Arc::clone(steering);
    ScriptCheck::new(move |rdata| problems(rdata, |name| steering.pools().has(name)))
}

/// Returns the check for zones without a configuration.
pub fn without_pools() -> ScriptCheck {
    ScriptCheck::new(|rdata| problems(rdata, |_| true))
}

/// Returns the problems in the data of a LUA record.
fn problems(rdata: &[u8], is_known: impl Fn(&[u8]) -> bool) -> Vec<String> {
    let problems = check_script(rdata).into_iter();
    let unknown = { pool_name(rdata) }.filter(|(_, name)| !is_known(name));
    let unknown =
        unknown.map(|(_, name)| format!("unknown pool {:?}", String::from_utf8_lossy(name)));
    problems
        .map(|problem| problem.to_string())
        .chain(unknown)
        .collect()
}
