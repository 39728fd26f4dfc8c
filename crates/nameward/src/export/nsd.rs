//! The fragment for NSD, which does not sign: a script signs the zones with the exported keys.

use std::{collections::BTreeSet, fmt::Write, path::PathBuf};

use nameward_maintain::policy::{ClientIdentity, PeerTls};
use nameward_zone::{AccessEntry, AccessList, AccessWord};

use super::{
    ExportedFile, ExportedServer, ExportedZone, bare, entries, is_any, network,
    peers::{NSD, WITHOUT_TLS},
    zone_file,
};

/// Writes `nsd.conf.nameward` and `sign-zones`.
pub fn write(server: &ExportedServer, warnings: &mut Vec<String>) -> Vec<ExportedFile> {
    let mut text = String::from("# Exported by nameward; include it in nsd.conf.\n");
    for key in &server.tsig_keys {
        let (name, algorithm, secret) = (bare(&key.name), &key.algorithm, &key.secret);
        let _ = writeln!(
            text,
            "key:\n    name: \"{name}\"\n    algorithm: {algorithm}\n    secret: \"{secret}\""
        );
    }
    text.push_str(&tls_auth(server));
    let mut sign = String::from(
        "#!/bin/sh\n# Exported by nameward: NSD serves signatures and makes none. Run this before NSD starts, and again, with a \
         later\n# serial in the zone file, before the signatures end (30 days).\nset -eu\n",
    );
    for zone in &server.zones {
        zone_text(&mut text, zone, server, warnings);
        if zone.is_signed() {
            warnings.push(format!(
                "zone {}: NSD does not sign: run sign-zones regularly, or sign on another server",
                zone.name
            ));
            let name = zone.name.to_string();
            let (keys, file) = (
                server.out.join("keys"),
                server.out.join(zone_file(&zone.name)),
            );
            let denial = match zone.denial.as_str() {
                "nsec3" | "nsec3-narrow" => "-3 - -H 0 ",
                "nsec3-opt-out" => "-3 - -H 0 -A ",
                _ => "",
            };
            // -z: keys of a single kind sign everything.
            let alone = if zone.has_combined_key() { "-z " } else { "" };
            let _ = writeln!(
                sign,
                "dnssec-signzone -S {denial}{alone}-K '{keys}' -d '{keys}' -o '{name}' -f '{file}.signed' '{file}'",
                keys = keys.display(),
                name = bare(&name),
                file = file.display()
            );
        }
    }
    let is_signed = server.zones.iter().any(ExportedZone::is_signed);
    let mut files = vec![(PathBuf::from("nsd.conf.nameward"), text.into_bytes(), 0o600)];
    if is_signed {
        files.push((PathBuf::from("sign-zones"), sign.into_bytes(), 0o755));
    }
    files
}

/// Returns the `tls-auth` statements, one for each name that primaries are verified by.
fn tls_auth(server: &ExportedServer) -> String {
    let primaries = server.zones.iter().flat_map(ExportedZone::primaries);
    let tls = primaries.filter_map(|primary| primary.tls.as_deref());
    let tls: Vec<&PeerTls> = tls.filter(|tls| (NSD.lacks)(tls).is_none()).collect();
    let mut text = String::new();
    let files: BTreeSet<_> = tls.iter().map(|tls| tls.authorities.as_deref()).collect();
    for path in files.into_iter().flatten() {
        let _ = writeln!(text, "# in server: tls-cert-bundle: \"{}\"", path.display());
    }
    let mut named = BTreeSet::new();
    for tls in tls {
        let Some(name) = tls.name.as_deref().filter(|name| named.insert(*name)) else {
            continue;
        };
        let _ = writeln!(
            text,
            "tls-auth:\n    name: {name}\n    auth-domain-name: {name}"
        );
        if let Some(ClientIdentity { certificate, key }) = &tls.identity {
            let (certificate, key) = (certificate.display(), key.display());
            let _ = writeln!(
                text,
                "    client-cert: \"{certificate}\"\n    client-key: \"{key}\""
            );
        }
    }
    text
}

fn zone_text(
    out: &mut String,
    zone: &ExportedZone,
    server: &ExportedServer,
    warnings: &mut Vec<String>,
) {
    let name = zone.name.to_string();
    let _ = writeln!(out, "zone:\n    name: \"{}\"", bare(&name));
    let with_key = |key: Option<&nameward_wire::NameBuf>| {
        key.map_or("NOKEY".to_string(), |key| {
            bare(&key.to_string()).to_string()
        })
    };
    if !zone.is_transferred() {
        let end = if zone.is_signed() { ".signed" } else { "" };
        let file = server.out.join(zone_file(&zone.name));
        let _ = writeln!(out, "    zonefile: \"{}{end}\"", file.display());
    }
    for remote in NSD.expressible(zone, zone.primaries(), warnings) {
        let (ip, port) = (remote.address.ip(), remote.address.port());
        let key = with_key(remote.key.as_ref());
        let auth = remote.tls.as_ref().and_then(|tls| tls.name.as_deref());
        let auth = auth.map_or_else(String::new, |name| format!(" {name}"));
        let _ = writeln!(
            out,
            "    request-xfr: {ip}@{port} {key}{auth}\n    allow-notify: {ip} {key}"
        );
    }
    for remote in WITHOUT_TLS.expressible(zone, zone.also_notify(), warnings) {
        let (ip, port) = (remote.address.ip(), remote.address.port());
        let _ = writeln!(
            out,
            "    notify: {ip}@{port} {}",
            with_key(remote.key.as_ref())
        );
    }
    for entry in entries(zone.terms.allow_transfer.as_ref()).unwrap_or_default() {
        for line in access(&entry) {
            let _ = writeln!(out, "    provide-xfr: {line}");
        }
    }
    let queries = zone.allow_query.as_ref().filter(|list| !is_any(list));
    if queries.is_some_and(|list| list.named_keys().next().is_some()) {
        warnings.push(format!(
            "zone {name}: NSD has no TSIG keys in allow-query: entries with keys not converted"
        ));
    }
    let has_key = |entry: &AccessEntry| {
        matches!(
            entry.term,
            AccessWord::Key(_) | AccessWord::NetworkWithKey(..)
        )
    };
    let listed = queries.map(AccessList::entries).unwrap_or_default();
    let listed = listed.iter().filter(|entry| !has_key(entry));
    let mut lines: Vec<String> = listed.flat_map(access).collect();
    if queries.is_some() && lines.is_empty() {
        // Without such a line, NSD would answer every client.
        lines = ["0.0.0.0/0 BLOCKED", "::0/0 BLOCKED"]
            .map(String::from)
            .into();
    }
    for line in lines {
        let _ = writeln!(out, "    allow-query: {line}");
    }
    if entries(zone.terms.allow_update.as_ref()).is_some() || zone.has_update_rules() {
        warnings.push(format!("zone {name}: NSD does not support dynamic updates"));
    }
}

/// Returns the lines of an access list. Blocked networks apply whatever their position.
fn access(entry: &AccessEntry) -> Vec<String> {
    let everywhere = ["0.0.0.0/0", "::0/0"].map(String::from).to_vec();
    let (networks, key) = match &entry.term {
        AccessWord::Any | AccessWord::List(_) => (everywhere, "NOKEY".to_string()),
        // Left out before.
        AccessWord::OverTls(_) => (everywhere, "BLOCKED".to_string()),
        AccessWord::Network(address, bits) => (vec![network(*address, *bits)], "NOKEY".into()),
        AccessWord::Key(key) => (everywhere, bare(&key.to_string()).to_string()),
        AccessWord::NetworkWithKey(address, bits, key) => {
            let key = bare(&key.to_string()).to_string();
            (vec![network(*address, *bits)], key)
        }
    };
    let word = if entry.is_negated {
        "BLOCKED".into()
    } else {
        key
    };
    networks
        .iter()
        .map(|network| format!("{network} {word}"))
        .collect()
}
