//! Client lists: addresses, networks and keys, of which the first match decides.

use std::{net::IpAddr, path::Path};

use ipnet::IpNet;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessEntry, AccessList, AccessWord};
use toml::{Spanned, de::DeValue};

use super::read::{Read, Wrong};

const ENTRY: &str = "an address or network such as \"192.0.2.1\", \"2001:db8::/32\" or \"any\", prefixed with \"!\" to \
                     exclude it";
const ENTRY_WITH_KEY: &str = "an address or network such as \"192.0.2.1\", \"2001:db8::/32\" or \"any\", a key such as \
                              \"key:transfer.example.\", or both separated by a space, prefixed with \"!\" to exclude \
                              it";
const LIST: &str = "a list of addresses or networks";

/// A list of clients.
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

impl Read for Option<Clients> {
    fn expected() -> String {
        format!("{LIST}, or \"\" to inherit")
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        match value.get_ref().as_str() {
            Some("") => Ok(None),
            _ => Clients::read(value, base).map(Some),
        }
    }
}

/// Whether list entries may name keys.
#[derive(Clone, Copy)]
pub enum KeyOptions {
    /// Keys are allowed.
    Count,
    /// Keys have no effect in this list.
    DoNotCount,
}

/// Reads a list of entries.
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
    let (address, key) = match rest.find("key:") {
        Some(at) => (rest[..at].trim_end(), Some(&rest[at + "key:".len()..])),
        None => (rest, None),
    };
    let key = match (key, keys) {
        (Some(_), KeyOptions::DoNotCount) => {
            // A partially read list would allow other clients than intended.
            return Err(Wrong {
                span: value.span(),
                message: format!("{text:?}: keys are not supported in this list"),
            });
        }
        (Some(key), KeyOptions::Count) => {
            let name = NameBuf::from_text(key.as_bytes(), Name::ROOT);
            Some(name.ok().filter(|_| !key.is_empty()).ok_or_else(wrong)?)
        }
        (None, _) => None,
    };
    let network = match address {
        "any" => None,
        "" if key.is_some() => None,
        text => {
            let address = text.parse::<IpAddr>().map(IpNet::from);
            let network = address.or_else(|_| text.parse::<IpNet>());
            Some(network.map_err(|_| wrong())?)
        }
    };
    let term = match (network, key) {
        (None, None) => AccessWord::Any,
        (None, Some(key)) => AccessWord::Key(key),
        (Some(net), None) => AccessWord::Network(net.addr(), net.prefix_len()),
        (Some(net), Some(key)) => AccessWord::NetworkWithKey(net.addr(), net.prefix_len(), key),
    };
    Ok(AccessEntry { is_negated, term })
}
