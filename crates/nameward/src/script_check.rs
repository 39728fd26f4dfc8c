//! The check of LUA records when a zone is loaded or changed: their scripts, and the pools that they name.

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use nameward_steering::lua::check_script;
use nameward_steering::pools::pool_name;

use crate::config::Config;

/// The names of pools and maps; `None` while no configuration was read, as for commands that check a zone file alone.
static POOLS: ArcSwapOption<HashSet<Box<[u8]>>> = ArcSwapOption::const_empty();

/// Checks names of pools against this configuration from now on.
pub fn set_pools(config: &Config) {
    let pools = config.pools.iter().map(|pool| &pool.name);
    let names = pools.chain(config.maps.iter().map(|map| &map.name));
    let names = names.map(|name| name.as_bytes().into()).collect();
    POOLS.store(Some(Arc::new(names)));
}

/// Returns the problems in the data of a LUA record.
pub fn problems(rdata: &[u8]) -> Vec<String> {
    let problems = check_script(rdata).into_iter();
    let unknown = pool_name(rdata).and_then(|(_, name)| {
        let pools = POOLS.load();
        let is_known = pools.as_ref()?.contains(name);
        let text = || format!("unknown pool {:?}", String::from_utf8_lossy(name));
        (!is_known).then(text)
    });
    problems
        .map(|problem| problem.to_string())
        .chain(unknown)
        .collect()
}
