//! The output of pdnsutil's key commands: numbers of new keys, DNSKEY and DS, tables, in the format that scripts
//! parse.

use std::collections::BTreeSet;
use std::path::Path;

use data_encoding::HEXLOWER;
use nameward_control::operations::{
    ErrorKind, KeyTemplate, ListedItem, ListedKind, ListedZoneKey, OperationError,
    OperationRequest, SecretText, ZoneDetails,
};
use nameward_control::socket::ControlError;
use nameward_dnssec::ds_data;
use nameward_wire::rdata::parse_text;
use nameward_wire::text::Fields;
use nameward_wire::{Name, NameBuf, Type};

use super::bare;
use crate::cli::key::read_key;
use crate::{
    command_error::{CommandError, CommandResult},
    config::Overrides,
    remote::{self, only},
};

/// The header of the key table.
const HEAD: &str =
    "Zone                          Type Act Pub Size    Algorithm       ID   Location    Keytag";

pub(super) fn dnskey(zone: &str, number: u32, overrides: &Overrides) -> CommandResult<String> {
    let keys = keys_of(zone, overrides)?;
    let key = keys.iter().find(|key| key.key == number);
    let key =
        key.ok_or_else(|| OperationError::not_found(format!("zone {zone} has no key {number}")))?;
    Ok(format!("{} IN DNSKEY {}\n", bare(&key.zone), joined(key)))
}

/// Prints the DS records of all secure entry points.
pub(super) fn ds(zone: &str, overrides: &Overrides) -> CommandResult<String> {
    let keys = keys_of(zone, overrides)?;
    let entries = with_roles(&keys).filter(|(word, _)| *word != "ZSK");
    Ok(entries.map(|(_, key)| ds_lines(key, "")).collect())
}

/// Generates a key and prints its number.
pub(super) fn add(template: KeyTemplate, overrides: &Overrides) -> CommandResult<String> {
    number_of(OperationRequest::KeyAdd(template), overrides)
}

/// Imports a key from a file and prints its number.
pub(super) fn import(
    file: &Path,
    template: KeyTemplate,
    overrides: &Overrides,
) -> CommandResult<String> {
    let private = SecretText::from(read_key(file)?);
    number_of(OperationRequest::KeyImport { private, template }, overrides)
}

/// Applies the arguments of `add-zone-key` and `import-zone-key` after the zone, in any order, to a command's
/// defaults.
pub(super) fn template(mut template: KeyTemplate, words: &[&str]) -> KeyTemplate {
    for word in words {
        match *word {
            "ksk" | "zsk" | "csk" => template.role = Some((*word).into()),
            "active" => template.inactive = false,
            "inactive" => template.inactive = true,
            "published" => template.unpublished = false,
            "unpublished" => template.unpublished = true,
            "ecdsa256" => template.algorithm = Some("ECDSAP256SHA256".into()),
            "ecdsa384" => template.algorithm = Some("ECDSAP384SHA384".into()),
            "rsasha1-nsec3-sha1" => template.algorithm = Some("NSEC3RSASHA1".into()),
            word => match word.parse::<u32>() {
                // Smaller numbers are algorithms.
                Ok(bits) if bits >= 256 => template.bits = Some(bits),
                _ => template.algorithm = Some(word.into()),
            },
        }
    }
    template
}

fn number_of(request: OperationRequest, overrides: &Overrides) -> CommandResult<String> {
    let key = remote::fetch(request, overrides, only!(OperationResult, ZoneKey))?;
    Ok(format!("{}\n", key.key))
}

pub(super) fn details(zone: &str, overrides: &Overrides) -> CommandResult<ZoneDetails> {
    let request = OperationRequest::ZoneShow { zone: zone.into() };
    remote::fetch(request, overrides, only!(OperationResult, Zone))
}

/// Returns the keys of an existing zone, possibly none.
fn keys_of(zone: &str, overrides: &Overrides) -> CommandResult<Vec<ListedZoneKey>> {
    details(zone, overrides)?;
    keys(Some(zone.into()), overrides)
}

/// Replaces an error of one kind by an empty list.
fn unless_failed<T>(listed: CommandResult<Vec<T>>, kind: ErrorKind) -> CommandResult<Vec<T>> {
    match listed {
        Err(CommandError::Control(ControlError::Failed(error))) if error.kind == kind => {
            Ok(Vec::new())
        }
        listed => listed,
    }
}

fn keys(zone: Option<String>, overrides: &Overrides) -> CommandResult<Vec<ListedZoneKey>> {
    let request = OperationRequest::KeyList { zone };
    unless_failed(
        remote::list(request, overrides, only!(ZoneKey)),
        ErrorKind::NotFound,
    )
}

/// Returns the keys of one zone with PowerDNS' names for their roles: an algorithm that signs with keys of one kind
/// alone has CSKs. Keys with that kind's own name come last.
fn with_roles(keys: &[ListedZoneKey]) -> impl Iterator<Item = (&'static str, &ListedZoneKey)> {
    let is_entry = |key: &ListedZoneKey| key.flags & 1 == 1;
    let active = |entry: bool| -> BTreeSet<u8> {
        let keys = keys
            .iter()
            .filter(|key| key.active && is_entry(key) == entry);
        keys.map(|key| key.algorithm_number).collect()
    };
    let (entries, others) = (active(true), active(false));
    let word = move |key: &ListedZoneKey| {
        let algorithm = key.algorithm_number;
        let is_split = entries.contains(&algorithm) && others.contains(&algorithm);
        match (is_split, is_entry(key)) {
            (false, _) => "CSK",
            (true, true) => "KSK",
            (true, false) => "ZSK",
        }
    };
    let mut sorted: Vec<_> = keys.iter().map(|key| (word(key), key)).collect();
    sorted.sort_by_key(|(word, key)| (*word == "KSK", key.key));
    sorted.into_iter()
}

/// Prints the key table of one zone or all.
pub(super) fn list(zone: Option<&str>, overrides: &Overrides) -> CommandResult<String> {
    let keys = match zone {
        Some(zone) => keys_of(zone, overrides)?,
        None => keys(None, overrides)?,
    };
    let mut text = format!("{HEAD}\n{}\n", "-".repeat(HEAD.len()));
    for of_zone in keys.chunk_by(|one, other| one.zone == other.zone) {
        for (word, key) in with_roles(of_zone) {
            text.push_str(&format!(
                "{:<29} {word:<4} {:<3} {:<3} {:<7} {:<15} {:<4} {:<11} {}\n",
                bare(&key.zone),
                if key.active { "Act" } else { "" },
                if key.published { "Pub" } else { "" },
                key.bits,
                key.algorithm,
                key.key,
                if key.created.is_some() {
                    "state store"
                } else {
                    "cryptokeys"
                },
                key.tag
            ));
        }
    }
    Ok(text)
}

/// Prints a zone with its metadata and keys.
pub(super) fn show(zone: &str, overrides: &Overrides) -> CommandResult<String> {
    let details = details(zone, overrides)?;
    let keys = keys(Some(zone.into()), overrides)?;
    let metadata = metadata(zone, overrides)?;
    let value = |kind: &str| {
        let mut items = metadata.iter();
        let item = items.find(|(have, _)| have == kind);
        item.map(|(_, content)| content.as_str())
    };
    let is_presigned = value("PRESIGNED") == Some("1");
    let mut text = format!("This is a {} zone\n", kind_keyword(details.kind));
    if let Some(primaries) = &details.primaries {
        text.push_str(&format!("Primary: {primaries}\n"));
    }
    if keys.is_empty() && !is_presigned {
        text.push_str("Zone is not actively secured\n");
    }
    text.push_str("Metadata items: ");
    if metadata.is_empty() {
        text.push_str("None\n")
    } else {
        text.push('\n')
    }
    for (kind, content) in &metadata {
        text.push_str(&format!("\t{kind}\t{content}\n"));
    }
    if is_presigned {
        text.push_str("Zone is presigned\n");
    }
    if keys.is_empty() {
        return Ok(text);
    }
    text.push_str(&match (value("NSEC3PARAM"), value("NSEC3NARROW")) {
        (None, _) => "Zone has NSEC semantics\n".to_owned(),
        (Some(param), Some("1")) => {
            format!("Zone has NARROW hashed NSEC3 semantics, configuration: {param}\n")
        }
        (Some(param), _) => format!("Zone has hashed NSEC3 semantics, configuration: {param}\n"),
    });
    text.push_str("keys: \n");
    with_roles(&keys).for_each(|(word, key)| show_key(word, key, &mut text));
    Ok(text)
}

fn show_key(word: &str, key: &ListedZoneKey, text: &mut String) {
    let (active, published) = (
        if key.active { "  Active" } else { "Inactive" },
        if key.published {
            " Published"
        } else {
            " Unpublished"
        },
    );
    let ListedZoneKey {
        key: number,
        flags,
        tag,
        algorithm,
        bits,
        zone,
        ..
    } = key;
    text.push_str(&format!(
        "ID = {number} ({word}), flags = {flags}, tag = {tag}, algo = {}, bits = {bits}\t{active}\t{published}  ( {algorithm} ) \n",
        key.algorithm_number
    ));
    if word != "ZSK" && !key.dnskey.is_empty() {
        let data = joined(key);
        text.push_str(&format!(
            "{word} DNSKEY = {zone} IN DNSKEY {data} ; ( {algorithm} )\n"
        ));
        text.push_str(&ds_lines(key, "DS = "));
    }
}

fn metadata(zone: &str, overrides: &Overrides) -> CommandResult<Vec<(String, String)>> {
    let (zone, kind) = (zone.into(), None);
    let request = OperationRequest::MetadataList { zone, kind };
    let listed = remote::list(request, overrides, |item| match item {
        ListedItem::Metadata(item) => Some((item.kind, item.content)),
        _ => None,
    });
    // File zones have none.
    unless_failed(listed, ErrorKind::Refused)
}

/// Returns PowerDNS' name for a zone kind.
fn kind_keyword(kind: ListedKind) -> &'static str {
    match kind.name() {
        "primary" => "Master",
        "secondary" => "Slave",
        "producer" => "Producer",
        "consumer" => "Consumer",
        _ => "Native",
    }
}

/// Returns the DNSKEY data without spaces in the key.
fn joined(key: &ListedZoneKey) -> String {
    let words: Vec<&str> = key.dnskey.split(' ').collect();
    match words.get(..3) {
        Some(fields) => format!("{} {}", fields.join(" "), words[3..].concat()),
        None => key.dnskey.clone(),
    }
}

/// Returns a line for the DS of each digest type.
fn ds_lines(key: &ListedZoneKey, prefix: &str) -> String {
    let mut rdata = Vec::new();
    let mut fields = Fields::new(key.dnskey.as_bytes());
    let read = parse_text(Type::DNSKEY, &mut fields, Name::ROOT, &mut rdata);
    let (Ok(_), Ok(apex)) = (read, NameBuf::zone_from_text(&key.zone)) else {
        return String::new();
    };
    let mut text = String::new();
    for (digest, words) in [(2, "SHA256 digest"), (4, "SHA-384 digest")] {
        let ds = ds_data(apex.as_name(), &rdata, digest).unwrap_or_default();
        text.push_str(&format!(
            "{prefix}{} IN DS {} {} {digest} {} ; ( {words} )\n",
            key.zone,
            key.tag,
            key.algorithm_number,
            HEXLOWER.encode(ds.get(4..).unwrap_or_default())
        ));
    }
    text
}
