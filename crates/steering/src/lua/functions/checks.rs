//! Functions by health: of the addresses that work, one is chosen; if none does, one of all.
//!
//! A target that was not checked yet counts as down, as in PowerDNS; `failOnIncompleteCheck` makes the answer SERVFAIL instead.

use std::net::IpAddr;

use mlua::{Lua, Table, Value};

use super::super::arguments::{address, texts};
use super::super::budget;
use super::super::current::{best_address, with_current};
use super::ScriptNames;
use super::location::pick_closest;
use crate::hash::hash_address;
use crate::health::{CheckKind, HealthCheck, TargetHealth};
use crate::pools::PoolClient;
use crate::random::random_below;

/// Seconds that a check may take by default.
const TIMEOUT: u64 = 2;
/// The User-Agent of requests, unless a script sets another one.
const USER_AGENT: &str = "Nameward";

pub(super) fn install(names: &ScriptNames<'_>) -> mlua::Result<()> {
    names.function(
        "ifportup",
        |lua, (port, addresses, options): (u16, Value, Option<Table>)| {
            let options = CheckOptions::read(options.as_ref())?;
            let groups = groups_of(&addresses)?;
            let check = |address| options.check(Some(address), CheckKind::Port(port));
            options.choose(lua, &groups, check)
        },
    )?;
    names.function(
        "ifurlup",
        |lua, (url, addresses, options): (String, Value, Option<Table>)| {
            let options = CheckOptions::read(options.as_ref())?;
            let groups = groups_of(&addresses)?;
            let check = |address| options.check(Some(address), options.url(&url, false));
            options.choose(lua, &groups, check)
        },
    )?;
    names.function("pool", pool)?;
    names.function("ifurlextup", if_url_ext_up)?;
    names.function("pickselfweighted", pick_self_weighted)
}

/// How one of several addresses is chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selector {
    All,
    Random,
    Hashed,
    Closest,
    Empty,
}

impl Selector {
    fn read(text: &str) -> mlua::Result<Self> {
        Ok(match text {
            "all" => Selector::All,
            "random" | "pickrandom" => Selector::Random,
            "hashed" | "pickhashed" => Selector::Hashed,
            "pickclosest" => Selector::Closest,
            "empty" => Selector::Empty,
            other => return Err(mlua::Error::runtime(format!("unknown selector {other:?}"))),
        })
    }

    fn choose(self, addresses: &[String]) -> mlua::Result<Vec<String>> {
        let one = |index: usize| addresses.get(index).cloned().into_iter().collect();
        Ok(match self {
            _ if addresses.is_empty() => {
                return Err(mlua::Error::runtime("the list of addresses is empty"));
            }
            Selector::All => addresses.to_vec(),
            Selector::Random => one(random_below(addresses.len() as u64) as usize),
            Selector::Hashed => one(hash_address(best_address()?) as usize % addresses.len()),
            Selector::Closest => vec![pick_closest(addresses)?],
            Selector::Empty => Vec::new(),
        })
    }
}

/// The options of a check.
struct CheckOptions {
    selector: Selector,
    backup: Selector,
    source: Option<IpAddr>,
    timeout_ms: u64,
    interval: u64,
    minimum_failures: u32,
    fails_if_incomplete: bool,
    string_match: String,
    user_agent: String,
    bytes_limit: usize,
    http_code: u16,
}

impl CheckOptions {
    fn read(table: Option<&Table>) -> mlua::Result<Self> {
        let mut options = CheckOptions {
            selector: Selector::Random,
            backup: Selector::Random,
            source: None,
            timeout_ms: TIMEOUT * 1000,
            interval: 0,
            minimum_failures: 1,
            fails_if_incomplete: false,
            string_match: String::new(),
            user_agent: USER_AGENT.to_owned(),
            bytes_limit: 0,
            http_code: 200,
        };
        let Some(table) = table else {
            return Ok(options);
        };
        for pair in table.pairs::<String, Value>() {
            budget::charge(64)?;
            let (name, value) = pair?;
            let text = match &value {
                Value::String(text) => text.to_string_lossy(),
                Value::Number(number) => number.to_string(),
                Value::Integer(number) => number.to_string(),
                Value::Boolean(is_so) => is_so.to_string(),
                other => {
                    return Err(mlua::Error::runtime(format!(
                        "{name} is {}",
                        other.type_name()
                    )));
                }
            };
            options.set(&name, text)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, text: String) -> mlua::Result<()> {
        let invalid = || mlua::Error::runtime(format!("invalid {name} {text:?}"));
        let number = || text.parse::<u64>().map_err(|_| invalid());
        match name {
            "selector" => self.selector = Selector::read(&text)?,
            "backupSelector" => self.backup = Selector::read(&text)?,
            "source" => self.source = Some(text.parse().map_err(|_| invalid())?),
            "timeout" => self.timeout_ms = number()?.clamp(1, 60) * 1000,
            "interval" => self.interval = number()?.clamp(1, 86_400),
            "minimumFailures" => self.minimum_failures = number()?.clamp(1, 1000) as u32,
            "failOnIncompleteCheck" => self.fails_if_incomplete = text == "true",
            "stringmatch" => self.string_match = text,
            "useragent" => self.user_agent = text,
            "byteslimit" => self.bytes_limit = number()? as usize,
            "httpcode" => self.http_code = number()?.min(999) as u16,
            other => return Err(mlua::Error::runtime(format!("unknown option {other:?}"))),
        }
        Ok(())
    }

    fn url(&self, url: &str, has_weight: bool) -> CheckKind {
        CheckKind::Url {
            url: url.to_owned(),
            string_match: self.string_match.clone(),
            user_agent: self.user_agent.clone(),
            bytes_limit: self.bytes_limit,
            http_code: self.http_code,
            has_weight,
        }
    }

    fn check(&self, address: Option<IpAddr>, kind: CheckKind) -> HealthCheck {
        HealthCheck {
            address,
            kind,
            source: self.source,
            timeout_ms: self.timeout_ms,
            interval: self.interval,
            minimum_failures: self.minimum_failures,
            minimum_successes: 1,
        }
    }

    /// Returns the health of a target; an error if it is unknown and the script requests to wait for it.
    fn health(&self, check: &HealthCheck) -> mlua::Result<TargetHealth> {
        budget::charge(64)?;
        let health = with_current(|run| run.steering.health().health_of(check))?;
        if health == TargetHealth::Unknown && self.fails_if_incomplete {
            return Err(mlua::Error::runtime("a target was not checked yet"));
        }
        Ok(health)
    }

    /// Returns addresses of the first group that has some that work, else of all.
    fn choose(
        &self,
        lua: &Lua,
        groups: &[Vec<String>],
        check: impl Fn(IpAddr) -> HealthCheck,
    ) -> mlua::Result<Table> {
        // Every target is named, so that those of later groups are checked before they are needed.
        let mut working = Vec::new();
        for group in groups {
            let mut up = Vec::new();
            for text in group {
                if matches!(self.health(&check(address(text)?))?, TargetHealth::Up(_)) {
                    up.push(text.clone());
                }
            }
            if working.is_empty() {
                working = up;
            }
        }
        let chosen = if working.is_empty() {
            self.backup.choose(&groups.concat())?
        } else {
            self.selector.choose(&working)?
        };
        lua.create_sequence_from(chosen)
    }
}

/// Reads a list of addresses, or a list of such lists.
fn groups_of(value: &Value) -> mlua::Result<Vec<Vec<String>>> {
    match value {
        Value::String(text) => Ok(vec![vec![text.to_string_lossy()]]),
        Value::Table(list) => {
            let first: Value = list.raw_get(1)?;
            if !matches!(first, Value::Table(_)) {
                return Ok(vec![texts(list)?]);
            }
            let groups = (1..=list.raw_len()).map(|at| texts(&list.raw_get::<Table>(at)?));
            groups.collect()
        }
        other => Err(mlua::Error::runtime(format!(
            "{} is not a list",
            other.type_name()
        ))),
    }
}

/// `ifurlextup`: the health of an address is that of a URL elsewhere.
fn if_url_ext_up(lua: &Lua, (groups, options): (Table, Option<Table>)) -> mlua::Result<Table> {
    let options = CheckOptions::read(options.as_ref())?;
    let (mut all, mut working) = (Vec::new(), Vec::new());
    for at in 1..=groups.raw_len() {
        let mut up = Vec::new();
        let mut pairs = Vec::new();
        for pair in groups.raw_get::<Table>(at)?.pairs::<String, String>() {
            pairs.push(pair?);
        }
        pairs.sort();
        for (address, url) in pairs {
            let check = options.check(None, options.url(&url, false));
            if matches!(options.health(&check)?, TargetHealth::Up(_)) {
                up.push(address.clone());
            }
            all.push(address);
        }
        if working.is_empty() {
            working = up;
        }
    }
    let chosen = if working.is_empty() {
        options.backup.choose(&all)?
    } else {
        options.selector.choose(&working)?
    };
    lua.create_sequence_from(chosen)
}

/// `pickselfweighted`: targets report their weights, and a hash of the client selects one of them.
fn pick_self_weighted(
    lua: &Lua,
    (url, addresses, options): (String, Table, Option<Table>),
) -> mlua::Result<Table> {
    let options = CheckOptions::read(options.as_ref())?;
    let addresses = texts(&addresses)?;
    let (mut weighted, mut total) = (Vec::new(), 0u64);
    for text in &addresses {
        let check = options.check(Some(address(text)?), options.url(&url, true));
        if let TargetHealth::Up(weight) = options.health(&check)? {
            total += u64::from(weight);
            weighted.push((total, text));
        }
    }
    if total == 0 {
        return lua.create_sequence_from(options.backup.choose(&addresses)?);
    }
    let point = u64::from(hash_address(best_address()?)) % total;
    let chosen = weighted.into_iter().find(|(end, _)| point < *end);
    lua.create_sequence_from(chosen.map(|(_, text)| text.clone()))
}

/// `pool`: addresses of a pool, or of the pool that a map has for the client.
fn pool(lua: &Lua, name: mlua::LuaString) -> mlua::Result<Table> {
    let name = name.as_bytes();
    let found = with_current(|run| {
        let client = run.query.client;
        let address = client.best_address();
        let all = if address.is_ipv4() { 32 } else { 128 };
        let prefix = client.subnet.map_or(all, |subnet| subnet.prefix_len());
        let prepared = run.steering.pools().prepared().load();
        let choice = prepared.choose(&name, run.rtype, PoolClient { address, prefix })?;
        run.scope = run.scope.max(choice.bits);
        Some(choice.records.map(|records| {
            let texts = records.iter().map(address_text);
            texts.collect::<Vec<_>>()
        }))
    })?;
    let text = String::from_utf8_lossy(&name);
    match found {
        Some(Some(texts)) => lua.create_sequence_from(texts),
        Some(None) => Err(mlua::Error::runtime(format!(
            "all members of pool {text:?} are down"
        ))),
        None => Err(mlua::Error::runtime(format!("no pool {text:?}"))),
    }
}

fn address_text(data: &[u8]) -> String {
    if let Ok(octets) = <[u8; 4]>::try_from(data) {
        return IpAddr::from(octets).to_string();
    }
    <[u8; 16]>::try_from(data)
        .map_or_else(|_| String::new(), |octets| IpAddr::from(octets).to_string())
}
