//! Other servers: primaries, and servers that are notified of changes; how they are reached and authenticated.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nameward_sql::authorities::SYSTEM_AUTHORITIES;
use nameward_wire::NameBuf;
use nameward_zone::SpkiPin;

/// The port of a server that a database or a command names without one.
const DEFAULT_PORT: u16 = 53;

/// Another server: a primary, or one that is notified of changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemoteServer {
    /// Its address.
    pub address: SocketAddr,
    /// The key that signs messages to it.
    pub key: Option<NameBuf>,
    /// The source address of messages to it; chosen by the kernel if there is none.
    pub source: Option<IpAddr>,
    /// How connections to it are encrypted; `None` for UDP and TCP in plain text.
    pub tls: Option<Arc<PeerTls>>,
}

impl RemoteServer {
    /// Checks whether messages to it are sent over QUIC.
    pub fn is_quic(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_quic())
    }

    /// Checks whether connections to it are encrypted, and present no certificate of ours.
    pub fn lacks_identity(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.identity.is_none())
    }

    /// Creates a server that is reached in plain text, without a key.
    pub fn plain(address: SocketAddr) -> Self {
        RemoteServer {
            address,
            key: None,
            source: None,
            tls: None,
        }
    }

    /// Returns the server with the settings of the one in `remotes` that has its address: databases, commands and catalogs name
    /// servers by address only. Without a port, which is 53, any port of the address is meant. Settings of its own stay.
    pub fn configured_by(&self, remotes: &[RemoteServer]) -> RemoteServer {
        let is_host = |remote: &&RemoteServer| {
            remote.address.ip().to_canonical() == self.address.ip().to_canonical()
        };
        let mut hosts = remotes.iter().filter(is_host);
        let exact = hosts
            .clone()
            .find(|remote| remote.address.port() == self.address.port());
        let found = match exact {
            None if self.address.port() == DEFAULT_PORT => hosts.next(),
            exact => exact,
        };
        match found {
            Some(remote) if self.tls.is_none() => RemoteServer {
                address: remote.address,
                key: self.key.or(remote.key),
                source: self.source.or(remote.source),
                tls: remote.tls.clone(),
            },
            _ => self.clone(),
        }
    }
}

/// The address as in log lines, with the transport if it is encrypted.
impl fmt::Display for RemoteServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        match self.tls.as_ref().map(|tls| tls.transport) {
            None => Ok(()),
            Some(PeerTransport::Tls) => f.write_str(" (TLS)"),
            Some(PeerTransport::Quic) => f.write_str(" (QUIC)"),
        }
    }
}

/// The transport of encrypted messages to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerTransport {
    /// TLS over TCP (RFC 9103).
    Tls,
    /// QUIC (RFC 9250), which has TLS inside.
    Quic,
}

/// The TLS settings for connections to a server (RFC 9103, RFC 9250).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerTls {
    /// The transport.
    pub transport: PeerTransport,
    /// Whether its certificate is verified.
    pub authentication: PeerAuthentication,
    /// The name that its certificate must have, without a final dot; by default its address.
    pub name: Option<String>,
    /// The authorities that may have issued its certificate; by default those of the system.
    pub authorities: Option<PathBuf>,
    /// Pins of which its certificate must have one; any if empty.
    pub pins: Vec<SpkiPin>,
    /// The certificate presented to it on request.
    pub identity: Option<ClientIdentity>,
    /// Whether it must select ALPN.
    pub alpn: AlpnRule,
}

/// Whether the certificate of a server is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerAuthentication {
    /// By name and authority, by pin, or by both.
    Strict,
    /// Not at all: protects against passive observers only.
    Opportunistic,
}

/// Whether a server must select the protocol of DNS over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlpnRule {
    /// RFC 9103 section 7.1: it must.
    Required,
    /// It may select none, as NSD 4.6 does.
    Optional,
}

/// A certificate and its private key, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    /// The certificate, followed by intermediate ones.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl PeerTls {
    /// Checks whether messages are sent over QUIC.
    pub fn is_quic(&self) -> bool {
        self.transport == PeerTransport::Quic
    }

    /// Returns the file of the authorities that may have issued the certificate.
    pub fn authorities_path(&self) -> &Path {
        let path = self.authorities.as_deref();
        path.unwrap_or(Path::new(SYSTEM_AUTHORITIES))
    }

    /// Checks whether the certificate is verified against authorities and a name: it is not if pins replace them.
    pub fn verifies_chain(&self) -> bool {
        self.authentication == PeerAuthentication::Strict
            && (self.pins.is_empty() || self.name.is_some() || self.authorities.is_some())
    }
}

/// Formats the address of a server as in `domains.master`: with its port if that is not 53.
pub fn address_text(address: SocketAddr) -> String {
    match address.port() {
        DEFAULT_PORT => address.ip().to_string(),
        _ => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_named_by_address_has_the_settings_configured_for_it() {
        let plain = |address: &str| RemoteServer::plain(address.parse().unwrap());
        let tls = |transport| {
            Some(Arc::new(PeerTls {
                transport,
                authentication: PeerAuthentication::Opportunistic,
                name: None,
                authorities: None,
                pins: Vec::new(),
                identity: None,
                alpn: AlpnRule::Required,
            }))
        };
        let key: NameBuf = "k.example.".parse().unwrap();
        let one = RemoteServer {
            key: Some(key),
            tls: tls(PeerTransport::Tls),
            ..plain("192.0.2.1:853")
        };
        let two = RemoteServer {
            tls: tls(PeerTransport::Quic),
            ..plain("192.0.2.1:8853")
        };
        let remotes = [one.clone(), two.clone()];
        for (named, expected) in [
            (plain("192.0.2.1:853"), one.clone()),
            (plain("192.0.2.1:53"), one.clone()),
            (plain("[::ffff:192.0.2.1]:53"), one.clone()),
            (plain("192.0.2.1:8853"), two),
            (plain("192.0.2.1:5353"), plain("192.0.2.1:5353")),
            (plain("192.0.2.2:853"), plain("192.0.2.2:853")),
        ] {
            assert_eq!(named.configured_by(&remotes), expected, "{named}");
        }
        let own = RemoteServer {
            key: Some("own.example.".parse().unwrap()),
            ..plain("192.0.2.1:53")
        };
        let found = own.configured_by(&remotes);
        assert_eq!((found.key, &found.tls), (own.key, &one.tls));
        // Port 53 itself may be configured, too.
        let exact = RemoteServer {
            key: Some(key),
            ..plain("192.0.2.1:53")
        };
        let remotes = [one, exact.clone()];
        assert_eq!(plain("192.0.2.1:53").configured_by(&remotes), exact);
    }
}
