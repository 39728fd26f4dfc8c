//! Functions that choose among values: at random, by the client, by its network.

use std::net::IpAddr;

use ipnet::IpNet;
use mlua::{Lua, Table, Value};

use super::super::arguments::texts;
use super::super::budget;
use super::super::current::{best_address, with_current};
use super::super::objects::parse_network;
use super::ScriptNames;
use crate::hash::{hash_address, lookup2, rendezvous_score};
use crate::random::{random_below, shuffle_first};

pub(super) fn install(names: &ScriptNames<'_>) -> mlua::Result<()> {
    names.function("pickrandom", |_, list: Table| pick_random(&list))?;
    names.function("pickrandomsample", |lua, (count, list): (usize, Table)| {
        pick_sample(lua, count, &list)
    })?;
    names.function("pickhashed", |_, list: Table| pick_hashed(&list))?;
    names.function("pickwrandom", |_, list: Table| {
        let weighted = Weighted::read(&list)?;
        let point = random_below(weighted.total);
        weighted.at(point)
    })?;
    names.function("pickwhashed", |_, list: Table| {
        let weighted = Weighted::read(&list)?;
        let point = u64::from(hash_address(best_address()?)) % weighted.total;
        weighted.at(point)
    })?;
    names.function("picknamehashed", |_, list: Table| {
        let weighted = Weighted::read(&list)?;
        let hash = with_current(|run| {
            let mut name = run.query.name;
            name.make_lowercase();
            lookup2(name.as_name().as_wire(), 0)
        })?;
        let point = u64::from(hash) % weighted.total;
        weighted.at(point)
    })?;
    names.function("pickchashed", |_, list: Table| {
        Weighted::read(&list)?.consistent(best_address()?)
    })?;
    names.function("all", |_, list: Table| Ok(list))?;
    names.function("netmask", |_, list: Table| matches_any(&list))?;
    names.function("view", |_, pairs: Table| view(&pairs))?;
    names.function("pdnsrandom", |_, bound: Option<u32>| {
        Ok(random_below(bound.map_or(1 << 32, u64::from)) as f64)
    })
}

fn empty() -> mlua::Error {
    mlua::Error::runtime("the list of values is empty")
}

fn pick_random(list: &Table) -> mlua::Result<Value> {
    match list.raw_len() {
        0 => Err(empty()),
        length => list.raw_get(1 + random_below(length as u64)),
    }
}

fn pick_hashed(list: &Table) -> mlua::Result<Value> {
    match list.raw_len() {
        0 => Err(empty()),
        length => list.raw_get(1 + hash_address(best_address()?) as usize % length),
    }
}

fn pick_sample(lua: &Lua, count: usize, list: &Table) -> mlua::Result<Table> {
    let mut values = texts(list)?;
    if values.is_empty() {
        return Err(empty());
    }
    let count = count.min(values.len());
    shuffle_first(&mut values, count);
    lua.create_sequence_from(values.into_iter().take(count))
}

/// Values with weights: a list of pairs.
struct Weighted {
    entries: Vec<(u64, mlua::LuaString)>,
    total: u64,
}

impl Weighted {
    fn read(list: &Table) -> mlua::Result<Self> {
        let length = list.raw_len();
        budget::charge(length)?;
        let (mut entries, mut total) = (Vec::with_capacity(length), 0);
        // From the last to the first, as PowerDNS does: the order decides what a hash means.
        for at in (1..=length).rev() {
            let pair: Table = list.raw_get(at)?;
            let weight = u64::from(pair.raw_get::<u32>(1)?);
            total += weight;
            entries.push((weight, pair.raw_get(2)?));
        }
        if total == 0 {
            return Err(mlua::Error::runtime("the sum of all weights is 0"));
        }
        Ok(Weighted { entries, total })
    }

    /// Returns the value whose share of the weights has a point.
    fn at(self, mut point: u64) -> mlua::Result<mlua::LuaString> {
        for (weight, value) in self.entries {
            match point.checked_sub(weight) {
                Some(rest) => point = rest,
                None => return Ok(value),
            }
        }
        Err(empty())
    }

    /// Returns the value with the best score for a client (weighted rendezvous hashing): neither the order of the list nor
    /// the weights of other values matter.
    fn consistent(self, client: IpAddr) -> mlua::Result<mlua::LuaString> {
        let client = hash_address(client);
        let score = |(weight, value): &(u64, mlua::LuaString)| {
            rendezvous_score(lookup2(&value.as_bytes(), client), *weight)
        };
        let entries = self.entries.into_iter().filter(|(weight, _)| *weight > 0);
        let best = entries.max_by(|a, b| score(a).total_cmp(&score(b)));
        best.map(|(_, value)| value).ok_or_else(empty)
    }
}

/// Checks whether the client is in one of the networks of a list; notes how many bits of its address decided.
fn matches_any(list: &Table) -> mlua::Result<bool> {
    let networks = texts(list)?;
    with_current(|run| {
        let client = run.query.client.best_address();
        for network in &networks {
            let network: IpNet = parse_network(network)?;
            if network.addr().is_ipv4() == client.is_ipv4() {
                run.scope = run.scope.max(network.prefix_len());
            }
            if network.contains(&client) {
                return Ok(true);
            }
        }
        Ok(false)
    })?
}

fn view(pairs: &Table) -> mlua::Result<Value> {
    for at in 1..=pairs.raw_len() {
        let pair: Table = pairs.raw_get(at)?;
        let networks: Table = pair.raw_get(1)?;
        if matches_any(&networks)? {
            return pair.raw_get(2);
        }
    }
    Err(mlua::Error::runtime("view: no network matches the client"))
}
