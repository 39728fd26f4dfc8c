//! `listen-on` and `listen-on-v6`: plain listeners, and those over TLS and HTTPS with their certificates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::super::{Spot, acl, server_statements::ListenStatement};
use super::{BindImporter, Breaks, peers};

/// The default port of DNS over TLS.
const TLS_PORT: u16 = 853;
/// The default port of DNS over HTTPS.
const HTTPS_PORT: u16 = 443;
/// The path of `http default`, which needs no statement, and of ours.
const HTTPS_PATH: &str = "/dns-query";

/// The listeners found so far.
#[derive(Default)]
struct FoundListeners {
    plain: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
    https: Vec<SocketAddr>,
    path: Option<String>,
    /// Certificate and key files of the TLS and HTTPS listeners.
    files: Vec<(String, String)>,
    /// Whether one of them admits TLS 1.2.
    has_tls_1_2: bool,
    /// The first statement of each kind.
    first: Option<Spot>,
    first_tls: Option<Spot>,
    first_https: Option<Spot>,
}

impl BindImporter<'_> {
    pub(super) fn listen(&mut self, port: u16) {
        let mut found = FoundListeners::default();
        for (is_v6, any) in [
            (false, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            (true, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        ] {
            let listen = self.statements.listen.iter();
            let mut own = listen.filter(|found| found.is_v6 == is_v6).peekable();
            if own.peek().is_none() {
                found.plain.push(SocketAddr::new(any, port));
            }
            for statement in own {
                found.first = found.first.or(Some(statement.spot));
                let addresses = statement.list.as_ref();
                let addresses = addresses.and_then(|list| acl::plain_addresses(list, any));
                match (addresses, &statement.tls) {
                    (None, _) => {
                        let text = "listen-on: list each address";
                        self.note(Breaks, statement.spot, text);
                    }
                    (Some(_), None) if statement.http.is_some() => {
                        let text = "listen-on: DNS over HTTP without TLS is not supported: omitted";
                        self.note(Breaks, statement.spot, text);
                    }
                    (Some(addresses), None) => {
                        let port = or_default(statement.port, port);
                        let addresses = addresses.into_iter();
                        found
                            .plain
                            .extend(addresses.map(|ip| SocketAddr::new(ip, port)));
                    }
                    (Some(addresses), Some(name)) => {
                        self.listen_tls(&mut found, (statement, name), addresses);
                    }
                }
            }
        }
        self.set_listeners(found);
    }

    /// Adds a listener over TLS or HTTPS. One that cannot be converted is omitted: it must not answer in plain text.
    fn listen_tls(
        &mut self,
        found: &mut FoundListeners,
        (statement, name): (&ListenStatement, &str),
        addresses: Vec<IpAddr>,
    ) {
        let tls = self.statements.tls.iter().find(|tls| tls.name == name);
        let files = tls.and_then(|tls| Some((tls.certificate.as_ref()?, tls.key.as_ref()?)));
        let Some((certificate, key)) = files else {
            let text = format!(
                "listen-on: tls {name:?} has no certificate file: omitted; see `nameward tls init`"
            );
            return self.note(Breaks, statement.spot, text);
        };
        if tls.is_some_and(|tls| tls.authorities.is_some()) {
            let text = "listen-on: a TLS listener that demands client certificates is not supported: omitted; set \
                        client_ca in [tls] and tls-name in access lists";
            return self.note(Breaks, statement.spot, text);
        }
        let (list, first, default_port) = match &statement.http {
            None => (&mut found.tls, &mut found.first_tls, TLS_PORT),
            Some(http) => {
                let path = match self.https_path((statement, http)) {
                    Some(path) if *found.path.get_or_insert_with(|| path.clone()) == path => path,
                    Some(path) => {
                        let text =
                            format!("listen-on: a second path {path:?} is not supported: omitted");
                        return self.note(Breaks, statement.spot, text);
                    }
                    None => return,
                };
                found.path = Some(path);
                (&mut found.https, &mut found.first_https, HTTPS_PORT)
            }
        };
        let port = or_default(statement.port, default_port);
        list.extend(addresses.into_iter().map(|ip| SocketAddr::new(ip, port)));
        *first = first.or(Some(statement.spot));
        found.has_tls_1_2 |= tls.is_some_and(|tls| tls.has_tls_1_2);
        let absolute = |path: &String| {
            self.statements
                .directory
                .join(path)
                .to_string_lossy()
                .into_owned()
        };
        let files = (absolute(certificate), absolute(key));
        if !found.files.contains(&files) {
            found.files.push(files);
        }
    }

    /// Returns the path of an HTTPS listener, the first of several; `None` if its `http` statement does not exist.
    fn https_path(&mut self, (statement, name): (&ListenStatement, &str)) -> Option<String> {
        let http = self.statements.http.iter().find(|http| http.name == name);
        let Some(http) = http else {
            if name == "default" {
                return Some(HTTPS_PATH.into());
            }
            let text = format!("listen-on: no http statement {name:?}: omitted");
            self.note(Breaks, statement.spot, text);
            return None;
        };
        let (first, others) = match &http.paths[..] {
            [] => return Some(HTTPS_PATH.into()),
            [first, others @ ..] => (first, others),
        };
        if !others.is_empty() {
            let text =
                format!("listen-on: of the endpoints of http {name:?} only {first:?} is served");
            self.note(Breaks, statement.spot, text);
        }
        Some(first.clone())
    }

    fn set_listeners(&mut self, found: FoundListeners) {
        let texts =
            |list: &[SocketAddr]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
        if let Some(spot) = found.first {
            let location = self.location(spot);
            let mut list = texts(&found.plain);
            if list.is_empty() {
                // An empty list would mean the default: all addresses.
                list = peers::LOOPBACK.map(String::from).into();
            }
            let key = ("server", "listen");
            self.server.take(&location, key, list, "listen-on");
        }
        for (spot, setting, list) in [
            (found.first_tls, "listen_tls", &found.tls),
            (found.first_https, "listen_https", &found.https),
        ] {
            if let Some(spot) = spot {
                let (location, key) = (self.location(spot), ("server", setting));
                self.server.take(&location, key, texts(list), "listen-on");
            }
        }
        if let Some(spot) = found.first_tls.or(found.first_https) {
            let location = self.location(spot);
            if let Some(path) = found.path.filter(|path| path != HTTPS_PATH) {
                self.server.set(Some(&location), ("https", "path"), path);
            }
            if found.has_tls_1_2 {
                let key = ("tls", "minimum_version");
                self.server.set(Some(&location), key, "1.2");
            }
            let files: (Vec<String>, Vec<String>) = found.files.into_iter().unzip();
            self.server.set_certificate(&location, files);
        }
    }
}

fn or_default(port: u16, default: u16) -> u16 {
    if port == 0 { default } else { port }
}
