//! Functions that make host names from addresses and addresses from host names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mlua::{Lua, Table, Value};
use nameward_wire::Name;

use super::super::arguments;
use super::super::budget;
use super::super::current::with_current;
use super::super::objects::ScriptNetworks;
use super::ScriptNames;

pub(super) fn install(names: &ScriptNames<'_>) -> mlua::Result<()> {
    names.function(
        "createReverse",
        |_, (format, exceptions): (String, Option<Table>)| {
            let labels = queried_labels(false)?;
            let Some(address) = reverse_ipv4(&labels) else {
                return Ok("unknown".to_owned());
            };
            if let Some(name) = exception(exceptions.as_ref(), IpAddr::V4(address))? {
                return Ok(name);
            }
            let octets = address.octets().map(|octet| octet.to_string());
            let hex = address.octets().map(|octet| format!("{octet:02x}"));
            let mut values = octets.to_vec();
            values.push(octets.join("-"));
            values.push(hex.concat());
            fill(&format, &values)
        },
    )?;
    names.function(
        "createReverse6",
        |_, (format, exceptions): (String, Option<Table>)| {
            let labels = queried_labels(false)?;
            let Some(address) = reverse_ipv6(&labels) else {
                return Ok("unknown".to_owned());
            };
            if let Some(name) = exception(exceptions.as_ref(), IpAddr::V6(address))? {
                return Ok(name);
            }
            let hex = address.segments().map(|segment| format!("{segment:04x}"));
            let mut values: Vec<String> = hex.concat().chars().map(String::from).collect();
            values.push(dashed(address));
            values.extend(hex);
            fill(&format, &values)
        },
    )?;
    names.function("createForward", |_, ()| {
        let address = forward_ipv4(&queried_labels(true)?);
        Ok(address.unwrap_or(Ipv4Addr::UNSPECIFIED).to_string())
    })?;
    names.function("createForward6", |_, ()| {
        let address = forward_ipv6(&queried_labels(true)?);
        Ok(address.unwrap_or(Ipv6Addr::UNSPECIFIED).to_string())
    })?;
    names.function("filterForward", filter_forward)
}

/// Returns the labels of the queried name in lower case, those of its zone left out if requested.
fn queried_labels(is_relative: bool) -> mlua::Result<Vec<String>> {
    with_current(|run| {
        let (name, zone) = (run.query.name, run.query.zone);
        let skipped = if is_relative {
            zone.as_name().label_count()
        } else {
            0
        };
        let kept = name.as_name().label_count().saturating_sub(skipped);
        labels(name.as_name()).take(kept).collect()
    })
}

fn labels(name: Name<'_>) -> impl Iterator<Item = String> {
    name.labels()
        .filter(|label| !label.is_empty())
        .map(|label| String::from_utf8_lossy(label).to_lowercase())
}

/// Returns the address of `4.3.2.1.in-addr.arpa`.
fn reverse_ipv4(labels: &[String]) -> Option<Ipv4Addr> {
    let [d, c, b, a, ..] = labels else {
        return None;
    };
    let octet = |label: &String| label.parse::<u8>().ok();
    Some(Ipv4Addr::new(octet(a)?, octet(b)?, octet(c)?, octet(d)?))
}

/// Returns the address of 32 nibbles below `ip6.arpa`.
fn reverse_ipv6(labels: &[String]) -> Option<Ipv6Addr> {
    let nibbles = labels.get(..32)?;
    let mut bits = 0u128;
    for label in nibbles.iter().rev() {
        let mut digits = label.chars();
        let (digit, rest) = (digits.next()?.to_digit(16)?, digits.next());
        if rest.is_some() {
            return None;
        }
        bits = bits << 4 | u128::from(digit);
    }
    Some(Ipv6Addr::from_bits(bits))
}

/// Returns an address with dashes in place of colons. A label that starts or ends with a dash is not a host name.
fn dashed(address: Ipv6Addr) -> String {
    let text = address.to_string().replace(':', "-");
    let text = if text.starts_with('-') {
        format!("0{text}")
    } else {
        text
    };
    if text.ends_with('-') {
        format!("{text}0")
    } else {
        text
    }
}

/// Returns the name that a table has for an address.
fn exception(exceptions: Option<&Table>, address: IpAddr) -> mlua::Result<Option<String>> {
    let Some(exceptions) = exceptions else {
        return Ok(None);
    };
    for pair in exceptions.pairs::<String, String>() {
        budget::charge(64)?;
        let (key, name) = pair?;
        if key.parse() == Ok(address) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Replaces `%1%` and so on by values, as Boost's format does; `%%` is a percent sign.
fn fill(format: &str, values: &[String]) -> mlua::Result<String> {
    let mut text = String::new();
    let mut parts = format.split('%');
    text.push_str(parts.next().unwrap_or_default());
    while let Some(number) = parts.next() {
        let rest = parts
            .next()
            .ok_or_else(|| mlua::Error::runtime(format!("invalid format {format:?}")))?;
        match number {
            "" => text.push('%'),
            number => {
                let value = number.parse::<usize>().ok();
                let value = value.and_then(|number| values.get(number.checked_sub(1)?));
                let missing = || mlua::Error::runtime(format!("no value for %{number}%"));
                text.push_str(value.ok_or_else(missing)?);
            }
        }
        text.push_str(rest);
    }
    Ok(text)
}

/// Returns the address in a name: `192.0.2.1`, `192-0-2-1` or `ip-192-0-2-1` in one label, or `c0000201` at its end.
fn forward_ipv4(labels: &[String]) -> Option<Ipv4Addr> {
    if let [a, b, c, d, ..] = labels
        && let Ok(address) = format!("{a}.{b}.{c}.{d}").parse()
    {
        return Some(address);
    }
    let first = labels.first()?;
    let numbers: Vec<&str> = first.split('-').collect();
    let last_four = numbers
        .len()
        .checked_sub(4)
        .map(|start| numbers[start..].join("."));
    if let Some(address) = last_four.and_then(|text| text.parse().ok()) {
        return Some(address);
    }
    let hex = first.get(first.len().checked_sub(8)?..)?;
    Some(Ipv4Addr::from_bits(u32::from_str_radix(hex, 16).ok()?))
}

/// Returns the address in a name: 8 labels, one label with dashes for colons, or 32 digits at the end of a label.
fn forward_ipv6(labels: &[String]) -> Option<Ipv6Addr> {
    if let Some(groups) = labels.get(..8)
        && let Ok(address) = groups.join(":").parse()
    {
        return Some(address);
    }
    let first = labels.first()?;
    if let Ok(address) = first.replace('-', ":").parse() {
        return Some(address);
    }
    let hex = first.get(first.len().checked_sub(32)?..)?;
    Some(Ipv6Addr::from_bits(u128::from_str_radix(hex, 16).ok()?))
}

/// Returns an address if it is in the networks, else the fallback; nothing if that is empty.
fn filter_forward(
    lua: &Lua,
    (address, networks, fallback): (String, mlua::UserDataRef<ScriptNetworks>, Option<String>),
) -> mlua::Result<Value> {
    let parsed = arguments::address(&address)?;
    let result = if networks.contains(parsed) {
        address
    } else {
        match fallback {
            Some(fallback) if fallback.is_empty() => return lua.create_table().map(Value::Table),
            Some(fallback) => fallback,
            None if parsed.is_ipv4() => Ipv4Addr::UNSPECIFIED.to_string(),
            None => Ipv6Addr::UNSPECIFIED.to_string(),
        }
    };
    lua.create_string(result).map(Value::String)
}
