//! Policies of database zones: `domains`, `domainmetadata` and `tsigkeys` of PowerDNS, converted to our settings.
//!
//! Where PowerDNS adds a zone's metadata to a global setting, so does this: ALLOW-AXFR-FROM and TSIG-ALLOW-AXFR
//! extend the default `allow_transfer`. An update needs an address in ALLOW-DNSUPDATE-FROM and, if
//! TSIG-ALLOW-DNSUPDATE has keys, one of these as well.

use super::database_templates::{POLICY_METADATA, TEMPLATE_METADATA};
use super::{
    PolicyFragment, RemoteServer, RolledCookieSecret, SharedApiKey, UpdateSerial, ZoneKind,
};
use crate::catalog::member_hash;
use nameward_dnssec::tsig::{TsigAlgorithm, TsigKey, read_secret};
use nameward_sql::{CatalogProperties, CatalogRole, SettingItem, StoredTsigKey, ZoneRow};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessEntry, AccessList, AccessWord};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The default port of a server.
const PORT: u16 = 53;

/// The policy of a database zone, and the problems found in it.
#[derive(Debug, Default)]
pub struct StoredPolicy {
    /// The fragment; `None` if the zone has no settings of its own.
    pub part: Option<PolicyFragment>,
    /// Descriptions of invalid items.
    pub problems: Vec<String>,
}

/// Reads the policy of a zone from its row and its metadata. An invalid item grants no access.
pub fn read_policy(row: &ZoneRow, items: &[SettingItem]) -> StoredPolicy {
    let kind = row.kind;
    let is_plain = kind == ZoneKind::Native && items.is_empty() && row.catalog.is_none();
    if is_plain && row.primaries.is_none() {
        // A database may have a million of these.
        return StoredPolicy::default();
    }
    let mut problems = Vec::new();
    let key = first(items, "AXFR-MASTER-TSIG")
        .and_then(|text| name(text, "AXFR-MASTER-TSIG", &mut problems));
    let source = first(items, "AXFR-SOURCE").and_then(|text| {
        let address = text.trim().parse::<IpAddr>();
        address
            .map_err(|_| problems.push(format!("AXFR-SOURCE: invalid address {text:?}")))
            .ok()
    });
    let primaries = row.primaries.as_deref().unwrap_or_default();
    let primaries = servers(primaries, key, source, "master", &mut problems);
    let mut also_notify = Vec::new();
    // PowerDNS signs with the key that signs transfers of the zone.
    let own_key = all(items, "TSIG-ALLOW-AXFR").flat_map(words).next();
    let own_key = own_key.and_then(|text| name(text, "TSIG-ALLOW-AXFR", &mut Vec::new()));
    for content in all(items, "ALSO-NOTIFY") {
        also_notify.extend(servers(
            content,
            own_key,
            source,
            "ALSO-NOTIFY",
            &mut problems,
        ));
    }
    let sends_notify = match kind {
        ZoneKind::Primary | ZoneKind::Producer => true,
        ZoneKind::Secondary => is_on(items, "SLAVE-RENOTIFY"),
        ZoneKind::Native | ZoneKind::Consumer => false,
    };
    if !sends_notify {
        also_notify.clear();
    }
    // Its settings are among the items.
    let template = first(items, TEMPLATE_METADATA);
    template.and_then(|text| name(text, TEMPLATE_METADATA, &mut problems));
    let update_serial = match first(items, "SOA-EDIT-DNSUPDATE").map(UpdateSerial::read) {
        None => UpdateSerial::Default,
        Some(Some(serial)) => serial,
        Some(None) => {
            problems.push("SOA-EDIT-DNSUPDATE: unknown value; using DEFAULT".into());
            UpdateSerial::Default
        }
    };
    let part = PolicyFragment {
        kind: Some(kind),
        primaries: Some(primaries),
        also_notify: Some(also_notify),
        notify_name_servers: Some(sends_notify),
        // PowerDNS waits for its next round unless this is set; here only if it is set to 0.
        notify_at_once: first(items, "NOTIFY-DNSUPDATE").map(|_| is_on(items, "NOTIFY-DNSUPDATE")),
        also_transfer: transfer_list(items, &mut problems),
        transfer_to_name_servers: is_auto_ns(items).then_some(true),
        allow_update: update_list(items, &mut problems),
        update_serial: Some(update_serial),
        forward_updates: is_on(items, "FORWARD-DNSUPDATE").then_some(true),
        is_incremental: first(items, "IXFR").map(|_| is_on(items, "IXFR")),
        runs_scripts: first(items, "ENABLE-LUA-RECORDS")
            .map(|_| is_on(items, "ENABLE-LUA-RECORDS")),
        is_presigned: is_on(items, "PRESIGNED").then_some(true),
        dnssec_policy: first(items, POLICY_METADATA).map(|name| name.trim().into()),
        catalog: row
            .catalog
            .as_deref()
            .and_then(|text| name(text, "catalog", &mut problems)),
        catalog_properties: row.catalog.is_some().then(|| properties(row)),
        ..PolicyFragment::default()
    };
    StoredPolicy {
        part: (!is_plain).then_some(part),
        problems,
    }
}

/// Reads the properties that a zone has in a catalog produced here.
fn properties(row: &ZoneRow) -> CatalogProperties {
    let options = row.options.as_deref().unwrap_or_default();
    let mut properties =
        CatalogProperties::read(options, CatalogRole::Producer).unwrap_or_default();
    // The label that PowerDNS generates: with another one secondaries would take the zone for a different one.
    properties.label.get_or_insert_with(|| {
        let hash = member_hash(row.name.as_name(), row.id.to_string().into_bytes());
        hash.into_bytes().into()
    });
    properties
}

/// Reads the keys of a database. Of several keys with one name, the one with the longest MAC is used: a name has one
/// algorithm (RFC 8945 section 5.2 looks keys up by name and algorithm, and a shorter MAC is easier to guess).
pub fn read_keys(rows: &[StoredTsigKey]) -> (Vec<Arc<TsigKey>>, Vec<String>) {
    let (mut keys, mut problems) = (HashMap::<NameBuf, Arc<TsigKey>>::new(), Vec::new());
    let is_key =
        |row: &&StoredTsigKey| !RolledCookieSecret::is_row(row) && !SharedApiKey::is_row(row);
    for row in rows.iter().filter(is_key) {
        let name = row.name;
        let Some(algorithm) = TsigAlgorithm::from_word(&row.algorithm) else {
            problems.push(format!(
                "TSIG key {name}: unknown algorithm {:?}",
                row.algorithm
            ));
            continue;
        };
        let secret = read_secret(row.secret.reveal()).filter(|secret| !secret.reveal().is_empty());
        let Some(secret) = secret else {
            problems.push(format!("TSIG key {name}: the secret is not valid base64"));
            continue;
        };
        let key = Arc::new(TsigKey::new(name.as_name(), algorithm, secret.reveal()));
        if let Some(other) = keys.get(&name) {
            let [one, two] = [other.algorithm(), algorithm].map(TsigAlgorithm::word);
            problems.push(format!(
                "TSIG key {name}: defined with {one} and with {two}; using the longer digest"
            ));
            if other.algorithm().mac_len() >= algorithm.mac_len() {
                continue;
            }
        }
        keys.insert(name, key);
    }
    (keys.into_values().collect(), problems)
}

/// Reads the secrets for DNS cookies of a database, and describes invalid rows.
pub fn read_cookies(rows: &[StoredTsigKey]) -> (Vec<RolledCookieSecret>, Vec<String>) {
    let (mut secrets, mut problems) = (Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| RolledCookieSecret::is_row(row)) {
        match RolledCookieSecret::from_row(row) {
            Some(secret) => secrets.push(secret),
            None => problems.push(format!("cookie secret {}: invalid row", row.name)),
        }
    }
    (secrets, problems)
}

fn all<'i>(items: &'i [SettingItem], kind: &'static str) -> impl Iterator<Item = &'i str> {
    let items = items.iter().filter(move |item| item.kind == kind);
    items.map(|item| &*item.content)
}

fn first<'i>(items: &'i [SettingItem], kind: &'static str) -> Option<&'i str> {
    all(items, kind).find(|content| !content.trim().is_empty())
}

/// Checks whether there is an item that does not mean "no".
fn is_on(items: &[SettingItem], kind: &'static str) -> bool {
    all(items, kind).any(|content| !["0", "no", "false"].contains(&content.trim()))
}

fn is_auto_ns(items: &[SettingItem]) -> bool {
    let mut words = all(items, "ALLOW-AXFR-FROM").flat_map(words);
    words.any(|word| word.eq_ignore_ascii_case("AUTO-NS"))
}

/// Splits a list into words, whatever the separator.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split([',', ';', ' ', '\t', '\n']);
    words.filter(|word| !word.is_empty())
}

fn name(text: &str, kind: &str, problems: &mut Vec<String>) -> Option<NameBuf> {
    let text = text.trim();
    let name = NameBuf::from_text(text.as_bytes(), Name::ROOT);
    name.map_err(|error| problems.push(format!("{kind}: invalid name {text:?}: {error}")))
        .ok()
}

/// Reads addresses with or without ports.
fn servers(
    text: &str,
    key: Option<NameBuf>,
    source: Option<IpAddr>,
    kind: &str,
    problems: &mut Vec<String>,
) -> Vec<RemoteServer> {
    let mut found = Vec::new();
    for word in words(text) {
        let bare = word
            .strip_prefix('[')
            .and_then(|word| word.strip_suffix(']'));
        let address = word.parse::<SocketAddr>().or_else(|_| {
            Ok(SocketAddr::new(
                bare.unwrap_or(word).parse::<IpAddr>()?,
                PORT,
            ))
        });
        match address {
            Ok(address) => found.push(RemoteServer {
                address,
                key,
                source,
                tls: None,
            }),
            Err::<_, std::net::AddrParseError>(_) => {
                problems.push(format!("{kind}: invalid address {word:?}"));
            }
        }
    }
    found
}

fn networks(
    items: &[SettingItem],
    kind: &'static str,
    problems: &mut Vec<String>,
) -> Vec<AccessEntry> {
    let mut entries = Vec::new();
    for word in all(items, kind).flat_map(words) {
        if word.eq_ignore_ascii_case("AUTO-NS") {
            continue;
        }
        match network(word) {
            Some(term) => entries.push(AccessEntry::positive(term)),
            None => problems.push(format!("{kind}: invalid address or network {word:?}")),
        }
    }
    entries
}

fn network(word: &str) -> Option<AccessWord> {
    let (address, bits) = match word.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
        None => (word, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(width);
    (bits <= width).then_some(AccessWord::Network(address, bits))
}

fn keys(items: &[SettingItem], kind: &'static str, problems: &mut Vec<String>) -> Vec<AccessEntry> {
    let words = all(items, kind).flat_map(words);
    let names = words.filter_map(|word| name(word, kind, problems));
    names
        .map(|key| AccessEntry::positive(AccessWord::Key(key)))
        .collect()
}

fn transfer_list(items: &[SettingItem], problems: &mut Vec<String>) -> Option<AccessList> {
    let mut entries = networks(items, "ALLOW-AXFR-FROM", problems);
    entries.extend(keys(items, "TSIG-ALLOW-AXFR", problems));
    (!entries.is_empty()).then(|| AccessList::new(&entries))
}

/// Returns the update access list: networks, combined with a key if keys are named. Keys alone are only valid from
/// this machine, as in PowerDNS by default.
fn update_list(items: &[SettingItem], problems: &mut Vec<String>) -> Option<AccessList> {
    let (has_networks, has_keys) = (
        all(items, "ALLOW-DNSUPDATE-FROM").next().is_some(),
        all(items, "TSIG-ALLOW-DNSUPDATE").next().is_some(),
    );
    let loopback = [
        AccessWord::Network(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
        AccessWord::Network(Ipv6Addr::LOCALHOST.into(), 128),
    ];
    let networks = if has_networks {
        networks(items, "ALLOW-DNSUPDATE-FROM", problems)
    } else {
        loopback.map(AccessEntry::positive).into()
    };
    let networks = AccessList::new(&networks);
    match (has_networks, has_keys) {
        (false, false) => None,
        (true, false) => Some(networks),
        (_, true) => {
            let keys = AccessList::new(&keys(items, "TSIG-ALLOW-DNSUPDATE", problems));
            Some(networks.intersection(&keys))
        }
    }
}

#[cfg(test)]
mod tests;
