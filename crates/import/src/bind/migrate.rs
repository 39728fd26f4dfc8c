//! Conversion of a whole named.conf for a migration: zones as returned by [`NamedConf::take`], permissions to transfer,
//! notify and update, keys, and the server itself.

mod listeners;
mod signing;
mod views;

use std::{path::Path, sync::Arc};

use nameward_zone::{AccessList, AccessWord};

use super::{
    BindZone, NamedConf, Remote, Spot, ZoneType,
    read::NamedConfReader,
    server_statements::ServerStatements,
    settings::{BindSettings, ListSetting},
    support::verdict_of_message,
};
use crate::{
    Files,
    migrate::{
        ConfigLocation,
        ImportVerdict::{self, Breaks, Changed, NotNeeded, NotPossible},
        ImportedKey, ImportedKind, ImportedRemote, ImportedServer, ImportedSettings, ImportedTls,
        ImportedZone, full_name, peers,
    },
};

/// Reads a named.conf and all files it includes.
pub fn read(path: &Path, files: &mut dyn Files) -> ImportedServer {
    let mut conf = NamedConfReader::new(files).whole().read(path);
    let statements = conf.moved.take().unwrap_or_default();
    let mut mover = BindImporter::new(&mut conf, &statements);
    if mover.server.errors.is_empty() {
        mover.server_statements();
        mover.query_log();
        mover.zones(conf);
        mover.used();
    }
    mover.server
}

/// Reads only the zones, as the bind backend of PowerDNS uses them: names, types, files, primaries.
pub fn read_files(path: &Path, files: &mut dyn Files) -> ImportedServer {
    let mut conf = NamedConfReader::new(files).whole().read(path);
    let statements = conf.moved.take().unwrap_or_default();
    let mut mover = BindImporter::new(&mut conf, &statements);
    if mover.server.errors.is_empty() {
        for zone in &conf.zones {
            if let Some(kind) = mover.kind(zone) {
                let moved = mover.moved_zone(zone, kind);
                mover.server.zones.push(moved);
            }
        }
    }
    mover.server
}

struct BindImporter<'s> {
    server: ImportedServer,
    files: Vec<Arc<str>>,
    statements: &'s ServerStatements,
}

impl<'s> BindImporter<'s> {
    fn new(conf: &mut NamedConf, statements: &'s ServerStatements) -> Self {
        let name = |path: &std::path::PathBuf| Arc::from(&*path.to_string_lossy());
        Self {
            files: conf.files.iter().map(name).collect(),
            statements,
            server: ImportedServer {
                errors: std::mem::take(&mut conf.diagnostics),
                ..ImportedServer::default()
            },
        }
    }

    fn location(&self, (file, location): Spot) -> ConfigLocation {
        ConfigLocation {
            file: self.files.get(file).cloned().unwrap_or_else(|| "".into()),
            line: location.line,
        }
    }

    fn note(&mut self, verdict: ImportVerdict, spot: Spot, text: impl Into<String>) {
        let location = self.location(spot);
        self.server.note(verdict, &location, text);
    }

    /// Reports the statements that others made use of: lists, zone defaults, directories.
    fn used(&mut self) {
        for (spot, text) in &self.statements.seen {
            let location = self.location(*spot);
            let report = &mut self.server.report;
            if !report.has_line_of(text) {
                report.add_used(&location, format!("{text}: used in the settings and zones"));
            }
        }
    }

    fn server_statements(&mut self) {
        for key in &self.statements.keys {
            let Some(name) = full_name(&key.name) else {
                self.note(Breaks, key.spot, format!("invalid key name {:?}", key.name));
                continue;
            };
            self.server.take_key(ImportedKey {
                name,
                // A hash length may follow, which truncates the MAC.
                algorithm: key.algorithm.clone(),
                secret: key.secret.clone(),
                location: self.location(key.spot),
            });
        }
        let mut words = self.statements.words.iter();
        let port = words.find(|(_, word, _)| word == "port");
        let port = port
            .and_then(|(_, _, value)| value.parse().ok())
            .unwrap_or(53);
        self.listen(port);
        for (spot, word, value) in &self.statements.words {
            if word != "querylog" {
                self.word(*spot, word, value);
            }
        }
    }

    fn word(&mut self, spot: Spot, word: &str, value: &str) {
        let location = self.location(spot);
        let text = if value == "none" { "" } else { value };
        let number = value.parse::<u64>();
        let (verdict, text) = match (word, number) {
            ("version", _) => {
                let key = ("server", "version");
                return self.server.take(&location, key, text, word);
            }
            ("server-id", _) if value != "hostname" => {
                return self.server.take(&location, ("server", "nsid"), text, word);
            }
            ("max-udp-size", Ok(number)) => {
                let key = ("server", "udp_payload_max");
                return self.server.take(&location, key, number, word);
            }
            ("tcp-clients", Ok(number)) => {
                let key = ("server", "tcp_connections_max");
                return self.server.take(&location, key, number, word);
            }
            ("recursion", _) if value == "no" => (NotNeeded, "off, as on this server"),
            ("recursion", _) => (NotPossible, "forwarded to a resolver: see [recursor]"),
            ("port" | "minimal-any", _) => (NotNeeded, "part of listen, or the default"),
            _ => (NotPossible, "set nsid in [server]"),
        };
        self.note(verdict, spot, format!("{word}: {text}"));
    }

    fn zones(&mut self, conf: NamedConf) {
        let taken = if conf.has_views() {
            let (views, rest) = conf.take_views();
            self.views(&views);
            rest
        } else {
            conf.take()
        };
        if let Some(list) = &taken.blackhole {
            let key = ("server", "blackhole");
            self.server.set(None, key, spelled(list));
        }
        for zone in &taken.zones {
            self.zone(zone, None);
        }
        for catalog in &self.statements.catalogs {
            let is_taken = |zone: &ImportedZone| {
                zone.kind == ImportedKind::Consumer
                    && Some(&zone.name) == full_name(&catalog.zone).as_ref()
            };
            if !self.server.zones.iter().any(is_taken) {
                let text = format!(
                    "catalog-zones: members of {} omitted: only transferred catalogs are supported",
                    catalog.zone
                );
                self.note(Breaks, catalog.spot, text);
            }
        }
        for note in taken.notes {
            let location = ConfigLocation::new(&note.file, note.line);
            let (verdict, text) = verdict_of_message(&note.message);
            self.server.note(verdict, &location, text);
        }
    }

    fn kind(&self, zone: &BindZone) -> Option<ImportedKind> {
        match zone.kind {
            _ if !zone.is_internet || zone.is_from_database => None,
            Some(ZoneType::Primary) => Some(ImportedKind::Primary),
            Some(ZoneType::Secondary) => Some(ImportedKind::Secondary),
            _ => None,
        }
    }

    /// Converts the servers of a list. One whose TLS settings are unknown is omitted: it must not be contacted in plain
    /// text.
    fn remotes(&mut self, list: &[Remote], zone: &BindZone) -> Vec<ImportedRemote> {
        let mut moved = Vec::new();
        for remote in list {
            match moved_remote(remote, self.statements) {
                Some(remote) => moved.push(remote),
                None => {
                    let (name, address) = (zone.name(), remote.address);
                    let tls = remote.tls.as_deref().unwrap_or_default();
                    let text = format!("zone {name}: {address} omitted: no tls statement {tls:?}");
                    self.note(Breaks, zone.spot, text);
                }
            }
        }
        moved
    }

    /// Returns the zone with its name, file and servers.
    fn moved_zone(&mut self, zone: &BindZone, kind: ImportedKind) -> ImportedZone {
        let location = self.location(zone.spot);
        let is_primary = kind == ImportedKind::Primary;
        ImportedZone {
            name: zone.name().to_string(),
            kind,
            file: zone.file.clone().filter(|_| is_primary),
            terms: ImportedSettings {
                primaries: if is_primary {
                    Vec::new()
                } else {
                    self.remotes(&zone.primaries, zone)
                },
                also_notify: self.remotes(&zone.also_notify, zone),
                ..ImportedSettings::default()
            },
            signing: None,
            catalog_file: None,
            text: None,
            location,
        }
    }

    /// Converts a zone, or the version of a zone that a view has.
    fn zone(&mut self, zone: &BindZone, variant: Option<&str>) {
        let Some(mut kind) = self.kind(zone) else {
            return;
        };
        let catalogs = &self.statements.catalogs;
        let is_catalog =
            |name: &str| full_name(name).is_some_and(|name| name == zone.name().to_string());
        let catalog = catalogs.iter().find(|found| is_catalog(&found.zone));
        if catalog.is_some() && kind == ImportedKind::Secondary {
            kind = ImportedKind::Consumer;
        }
        let mut moved = self.moved_zone(zone, kind);
        if let Some(variant) = variant {
            moved.name = views::version_of(zone, variant);
        }
        let name = moved.name.clone();
        if kind.is_transferred() && moved.terms.primaries.is_empty() {
            let reason = "no primaries; it would never be transferred";
            return self.server.omit_zone(&name, &moved.location, reason);
        }
        if let Some(catalog) = catalog.filter(|_| kind == ImportedKind::Consumer)
            && !self.has_members_of(catalog, zone)
        {
            return;
        }
        if zone.is_signed_copy() && kind == ImportedKind::Primary {
            match self.signing(zone) {
                Ok(signing) => moved.signing = Some(signing),
                Err(reason) => {
                    return self.server.omit_zone(&name, &moved.location, reason);
                }
            }
        } else if zone.is_dynamic {
            let text = format!(
                "zone {name}: BIND's journal is not read: run `rndc sync` before the import"
            );
            self.note(Changed, zone.spot, text);
        }
        moved.terms.allow_query = zone.allow_query().map(|list| spelled(list));
        if let Some(terms) = zone.terms.as_deref() {
            self.terms(&mut moved, terms, zone.spot);
        }
        self.server.take_zone(moved);
    }

    fn terms(&mut self, zone: &mut ImportedZone, terms: &BindSettings, spot: Spot) {
        let name = zone.name.clone();
        let mut list = |found: &ListSetting<AccessList>, what: &str| match found {
            None => None,
            Some(Ok(list)) => Some(spelled(list)),
            Some(Err(refusal)) => {
                let text = format!("zone {name}: {what} matches no clients: {}", refusal.reason);
                self.note(Breaks, refusal.spot, text);
                Some(Vec::new())
            }
        };
        zone.terms.request_ixfr = terms.request_ixfr.filter(|is| !is);
        zone.terms.allow_transfer = list(&terms.allow_transfer, "allow-transfer");
        zone.terms.allow_notify = list(&terms.allow_notify, "allow-notify");
        zone.terms.allow_update = list(&terms.allow_update, "allow-update");
        let forwarding = list(&terms.forwarding, "allow-update-forwarding");
        if zone.kind.is_transferred() {
            zone.terms.forward_updates = forwarding.as_ref().map(|list| !list.is_empty());
            zone.terms.allow_update = forwarding.filter(|list| !list.is_empty());
        }
        match &terms.update_policy {
            None => {}
            Some(Ok(rules)) => {
                if rules.iter().any(|rule| rule.types.is_empty()) {
                    let text = "update-policy: a rule without types allows all types, including NS and SOA at the apex";
                    self.note(Changed, spot, text);
                }
                zone.terms.update_policy.clone_from(rules);
            }
            Some(Err(refusal)) => {
                let text = format!("zone {name}: all updates are refused: {}", refusal.reason);
                self.note(Breaks, refusal.spot, text);
            }
        }
        if terms.allow_transfer.is_none() {
            let text = "a zone without allow-transfer: BIND before 9.20 allows transfers to any host, this server to \
                        none: set allow_transfer where a secondary needs it";
            self.note(Changed, spot, text);
        }
        zone.terms.notify_name_servers = match (terms.notify.as_deref(), zone.kind) {
            (Some("no"), _) => {
                zone.terms.also_notify.clear();
                Some(false)
            }
            (Some("explicit"), _) => Some(false),
            (Some("primary-only" | "master-only"), ImportedKind::Secondary) => {
                zone.terms.also_notify.clear();
                Some(false)
            }
            // Secondaries in BIND send NOTIFY, too.
            (_, ImportedKind::Secondary | ImportedKind::Consumer) => Some(true),
            _ => None,
        };
    }
}

/// Converts a server; `None` if its `tls` statement does not exist.
fn moved_remote(remote: &Remote, statements: &ServerStatements) -> Option<ImportedRemote> {
    let absolute = |path: &String| statements.directory.join(path);
    let tls = match remote.tls.as_deref() {
        None => None,
        // A built-in one without certificates.
        Some("ephemeral") => Some(ImportedTls::default()),
        Some(name) => {
            let found = statements.tls.iter().find(|tls| tls.name == name)?;
            let files = (found.certificate.as_ref(), found.key.as_ref());
            Some(ImportedTls {
                name: found.hostname.clone(),
                authorities: found.authorities.as_ref().map(absolute),
                identity: match files {
                    (Some(certificate), Some(key)) => Some((absolute(certificate), absolute(key))),
                    _ => None,
                },
                ..ImportedTls::default()
            })
        }
    };
    Some(ImportedRemote {
        address: peers::of_server(remote.address.ip(), remote.address.port(), tls.as_ref()),
        key: remote.key.as_deref().and_then(full_name),
        source: None,
        tls,
    })
}

/// Returns the entries of a list in Nameward syntax.
fn spelled(list: &AccessList) -> Vec<String> {
    let entries = list.entries().into_iter().filter_map(|entry| {
        let sign = if entry.is_negated { "!" } else { "" };
        let text = match entry.term {
            // BIND lists have no such conditions.
            AccessWord::OverTls(_) => return None,
            AccessWord::Network(address, bits) => {
                format!("{sign}{}", peers::spelled(address, bits))
            }
            AccessWord::Key(key) => format!("{sign}key:{key}"),
            AccessWord::NetworkWithKey(address, bits, key) => {
                format!("{sign}{} key:{key}", peers::spelled(address, bits))
            }
            AccessWord::Any | AccessWord::List(_) => format!("{sign}any"),
        };
        Some(text)
    });
    entries.collect()
}
