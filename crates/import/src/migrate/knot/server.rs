//! Sections of a knot.conf about the server: `server:`, `key:` and `log:`.

use std::net::{IpAddr, SocketAddr};

use super::{
    super::{ImportVerdict, ImportedKey, ImportedValue, NumberRow, full_name, peers},
    KnotEntry, KnotItem, KnotReader,
};

/// Numbers with the same meaning: name, table and key, factor, minimum and maximum.
const NUMBERS: &[NumberRow] = &[
    (
        "tcp-max-clients",
        ("server", "tcp_connections_max"),
        1,
        1,
        1_000_000,
    ),
    (
        "udp-max-payload",
        ("server", "udp_payload_max"),
        1,
        512,
        65_535,
    ),
    (
        "udp-max-payload-ipv4",
        ("server", "udp_payload_max"),
        1,
        512,
        65_535,
    ),
];

/// Entries that nothing here depends on.
const NOT_NEEDED: &[&str] = &[
    "rundir",
    "user",
    "pidfile",
    "udp-workers",
    "tcp-workers",
    "background-workers",
    "async-start",
    "socket-affinity",
    "tcp-reuseport",
    "tcp-fastopen",
    "dbus-event",
    "dbus-init-delay",
    "udp-max-payload-ipv6",
    "key-label",
    "tcp-idle-timeout",
    "tcp-io-timeout",
    "tcp-remote-io-timeout",
    "tcp-idle-close-timeout",
    "quic-max-clients",
    "quic-outbuf-max-size",
    "quic-idle-close-timeout",
];

/// The default port of DNS over TLS and over QUIC.
const TLS_PORT: u16 = 853;

impl KnotReader<'_> {
    pub(super) fn server_section(&mut self, item: &KnotItem) {
        for entry in &item.entries {
            match entry.key.as_str() {
                "listen-tls" => self.listen_encrypted(item, entry, "listen_tls"),
                "listen-quic" => self.listen_encrypted(item, entry, "listen_quic"),
                "cert-file" | "key-file" => {
                    self.note(ImportVerdict::Taken, "server", entry, "used in [tls]");
                }
                _ => self.server_entry(entry),
            }
        }
    }

    /// Converts listeners over TLS or QUIC. Without a certificate they are omitted: they must not answer in plain text.
    fn listen_encrypted(&mut self, item: &KnotItem, entry: &KnotEntry, setting: &'static str) {
        let file = |key| item.entry(key).map(|entry| entry.value().to_string());
        let Some((certificate, key)) = file("cert-file").zip(file("key-file")) else {
            let reason = "omitted: no cert-file and key-file; see `nameward tls init`";
            return self.note(ImportVerdict::Breaks, "server", entry, reason);
        };
        let addresses = entry
            .values
            .iter()
            .map(|value| peers::at_port(value, TLS_PORT));
        let Some(addresses) = addresses.collect::<Option<Vec<_>>>() else {
            return self.wrong(entry, "addresses");
        };
        let list = addresses.into_iter();
        let list = list.map(|(address, port)| SocketAddr::new(address, port).to_string());
        let value = ImportedValue::Texts(list.collect());
        self.server
            .take(&entry.location, ("server", setting), value, &entry.key);
        for (name, path) in [("certificate", certificate), ("key", key)] {
            let value = ImportedValue::Text(path);
            self.server.set(Some(&entry.location), ("tls", name), value);
        }
    }

    fn server_entry(&mut self, entry: &KnotEntry) {
        let (key, location) = (entry.key.as_str(), &entry.location);
        if let Some((_, to, factor, least, most)) = NUMBERS.iter().find(|row| row.0 == key) {
            let number = entry.value().parse::<u64>().ok();
            let number = number.map(|number| number.saturating_mul(*factor));
            return match number.filter(|number| (*least..=*most).contains(number)) {
                Some(number) => self
                    .server
                    .take(location, *to, ImportedValue::Number(number), key),
                None => self.wrong(entry, "a number"),
            };
        }
        let text = |text: &str| ImportedValue::Text(text.into());
        match key {
            "listen" => self.listen(entry),
            "proxy-allowlist" => self.proxies(entry),
            "automatic-acl" => {
                self.has_automatic_acl = entry.is_on();
                let reason = "used in allow_transfer and allow_notify of the zones";
                self.note(ImportVerdict::Taken, "server", entry, reason);
            }
            "nsid" | "identity" => {
                self.server
                    .take(location, ("server", "nsid"), text(entry.value()), key);
            }
            // An empty text means that such queries are refused, in both servers.
            "version" => {
                self.server
                    .take(location, ("server", "version"), text(entry.value()), key)
            }
            _ if entry.is_off() => self.note(ImportVerdict::NotNeeded, "server", entry, "off"),
            key if NOT_NEEDED.contains(&key) => {
                self.note(
                    ImportVerdict::NotNeeded,
                    "server",
                    entry,
                    "no effect on this server",
                );
            }
            _ => self.note(ImportVerdict::NotPossible, "server", entry, "no equivalent"),
        }
    }

    /// Takes the proxies. Knot also answers what they send without a header; that would make the proxy the client.
    fn proxies(&mut self, entry: &KnotEntry) {
        let networks = entry.values.iter().map(|value| peers::networks(value));
        let Some(networks) = networks.collect::<Option<Vec<_>>>() else {
            return self.wrong(entry, "a network");
        };
        let value = ImportedValue::Texts(networks.concat());
        let key = ("server", "proxy_protocol_from");
        self.server.set(Some(&entry.location), key, value);
        let reason = "proxy_protocol_from in [server]: these addresses must send a PROXY header";
        self.note(ImportVerdict::Changed, "server", entry, reason);
    }

    fn listen(&mut self, entry: &KnotEntry) {
        let mut list = Vec::new();
        for value in &entry.values {
            match peers::at_port(value, 53) {
                Some((address, port)) => list.push(SocketAddr::new(address, port).to_string()),
                None => self.note(
                    ImportVerdict::Breaks,
                    "server",
                    entry,
                    "Unix sockets are not supported",
                ),
            }
        }
        // Each `listen` adds to the previous ones.
        let before = self.server.settings.iter().find(|row| row.key == "listen");
        if let Some(ImportedValue::Texts(before)) = before.map(|row| &row.value) {
            list.splice(0..0, before.iter().cloned());
        }
        let value = ImportedValue::Texts(list);
        self.server
            .take(&entry.location, ("server", "listen"), value, "listen");
    }

    /// Sets loopback listeners: Knot listens nowhere by default, Nameward everywhere.
    pub(super) fn default_listeners(&mut self) {
        if !self.server.settings.iter().any(|row| row.key == "listen") {
            let list = peers::LOOPBACK.map(String::from);
            self.server.set(
                None,
                ("server", "listen"),
                ImportedValue::Texts(list.into()),
            );
        }
    }

    /// Converts the interfaces that queries are received on without sockets.
    pub(super) fn xdp(&mut self, item: &KnotItem) {
        for entry in &item.entries {
            let is_off = !entry.is_on();
            match entry.key.as_str() {
                "listen" => self.xdp_interfaces(entry),
                "route-check" if entry.is_on() => {
                    let (key, value) = (("xdp", "route_check"), ImportedValue::Switch(true));
                    self.server
                        .take(&entry.location, key, value, "route-check of xdp");
                }
                "udp" if is_off => {
                    let reason = "queries over UDP are received on these interfaces";
                    self.note(ImportVerdict::Changed, "xdp", entry, reason);
                }
                "tcp" | "quic" if !is_off => {
                    let reason = "received from sockets";
                    self.note(ImportVerdict::Changed, "xdp", entry, reason);
                }
                _ => self.note(ImportVerdict::NotNeeded, "xdp", entry, "no effect here"),
            }
        }
    }

    /// An interface, with or without a port after `@`; the ports are those of `server.listen`.
    fn xdp_interfaces(&mut self, entry: &KnotEntry) {
        let names = entry.values.iter().map(|value| {
            let name = value.split('@').next().unwrap_or_default();
            (!name.is_empty() && name.parse::<IpAddr>().is_err()).then(|| name.to_string())
        });
        match names.collect::<Option<Vec<_>>>() {
            Some(names) => {
                let (key, value) = (("xdp", "interfaces"), ImportedValue::Texts(names));
                self.server
                    .take(&entry.location, key, value, "listen of xdp");
            }
            None => {
                let reason = "addresses are not supported: name the interface in [xdp]";
                self.note(ImportVerdict::NotPossible, "xdp", entry, reason);
            }
        }
    }

    /// Converts a dnstap collector that listens on a Unix socket.
    pub(super) fn dnstap(&mut self, item: &KnotItem) {
        let sink = item.entry("sink");
        let Some((sink, path)) =
            sink.and_then(|sink| Some((sink, sink.value().strip_prefix("unix:")?)))
        else {
            let reason = "only a Unix socket (sink: unix:...) is supported";
            return self.section(item, ImportVerdict::NotPossible, reason);
        };
        let value = ImportedValue::Text(path.into());
        self.server.take(
            &sink.location,
            ("dnstap", "socket"),
            value,
            "sink of mod-dnstap",
        );
        for (theirs, ours) in [("log-queries", "queries"), ("log-responses", "responses")] {
            if let Some(entry) = item.entry(theirs) {
                let value = ImportedValue::Switch(entry.is_on());
                self.server
                    .set(Some(&entry.location), ("dnstap", ours), value);
            }
        }
        if let Some(entry) = item.entry("identity") {
            let value = ImportedValue::Text(entry.value().into());
            let key = ("dnstap", "identity");
            self.server.set(Some(&entry.location), key, value);
        }
    }

    pub(super) fn log(&mut self, item: &KnotItem) {
        let levels = [
            ("debug", "debug"),
            ("info", "info"),
            ("notice", "info"),
            ("warning", "warn"),
            ("error", "error"),
        ];
        for entry in item.entries.iter().skip(1) {
            let level = levels.iter().find(|(theirs, _)| *theirs == entry.value());
            match level.filter(|_| entry.key == "any") {
                Some((_, level)) => {
                    let value = ImportedValue::Text((*level).into());
                    self.server.take(
                        &entry.location,
                        ("server", "log_level"),
                        value,
                        "any of log",
                    );
                }
                None => self.note(
                    ImportVerdict::NotPossible,
                    "log",
                    entry,
                    "all messages have one log level",
                ),
            }
        }
        if !["stderr", "stdout", "syslog"].contains(&item.id()) {
            self.section(
                item,
                ImportVerdict::NotNeeded,
                "the log goes to standard error (journald)",
            );
        }
    }

    pub(super) fn key(&mut self, item: &KnotItem) {
        let Some(name) = full_name(item.id()) else {
            return self
                .texts
                .error(&item.location, "key: expected id: with the key name");
        };
        let Some(secret) = item.entry("secret") else {
            return self
                .texts
                .error(&item.location, format!("key {name}: expected secret:"));
        };
        let algorithm = item
            .entry("algorithm")
            .map_or("hmac-sha256", KnotEntry::value);
        self.server
            .report
            .add(ImportVerdict::Taken, &item.location, format!("key {name}"));
        self.server.keys.push(ImportedKey {
            name,
            algorithm: algorithm.to_ascii_lowercase(),
            secret: secret.value().to_string(),
            location: item.location.clone(),
        });
    }
}
