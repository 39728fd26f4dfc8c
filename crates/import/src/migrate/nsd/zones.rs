//! Zones and patterns of an nsd.conf: the effective attributes of a zone, and their equivalents here.

use std::{collections::HashMap, path::PathBuf};

use super::{
    super::{
        ConfigLocation,
        ImportVerdict::Taken,
        ImportedKind, ImportedRemote, ImportedSettings, ImportedTls, ImportedZone, full_name,
        peers,
        tables::{NO_EFFECT, Outcome, changed, not_needed, not_possible},
    },
    ConfigEntry, ConfigSection, NsdReader,
};

/// Maximum nesting depth of patterns.
const DEPTH_MAX: usize = 16;
/// Maximum number of attributes that one zone, and all zones together, may get from patterns: patterns that include
/// others several times multiply.
const ZONE_ATTRIBUTES_MAX: usize = 10_000;
const ALL_ATTRIBUTES_MAX: usize = 100_000_000;
/// Default path of the zone list maintained by nsd-control.
const ZONE_LIST: &str = "/var/lib/nsd/zone.list";
/// Maximum size of the zone list.
const ZONE_LIST_MAX: u64 = 64 << 20;

/// Returns the outcome for a zone attribute that is not converted.
fn outcome_of(attribute: &ConfigEntry) -> Outcome {
    match attribute.key.as_str() {
        "allow-axfr-fallback"
        | "notify-retry"
        | "zonestats"
        | "multi-master-check"
        | "multi-primary-check"
        | "store-ixfr"
        | "create-ixfr"
        | "ixfr-number"
        | "ixfr-size"
        | "implicit" => NO_EFFECT,
        "catalog-member-pattern" => changed(
            "members use the settings of [zone_defaults] or the [[template]] of their group",
        ),
        "min-refresh-time" | "max-refresh-time" | "min-retry-time" | "max-retry-time"
        | "min-expire-time" => not_possible("the SOA timers are used"),
        _ if attribute.value() == "no" => not_needed("off"),
        "rrl-whitelist" => not_needed("response rate limiting is not supported"),
        _ => not_possible("no equivalent"),
    }
}

/// A zone while its attributes are read.
struct NsdZone {
    name: String,
    file: Option<String>,
    terms: ImportedSettings,
    /// Blocked entries come first: they apply regardless of their position.
    blocked: [Vec<String>; 3],
    source: Option<String>,
    kind: Option<ImportedKind>,
    /// Attributes so far.
    attributes: usize,
    /// Why it cannot be served as NSD serves it.
    refusal: Option<(ConfigLocation, String)>,
}

impl NsdReader<'_> {
    pub(super) fn zone_clauses(&mut self) {
        let clauses = std::mem::take(&mut self.clauses);
        self.tls_auth = tls_auth(&clauses);
        for (at, clause) in clauses.iter().enumerate() {
            if clause.section == "pattern"
                && let Some(name) = clause.entry("name")
            {
                self.patterns.insert(name.value().to_string(), at);
            }
        }
        for clause in clauses.iter().filter(|clause| clause.section == "zone") {
            match clause.entry("name").map(|name| name.value()) {
                Some(name) => self.zone(name, &clause.location, &clause.entries, &clauses),
                None => self.error(&clause.location, "zone: expected name: with the zone name"),
            }
        }
        self.added_zones(&clauses);
        for (at, clause) in clauses.iter().enumerate() {
            if clause.section == "pattern" {
                let name = clause.entry("name").map_or("", |name| name.value());
                let is_used = self.used_patterns.contains(&at);
                self.server
                    .note_use(&clause.location, &format!("pattern {name}"), is_used);
            }
        }
    }

    /// Reads zones that `nsd-control addzone` added: `add NAME PATTERN`.
    fn added_zones(&mut self, clauses: &[ConfigSection]) {
        let servers = clauses.iter().filter(|clause| clause.section == "server");
        let named = servers
            .filter_map(|clause| clause.entry("zonelistfile"))
            .next_back();
        let path = match named {
            Some(named) => self.zones_directory.join(named.value()),
            None => PathBuf::from(ZONE_LIST),
        };
        if let Some(named) = named {
            self.note(Taken, named, "its zones are imported");
        }
        // The file is optional.
        let Ok(text) = self.texts.files.read(&path, ZONE_LIST_MAX) else {
            return;
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["add", name, pattern] = words[..] {
                let location = ConfigLocation {
                    file: path.to_string_lossy().into(),
                    line: number,
                };
                let include = ConfigEntry {
                    key: "include-pattern".into(),
                    values: vec![pattern.into()],
                    location: location.clone(),
                };
                self.zone(name, &location, &[include], clauses);
            }
        }
    }

    fn zone(
        &mut self,
        text: &str,
        location: &ConfigLocation,
        attributes: &[ConfigEntry],
        clauses: &[ConfigSection],
    ) {
        let Some(name) = full_name(text) else {
            return self.error(location, format!("invalid zone name {text:?}"));
        };
        let mut zone = NsdZone {
            name,
            file: None,
            // NSD sends no NOTIFY on its own, and only listed peers may transfer.
            terms: ImportedSettings {
                notify_name_servers: Some(false),
                allow_transfer: Some(Vec::new()),
                ..ImportedSettings::default()
            },
            blocked: Default::default(),
            source: None,
            kind: None,
            attributes: 0,
            refusal: None,
        };
        self.zone_attributes(&mut zone, attributes, clauses, 0);
        self.finish(zone, location);
    }

    fn zone_attributes(
        &mut self,
        zone: &mut NsdZone,
        attributes: &[ConfigEntry],
        clauses: &[ConfigSection],
        depth: usize,
    ) {
        for attribute in attributes {
            zone.attributes += 1;
            self.zone_attributes += 1;
            if zone.attributes > ZONE_ATTRIBUTES_MAX || self.zone_attributes > ALL_ATTRIBUTES_MAX {
                // Only once: callers of this function get here, too.
                if zone.attributes == ZONE_ATTRIBUTES_MAX + 1 {
                    let message = format!("zone {}: too many attributes from patterns", zone.name);
                    self.error(&attribute.location, message);
                }
                return;
            }
            if attribute.key != "include-pattern" {
                self.zone_attribute(zone, attribute);
                continue;
            }
            match self.patterns.get(attribute.value()).copied() {
                Some(at) if depth < DEPTH_MAX => {
                    self.used_patterns.insert(at);
                    let inner = &clauses[at].entries;
                    self.zone_attributes(zone, inner, clauses, depth + 1);
                }
                Some(_) => self.error(&attribute.location, "patterns include each other"),
                None => self.wrong(attribute, "a pattern name"),
            }
        }
    }

    fn zone_attribute(&mut self, zone: &mut NsdZone, attribute: &ConfigEntry) {
        let values = &attribute.values;
        match attribute.key.as_str() {
            "name" => {}
            "zonefile" => zone.file = Some(attribute.value().to_string()),
            "provide-xfr" => self.access(zone, attribute, 0),
            "allow-notify" => self.access(zone, attribute, 1),
            "allow-query" => self.access(zone, attribute, 2),
            "request-xfr" => {
                let is_mode = ["AXFR", "UDP"].contains(&attribute.value());
                if attribute.value() == "AXFR" {
                    zone.terms.request_ixfr = Some(false);
                }
                if let Some(remote) = self.remote(zone, attribute, &values[usize::from(is_mode)..])
                {
                    zone.terms.primaries.push(remote);
                }
            }
            "notify" => {
                if let Some(remote) = self.remote(zone, attribute, values) {
                    zone.terms.also_notify.push(remote);
                }
            }
            "outgoing-interface" => match peers::at_port(attribute.value(), 0) {
                Some((address, _)) => zone.source = Some(address.to_string()),
                None => self.wrong(attribute, "an address"),
            },
            "size-limit-xfr" => {
                let size = attribute.value().parse::<u64>().ok();
                zone.terms.transfer_size_max_mb = size.map(|size| size.div_ceil(1 << 20).max(1));
            }
            "catalog" => {
                zone.kind = match attribute.value() {
                    "consumer" => Some(ImportedKind::Consumer),
                    "producer" => Some(ImportedKind::Producer),
                    _ => None,
                }
            }
            "catalog-producer-zone" => zone.terms.catalog = full_name(attribute.value()),
            _ => {
                let (verdict, reason) = outcome_of(attribute);
                self.note(verdict, attribute, reason);
            }
        }
    }

    /// Reads an entry `ADDRESS KEY|NOKEY|BLOCKED` of provide-xfr (0), allow-notify (1) or allow-query (2).
    fn access(&mut self, zone: &mut NsdZone, attribute: &ConfigEntry, which: usize) {
        let refuse = |zone: &mut NsdZone, reason: &str| {
            let text = format!("{} {}: {reason}", attribute.key, attribute.values.join(" "));
            zone.refusal
                .get_or_insert((attribute.location.clone(), text));
        };
        let (address, key, auth) = match &attribute.values[..] {
            [address, key] => (address, key, None),
            [address, key, auth] => (address, key, Some(auth)),
            _ => return self.wrong(attribute, "an address and a key, NOKEY or BLOCKED"),
        };
        // A client certificate of this name, from an authority in tls-cert-bundle.
        let identity = match auth.map(|auth| self.client_identity(auth)) {
            None => String::new(),
            Some(Some(name)) => format!(" tls-name:{name}"),
            Some(None) => {
                return refuse(
                    zone,
                    "no tls-auth of this name with auth-domain-name, or no tls-cert-bundle",
                );
            }
        };
        let list = match which {
            0 => &mut zone.terms.allow_transfer,
            1 => &mut zone.terms.allow_notify,
            _ => &mut zone.terms.allow_query,
        };
        let list = list.get_or_insert_default();
        if address.contains('@') {
            return refuse(zone, "client ports cannot be matched");
        }
        let Some(networks) = peers::networks(address) else {
            return refuse(zone, "invalid network or range");
        };
        match key.as_str() {
            "NOKEY" => list.extend(
                networks
                    .iter()
                    .map(|network| format!("{network}{identity}")),
            ),
            "BLOCKED" => {
                let blocked = networks.iter().map(|network| format!("!{network}"));
                zone.blocked[which].extend(blocked);
            }
            _ if which == 2 => refuse(zone, "query access cannot depend on a key"),
            key => match full_name(key) {
                Some(key) => list.extend(
                    networks
                        .iter()
                        .map(|network| format!("{network} key:{key}{identity}")),
                ),
                None => self.wrong(attribute, "a key name"),
            },
        }
    }

    /// Returns the name that the certificate of a client must have, and sets the authorities that may have issued it.
    fn client_identity(&mut self, auth: &str) -> Option<String> {
        let tls = self.tls_auth.get(auth)?;
        let (name, bundle) = (tls.name.clone()?, tls.authorities.clone()?);
        let key = ("tls", "client_ca");
        self.server.set(None, key, bundle.as_path());
        Some(name)
    }

    /// Reads a server `ADDRESS[@PORT] KEY|NOKEY`.
    fn remote(
        &mut self,
        zone: &mut NsdZone,
        attribute: &ConfigEntry,
        values: &[String],
    ) -> Option<ImportedRemote> {
        let default_port = if values.len() > 2 { 853 } else { 53 };
        let found = values.first();
        let found = found.and_then(|text| peers::at_port(text, default_port));
        let Some((address, port)) = found else {
            self.wrong(attribute, "an address and a key or NOKEY");
            return None;
        };
        let tls = match values.get(2) {
            None => None,
            Some(name) => match self.tls_auth.get(name) {
                Some(tls) => Some(tls.clone()),
                None => {
                    let text = format!("{}: no tls-auth {name:?} with a name", attribute.key);
                    zone.refusal
                        .get_or_insert((attribute.location.clone(), text));
                    return None;
                }
            },
        };
        let key = values.get(1).filter(|key| *key != "NOKEY");
        Some(ImportedRemote {
            address: peers::of_server(address, port, tls.as_ref()),
            key: key.and_then(|key| full_name(key)),
            source: None,
            tls,
        })
    }

    fn finish(&mut self, mut zone: NsdZone, at: &ConfigLocation) {
        if let Some((at, reason)) = zone.refusal {
            return self.server.omit_zone(&zone.name, &at, reason);
        }
        let [transfer, notify, query] = zone.blocked;
        let terms = &mut zone.terms;
        for (list, blocked) in [
            (&mut terms.allow_transfer, transfer),
            (&mut terms.allow_notify, notify),
            (&mut terms.allow_query, query),
        ] {
            if let Some(list) = list {
                list.splice(0..0, blocked);
            }
        }
        for remote in terms.primaries.iter_mut().chain(&mut terms.also_notify) {
            let is_v6 = remote.address.matches(':').count() > 1;
            // There may be one address per family; only the last one is used here.
            remote.source = zone
                .source
                .clone()
                .filter(|source| source.contains(':') == is_v6);
        }
        let kind = match (zone.kind, terms.primaries.is_empty()) {
            (Some(kind), _) => kind,
            (None, true) => ImportedKind::Primary,
            (None, false) => ImportedKind::Secondary,
        };
        if kind == ImportedKind::Consumer && terms.primaries.is_empty() {
            let reason = "no request-xfr; it would never be transferred";
            return self.server.omit_zone(&zone.name, at, reason);
        }
        let file = zone.file;
        let file = file.map(|file| self.zones_directory.join(expanded(&file, &zone.name)));
        let catalog_file = file.clone().filter(|_| kind == ImportedKind::Producer);
        let file = file.filter(|_| kind == ImportedKind::Primary);
        if kind == ImportedKind::Primary && file.is_none() {
            return self.server.omit_zone(&zone.name, at, "no zonefile");
        }
        self.server.take_zone(ImportedZone {
            name: zone.name,
            kind,
            file,
            terms: zone.terms,
            signing: None,
            catalog_file,
            text: None,
            location: at.clone(),
        });
    }
}

/// Expands a zone file name: `%s` is the zone name, `%1` to `%3` its first characters, `%z`, `%y` and `%x` its last
/// labels.
fn expanded(pattern: &str, zone: &str) -> String {
    let name = match zone.strip_suffix('.') {
        Some("") | None => zone,
        Some(name) => name,
    };
    let mut labels = name.rsplit('.').map(str::to_string);
    let tail = [labels.next(), labels.next(), labels.next()];
    let character = |at: usize| name.chars().nth(at).map_or(".".into(), String::from);
    let label = |at: usize| tail[at].clone().unwrap_or_else(|| ".".into());
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let mut after_it = after.chars();
        match after_it.next() {
            Some('s') => out.push_str(name),
            Some(digit @ '1'..='3') => out.push_str(&character(digit as usize - '1' as usize)),
            Some('z') => out.push_str(&label(0)),
            Some('y') => out.push_str(&label(1)),
            Some('x') => out.push_str(&label(2)),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
        rest = after_it.as_str();
    }
    out + rest
}

/// Returns the `tls-auth` clauses that name a server, by their own names.
fn tls_auth(clauses: &[ConfigSection]) -> HashMap<String, ImportedTls> {
    let value = |clause: &ConfigSection, key: &str| clause.entry(key)?.values.first().cloned();
    let mut servers = clauses.iter().filter(|clause| clause.section == "server");
    let bundle = servers.find_map(|server| value(server, "tls-cert-bundle"));
    let auths = clauses.iter().filter(|clause| clause.section == "tls-auth");
    let converted = auths.filter_map(|clause| {
        let files = (value(clause, "client-cert"), value(clause, "client-key"));
        let tls = ImportedTls {
            name: Some(value(clause, "auth-domain-name")?),
            authorities: bundle.as_ref().map(PathBuf::from),
            identity: match files {
                (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
                _ => None,
            },
            // NSD does not check ALPN, and NSD 4.6 as a primary selects none.
            is_alpn_optional: true,
            ..ImportedTls::default()
        };
        Some((value(clause, "name")?, tls))
    });
    converted.collect()
}

#[cfg(test)]
mod tests {
    use super::expanded;

    #[test]
    fn names_of_files_follow_the_zone() {
        assert_eq!(
            expanded("master/%s.zone", "example.org."),
            "master/example.org.zone"
        );
        assert_eq!(expanded("%1/%2/%s", "example.org."), "e/x/example.org");
        assert_eq!(
            expanded("%z/%y/%x/%s", "a.example.org."),
            "org/example/a/a.example.org"
        );
        assert_eq!(expanded("100%", "org."), "100%");
    }
}
