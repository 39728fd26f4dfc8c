//! Owns the form of lists of clients: addresses and networks, of which the first that matches decides.

use std::{net::IpAddr, path::Path};

use ipnet::IpNet;
use nameward_zone::{AccessEntry, AccessList, AccessTerm};
use toml::{Spanned, de::DeValue};

use super::read::{Read, Wrong};

const ENTRY: &str = "an address or network such as \"192.0.2.1\", \"2001:db8::/32\" or \"any\", \
                     with \"!\" before it to leave it out";
const LIST: &str = "a list of addresses or networks";

/// A list of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients(pub AccessList);

impl Read for Clients {
    fn expected() -> String {
        LIST.into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let list = value.get_ref().as_array();
        let list = list.ok_or_else(|| Wrong::expected(LIST, value))?;
        let entries = list.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(AccessList::new(&entries)))
    }
}

impl Read for Option<Clients> {
    fn expected() -> String {
        format!("{LIST}, or \"\" for none of its own")
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        match value.get_ref().as_str() {
            Some("") => Ok(None),
            _ => Clients::read(value, base).map(Some),
        }
    }
}

fn entry(value: &Spanned<DeValue<'_>>) -> Result<AccessEntry, Wrong> {
    let wrong = || Wrong::expected(ENTRY, value);
    let text = value.get_ref().as_str().ok_or_else(wrong)?;
    if text.starts_with("key:") {
        // A list that is read in part would let in others than it says.
        return Err(Wrong {
            span: value.span(),
            message: format!("{text:?}: keys do not count in this list yet"),
        });
    }
    let (is_negated, text) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let term = match text {
        "any" => AccessTerm::Any,
        text => {
            let address = text.parse::<IpAddr>().map(IpNet::from);
            let network = address.or_else(|_| text.parse::<IpNet>());
            let network = network.map_err(|_| wrong())?;
            AccessTerm::Network(network.addr(), network.prefix_len())
        }
    };
    Ok(AccessEntry { is_negated, term })
}
