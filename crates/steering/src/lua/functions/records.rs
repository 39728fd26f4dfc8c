//! Functions that look up records in our zones or elsewhere, include other scripts, and write to the log.

use mlua::{Lua, Table, Value};
use nameward_wire::{NameBuf, Type, rdata};

use super::super::budget;
use super::super::current::{find_fact, with_current};
use super::super::load;
use super::super::objects::{DnsName, parse_name};
use super::super::record_objects::{ResourceRecord, UNKNOWN_DOMAIN, text_of, type_of};
use super::super::run::NeededRecords;
use super::ScriptNames;

/// Names of the log levels of PowerDNS, by number.
const LOG_LEVELS: [&str; 8] = [
    "Emergency",
    "Alert",
    "Critical",
    "Error",
    "Warning",
    "Notice",
    "Info",
    "Debug",
];
/// Octets of a logged message.
const LOG_MAX: usize = 1024;

pub(super) fn install(names: &ScriptNames<'_>) -> mlua::Result<()> {
    names.function("include", |lua, name: mlua::LuaString| {
        let zone = with_current(|run| run.query.zone)?;
        let name = NameBuf::from_text(&name.as_bytes(), zone.as_name())
            .map_err(|error| mlua::Error::runtime(format!("include: {error}")))?;
        if !name.as_name().is_at_or_below(zone.as_name()) {
            return Err(mlua::Error::runtime(format!(
                "include: {name} is not in {zone}"
            )));
        }
        for data in find_fact(NeededRecords::Records(name, Type::LUA))?.records {
            if data.starts_with(&Type::LUA.0.to_be_bytes()) {
                load::include(lua, &data)?;
            }
        }
        Ok(())
    })?;
    names.function("dblookup", |lua, (name, rtype): (Value, Value)| {
        let (name, rtype) = (name_of(&name)?, type_of(&rtype)?);
        refuse_internal("dblookup", rtype)?;
        let records = find_fact(NeededRecords::Records(name, rtype))?.records;
        budget::charge(records.len())?;
        let texts = records.iter().map(|data| text_of(rtype, data));
        lua.create_sequence_from(texts)
    })?;
    names.function("resolve", resolve)?;
    names.function(
        "pdnslog",
        |_, (message, level): (mlua::LuaString, Option<usize>)| {
            let message = message.to_string_lossy();
            budget::charge(message.len())?;
            let zone = with_current(|run| run.query.zone)?;
            let message: String = message.chars().take(LOG_MAX).collect();
            match level.unwrap_or(4) {
                0..=3 => tracing::error!("zone {zone}: LUA record: {message}"),
                4 => tracing::warn!("zone {zone}: LUA record: {message}"),
                5 | 6 => tracing::info!("zone {zone}: LUA record: {message}"),
                _ => tracing::debug!("zone {zone}: LUA record: {message}"),
            }
            Ok(())
        },
    )?;
    names.table.raw_set("pdns", constants(names)?)
}

/// Refuses types that no client sees: scripts are never shown, and another zone may have another owner.
fn refuse_internal(function: &str, rtype: Type) -> mlua::Result<()> {
    if rtype.is_server_internal() {
        return Err(mlua::Error::runtime(format!(
            "{function}: {rtype} records are not shown"
        )));
    }
    Ok(())
}

/// `resolve`: the records of any name, found by the resolver of this server.
fn resolve(lua: &Lua, (name, rtype): (Value, Value)) -> mlua::Result<Table> {
    let (name, rtype) = (name_of(&name)?, type_of(&rtype)?);
    refuse_internal("resolve", rtype)?;
    let found = find_fact(NeededRecords::Resolved(name, rtype))?;
    budget::charge(64 * found.records.len())?;
    let records = found.records.into_iter().map(|data| ResourceRecord {
        name: DnsName(name),
        rtype,
        ttl: found.ttl,
        data,
        domain_id: UNKNOWN_DOMAIN,
        is_authoritative: true,
    });
    lua.create_sequence_from(records)
}

/// Returns the table `pdns`: types, response codes, sections and log levels by name.
fn constants(names: &ScriptNames<'_>) -> mlua::Result<Table> {
    let pdns = names.lua.create_table()?;
    for info in rdata::types() {
        pdns.raw_set(info.mnemonic, info.rtype.0)?;
    }
    let codes = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
        "NXRRSET", "NOTAUTH", "NOTZONE",
    ];
    for (code, name) in codes.into_iter().enumerate() {
        pdns.raw_set(name, code)?;
    }
    pdns.raw_set("loglevels", names.numbers(LOG_LEVELS)?)?;
    let sections = ["QUESTION", "ANSWER", "AUTHORITY", "ADDITIONAL"];
    pdns.raw_set("place", names.numbers(sections)?)?;
    pdns.set_readonly(true);
    Ok(pdns)
}

fn name_of(value: &Value) -> mlua::Result<NameBuf> {
    match value {
        Value::String(text) => parse_name(&text.as_bytes()),
        Value::UserData(object) => Ok(object.borrow::<DnsName>()?.0),
        other => Err(mlua::Error::runtime(format!(
            "{} is not a name",
            other.type_name()
        ))),
    }
}
