//! pdnsutil commands for single keys, hashes and records, most of which need no server.

use std::path::Path;

use data_encoding::BASE32HEX_NOPAD;
use nameward_control::operations::{
    BatchDeletion, BatchRequest, BatchStep, ErrorKind, ListedItem, OperationError,
    OperationRequest, Outcome, ZoneBatch, zone_name,
};
use nameward_control::socket::ControlError;
use nameward_dnssec::{Nsec3, Nsec3Param, PrivateKey, algorithm_name, algorithm_number};
use nameward_maintain::policy::ZonemdRule;
use nameward_wire::rdata::parse_text;
use nameward_wire::text::Fields;
use nameward_wire::{Name, NameBuf, Type};

use super::bare;
use super::keys::{details, template};
use crate::{
    command_error::{CommandError, CommandResult},
    config::Overrides,
    remote, zone_commands,
};

/// The algorithms that this server can sign with.
const ALGORITHMS: [u8; 7] = [5, 7, 8, 10, 13, 14, 15];
/// Default size of an RSA key in bits.
const DEFAULT_BITS: u32 = 2048;
/// Default algorithm of a key.
const DEFAULT_ALGORITHM: u8 = 13;

/// Prints a new key without storing it. The words are its algorithm and size.
pub(super) fn generate_key(flags: u16, words: &[&str]) -> Outcome<String> {
    let requested = template(Default::default(), words);
    let algorithm = match requested.algorithm.as_deref() {
        None => DEFAULT_ALGORITHM,
        Some(word) => algorithm_number(word).ok_or_else(|| {
            OperationError::invalid(format!("unknown or unsupported algorithm {word:?}"))
        })?,
    };
    let bits = requested.bits.unwrap_or(DEFAULT_BITS) as usize;
    let key = PrivateKey::generate(algorithm, bits)
        .map_err(|error| OperationError::invalid(error.to_string()))?;
    let role = if flags & 1 == 1 { "KSK" } else { "ZSK" };
    eprintln!("Generating a {role} with algorithm = {algorithm}");
    Ok(format!("Flags: {flags}\n{}", key.to_text().reveal()))
}

/// Lists the algorithms that zones can be signed with.
pub(super) fn list_algorithms() -> String {
    let line = |number: u8| {
        format!(
            "{number} - {}\n",
            algorithm_name(number).unwrap_or_default()
        )
    };
    let lines: String = ALGORITHMS.into_iter().map(line).collect();
    format!("DNSKEY algorithms supported by this installation of Nameward:\n{lines}")
}

/// Prints the data of a record as a Lua string, as pdnsutil does: letters as they are, everything else by number.
pub(super) fn lua_string(rtype: &str, content: &str) -> Outcome<String> {
    let known = Type::from_text(rtype.as_bytes())
        .ok_or_else(|| OperationError::invalid(format!("unknown record type {rtype:?}")))?;
    let mut rdata = Vec::new();
    let mut fields = Fields::new(content.as_bytes());
    parse_text(known, &mut fields, Name::ROOT, &mut rdata).map_err(|error| {
        OperationError::invalid(format!("invalid {rtype} record data {content:?}: {error}"))
    })?;
    let text: String = rdata
        .iter()
        .map(|octet| match octet {
            letter if letter.is_ascii_alphabetic() => char::from(*letter).to_string(),
            other => format!("\\{other:03}"),
        })
        .collect();
    Ok(format!("\"{text}\"\n"))
}

/// Verifies the ZONEMD record of a zone file.
pub(super) fn verify_zonemd(zone: &str, file: &Path) -> Outcome<String> {
    let name = zone_name(zone)?;
    let read = zone_commands::read_file(&name, file)?;
    match ZonemdRule::Require.objection(&read) {
        None => Ok(format!(
            "zonemd-verify-file: Verification of ZONEMD record succeeded for zone {}\n",
            bare(&name.to_string())
        )),
        Some(reason) => Err(OperationError::invalid(format!(
            "{}: {reason}",
            file.display()
        ))),
    }
}

/// Returns a zone's NSEC3 parameters: from its metadata, or those this server uses for a zone without
/// metadata.
fn hashing(zone: &str, overrides: &Overrides) -> CommandResult<Option<(Nsec3, bool)>> {
    let (mut param, mut is_narrow) = (None, false);
    let request = OperationRequest::MetadataList {
        zone: zone.into(),
        kind: None,
    };
    let listed = remote::send(request, overrides, &mut |item| {
        if let ListedItem::Metadata(item) = item {
            match item.kind.as_str() {
                "NSEC3PARAM" => param = Nsec3Param::read(&item.content).ok(),
                "NSEC3NARROW" => is_narrow = item.content == "1",
                _ => {}
            }
        }
    });
    match listed {
        // A zone that is not in a database has no metadata.
        Err(CommandError::Control(ControlError::Failed(error)))
            if error.kind == ErrorKind::Refused =>
        {
            let denial = details(zone, overrides)?
                .signing
                .and_then(|signing| signing.denial);
            let is_hashed = denial.is_some_and(|word| word.starts_with("nsec3"));
            Ok(is_hashed.then(|| (Nsec3::default(), false)))
        }
        listed => {
            listed?;
            Ok(param.map(|param| (param.hashing, is_narrow)))
        }
    }
}

/// Prints the NSEC3 hash of a name in a zone.
pub(super) fn hash_record(zone: &str, name: &str, overrides: &Overrides) -> CommandResult<String> {
    let apex = zone_name(zone)?.to_string();
    let Some((hashing, is_narrow)) = hashing(zone, overrides)? else {
        eprintln!("The '{}' zone does not use NSEC3", bare(&apex));
        return Ok(String::new());
    };
    if is_narrow {
        eprintln!(
            "The '{}' zone uses narrow NSEC3, but calculating hash anyhow",
            bare(&apex)
        );
    }
    let owner: NameBuf = zone_name(name)?;
    let hash = hashing.hash(owner.as_name());
    Ok(format!(
        "{}\n",
        BASE32HEX_NOPAD.encode(&hash).to_ascii_lowercase()
    ))
}

/// Deletes all records of a zone except its SOA and NS.
pub(super) fn clear_zone(zone: &str, overrides: &Overrides) -> CommandResult<String> {
    let fetched = zone_commands::fetch(zone, overrides)?;
    let mut steps = Vec::new();
    for node in fetched.zone.nodes_in_any_order() {
        for rrset in node.rrsets() {
            let is_apex = node.name() == fetched.name.as_name();
            if is_apex && matches!(rrset.rtype(), Type::SOA | Type::NS) {
                continue;
            }
            steps.push(BatchStep::Delete(BatchDeletion {
                name: node.name().to_string(),
                rtype: Some(rrset.rtype().to_string()),
                content: Vec::new(),
            }));
        }
    }
    eprintln!("SOA and NS records of the zone were kept, it could not be served without them");
    if steps.is_empty() {
        return Ok(String::new());
    }
    let request = BatchRequest {
        zones: vec![ZoneBatch {
            zone: fetched.name.to_string(),
            serial: Some(fetched.zone.serial().0),
            steps,
        }],
        ..BatchRequest::default()
    };
    remote::send(OperationRequest::Apply(request), overrides, &mut drop)?;
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_becomes_a_lua_string_as_pdnsutil_writes_it() {
        assert_eq!(
            lua_string("MX", "10 mx.example.org").unwrap(),
            "\"\\000\\010\\002mx\\007example\\003org\\000\"\n"
        );
        assert_eq!(
            lua_string("A", "65.97.48.34").unwrap(),
            "\"Aa\\048\\034\"\n"
        );
        assert!(lua_string("A", "x").is_err() && lua_string("ODD", "x").is_err());
    }
}
