//! The backends of `launch=`: databases by URL, zone files of the bind backend one by one.

use std::fmt::Write;

use super::{
    super::{
        ConfigLocation,
        ImportVerdict::{Breaks, Changed, NotNeeded, NotPossible, Taken},
        ImportedBackend, ImportedKind, ImportedSettings, ImportedValue, ImportedZone,
    },
    PdnsReader, PdnsSetting,
};
use crate::bind;

impl PdnsReader<'_> {
    pub(super) fn backends(&mut self) {
        let Some(launch) = self.used("launch").filter(|launch| launch.is_on()) else {
            let text = "launch: no backend, so there are no zones";
            return self.server.note(Breaks, &self.first, text);
        };
        for word in super::words(&launch.value) {
            let (engine, instance) = word.split_once(':').unwrap_or((word, ""));
            let prefix = match instance {
                "" => engine.to_string(),
                instance => format!("{engine}-{instance}"),
            };
            match engine {
                "gsqlite3" => self.sqlite(&launch, &prefix),
                "gmysql" => self.database(&launch, &prefix, "mysql"),
                "gpgsql" => self.database(&launch, &prefix, "postgres"),
                "bind" => self.zone_files(&launch, &prefix),
                "geoip" => self.geoip(&launch, &prefix),
                other => {
                    let text = format!("launch: unsupported backend {other}");
                    self.note(Breaks, &launch, &text);
                }
            }
        }
        self.secondaries();
    }

    fn sqlite(&mut self, launch: &PdnsSetting, prefix: &str) {
        let Some(path) = self.used(&format!("{prefix}-database")) else {
            let text = format!("{prefix}-database is missing");
            return self.error(&launch.location, text);
        };
        let file = ("path", self.path(&path.value).as_path().into());
        self.backend("sqlite", file, &path.location, prefix);
    }

    fn database(&mut self, launch: &PdnsSetting, prefix: &str, scheme: &'static str) {
        let mut value = |name: &str| self.used(&format!("{prefix}-{name}"));
        let (host, port, name) = (value("host"), value("port"), value("dbname"));
        let (user, password, socket) = (value("user"), value("password"), value("socket"));
        let tls = value("ssl").is_some_and(|setting| setting.is_on());
        let group = value("group");
        let extra = value("extra-connection-parameters");
        let Some(name) = name else {
            let text = format!("{prefix}-dbname is missing");
            return self.error(&launch.location, text);
        };
        if let Some(group) = group.filter(|group| group.value != "client") {
            let text = "my.cnf groups are not read: put the settings into the url";
            self.note(NotPossible, &group, text);
        }
        let mut url = format!("{scheme}://");
        if let Some(user) = user {
            url.push_str(&escaped(&user.value));
            if let Some(password) = password {
                let _ = write!(url, ":{}", escaped(&password.value));
            }
            url.push('@');
        }
        let host = host.map_or_else(|| "localhost".into(), |host| host.value);
        // A host that is a path is the directory of a socket.
        let is_socket = host.starts_with('/') || socket.as_ref().is_some_and(PdnsSetting::is_on);
        if is_socket {
            url.push_str("localhost");
        } else if host.contains(':') {
            let _ = write!(url, "[{host}]");
        } else {
            url.push_str(&host);
        }
        if let Some(port) = port.filter(|port| port.is_on()) {
            let _ = write!(url, ":{}", port.value);
        }
        let _ = write!(url, "/{}", escaped(&name.value));
        let mut options = Vec::new();
        match (&socket, scheme) {
            (Some(socket), "mysql") if socket.is_on() => {
                options.push(format!("socket={}", escaped(&socket.value)));
            }
            _ if host.starts_with('/') => options.push(format!("host={}", escaped(&host))),
            _ => {}
        }
        let is_required = extra.as_ref().is_some_and(|extra| {
            ["sslmode=require", "sslmode=verify"]
                .iter()
                .any(|mode| extra.value.contains(mode))
        });
        if tls || is_required {
            options.push("sslmode=require".into());
        }
        if !options.is_empty() {
            let _ = write!(url, "?{}", options.join("&"));
        }
        if let Some(extra) = extra {
            let text =
                "extra-connection-parameters: only sslmode is converted; put the rest into url";
            self.note(Changed, &extra, text);
        }
        self.backend(scheme, ("url", url.into()), &name.location, prefix);
    }

    fn backend(
        &mut self,
        kind: &'static str,
        setting: (&'static str, ImportedValue),
        location: &ConfigLocation,
        prefix: &str,
    ) {
        let text = format!(
            "{prefix}: [[backend]] of type {kind}; zones, DNSSEC keys, TSIG keys and metadata stay in the database"
        );
        self.server.note(Taken, location, text);
        self.server.backends.push(ImportedBackend {
            kind,
            settings: vec![setting],
            location: location.clone(),
        });
    }

    /// Reads the zones of the bind backend, which only uses names, types, files and primaries from a named.conf.
    fn zone_files(&mut self, launch: &PdnsSetting, prefix: &str) {
        let Some(config) = self.used(&format!("{prefix}-config")) else {
            let text = format!("{prefix}-config is missing");
            return self.error(&launch.location, text);
        };
        if let Some(keys) = self.used(&format!("{prefix}-dnssec-db"))
            && keys.is_on()
        {
            let text = format!(
                "{prefix}-dnssec-db: keys and metadata of file zones are not supported, signed zones would become \
                 unsigned: move them into a database first (pdnsutil b2b-migrate bind gsqlite3)"
            );
            self.note(Breaks, &keys, &text);
        }
        let text = format!("{prefix}-config: its zones are converted to [[zone]] tables");
        self.note(Taken, &config, &text);
        let is_primary = self.is_on(&["primary", "master"], false);
        let is_secondary = self.is_on(&["secondary", "slave"], false);
        let path = self.path(&config.value);
        let found = bind::migrate::read_files(&path, self.texts.files);
        self.texts.errors.extend(found.errors);
        for zone in found.zones {
            let is_copy = zone.kind == ImportedKind::Secondary;
            let kind = match (is_copy, is_primary) {
                (true, _) if is_secondary => ImportedKind::Secondary,
                (false, true) => ImportedKind::Primary,
                _ => ImportedKind::Native,
            };
            if kind == ImportedKind::Secondary && zone.terms.primaries.is_empty() {
                let text = format!(
                    "zone {}: no primaries; it would never be transferred",
                    zone.name
                );
                self.server.note(Breaks, &zone.location, text);
                continue;
            }
            let terms = ImportedSettings {
                primaries: zone.terms.primaries,
                also_notify: if is_primary {
                    zone.terms.also_notify
                } else {
                    Vec::new()
                },
                ..ImportedSettings::default()
            };
            self.server.take_zone(ImportedZone {
                file: zone.file.filter(|_| kind != ImportedKind::Secondary),
                kind,
                terms: match kind {
                    ImportedKind::Secondary => terms,
                    _ => ImportedSettings {
                        primaries: Vec::new(),
                        ..terms
                    },
                },
                ..zone
            });
        }
    }

    /// Converts settings about secondary zones, which databases list.
    fn secondaries(&mut self) {
        let has_database = !self.server.backends.is_empty();
        let secondary = self.used_of(&["secondary", "slave"]);
        let automatic = self.used_of(&["autosecondary", "superslave"]);
        let primary = self.used_of(&["primary", "master"]);
        if let Some(setting) = primary {
            let text = if setting.is_switch_on() {
                "primary: primary zones notify their name servers"
            } else {
                "primary is off: no NOTIFY is sent"
            };
            self.note(Taken, &setting, text);
        }
        if let Some(setting) = secondary {
            let (verdict, text) = match (setting.is_switch_on(), has_database) {
                (true, _) => (
                    Taken,
                    "secondary: secondary zones are transferred from their primaries",
                ),
                (false, true) => (
                    Changed,
                    "secondary is off: secondary zones in databases are still transferred",
                ),
                (false, false) => (Taken, "secondary is off: no zones are transferred"),
            };
            self.note(verdict, &setting, text);
        }
        if let Some(setting) = automatic {
            let (verdict, text) = match (setting.is_switch_on(), has_database) {
                (true, true) => (Taken, "autosecondary: the supermasters table is used"),
                (true, false) => (
                    NotPossible,
                    "autosecondary: add [[autoprimary]] tables for the servers",
                ),
                (false, true) => (
                    Changed,
                    "autosecondary is off: rows of the supermasters table are still used",
                ),
                (false, false) => (NotNeeded, "autosecondary is off"),
            };
            self.note(verdict, &setting, text);
        }
    }
}

/// Escapes a component of a database URL: special characters become %XX (RFC 3986).
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}
