//! The fragment for BIND: keys, policies and zones, for inclusion in a named.conf.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_base::calendar::UtcTime;
use nameward_maintain::policy::{ClientIdentity, PeerTls, RemoteServer};
use nameward_zone::{AccessEntry, AccessList, AccessWord};

use super::{
    ExportedFile, ExportedKey, ExportedServer, ExportedZone, bare, entries, is_any, network,
    peers::BIND, zone_file,
};

/// Writes `named.conf.nameward`.
pub fn write(server: &ExportedServer, warnings: &mut Vec<String>) -> Vec<ExportedFile> {
    let mut text = String::from("// Exported by nameward; include it in named.conf.\n");
    for key in &server.tsig_keys {
        let (name, algorithm, secret) = (bare(&key.name), &key.algorithm, &key.secret);
        let _ = writeln!(
            text,
            "key \"{name}\" {{ algorithm {algorithm}; secret \"{secret}\"; }};"
        );
    }
    let mut policies: Vec<(String, String)> = Vec::new();
    let mut zones = String::new();
    let mut tls = TlsBlocks::default();
    for zone in &server.zones {
        let mut context = (&mut policies, &mut tls);
        zone_text(&mut zones, zone, server, &mut context, warnings);
    }
    text.push_str(&tls.text());
    for (name, policy) in policies {
        let _ = writeln!(text, "dnssec-policy \"{name}\" {{ {policy} }};");
    }
    text.push_str(&zones);
    let fragment = PathBuf::from("named.conf.nameward");
    let mut files = vec![(fragment, text.into_bytes(), 0o600)];
    for zone in &server.zones {
        for key in zone.signing_keys() {
            let path = Path::new("keys").join(format!("{}.state", key.stem));
            files.push((path, state_text(zone, key).into_bytes(), 0o600));
        }
    }
    files
}

fn zone_text(
    out: &mut String,
    zone: &ExportedZone,
    server: &ExportedServer,
    (policies, tls): &mut (&mut Vec<(String, String)>, &mut TlsBlocks),
    warnings: &mut Vec<String>,
) {
    let name = zone.name.to_string();
    let _ = writeln!(out, "zone \"{}\" {{", bare(&name));
    if zone.is_transferred() {
        let _ = writeln!(
            out,
            "    type secondary;\n    primaries {{ {} }};",
            tls.servers(&BIND.expressible(zone, zone.primaries(), warnings))
        );
    } else {
        let file = server.out.join(zone_file(&zone.name));
        let _ = writeln!(out, "    type primary;\n    file \"{}\";", file.display());
    }
    for (statement, list) in [
        (
            "allow-query",
            zone.allow_query.as_ref().filter(|list| !is_any(list)),
        ),
        ("allow-update", zone.terms.allow_update.as_ref()),
    ] {
        if let Some(list) = entries(list) {
            let _ = writeln!(out, "    {statement} {{ {} }};", match_list(&list));
        }
    }
    let transfer = zone.terms.allow_transfer.as_ref().map(AccessList::entries);
    let transfer = match_list(&transfer.unwrap_or_default());
    let _ = writeln!(out, "    allow-transfer {{ {transfer} }};");
    let notified = BIND.expressible(zone, zone.also_notify(), warnings);
    if !notified.is_empty() {
        let _ = writeln!(out, "    also-notify {{ {} }};", tls.servers(&notified));
    }
    if zone.has_update_rules() {
        warnings.push(format!("zone {name}: update_policy not converted"));
    }
    if zone.is_signed() {
        let (policy, text) = policy(zone, warnings);
        let keys = server.out.join("keys");
        let _ = writeln!(
            out,
            "    dnssec-policy \"{policy}\";\n    inline-signing yes;\n    key-directory \"{}\";",
            keys.display()
        );
        if !policies.iter().any(|(known, _)| *known == policy) {
            policies.push((policy, text));
        }
    }
    out.push_str("};\n");
}

/// Returns a policy that matches the zone's existing keys, and never replaces them by itself.
fn policy(zone: &ExportedZone, warnings: &mut Vec<String>) -> (String, String) {
    let mut name = String::from("nameward");
    let mut keys = String::new();
    for key in zone.signing_keys() {
        let role = match key.role.as_str() {
            _ if zone.has_combined_key() => "csk",
            role => role,
        };
        let bits = if key.algorithm.starts_with("rsa") {
            format!(" {}", key.bits)
        } else {
            String::new()
        };
        let line = format!(
            "{role} lifetime unlimited algorithm {}{bits}; ",
            key.algorithm
        );
        if !keys.contains(&line) {
            let _ = write!(name, "-{role}-{}{}", key.algorithm, bits.trim_start());
            keys.push_str(&line);
        }
    }
    let denial = match zone.denial.as_str() {
        "nsec3" | "nsec3-narrow" => "nsec3param iterations 0 optout no salt-length 0;",
        "nsec3-opt-out" => "nsec3param iterations 0 optout yes salt-length 0;",
        "nsec" | "" => "",
        other => {
            let zone = &zone.name;
            warnings.push(format!("zone {zone}: denial {other} becomes NSEC"));
            ""
        }
    };
    if !denial.is_empty() {
        let _ = write!(name, "-{}", zone.denial);
    }
    (name, format!("keys {{ {keys}}}; {denial}"))
}

/// Returns the `.state` file of a key that is in use everywhere. Without one BIND judges a key by its flags, and
/// takes a single key that signs everything for one half of a pair.
fn state_text(zone: &ExportedZone, key: &ExportedKey) -> String {
    let since = UtcTime::from_unix(key.file.times.created.unwrap_or(0)).digits();
    let is = |on: bool| if on { "yes" } else { "no" };
    let is_ksk = key.file.flags & 1 == 1;
    let is_zsk = !is_ksk || zone.has_combined_key();
    let algorithm = key.file.private.algorithm();
    let mut text = format!(
        "; State of a key exported by nameward.\nAlgorithm: {algorithm}\nLength: {}\nLifetime: 0\nKSK: {}\nZSK: {}\n\
         Generated: {since}\nPublished: {since}\nActive: {since}\nPublishCDS: {since}\n",
        key.bits,
        is(is_ksk),
        is(is_zsk)
    );
    let states = [
        ("DNSKEY", true),
        ("ZRRSIG", is_zsk),
        ("KRRSIG", is_ksk),
        ("DS", is_ksk),
    ];
    for (record, _) in states.iter().filter(|(_, has)| *has) {
        let _ = writeln!(text, "{record}Change: {since}\n{record}State: omnipresent");
    }
    text + "GoalState: omnipresent\n"
}

/// The `tls` statements that servers refer to.
#[derive(Default)]
struct TlsBlocks(Vec<Arc<PeerTls>>);

impl TlsBlocks {
    /// Returns the name of the statement with these settings.
    fn name(&mut self, tls: &Arc<PeerTls>) -> String {
        let known = self.0.iter().position(|known| known == tls);
        let number = known.unwrap_or_else(|| {
            self.0.push(Arc::clone(tls));
            self.0.len() - 1
        });
        format!("nameward-{}", number + 1)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (number, tls) in self.0.iter().enumerate() {
            let _ = write!(text, "tls \"nameward-{}\" {{", number + 1);
            text.push_str(" protocols { TLSv1.3; };");
            if let Some(name) = &tls.name {
                let _ = write!(text, " remote-hostname \"{name}\";");
            }
            if let Some(path) = &tls.authorities {
                let _ = write!(text, " ca-file \"{}\";", path.display());
            }
            if let Some(ClientIdentity { certificate, key }) = &tls.identity {
                let (certificate, key) = (certificate.display(), key.display());
                let _ = write!(text, " cert-file \"{certificate}\"; key-file \"{key}\";");
            }
            text.push_str(" };\n");
        }
        text
    }

    /// Formats a list of servers.
    fn servers(&mut self, list: &[&RemoteServer]) -> String {
        let mut text = String::new();
        for server in list {
            let (ip, port) = (server.address.ip(), server.address.port());
            let _ = write!(text, "{ip} port {port}");
            if let Some(key) = &server.key {
                let _ = write!(text, " key \"{}\"", bare(&key.to_string()));
            }
            if let Some(tls) = &server.tls {
                let _ = write!(text, " tls \"{}\"", self.name(tls));
            }
            text.push_str("; ");
        }
        text
    }
}

/// Formats an address match list; an empty one is `none`.
fn match_list(list: &[AccessEntry]) -> String {
    if list.is_empty() {
        return "none;".into();
    }
    let mut text = String::new();
    for entry in list {
        let sign = if entry.is_negated { "!" } else { "" };
        let _ = match &entry.term {
            // Left out before.
            AccessWord::OverTls(_) => Ok(()),
            AccessWord::Any | AccessWord::List(_) => write!(text, "{sign}any; "),
            AccessWord::Network(address, bits) => {
                write!(text, "{sign}{}; ", network(*address, *bits))
            }
            AccessWord::Key(key) => write!(text, "{sign}key \"{}\"; ", bare(&key.to_string())),
            // Both conditions: the inner list refuses other addresses, then the key decides.
            AccessWord::NetworkWithKey(address, bits, key) => write!(
                text,
                "{sign}{{ !{{ !{}; any; }}; key \"{}\"; }}; ",
                network(*address, *bits),
                bare(&key.to_string())
            ),
        };
    }
    text
}
