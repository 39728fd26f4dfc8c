//! Sections of a knot.conf about the server: `server:`, `key:` and `log:`.

use std::net::{IpAddr, SocketAddr};

use super::{
    super::{
        ImportVerdict::{Breaks, Changed, NotNeeded, NotPossible, Taken},
        ImportedKey, full_name, peers,
        tables::{NO_EFFECT, NumberRow, not_needed, not_possible, numbers},
    },
    ConfigEntry, ConfigSection, KnotReader,
};

/// Numbers with the same meaning.
const NUMBERS: &[NumberRow] = numbers! {
    "tcp-max-clients" => server.tcp_connections_max, 1..=1_000_000;
    "udp-max-payload" => server.udp_payload_max, 512..=65_535;
    "udp-max-payload-ipv4" => server.udp_payload_max, 512..=65_535;
};

/// The default port of DNS over TLS and over QUIC.
const TLS_PORT: u16 = 853;

impl KnotReader<'_> {
    pub(super) fn server_section(&mut self, item: &ConfigSection) {
        for entry in &item.entries {
            match entry.key.as_str() {
                "listen-tls" => self.listen_encrypted(item, entry, "listen_tls"),
                "listen-quic" => self.listen_encrypted(item, entry, "listen_quic"),
                "cert-file" | "key-file" => {
                    self.note(Taken, "server", entry, "used in [tls]");
                }
                _ => self.server_entry(entry),
            }
        }
    }

    /// Converts listeners over TLS or QUIC. Without a certificate they are omitted: they must not answer in plain text.
    fn listen_encrypted(
        &mut self,
        item: &ConfigSection,
        entry: &ConfigEntry,
        setting: &'static str,
    ) {
        let file = |key| item.entry(key).map(|entry| entry.value().to_string());
        let Some((certificate, key)) = file("cert-file").zip(file("key-file")) else {
            let reason = "omitted: no cert-file and key-file; see `nameward tls init`";
            return self.note(Breaks, "server", entry, reason);
        };
        let addresses = entry
            .values
            .iter()
            .map(|value| peers::at_port(value, TLS_PORT));
        let Some(addresses) = addresses.collect::<Option<Vec<_>>>() else {
            return self.wrong(entry, "addresses");
        };
        let list = { addresses.into_iter() }
            .map(|(address, port)| SocketAddr::new(address, port).to_string())
            .collect::<Vec<_>>();
        self.server
            .take(&entry.location, ("server", setting), list, &entry.key);
        self.server
            .set_certificate(&entry.location, (certificate, key));
    }

    fn server_entry(&mut self, entry: &ConfigEntry) {
        let (key, location) = (entry.key.as_str(), &entry.location);
        match self
            .server
            .take_number(NUMBERS, location, (key, entry.value()))
        {
            None => {}
            Some(true) => return,
            Some(false) => return self.wrong(entry, "a number"),
        }
        let (verdict, reason) = match key {
            "listen" => return self.listen(entry),
            "proxy-allowlist" => return self.proxies(entry),
            "automatic-acl" => {
                self.has_automatic_acl = entry.is_on();
                let reason = "used in allow_transfer and allow_notify of the zones";
                (Taken, reason)
            }
            // An empty version means that such queries are refused, in both servers.
            "nsid" | "identity" | "version" => {
                let ours = if key == "version" { "version" } else { "nsid" };
                let value = entry.value();
                return self.server.take(location, ("server", ours), value, key);
            }
            _ if entry.is_off() => not_needed("off"),
            "rundir"
            | "user"
            | "pidfile"
            | "udp-workers"
            | "tcp-workers"
            | "background-workers"
            | "async-start"
            | "socket-affinity"
            | "tcp-reuseport"
            | "tcp-fastopen"
            | "dbus-event"
            | "dbus-init-delay"
            | "udp-max-payload-ipv6"
            | "key-label"
            | "tcp-idle-timeout"
            | "tcp-io-timeout"
            | "tcp-remote-io-timeout"
            | "tcp-idle-close-timeout"
            | "quic-max-clients"
            | "quic-outbuf-max-size"
            | "quic-idle-close-timeout" => NO_EFFECT,
            _ => not_possible("no equivalent"),
        };
        self.note(verdict, "server", entry, reason);
    }

    /// Takes the proxies. Knot also answers what they send without a header; that would make the proxy the client.
    fn proxies(&mut self, entry: &ConfigEntry) {
        let networks = entry.values.iter().map(|value| peers::networks(value));
        let Some(networks) = networks.collect::<Option<Vec<_>>>() else {
            return self.wrong(entry, "a network");
        };
        let key = ("server", "proxy_protocol_from");
        self.server
            .set(Some(&entry.location), key, networks.concat());
        let reason = "proxy_protocol_from in [server]: these addresses must send a PROXY header";
        self.note(Changed, "server", entry, reason);
    }

    fn listen(&mut self, entry: &ConfigEntry) {
        let key = ("server", "listen");
        // Each `listen` adds to the previous ones.
        let mut list = self.server.texts(key);
        for value in &entry.values {
            match peers::at_port(value, 53) {
                Some((address, port)) => list.push(SocketAddr::new(address, port).to_string()),
                None => self.note(Breaks, "server", entry, "Unix sockets are not supported"),
            }
        }
        self.server.take(&entry.location, key, list, "listen");
    }

    /// Sets loopback listeners: Knot listens nowhere by default, Nameward everywhere.
    pub(super) fn default_listeners(&mut self) {
        if !self.server.settings.iter().any(|row| row.key == "listen") {
            let list = peers::LOOPBACK.map(String::from).to_vec();
            self.server.set(None, ("server", "listen"), list);
        }
    }

    /// Converts the interfaces that queries are received on without sockets.
    pub(super) fn xdp(&mut self, item: &ConfigSection) {
        for entry in &item.entries {
            let is_off = !entry.is_on();
            match entry.key.as_str() {
                "listen" => self.xdp_interfaces(entry),
                "route-check" if entry.is_on() => {
                    let key = ("xdp", "route_check");
                    self.server
                        .take(&entry.location, key, true, "route-check of xdp");
                }
                "udp" if is_off => {
                    let reason = "queries over UDP are received on these interfaces";
                    self.note(Changed, "xdp", entry, reason);
                }
                "tcp" | "quic" if !is_off => {
                    let reason = "received from sockets";
                    self.note(Changed, "xdp", entry, reason);
                }
                _ => self.note(NotNeeded, "xdp", entry, "no effect here"),
            }
        }
    }

    /// An interface, with or without a port after `@`; the ports are those of `server.listen`.
    fn xdp_interfaces(&mut self, entry: &ConfigEntry) {
        let names = entry.values.iter().map(|value| {
            let name = value.split('@').next().unwrap_or_default();
            (!name.is_empty() && name.parse::<IpAddr>().is_err()).then(|| name.to_string())
        });
        match names.collect::<Option<Vec<_>>>() {
            Some(names) => {
                let key = ("xdp", "interfaces");
                self.server
                    .take(&entry.location, key, names, "listen of xdp");
            }
            None => {
                let reason = "addresses are not supported: name the interface in [xdp]";
                self.note(NotPossible, "xdp", entry, reason);
            }
        }
    }

    /// Converts a dnstap collector that listens on a Unix socket.
    pub(super) fn dnstap(&mut self, item: &ConfigSection) {
        let sink = item.entry("sink");
        let Some((sink, path)) =
            sink.and_then(|sink| Some((sink, sink.value().strip_prefix("unix:")?)))
        else {
            let reason = "only a Unix socket (sink: unix:...) is supported";
            return self.section(item, not_possible(reason));
        };
        let key = ("dnstap", "socket");
        self.server
            .take(&sink.location, key, path, "sink of mod-dnstap");
        for (theirs, ours) in [("log-queries", "queries"), ("log-responses", "responses")] {
            if let Some(entry) = item.entry(theirs) {
                let (location, key) = (&entry.location, ("dnstap", ours));
                self.server.set(Some(location), key, entry.is_on());
            }
        }
        if let Some(entry) = item.entry("identity") {
            let (location, key) = (&entry.location, ("dnstap", "identity"));
            self.server.set(Some(location), key, entry.value());
        }
    }

    pub(super) fn log(&mut self, item: &ConfigSection) {
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
                    let key = ("server", "log_level");
                    self.server.take(&entry.location, key, *level, "any of log");
                }
                None => {
                    let reason = "all messages have one log level";
                    self.note(NotPossible, "log", entry, reason);
                }
            }
        }
        if !["stderr", "stdout", "syslog"].contains(&item.id()) {
            let reason = "the log goes to standard error (journald)";
            self.section(item, not_needed(reason));
        }
    }

    pub(super) fn key(&mut self, item: &ConfigSection) {
        let Some(name) = full_name(item.id()) else {
            return self.error(&item.location, "key: expected id: with the key name");
        };
        let Some(secret) = item.entry("secret") else {
            return self.error(&item.location, format!("key {name}: expected secret:"));
        };
        let algorithm = item.value_or("algorithm", "hmac-sha256");
        self.server.take_key(ImportedKey {
            name,
            algorithm: algorithm.to_string(),
            secret: secret.value().to_string(),
            location: item.location.clone(),
        });
    }
}
