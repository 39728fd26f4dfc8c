//! Clients of encrypted connections: their certificates, and the entries of access lists that depend on them.

use super::{AccessClient, AccessEntry, AccessWord, AddressRange, range};
use nameward_wire::NameBuf;
use std::net::IpAddr;

/// SHA-256 of a certificate's SubjectPublicKeyInfo (RFC 7858 section 4.2).
pub type SpkiPin = [u8; 32];

/// The client of an encrypted connection (TLS, HTTPS or QUIC). One without a certificate has no names and no pin, and
/// still matches `tls` in an access list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsPeer {
    /// The DNS names in the client's certificate, in lower case and without a final dot. Empty unless the certificate
    /// was verified against the configured authorities: anyone can write a name into a certificate.
    pub names: Box<[Box<str>]>,
    /// The pin of the client's certificate, regardless of its issuer: the handshake proves that the client has its key.
    pub pin: Option<SpkiPin>,
}

/// An entry that matches clients of encrypted connections: all of its conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TlsEntry {
    /// The network of the client; any if there is none.
    pub network: Option<(IpAddr, u8)>,
    /// The key that signs its requests; any, or unsigned, if there is none.
    pub key: Option<NameBuf>,
    /// The certificate of the client.
    pub term: TlsTerm,
}

/// Which certificate a client must have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TlsTerm {
    /// Any or none: the connection is encrypted.
    Encrypted,
    /// A verified one with this name, in lower case and without a final dot.
    Name(Box<str>),
    /// One with this pin.
    Pin(SpkiPin),
}

impl TlsTerm {
    fn matches(&self, peer: &TlsPeer) -> bool {
        match self {
            TlsTerm::Encrypted => true,
            TlsTerm::Name(name) => peer.names.contains(name),
            TlsTerm::Pin(pin) => peer.pin.as_ref() == Some(pin),
        }
    }
}

/// Evaluates a list for a client of an encrypted connection.
pub(super) fn allows(entries: &[AccessEntry], client: &AccessClient<'_>, peer: &TlsPeer) -> bool {
    let signed_with = |key: &NameBuf| client.key == Some(key.as_name());
    let matches = |entry: &&AccessEntry| match &entry.term {
        AccessWord::Any => true,
        AccessWord::Network(address, bits) => is_in((*address, *bits), client.address),
        AccessWord::Key(key) => signed_with(key),
        AccessWord::NetworkWithKey(address, bits, key) => {
            is_in((*address, *bits), client.address) && signed_with(key)
        }
        AccessWord::OverTls(entry) => {
            entry.term.matches(peer)
                && entry
                    .network
                    .is_none_or(|network| is_in(network, client.address))
                && entry.key.as_ref().is_none_or(signed_with)
        }
        AccessWord::List(list) => list.allows(client),
    };
    let found = entries.iter().find(matches);
    found.is_some_and(|entry| !entry.is_negated)
}

fn is_in((network, bits): (IpAddr, u8), client: IpAddr) -> bool {
    let (is_v4, (first, last)): (bool, AddressRange) = range(network, bits);
    match client.to_canonical() {
        IpAddr::V4(v4) => is_v4 && (first..=last).contains(&v4.to_bits().into()),
        IpAddr::V6(v6) => !is_v4 && (first..=last).contains(&v6.to_bits()),
    }
}

impl AccessEntry {
    /// Checks whether it distinguishes clients by their connection.
    pub(super) fn depends_on_tls(&self) -> bool {
        match &self.term {
            AccessWord::OverTls(_) => true,
            AccessWord::List(list) => list.over_tls.is_some(),
            _ => false,
        }
    }
}
