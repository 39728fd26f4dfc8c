//! The script for PowerDNS: pdnsutil loads zones, keys and settings into its database.

use std::{fmt::Write, path::PathBuf};

use nameward_zone::{AccessList, AccessWord};

use super::{
    ExportedFile, ExportedServer, ExportedZone, bare, is_any, network, peers::WITHOUT_TLS,
    zone_file,
};

/// Writes `load-into-pdns`.
pub fn write(server: &ExportedServer, warnings: &mut Vec<String>) -> Vec<ExportedFile> {
    let mut text = String::from(
        "#!/bin/sh\n# Exported by nameward: loads zones, DNSSEC keys and TSIG keys with pdnsutil.\n# Usage: load-into-pdns \
         [OPTION OF PDNSUTIL]..., as --config-dir=/etc/powerdns\nset -eu\n",
    );
    for key in &server.tsig_keys {
        let (name, algorithm, secret) = (bare(&key.name), &key.algorithm, &key.secret);
        let _ = writeln!(
            text,
            "pdnsutil \"$@\" import-tsig-key '{name}' {algorithm} '{secret}'"
        );
    }
    for zone in &server.zones {
        zone_lines(&mut text, zone, server, warnings);
    }
    vec![(PathBuf::from("load-into-pdns"), text.into_bytes(), 0o700)]
}

fn zone_lines(
    out: &mut String,
    zone: &ExportedZone,
    server: &ExportedServer,
    warnings: &mut Vec<String>,
) {
    let name = zone.name.to_string();
    let bare_name = bare(&name);
    let mut run = |line: &str| {
        let _ = writeln!(out, "pdnsutil \"$@\" {line}");
    };
    if zone.is_transferred() {
        return secondary_lines(bare_name, zone, warnings, run);
    }
    let file = server.out.join(zone_file(&zone.name));
    run(&format!("load-zone '{bare_name}' '{}'", file.display()));
    run(&format!("set-kind '{bare_name}' primary"));
    for key in &zone.keys {
        let private = server
            .out
            .join("keys")
            .join(format!("{}.private", key.stem));
        let is = |on: bool, yes: &'static str, no: &'static str| if on { yes } else { no };
        run(&format!(
            "import-zone-key '{bare_name}' '{}' {} {} {}",
            private.display(),
            is(key.is_active, "active", "inactive"),
            is(key.file.flags & 1 == 1, "ksk", "zsk"),
            is(key.is_published, "published", "unpublished")
        ));
    }
    match zone.denial.as_str() {
        "nsec3" => run(&format!("set-nsec3 '{bare_name}' '1 0 0 -'")),
        "nsec3-opt-out" => run(&format!("set-nsec3 '{bare_name}' '1 1 0 -'")),
        "white-lies" | "compact" | "nsec3-narrow" => {
            run(&format!("set-nsec3 '{bare_name}' '1 0 0 -' narrow"));
            let denial = &zone.denial;
            warnings.push(format!("zone {name}: denial {denial} becomes narrow NSEC3"));
        }
        _ => {}
    }
    metadata_lines(bare_name, zone, warnings, &mut run);
    run(&format!("rectify-zone '{bare_name}'"));
}

/// Creates a secondary zone, with the key for its transfers.
fn secondary_lines(
    bare_name: &str,
    zone: &ExportedZone,
    warnings: &mut Vec<String>,
    mut run: impl FnMut(&str),
) {
    let remotes = WITHOUT_TLS.expressible(zone, zone.primaries(), warnings);
    let primaries: Vec<String> = { remotes.iter() }
        .map(|remote| remote.address.to_string())
        .collect();
    run(&format!(
        "create-secondary-zone '{bare_name}' {}",
        primaries.join(" ")
    ));
    if let Some(key) = remotes.iter().find_map(|remote| remote.key.as_ref()) {
        let key = key.to_string();
        run(&format!(
            "activate-tsig-key '{bare_name}' '{}' secondary",
            bare(&key)
        ));
    }
}

/// Sets access lists and the servers to notify.
fn metadata_lines(
    bare_name: &str,
    zone: &ExportedZone,
    warnings: &mut Vec<String>,
    run: &mut impl FnMut(&str),
) {
    let name = zone.name.to_string();
    let lists = [
        (
            "ALLOW-AXFR-FROM",
            "TSIG-ALLOW-AXFR",
            zone.terms.allow_transfer.as_ref(),
        ),
        (
            "ALLOW-DNSUPDATE-FROM",
            "TSIG-ALLOW-DNSUPDATE",
            zone.terms.allow_update.as_ref(),
        ),
    ];
    for (networks, keys, list) in lists {
        let Some((from, named)) = split(list, warnings, &name) else {
            continue;
        };
        for (kind, values) in [(networks, from), (keys, named)] {
            if !values.is_empty() {
                run(&format!(
                    "set-meta '{bare_name}' {kind} {}",
                    values.join(" ")
                ));
            }
        }
    }
    let notified = WITHOUT_TLS.expressible(zone, zone.also_notify(), warnings);
    let notified: Vec<String> = { notified.iter() }
        .map(|remote| remote.address.to_string())
        .collect();
    if !notified.is_empty() {
        run(&format!(
            "set-meta '{bare_name}' ALSO-NOTIFY {}",
            notified.join(" ")
        ));
    }
    if zone.allow_query.as_ref().is_some_and(|list| !is_any(list)) {
        let text = format!(
            "zone {name}: PowerDNS has no per-zone query access list: allow_query not converted"
        );
        warnings.push(text);
    }
}

/// Splits a list into networks and keys; what PowerDNS cannot express is left out, so that no additional
/// client is allowed.
fn split(
    list: Option<&AccessList>,
    warnings: &mut Vec<String>,
    zone: &str,
) -> Option<(Vec<String>, Vec<String>)> {
    let (mut networks, mut keys) = (Vec::new(), Vec::new());
    for entry in list?.entries() {
        match (&entry.term, entry.is_negated) {
            (AccessWord::Network(address, bits), false) => networks.push(network(*address, *bits)),
            (AccessWord::Any, false) => networks.extend(["0.0.0.0/0", "::/0"].map(String::from)),
            (AccessWord::Key(key), false) => keys.push(bare(&key.to_string()).to_string()),
            _ => {
                let text = format!(
                    "zone {zone}: access list with exclusions or with keys for some networks only: more restrictive in \
                     PowerDNS"
                );
                warnings.push(text);
                // Later entries may include what an exception excludes.
                break;
            }
        }
    }
    Some((networks, keys))
}
