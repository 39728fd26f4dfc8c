//! Clauses of an nsd.conf about the server: `server:`, `key:`, and those without an equivalent here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{
    super::{
        ConfigLocation, ImportVerdict, ImportedKey, ImportedListener, ImportedValue, NumberRow,
        full_name, peers,
    },
    NsdAttribute, NsdClause, NsdReader,
};

/// Numbers with the same meaning: name, table and key, factor, minimum and maximum.
const NUMBERS: &[NumberRow] = &[
    (
        "tcp-count",
        ("server", "tcp_connections_max"),
        1,
        1,
        1_000_000,
    ),
    (
        "tcp-timeout",
        ("server", "tcp_idle_timeout_ms"),
        1000,
        10,
        3_600_000,
    ),
    (
        "ipv4-edns-size",
        ("server", "udp_payload_max"),
        1,
        512,
        65_535,
    ),
];

/// Attributes of `server:` that nothing here depends on.
const NOT_NEEDED: &[&str] = &[
    "database",
    "pidfile",
    "xfrdfile",
    "xfrdir",
    "xfrd-reload-timeout",
    "username",
    "chroot",
    "server-count",
    "cpu-affinity",
    "xfrd-cpu-affinity",
    "debug-mode",
    "reuseport",
    "ip-transparent",
    "ip-freebind",
    "send-buffer-size",
    "receive-buffer-size",
    "log-only-syslog",
    "log-time-ascii",
    "log-time-iso",
    "logfile",
    "zonefiles-check",
    "zonefiles-write",
    "reload-config",
    "ipv6-edns-size",
    "statistics",
    "minimal-responses",
    "tcp-reject-overflow",
    "tcp-query-count",
    "tcp-mss",
    "outgoing-tcp-mss",
    "round-robin",
    "drop-updates",
    "send-zonestats",
    "xfrd-tcp-max",
    "xfrd-tcp-pipeline",
    "metrics-enable",
    "metrics-interface",
    "metrics-port",
    "metrics-path",
];

/// The default port for DNS over TLS.
const TLS_PORT: u16 = 853;
/// Attributes that set TLS ports.
const TLS_PORTS: [&str; 2] = ["tls-port", "tls-auth-port"];

/// Attributes of `server:` whose loss clients might notice.
const BREAKS: &[(&str, &str)] = &[(
    "tls-auth-xfr-only",
    "name the client certificates in allow_transfer (tls-name:NAME)",
)];

impl NsdReader<'_> {
    pub(super) fn server_clauses(&mut self) {
        let clauses = std::mem::take(&mut self.clauses);
        for clause in &clauses {
            match clause.word {
                "server" => self.server_clause(clause),
                "key" => self.key(clause),
                "remote-control" => self.whole(
                    clause,
                    ImportVerdict::NotNeeded,
                    "replaced by the control socket",
                ),
                "dnstap" => self.dnstap(clause),
                "xdp" => self.xdp(clause),
                "verify" => self.whole(
                    clause,
                    ImportVerdict::NotPossible,
                    "no command is run when a zone changes",
                ),
                "tls-auth" => self.whole(
                    clause,
                    ImportVerdict::Changed,
                    "used for request-xfr, always with TLS 1.3",
                ),
                _ => {}
            }
        }
        self.clauses = clauses;
        self.listen();
    }

    /// Converts the interface that queries are received on without sockets.
    fn xdp(&mut self, clause: &NsdClause) {
        let Some(interface) = clause.attribute("xdp-interface") else {
            return self.whole(clause, ImportVerdict::NotNeeded, "no interface is named");
        };
        let value = ImportedValue::Texts(vec![interface.value().into()]);
        let key = ("xdp", "interfaces");
        self.server
            .take(&interface.location, key, value, "xdp-interface");
    }

    fn dnstap(&mut self, clause: &NsdClause) {
        let is_on = |name: &str| clause.attribute(name).is_some_and(NsdAttribute::is_yes);
        if !is_on("dnstap-enable") {
            return self.whole(clause, ImportVerdict::NotNeeded, "off");
        }
        let Some(socket) = clause.attribute("dnstap-socket-path") else {
            let reason = "only a Unix socket (dnstap-socket-path) is supported";
            return self.whole(clause, ImportVerdict::NotPossible, reason);
        };
        let path = ImportedValue::Text(socket.value().into());
        let from = "dnstap-socket-path";
        self.server
            .take(&socket.location, ("dnstap", "socket"), path, from);
        for (name, key) in [
            ("dnstap-log-auth-query-messages", "queries"),
            ("dnstap-log-auth-response-messages", "responses"),
        ] {
            let value = ImportedValue::Switch(is_on(name));
            self.server
                .set(Some(&clause.location), ("dnstap", key), value);
        }
        if let Some(identity) = clause.attribute("dnstap-identity") {
            let value = ImportedValue::Text(identity.value().into());
            let key = ("dnstap", "identity");
            self.server.set(Some(&identity.location), key, value);
        }
    }

    fn whole(&mut self, clause: &NsdClause, verdict: ImportVerdict, reason: &str) {
        let text = format!("{}: {reason}", clause.word);
        self.server.report.add(verdict, &clause.location, text);
    }

    fn server_clause(&mut self, clause: &NsdClause) {
        for attribute in &clause.attributes {
            self.server_attribute(attribute);
        }
    }

    fn server_attribute(&mut self, attribute: &NsdAttribute) {
        let (name, location) = (attribute.name.as_str(), &attribute.location);
        if let Some((_, key, factor, least, most)) = NUMBERS.iter().find(|row| row.0 == name) {
            let number = attribute.value().parse::<u64>().ok();
            let number = number.map(|number| number.saturating_mul(*factor));
            return match number.filter(|number| (*least..=*most).contains(number)) {
                Some(number) => {
                    self.server
                        .take(location, *key, ImportedValue::Number(number), name)
                }
                None => self.wrong(attribute, "a number"),
            };
        }
        let text = |text: &str| ImportedValue::Text(text.into());
        let taken: Option<((&'static str, &'static str), ImportedValue)> = match name {
            "zonesdir" => {
                self.zones_directory.push(attribute.value());
                None
            }
            // Read together, or with the zones.
            "ip-address" | "interface" | "port" | "do-ip4" | "do-ip6" | "zonelistfile"
            | "tls-port" | "tls-auth-port" | "tls-service-key" | "tls-service-pem" => return,
            "identity" => Some((("server", "nsid"), text(attribute.value()))),
            "version" => Some((("server", "version"), text(attribute.value()))),
            "hide-version" if attribute.is_yes() => Some((("server", "version"), text(""))),
            "nsid" => match attribute.value().strip_prefix("ascii_") {
                Some(name) => Some((("server", "nsid"), text(name))),
                None => {
                    return self.note(
                        ImportVerdict::NotPossible,
                        attribute,
                        "nsid is text here, not hexadecimal",
                    );
                }
            },
            "refuse-any" if attribute.is_yes() => Some((("server", "any"), text("truncate"))),
            "confine-to-zone" if attribute.is_yes() => {
                Some((("server", "cname_follow"), text("zone")))
            }
            "verbosity" => {
                let level = match attribute.value() {
                    "0" => "warn",
                    "1" | "2" => "info",
                    _ => "debug",
                };
                Some((("server", "log_level"), text(level)))
            }
            _ => return self.other(attribute),
        };
        match taken {
            Some((key, value)) => self.server.take(location, key, value, name),
            None => self.note(
                ImportVerdict::Taken,
                attribute,
                "base directory of zone files",
            ),
        }
    }

    fn other(&mut self, attribute: &NsdAttribute) {
        let name = attribute.name.as_str();
        let is_off = ["no", "\"\"", "", "0"].contains(&attribute.value());
        if is_off || NOT_NEEDED.contains(&name) {
            let reason = if is_off {
                "off"
            } else {
                "no effect on this server"
            };
            self.note(ImportVerdict::NotNeeded, attribute, reason);
        } else if let Some((_, reason)) = BREAKS.iter().find(|row| row.0 == name) {
            self.note(ImportVerdict::Breaks, attribute, reason);
        } else if name.starts_with("rrl-") {
            self.note(
                ImportVerdict::NotPossible,
                attribute,
                "response rate limiting is not supported",
            );
        } else if name.contains("cookie") {
            self.note(
                ImportVerdict::NotPossible,
                attribute,
                "DNS cookies are not supported",
            );
        } else if [
            "hide-identity",
            "hide-version",
            "refuse-any",
            "confine-to-zone",
        ]
        .contains(&name)
        {
            self.note(ImportVerdict::NotNeeded, attribute, "default here");
        } else {
            self.note(ImportVerdict::NotPossible, attribute, "no equivalent");
        }
    }

    /// Converts all addresses together, with the port that may follow later.
    fn listen(&mut self) {
        let clauses = std::mem::take(&mut self.clauses);
        let servers = clauses.iter().filter(|clause| clause.word == "server");
        let attributes: Vec<&NsdAttribute> =
            servers.flat_map(|clause| &clause.attributes).collect();
        let port = attributes.iter().rfind(|found| found.name == "port");
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
            if !["ip-address", "interface"].contains(&attribute.name.as_str()) {
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
                        self.note(ImportVerdict::Breaks, attribute, &reason);
                    }
                }
                Some((address, port)) => list.push(listener(address, port)),
                None => self.note(
                    ImportVerdict::Breaks,
                    attribute,
                    "interface names are not supported: list the addresses",
                ),
            }
            location = Some(attribute.location.clone());
        }
        // Without addresses, NSD listens on all addresses of the enabled families.
        let is_off = |name: &str| {
            let found = attributes.iter().rfind(|found| found.name == name);
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
            let value = ImportedValue::Listeners(list);
            self.server
                .take(&location, ("server", "listen"), value, "ip-address");
        }
        self.report_listen(&attributes);
        self.clauses = clauses;
    }

    /// Returns the ports on which every client is a proxy. NSD believes any sender there.
    fn proxy_ports(&mut self, attributes: &[&NsdAttribute]) -> Vec<u16> {
        let mut ports = Vec::new();
        for attribute in attributes {
            if attribute.name != "proxy-protocol-port" {
                continue;
            }
            match attribute.value().parse() {
                Ok(port) => {
                    ports.push(port);
                    let reason = "proxy_protocol_from of these listeners in [server] allows every address, as NSD does: list your \
                                  proxies";
                    self.note(ImportVerdict::Changed, attribute, reason);
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
        let value = ImportedValue::Listeners(list);
        self.server
            .take(&location, ("server", "listen_tls"), value, "tls-port");
        for (name, path) in [("certificate", certificate), ("key", key)] {
            let value = ImportedValue::Text(path);
            self.server.set(Some(&location), ("tls", name), value);
        }
    }

    /// Reports the attributes that the addresses were made of.
    fn report_listen(&mut self, attributes: &[&NsdAttribute]) {
        for attribute in attributes {
            let name = attribute.name.as_str();
            if name == "tls-auth-port" {
                let reason = "part of listen_tls in [server]; clients without a certificate may connect, too";
                self.note(ImportVerdict::Changed, attribute, reason);
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

    fn key(&mut self, clause: &NsdClause) {
        let value = |name: &str| {
            clause
                .attribute(name)
                .map(|found| found.value().to_string())
        };
        let (name, algorithm, secret) = (value("name"), value("algorithm"), value("secret"));
        let Some(name) = name.as_deref().and_then(full_name) else {
            return self
                .texts
                .error(&clause.location, "key: expected name: with the key name");
        };
        let Some(secret) = secret else {
            return self
                .texts
                .error(&clause.location, format!("key {name}: expected secret:"));
        };
        let algorithm = algorithm
            .unwrap_or_else(|| "hmac-sha256".into())
            .to_ascii_lowercase();
        let algorithm = match algorithm.as_str() {
            "hmac-md5.sig-alg.reg.int" => "hmac-md5".into(),
            other => other.trim_end_matches('.').to_string(),
        };
        let text = format!("key {name}");
        self.server
            .report
            .add(ImportVerdict::Taken, &clause.location, text);
        self.server.keys.push(ImportedKey {
            name,
            algorithm,
            secret,
            location: clause.location.clone(),
        });
    }

    pub(super) fn note(&mut self, verdict: ImportVerdict, attribute: &NsdAttribute, reason: &str) {
        let text = format!("{}: {reason}", attribute.name);
        self.server.report.add(verdict, &attribute.location, text);
    }

    pub(super) fn wrong(&mut self, attribute: &NsdAttribute, expected: &str) {
        let found = attribute.values.join(" ");
        let message = format!("{}: expected {expected}, found {found:?}", attribute.name);
        self.texts.error(&attribute.location, message);
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
    fn new(attributes: &[&NsdAttribute]) -> Self {
        let last = |name: &str| attributes.iter().rfind(|found| found.name == name);
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
