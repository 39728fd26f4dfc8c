//! Client lists: addresses, networks, keys and TLS conditions, of which the first match decides.

use std::{net::IpAddr, path::Path};

use ipnet::IpNet;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessEntry, AccessList, AccessWord, TlsEntry, TlsTerm};
use tokio_rustls::rustls::pki_types::ServerName;
use toml::{Spanned, de::DeValue};

use super::{
    read::{Read, Wrong},
    remote_server::read_pin,
};

const ENTRY: &str = "an address or network such as \"192.0.2.1\", \"2001:db8::/32\" or \"any\", prefixed with \"!\" to \
                     exclude it";
const ENTRY_WITH_KEY: &str = "an address or network such as \"192.0.2.1\", \"2001:db8::/32\" or \"any\", a key such as \
                              \"key:transfer.example.\", a condition on the connection (\"tls\", \
                              \"tls-name:ns2.example.org\", \"tls-pin:BASE64\"), or several of them separated by \
                              spaces, the address first, prefixed with \"!\" to exclude it";
const LIST: &str = "a list of addresses or networks";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients(pub AccessList);

impl Read for Clients {
    fn expected() -> String {
        LIST.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        list(value, KeyOptions::DoNotCount).map(Self)
    }
}

/// A list of peers, by address, key, TLS certificate or several of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers(pub AccessList);

impl Read for Peers {
    fn expected() -> String {
        "a list of addresses, networks, keys (\"key:name.\") and TLS conditions (\"tls\")".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        list(value, KeyOptions::Count).map(Self)
    }
}

/// Whether list entries may name keys and TLS conditions.
#[derive(Clone, Copy)]
pub enum KeyOptions {
    /// They may.
    Count,
    /// The list is evaluated by address alone.
    DoNotCount,
}

pub fn list(value: &Spanned<DeValue<'_>>, keys: KeyOptions) -> Result<AccessList, Wrong> {
    let list = value.get_ref().as_array();
    let list = list.ok_or_else(|| Wrong::expected(LIST, value))?;
    let entries = list.iter().map(|value| entry(value, keys));
    Ok(AccessList::new(&entries.collect::<Result<Vec<_>, _>>()?))
}

fn entry(value: &Spanned<DeValue<'_>>, keys: KeyOptions) -> Result<AccessEntry, Wrong> {
    let expected = match keys {
        KeyOptions::Count => ENTRY_WITH_KEY,
        KeyOptions::DoNotCount => ENTRY,
    };
    let wrong = || Wrong::expected(expected, value);
    let text = value.get_ref().as_str().ok_or_else(wrong)?;
    let (is_negated, rest) = match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    let (mut network, mut key, mut tls) = (None, None, None);
    for (number, word) in rest.split_whitespace().enumerate() {
        let is_new = if let Some(name) = word.strip_prefix("key:") {
            if let KeyOptions::DoNotCount = keys {
                // A partially read list would allow other clients than intended.
                return Err(not_supported(value, "keys"));
            }
            let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).ok();
            let name = name.filter(|_| word != "key:").ok_or_else(wrong)?;
            key.replace(name).is_none()
        } else if word == "tls" || word.starts_with("tls-") {
            if let KeyOptions::DoNotCount = keys {
                return Err(not_supported(value, "TLS conditions"));
            }
            tls.replace(tls_term(word).ok_or_else(wrong)?).is_none()
        } else {
            // An address comes first.
            number == 0
                && network
                    .replace(addresses(word).ok_or_else(wrong)?)
                    .is_none()
        };
        if !is_new {
            return Err(wrong());
        }
    }
    let network = match (network, &key, &tls) {
        (None, None, None) => return Err(wrong()),
        (network, ..) => network.flatten(),
    };
    let term = match (network, key, tls) {
        (network, key, Some(term)) => {
            AccessWord::OverTls(Box::new(TlsEntry { network, key, term }))
        }
        (None, None, None) => AccessWord::Any,
        (None, Some(key), None) => AccessWord::Key(key),
        (Some((address, bits)), None, None) => AccessWord::Network(address, bits),
        (Some((address, bits)), Some(key), None) => AccessWord::NetworkWithKey(address, bits, key),
    };
    Ok(AccessEntry { is_negated, term })
}

fn not_supported(value: &Spanned<DeValue<'_>>, what: &str) -> Wrong {
    let text = value.get_ref().as_str().unwrap_or_default();
    Wrong::new(
        value,
        format!("{text:?}: {what} are not supported in this list"),
    )
}

/// Reads `any`, an address or a network; `any` has no bounds.
fn addresses(text: &str) -> Option<Option<(IpAddr, u8)>> {
    if text == "any" {
        return Some(None);
    }
    let address = text.parse::<IpAddr>().map(IpNet::from);
    let network = address.or_else(|_| text.parse::<IpNet>()).ok()?;
    Some(Some((network.addr(), network.prefix_len())))
}

/// Reads `tls`, `tls-name:NAME` or `tls-pin:BASE64`.
fn tls_term(word: &str) -> Option<TlsTerm> {
    if word == "tls" {
        return Some(TlsTerm::Encrypted);
    }
    if let Some(name) = word.strip_prefix("tls-name:") {
        let name = name.strip_suffix('.').unwrap_or(name);
        // An address or a wildcard is no name that a client can have.
        let is_name = matches!(ServerName::try_from(name), Ok(ServerName::DnsName(_)));
        return is_name.then(|| TlsTerm::Name(name.to_ascii_lowercase().into()));
    }
    read_pin(word.strip_prefix("tls-pin:")?).map(TlsTerm::Pin)
}
