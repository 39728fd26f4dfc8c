//! The result of a script as record data: text becomes data of the computed type.

use std::net::{Ipv4Addr, Ipv6Addr};

use mlua::Value;
use nameward_wire::text::Fields;
use nameward_wire::{Name, Type, rdata};

use super::run::ScriptFailure;

/// Maximum number of records: more than a message over TCP has room for is of no use.
const RECORDS_MAX: usize = 4096;
/// Octets of a character string.
const STRING_MAX: usize = 255;

/// Reads what a script returned.
pub(super) fn read(rtype: Type, value: &Value) -> Result<Vec<Vec<u8>>, ScriptFailure> {
    let mut records = Vec::new();
    match value {
        Value::Table(table) => {
            for at in 1..=table.raw_len().min(RECORDS_MAX) {
                let value: Value = table.raw_get(at)?;
                records.push(read_one(rtype, &value)?);
            }
        }
        value => records.push(read_one(rtype, value)?),
    }
    // RFC 2181 section 5: an RRset has no duplicates.
    records.sort_unstable();
    records.dedup();
    Ok(records)
}

fn read_one(rtype: Type, value: &Value) -> Result<Vec<u8>, ScriptFailure> {
    match value {
        Value::String(text) => parse(rtype, &text.as_bytes()),
        Value::Integer(number) => parse(rtype, number.to_string().as_bytes()),
        Value::Number(number) => parse(rtype, number.to_string().as_bytes()),
        other => Err(ScriptFailure::Kind(other.type_name())),
    }
}

fn parse(rtype: Type, text: &[u8]) -> Result<Vec<u8>, ScriptFailure> {
    let invalid = || ScriptFailure::Result(rtype, String::from_utf8_lossy(text).into_owned());
    match rtype {
        Type::A => {
            let address = std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok());
            let address: Ipv4Addr = address.ok_or_else(invalid)?;
            return Ok(address.octets().to_vec());
        }
        Type::AAAA => {
            let address = std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok());
            let address: Ipv6Addr = address.ok_or_else(invalid)?;
            return Ok(address.octets().to_vec());
        }
        // Text without quotes is one value, as in PowerDNS.
        Type::TXT if !text.starts_with(b"\"") => {
            let mut data = Vec::with_capacity(text.len() + 1);
            if text.is_empty() {
                data.push(0);
            }
            for string in text.chunks(STRING_MAX) {
                data.push(string.len() as u8);
                data.extend_from_slice(string);
            }
            return Ok(data);
        }
        _ => {}
    }
    let mut data = Vec::new();
    // Names are absolute, with or without the final dot.
    let root = Name::from_valid_wire(&[0]);
    rdata::parse_text(rtype, &mut Fields::new(text), root, &mut data).map_err(|_| invalid())?;
    // Automatic hints are filled in for records in the zone.
    if matches!(rtype, Type::SVCB | Type::HTTPS) && rdata::has_auto_hints(&data) {
        return Err(invalid());
    }
    Ok(data)
}
