//! The fragment for Knot, and a script that imports the keys into its key database.

use std::{fmt::Write, path::PathBuf};

use data_encoding::BASE64;
use nameward_maintain::policy::RemoteServer;
use nameward_zone::{AccessEntry, AccessWord};

use super::{
    ExportedFile, ExportedServer, ExportedZone, bare, entries, is_any, network, peers::KNOT,
    zone_file,
};

/// Sections of a knot.conf: a reference must follow what it refers to.
#[derive(Default)]
struct Sections {
    remotes: String,
    acls: String,
    policies: Vec<(String, String)>,
    zones: String,
    count: usize,
}

/// Writes `knot.conf.nameward` and `import-keys`.
pub fn write(server: &ExportedServer, warnings: &mut Vec<String>) -> Vec<ExportedFile> {
    let mut sections = Sections::default();
    let mut keys = String::from(
        "#!/bin/sh\n# Exported by nameward: imports the keys into Knot's database. Usage: import-keys KNOT.CONF\nset -eu\n",
    );
    for zone in &server.zones {
        sections.zone(zone, server, warnings);
        let is_combined = zone.has_combined_key();
        for key in &zone.keys {
            let file = server.out.join("keys").join(format!("{}.key", key.stem));
            let name = zone.name.to_string();
            let (zone, file) = (bare(&name), file.display());
            let _ = writeln!(keys, "keymgr -c \"$1\" '{zone}' import-bind '{file}'");
            if is_combined {
                // Such a key has the flags of a KSK.
                let tag = key.stem.rsplit('+').next().unwrap_or_default();
                let tag = tag.trim_start_matches('0');
                let _ = writeln!(
                    keys,
                    "keymgr -c \"$1\" '{zone}' set '{tag}' ksk=yes zsk=yes"
                );
            }
        }
    }
    let mut text = String::from(
        "# Exported by nameward; include it in knot.conf, behind server: and database:.\n",
    );
    if !server.tsig_keys.is_empty() {
        text.push_str("key:\n");
    }
    for key in &server.tsig_keys {
        let (name, algorithm, secret) = (bare(&key.name), &key.algorithm, &key.secret);
        let _ = writeln!(
            text,
            "  - id: {name}\n    algorithm: {algorithm}\n    secret: {secret}"
        );
    }
    let policies: Vec<&str> = sections.policies.iter().map(|(_, text)| &**text).collect();
    for (name, section) in [
        ("remote", &sections.remotes),
        ("acl", &sections.acls),
        ("policy", &policies.concat()),
        ("zone", &sections.zones),
    ] {
        if !section.is_empty() {
            let _ = write!(text, "{name}:\n{section}");
        }
    }
    let mut files = vec![(
        PathBuf::from("knot.conf.nameward"),
        text.into_bytes(),
        0o600,
    )];
    if server.zones.iter().any(|zone| !zone.keys.is_empty()) {
        files.push((PathBuf::from("import-keys"), keys.into_bytes(), 0o755));
    }
    files
}

impl Sections {
    fn zone(&mut self, zone: &ExportedZone, server: &ExportedServer, warnings: &mut Vec<String>) {
        let name = zone.name.to_string();
        let mut acls = Vec::new();
        for (action, list) in [
            ("transfer", zone.terms.allow_transfer.as_ref()),
            ("update", zone.terms.allow_update.as_ref()),
            (
                "query",
                zone.allow_query.as_ref().filter(|list| !is_any(list)),
            ),
        ] {
            for entry in entries(list).unwrap_or_default() {
                acls.push(self.acl(action, &entry));
            }
        }
        let (masters, notified) = (zone.primaries(), zone.also_notify());
        let masters = self.remotes(&KNOT.expressible(zone, masters, warnings));
        let notified = self.remotes(&KNOT.expressible(zone, notified, warnings));
        let _ = writeln!(self.zones, "  - domain: {}", bare(&name));
        if !zone.is_transferred() {
            let file = server.out.join(zone_file(&zone.name));
            let _ = writeln!(self.zones, "    file: \"{}\"", file.display());
        }
        for (key, list) in [("master", masters), ("notify", notified), ("acl", acls)] {
            if !list.is_empty() {
                let _ = writeln!(self.zones, "    {key}: [{}]", list.join(", "));
            }
        }
        if zone.is_signed() {
            let policy = self.policy(zone, warnings);
            // The file stays unsigned, so that it can be edited.
            let _ = writeln!(
                self.zones,
                "    dnssec-signing: on\n    dnssec-policy: {policy}\n    zonefile-load: difference-no-serial\n    \
                 zonefile-sync: -1\n    journal-content: all"
            );
        }
        if zone.has_update_rules() {
            warnings.push(format!("zone {name}: update_policy not converted"));
        }
    }

    fn acl(&mut self, action: &str, entry: &AccessEntry) -> String {
        self.count += 1;
        let id = format!("nameward-{}", self.count);
        let _ = writeln!(self.acls, "  - id: {id}\n    action: {action}");
        match &entry.term {
            AccessWord::Any | AccessWord::List(_) => {}
            // Left out before.
            AccessWord::OverTls(_) => self.acls.push_str("    deny: on\n"),
            AccessWord::Network(address, bits) => {
                let _ = writeln!(self.acls, "    address: {}", network(*address, *bits));
            }
            AccessWord::Key(key) => {
                let _ = writeln!(self.acls, "    key: {}", bare(&key.to_string()));
            }
            AccessWord::NetworkWithKey(address, bits, key) => {
                let network = network(*address, *bits);
                let _ = writeln!(
                    self.acls,
                    "    address: {network}\n    key: {}",
                    bare(&key.to_string())
                );
            }
        }
        if entry.is_negated {
            self.acls.push_str("    deny: on\n");
        }
        id
    }

    fn remotes(&mut self, list: &[&RemoteServer]) -> Vec<String> {
        let mut ids = Vec::new();
        for server in list {
            self.count += 1;
            let id = format!("nameward-{}", self.count);
            let (ip, port) = (server.address.ip(), server.address.port());
            let _ = writeln!(self.remotes, "  - id: {id}\n    address: {ip}@{port}");
            if let Some(key) = &server.key {
                let _ = writeln!(self.remotes, "    key: {}", bare(&key.to_string()));
            }
            if let Some(tls) = &server.tls {
                let word = if tls.is_quic() { "quic" } else { "tls" };
                let _ = writeln!(self.remotes, "    {word}: on");
                let pins: Vec<String> = tls.pins.iter().map(|pin| BASE64.encode(pin)).collect();
                if !pins.is_empty() {
                    let _ = writeln!(self.remotes, "    cert-key: [{}]", pins.join(", "));
                }
            }
            ids.push(id);
        }
        ids
    }

    /// Returns a policy that matches the zone's existing keys, and never replaces them by itself.
    fn policy(&mut self, zone: &ExportedZone, warnings: &mut Vec<String>) -> String {
        let algorithm = zone.signing_keys().next().map_or("", |key| &key.algorithm);
        if zone.signing_keys().any(|key| key.algorithm != algorithm) {
            warnings.push(format!(
                "zone {}: keys of more than one algorithm",
                zone.name
            ));
        }
        let scheme = if zone.has_combined_key() {
            "csk"
        } else {
            "split"
        };
        let denial = match zone.denial.as_str() {
            "nsec3" | "nsec3-narrow" => {
                "    nsec3: on\n    nsec3-iterations: 0\n    nsec3-salt-length: 0\n"
            }
            "nsec3-opt-out" => {
                "    nsec3: on\n    nsec3-opt-out: on\n    nsec3-iterations: 0\n    nsec3-salt-length: 0\n"
            }
            "nsec" | "" => "",
            other => {
                let zone = &zone.name;
                warnings.push(format!("zone {zone}: denial {other} becomes NSEC"));
                ""
            }
        };
        let kind = if denial.is_empty() {
            "nsec"
        } else {
            &zone.denial
        };
        let id = format!("nameward-{algorithm}-{scheme}-{kind}");
        if !self.policies.iter().any(|(known, _)| *known == id) {
            let single = if scheme == "csk" { "on" } else { "off" };
            let text = format!(
                "  - id: {id}\n    algorithm: {algorithm}\n    single-type-signing: {single}\n    manual: on\n    \
                 ksk-lifetime: 0\n    zsk-lifetime: 0\n{denial}"
            );
            self.policies.push((id.clone(), text));
        }
        id
    }
}
