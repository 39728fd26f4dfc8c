//! Clauses of an nsd.conf about the server: `server:`, `key:`, and those without an equivalent here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{
    super::{
        ConfigLocation,
        ImportVerdict::{self, Breaks, Changed, NotPossible, Taken},
        ImportedKey, ImportedListener, full_name, peers,
        tables::{
            NO_EFFECT, NumberRow, Outcome, breaks, changed, not_needed, not_possible, numbers,
        },
    },
    ConfigEntry, ConfigSection, NsdReader,
};

/// Numbers with the same meaning.
const NUMBERS: &[NumberRow] = numbers! {
    "tcp-count" => server.tcp_connections_max, 1..=1_000_000;
    "tcp-timeout" => server.tcp_idle_timeout_ms * 1000, 10..=3_600_000;
    "ipv4-edns-size" => server.udp_payload_max, 512..=65_535;
};

/// Returns the outcome for an attribute of `server:` that is on and not converted.
fn outcome_of(name: &str) -> Outcome {
    match name {
        "database"
        | "pidfile"
        | "xfrdfile"
        | "xfrdir"
        | "xfrd-reload-timeout"
        | "username"
        | "chroot"
        | "server-count"
        | "cpu-affinity"
        | "xfrd-cpu-affinity"
        | "debug-mode"
        | "reuseport"
        | "ip-transparent"
        | "ip-freebind"
        | "send-buffer-size"
        | "receive-buffer-size"
        | "log-only-syslog"
        | "log-time-ascii"
        | "log-time-iso"
        | "logfile"
        | "zonefiles-check"
        | "zonefiles-write"
        | "reload-config"
        | "ipv6-edns-size"
        | "statistics"
        | "minimal-responses"
        | "tcp-reject-overflow"
        | "tcp-query-count"
        | "tcp-mss"
        | "outgoing-tcp-mss"
        | "round-robin"
        | "drop-updates"
        | "send-zonestats"
        | "xfrd-tcp-max"
        | "xfrd-tcp-pipeline"
        | "metrics-enable"
        | "metrics-interface"
        | "metrics-port"
        | "metrics-path" => NO_EFFECT,
        "hide-identity" | "hide-version" | "refuse-any" | "confine-to-zone" => {
            not_needed("default here")
        }
        "tls-auth-xfr-only" => {
            breaks("name the client certificates in allow_transfer (tls-name:NAME)")
        }
        _ if name.starts_with("rrl-") => not_possible("response rate limiting is not supported"),
        _ if name.contains("cookie") => not_possible("DNS cookies are not supported"),
        _ => not_possible("no equivalent"),
    }
}

/// The default port for DNS over TLS.
const TLS_PORT: u16 = 853;
/// Attributes that set TLS ports.
const TLS_PORTS: [&str; 2] = ["tls-port", "tls-auth-port"];

impl NsdReader<'_> {
    pub(super) fn server_clauses(&mut self) {
        let clauses = std::mem::take(&mut self.clauses);
        for clause in &clauses {
            match clause.section.as_str() {
                "server" => {
                    for attribute in &clause.entries {
                        self.server_attribute(attribute);
                    }
                }
                "key" => self.key(clause),
                "dnstap" => self.dnstap(clause),
                "xdp" => self.xdp(clause),
                "remote-control" => {
                    self.whole(clause, not_needed("replaced by the control socket"))
                }
                "verify" => self.whole(
                    clause,
                    not_possible("no command is run when a zone changes"),
                ),
                "tls-auth" => {
                    self.whole(clause, changed("used for request-xfr, always with TLS 1.3"))
                }
                _ => {}
            }
        }
        self.clauses = clauses;
        self.listen();
    }

    /// Converts the interface that queries are received on without sockets.
    fn xdp(&mut self, clause: &ConfigSection) {
        let Some(interface) = clause.entry("xdp-interface") else {
            return self.whole(clause, not_needed("no interface is named"));
        };
        let (key, names) = (("xdp", "interfaces"), vec![interface.value().to_string()]);
        self.server
            .take(&interface.location, key, names, "xdp-interface");
    }

    fn dnstap(&mut self, clause: &ConfigSection) {
        let is_on = |name: &str| clause.entry(name).is_some_and(ConfigEntry::is_yes);
        if !is_on("dnstap-enable") {
            return self.whole(clause, not_needed("off"));
        }
        let Some(socket) = clause.entry("dnstap-socket-path") else {
            let reason = "only a Unix socket (dnstap-socket-path) is supported";
            return self.whole(clause, not_possible(reason));
        };
        let (key, from) = (("dnstap", "socket"), "dnstap-socket-path");
        self.server
            .take(&socket.location, key, socket.value(), from);
        for (name, key) in [
            ("dnstap-log-auth-query-messages", "queries"),
            ("dnstap-log-auth-response-messages", "responses"),
        ] {
            self.server
                .set(Some(&clause.location), ("dnstap", key), is_on(name));
        }
        if let Some(identity) = clause.entry("dnstap-identity") {
            let (location, key) = (&identity.location, ("dnstap", "identity"));
            self.server.set(Some(location), key, identity.value());
        }
    }

    fn whole(&mut self, clause: &ConfigSection, (verdict, reason): Outcome) {
        let text = format!("{}: {reason}", clause.section);
        self.server.note(verdict, &clause.location, text);
    }

    fn server_attribute(&mut self, attribute: &ConfigEntry) {
        let (name, location) = (attribute.key.as_str(), &attribute.location);
        let value = attribute.value();
        match self.server.take_number(NUMBERS, location, (name, value)) {
            None => {}
            Some(true) => return,
            Some(false) => return self.wrong(attribute, "a number"),
        }
        let (key, value) = match name {
            "zonesdir" => {
                self.zones_directory.push(value);
                return self.note(Taken, attribute, "base directory of zone files");
            }
            // Read together, or with the zones.
            "ip-address" | "interface" | "port" | "do-ip4" | "do-ip6" | "zonelistfile"
            | "tls-port" | "tls-auth-port" | "tls-service-key" | "tls-service-pem" => return,
            "identity" => ("nsid", value),
            "version" => ("version", value),
            "hide-version" if attribute.is_yes() => ("version", ""),
            "nsid" => match value.strip_prefix("ascii_") {
                Some(name) => ("nsid", name),
                None => {
                    let reason = "nsid is text here, not hexadecimal";
                    return self.note(NotPossible, attribute, reason);
                }
            },
            "refuse-any" if attribute.is_yes() => ("any", "truncate"),
            "confine-to-zone" if attribute.is_yes() => ("cname_follow", "zone"),
            "verbosity" => match value {
                "0" => ("log_level", "warn"),
                "1" | "2" => ("log_level", "info"),
                _ => ("log_level", "debug"),
            },
            _ => return self.other(attribute),
        };
        self.server.take(location, ("server", key), value, name);
    }

    fn other(&mut self, attribute: &ConfigEntry) {
        let is_off = ["no", "\"\"", "", "0"].contains(&attribute.value());
        let (verdict, reason) = if is_off {
            not_needed("off")
        } else {
            outcome_of(&attribute.key)
        };
        self.note(verdict, attribute, reason);
    }

    /// Converts all addresses together, with the port that may follow later.
    fn listen(&mut self) {
        let clauses = std::mem::take(&mut self.clauses);
        let servers = clauses.iter().filter(|clause| clause.section == "server");
        let attributes: Vec<&ConfigEntry> = servers.flat_map(|clause| &clause.entries).collect();
        let port = attributes.iter().rfind(|found| found.key == "port");
        let number = match port.map(|port| (port, port.value().parse::<u16>())) {
            None => 53,
            Some((_, Ok(number))) => number,
            Some((port, Err(_))) => {
                self.wrong(port, "a port");
                53
            }
        };
        let tls = NsdTlsListeners::new(&attributes);
        let proxies = self.proxy_ports(&attributes);
        let listener = |address, port| ImportedListener {
            address: SocketAddr::new(address, port),
            is_for_proxies: proxies.contains(&port),
        };
        let (mut list, mut tls_list) = (Vec::new(), Vec::new());
        let mut has_tls = false;
        let mut location: Option<ConfigLocation> = port.map(|port| port.location.clone());
        for attribute in &attributes {
            if !["ip-address", "interface"].contains(&attribute.key.as_str()) {
                continue;
            }
            match peers::at_port(attribute.value(), number) {
                Some((address, port)) if tls.ports.contains(&port) => {
                    has_tls = true;
                    if tls.certificate.is_some() {
                        tls_list.push(listener(address, port));
                    } else {
                        let reason =
                            format!("port {port} is for TLS, without a certificate here: omitted");
                        self.note(Breaks, attribute, &reason);
                    }
                }
                Some((address, port)) => list.push(listener(address, port)),
                None => {
                    let reason = "interface names are not supported: list the addresses";
                    self.note(Breaks, attribute, reason);
                }
            }
            location = Some(attribute.location.clone());
        }
        // Without addresses, NSD listens on all addresses of the enabled families.
        let is_off = |name: &str| {
            let found = attributes.iter().rfind(|found| found.key == name);
            found.filter(|found| !found.is_yes())
        };
        let (no_v4, no_v6) = (is_off("do-ip4"), is_off("do-ip6"));
        if let Some(switch) = no_v4.or(no_v6) {
            location = location.or_else(|| Some(switch.location.clone()));
        }
        if list.is_empty() && has_tls {
            let loopback = [
                IpAddr::from(Ipv4Addr::LOCALHOST),
                Ipv6Addr::LOCALHOST.into(),
            ];
            list = loopback.map(|address| listener(address, 53)).into();
        }
        if list.is_empty() && (number != 53 || no_v4.or(no_v6).is_some()) {
            let families = [
                (no_v4, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
                (no_v6, IpAddr::from(Ipv6Addr::UNSPECIFIED)),
            ];
            let on = families.iter().filter(|(off, _)| off.is_none());
            list = on.map(|(_, all)| listener(*all, number)).collect();
        }
        self.listen_tls(tls, tls_list);
        if let Some(location) = location.filter(|_| !list.is_empty()) {
            self.server
                .take(&location, ("server", "listen"), list, "ip-address");
        }
        self.report_listen(&attributes);
        self.clauses = clauses;
    }

    /// Returns the ports on which every client is a proxy. NSD believes any sender there.
    fn proxy_ports(&mut self, attributes: &[&ConfigEntry]) -> Vec<u16> {
        let mut ports = Vec::new();
        for attribute in attributes {
            if attribute.key != "proxy-protocol-port" {
                continue;
            }
            match attribute.value().parse() {
                Ok(port) => {
                    ports.push(port);
                    let reason = "proxy_protocol_from of these listeners in [server] allows every address, as NSD does: list your \
                                  proxies";
                    self.note(Changed, attribute, reason);
                }
                Err(_) => self.wrong(attribute, "a port"),
            }
        }
        ports
    }

    /// Converts the addresses with TLS.
    fn listen_tls(&mut self, tls: NsdTlsListeners, list: Vec<ImportedListener>) {
        let Some((certificate, key, location)) = tls.certificate.filter(|_| !list.is_empty())
        else {
            return;
        };
        self.server
            .take(&location, ("server", "listen_tls"), list, "tls-port");
        self.server.set_certificate(&location, (certificate, key));
    }

    /// Reports the attributes that the addresses were made of.
    fn report_listen(&mut self, attributes: &[&ConfigEntry]) {
        for attribute in attributes {
            let name = attribute.key.as_str();
            if name == "tls-auth-port" {
                let reason = "part of listen_tls in [server]; clients without a certificate may connect, too";
                self.note(Changed, attribute, reason);
            }
            if ["tls-port", "tls-service-key", "tls-service-pem"].contains(&name) {
                let text = format!("{name}: part of listen_tls in [server] and of [tls]");
                self.server.report.add_used(&attribute.location, text);
            }
            if ["ip-address", "interface", "port", "do-ip4", "do-ip6"].contains(&name) {
                let text = format!("{name}: part of listen in [server]");
                self.server.report.add_used(&attribute.location, text);
            }
        }
    }

    fn key(&mut self, clause: &ConfigSection) {
        let value = |name: &str| clause.entry(name).map(|found| found.value().to_string());
        let (name, algorithm, secret) = (value("name"), value("algorithm"), value("secret"));
        let Some(name) = name.as_deref().and_then(full_name) else {
            return self.error(&clause.location, "key: expected name: with the key name");
        };
        let Some(secret) = secret else {
            return self.error(&clause.location, format!("key {name}: expected secret:"));
        };
        let algorithm = algorithm.unwrap_or_else(|| "hmac-sha256".into());
        self.server.take_key(ImportedKey {
            name,
            algorithm: algorithm.trim_end_matches('.').to_string(),
            secret,
            location: clause.location.clone(),
        });
    }

    pub(super) fn note(&mut self, verdict: ImportVerdict, attribute: &ConfigEntry, reason: &str) {
        let text = format!("{}: {reason}", attribute.key);
        self.server.note(verdict, &attribute.location, text);
    }

    pub(super) fn wrong(&mut self, attribute: &ConfigEntry, expected: &str) {
        let found = attribute.values.join(" ");
        let message = format!("{}: expected {expected}, found {found:?}", attribute.key);
        self.error(&attribute.location, message);
    }
}

/// The TLS settings of the server clauses.
struct NsdTlsListeners {
    /// With a key, NSD uses TLS on these ports; a plain listener there would answer unencrypted.
    ports: Vec<u16>,
    /// The files with the certificate and its key, and where the configuration names them.
    certificate: Option<(String, String, ConfigLocation)>,
}

impl NsdTlsListeners {
    fn new(attributes: &[&ConfigEntry]) -> Self {
        let last = |name: &str| attributes.iter().rfind(|found| found.key == name);
        let port = |name: &str| last(name).and_then(|found| found.value().parse().ok());
        let path = |name: &str| {
            let path = last(name)?.value();
            (!path.is_empty()).then(|| path.to_string())
        };
        let mut ports: Vec<u16> = TLS_PORTS.iter().filter_map(|name| port(name)).collect();
        if last("tls-port").is_none() {
            ports.push(TLS_PORT);
        }
        let files = path("tls-service-pem").zip(path("tls-service-key"));
        let location = last("tls-service-pem").map(|found| found.location.clone());
        NsdTlsListeners {
            ports,
            certificate: files
                .zip(location)
                .map(|((certificate, key), location)| (certificate, key, location)),
        }
    }
}
