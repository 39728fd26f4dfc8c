//! `listen-on` and `listen-on-v6`: plain listeners, and those over TLS with their certificates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::super::{
    Spot, acl,
    server_statements::{ListenStatement, ServerStatements},
};
use super::{BindImporter, ImportVerdict, ImportedValue, peers};

/// The default port of DNS over TLS.
const TLS_PORT: u16 = 853;

/// The listeners found so far.
#[derive(Default)]
struct FoundListeners {
    plain: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
    /// Certificate and key files of the TLS listeners.
    files: Vec<(String, String)>,
    /// The first statement of each kind.
    first: Option<Spot>,
    first_tls: Option<Spot>,
}

impl BindImporter {
    pub(super) fn listen(&mut self, statements: &ServerStatements, port: u16) {
        let mut found = FoundListeners::default();
        for (is_v6, any) in [
            (false, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            (true, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        ] {
            let listen = statements.listen.iter();
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
                        let text = "listen-on: list each address; HTTPS is not supported";
                        self.note(ImportVerdict::Breaks, statement.spot, text);
                    }
                    (Some(addresses), None) => {
                        let port = or_default(statement.port, port);
                        let addresses = addresses.into_iter();
                        found
                            .plain
                            .extend(addresses.map(|ip| SocketAddr::new(ip, port)));
                    }
                    (Some(addresses), Some(name)) => {
                        self.listen_tls(&mut found, (statement, name), addresses, statements);
                    }
                }
            }
        }
        self.set_listeners(found);
    }

    /// Adds a listener over TLS. One that cannot be converted is omitted: it must not answer in plain text.
    fn listen_tls(
        &mut self,
        found: &mut FoundListeners,
        (statement, name): (&ListenStatement, &str),
        addresses: Vec<IpAddr>,
        statements: &ServerStatements,
    ) {
        let tls = statements.tls.iter().find(|tls| tls.name == name);
        let files = tls.and_then(|tls| Some((tls.certificate.as_ref()?, tls.key.as_ref()?)));
        let Some((certificate, key)) = files else {
            let text = format!(
                "listen-on: tls {name:?} has no certificate file: omitted; see `nameward tls init`"
            );
            return self.note(ImportVerdict::Breaks, statement.spot, text);
        };
        if tls.is_some_and(|tls| tls.authorities.is_some()) {
            let text = "listen-on: a TLS listener that demands client certificates is not supported: omitted; set \
                        client_ca in [tls] and tls-name in access lists";
            return self.note(ImportVerdict::Breaks, statement.spot, text);
        }
        let port = or_default(statement.port, TLS_PORT);
        let addresses = addresses.into_iter();
        found
            .tls
            .extend(addresses.map(|ip| SocketAddr::new(ip, port)));
        let absolute = |path: &String| {
            statements
                .directory
                .join(path)
                .to_string_lossy()
                .into_owned()
        };
        let files = (absolute(certificate), absolute(key));
        if !found.files.contains(&files) {
            found.files.push(files);
        }
        found.first_tls = found.first_tls.or(Some(statement.spot));
    }

    fn set_listeners(&mut self, found: FoundListeners) {
        let texts = |list: &[SocketAddr]| list.iter().map(ToString::to_string).collect();
        if let Some(spot) = found.first {
            let place = self.place(spot);
            let mut list: Vec<String> = texts(&found.plain);
            if list.is_empty() {
                // An empty list would mean the default: all addresses.
                list = peers::LOOPBACK.map(String::from).into();
            }
            let value = ImportedValue::Texts(list);
            self.server
                .take(&place, ("server", "listen"), value, "listen-on");
        }
        if let Some(spot) = found.first_tls {
            let place = self.place(spot);
            let value = ImportedValue::Texts(texts(&found.tls));
            self.server
                .take(&place, ("server", "listen_tls"), value, "listen-on");
            let (certificates, keys) = found.files.into_iter().unzip();
            for (key, paths) in [("certificate", certificates), ("key", keys)] {
                let value = ImportedValue::Texts(paths);
                self.server.set(Some(&place), ("tls", key), value);
            }
        }
    }
}

fn or_default(port: u16, default: u16) -> u16 {
    if port == 0 { default } else { port }
}
