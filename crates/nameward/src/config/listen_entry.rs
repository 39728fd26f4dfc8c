//! Listen addresses: each is a string, or a table with settings of its own.

use std::{net::SocketAddr, path::Path, sync::Arc};

use nameward_serve::listener::{ListenAddress, ListenTransports, ListenerRules};
use toml::{Spanned, de::DeValue};

use super::{
    clients::{Clients, Peers},
    read::{Read, Wrong},
    zone_values::{inline_table, setting},
};

/// An address to listen on, as `"192.0.2.1:53"` or `{ address = "192.0.2.1:53", transports = ["tcp"] }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenEntry {
    pub address: SocketAddr,
    /// The transports, if the entry sets them.
    pub transports: Option<ListenTransports>,
    /// Clients that are answered, if the entry restricts them.
    pub allow_query: Option<Peers>,
    /// Proxies, if the entry has its own list.
    pub proxy_protocol_from: Option<Clients>,
}

impl From<SocketAddr> for ListenEntry {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            transports: None,
            allow_query: None,
            proxy_protocol_from: None,
        }
    }
}

impl ListenEntry {
    /// Returns the rules for what is received there. `proxies` are those of listeners without their own.
    pub fn rules(&self, proxies: &Clients) -> ListenerRules {
        let proxies = self.proxy_protocol_from.as_ref().unwrap_or(proxies);
        ListenerRules {
            allow_query: self.allow_query.as_ref().map(|peers| peers.0.clone()),
            proxies: Some(proxies.0.clone()).filter(|list| !list.is_none()),
        }
    }

    /// Returns what is bound for it.
    pub fn to_listen(&self, proxies: &Clients) -> ListenAddress {
        ListenAddress {
            address: self.address,
            transports: self.transports.unwrap_or_default(),
            rules: Arc::new(self.rules(proxies)),
        }
    }
}

/// An address for DNS over TLS or HTTPS, which has one transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedEntry(pub ListenEntry);

/// An address for DNS over QUIC. There are no PROXY headers for it: proxies that forward its packets do not decrypt them, and
/// no specification has a place for a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicEntry(pub ListenEntry);

impl QuicEntry {
    /// Returns the rules for what is received there.
    pub fn rules(&self) -> ListenerRules {
        ListenerRules {
            allow_query: self.0.allow_query.as_ref().map(|peers| peers.0.clone()),
            proxies: None,
        }
    }
}

/// Describes lists of each kind of address.
const LIST: &str = "a list of addresses, or of tables with an address and its settings";
const KEYS: [&str; 4] = [
    "address",
    "allow_query",
    "proxy_protocol_from",
    "transports",
];
/// The keys of an address for TLS or HTTPS, and for QUIC.
const ENCRYPTED_KEYS: [&str; 3] = ["address", "allow_query", "proxy_protocol_from"];
const QUIC_KEYS: [&str; 2] = ["address", "allow_query"];

impl Read for ListenEntry {
    const LIST: &'static str = LIST;

    fn expected() -> String {
        format!(
            "{}, or a table such as {{ address = \"127.0.0.1:53\", transports = [\"tcp\"] }}",
            SocketAddr::expected()
        )
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        read_entry((value, &Self::expected()), base, &KEYS)
    }
}

impl Read for EncryptedEntry {
    const LIST: &'static str = LIST;

    fn expected() -> String {
        format!(
            "{}, or a table such as {{ address = \"127.0.0.1:853\", allow_query = [\"127.0.0.1\"] }}",
            SocketAddr::expected()
        )
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        read_entry((value, &Self::expected()), base, &ENCRYPTED_KEYS).map(Self)
    }
}

impl Read for QuicEntry {
    const LIST: &'static str = LIST;

    fn expected() -> String {
        EncryptedEntry::expected()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        read_entry((value, &Self::expected()), base, &QUIC_KEYS).map(Self)
    }
}

/// Reads an address, or a table that may have these keys.
fn read_entry(
    (value, expected): (&Spanned<DeValue<'_>>, &str),
    base: &Path,
    keys: &[&str],
) -> Result<ListenEntry, Wrong> {
    if value.get_ref().as_str().is_some() {
        return SocketAddr::read(value, base).map(ListenEntry::from);
    }
    let table = inline_table(value, expected, keys)?;
    let address = table.get("address");
    let address = address.ok_or_else(|| Wrong::new(value, "a listener needs an address"))?;
    Ok(ListenEntry {
        address: SocketAddr::read(address, base)?,
        transports: setting(table, "transports", base)?,
        allow_query: setting(table, "allow_query", base)?,
        proxy_protocol_from: setting(table, "proxy_protocol_from", base)?,
    })
}

impl Read for ListenTransports {
    fn expected() -> String {
        r#"a list of "udp" and "tcp""#.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let wrong = |value| Wrong::expected(&Self::expected(), value);
        let list = value.get_ref().as_array().ok_or_else(|| wrong(value))?;
        let mut transports = Self {
            udp: false,
            tcp: false,
        };
        for entry in list {
            match entry.get_ref().as_str() {
                Some("udp") => transports.udp = true,
                Some("tcp") => transports.tcp = true,
                _ => return Err(wrong(entry)),
            }
        }
        // A listener without a transport is a mistake, not a way to turn it off.
        if list.is_empty() {
            return Err(wrong(value));
        }
        Ok(transports)
    }
}
