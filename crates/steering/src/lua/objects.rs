//! Objects of PowerDNS that scripts handle: names, addresses, networks, the header of the query.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use mlua::{MetaMethod, Table, UserData, UserDataMethods, UserDataRef, Value};
use nameward_wire::{Name, NameBuf};

use super::arguments::texts;
use super::budget;
use super::functions::ScriptNames;

/// Maximum number of networks in a group, or of addresses in a set.
const MEMBERS_MAX: usize = 65_536;

pub(super) fn install(names: &ScriptNames<'_>) -> mlua::Result<()> {
    names.function("newDN", |_, text: mlua::LuaString| {
        parse_name(&text.as_bytes()).map(DnsName)
    })?;
    names.function("newCA", |_, text: String| {
        parse_address(&text).map(ScriptAddress)
    })?;
    names.function(
        "newCAFromRaw",
        |_, (octets, port): (mlua::LuaString, Option<u16>)| {
            let octets = octets.as_bytes();
            let ipv4 = <[u8; 4]>::try_from(&octets[..]).map(IpAddr::from);
            let address = ipv4.or_else(|_| <[u8; 16]>::try_from(&octets[..]).map(IpAddr::from));
            let address =
                address.map_err(|_| mlua::Error::runtime("an address has 4 or 16 octets"))?;
            Ok(ScriptAddress(SocketAddr::new(address, port.unwrap_or(0))))
        },
    )?;
    names.function("newNetmask", |_, text: String| {
        parse_network(&text).map(ScriptNetwork)
    })?;
    names.function("newNMG", |_, list: Option<Table>| {
        let mut networks = ScriptNetworks(Vec::new());
        if let Some(list) = list {
            networks.add_all(&list)?;
        }
        Ok(networks)
    })?;
    names.function("newCAS", |_, ()| Ok(ScriptAddresses(Vec::new())))
}

fn invalid(what: &str, text: &str) -> mlua::Error {
    mlua::Error::runtime(format!("invalid {what} {text:?}"))
}

/// Parses a name, absolute with or without its final dot.
pub(super) fn parse_name(text: &[u8]) -> mlua::Result<NameBuf> {
    NameBuf::from_text(text, Name::from_valid_wire(&[0]))
        .map_err(|_| invalid("name", &String::from_utf8_lossy(text)))
}

/// Parses an address with an optional port.
fn parse_address(text: &str) -> mlua::Result<SocketAddr> {
    let address = text.parse().ok();
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = address.or_else(|| Some(SocketAddr::new(bare.parse().ok()?, 0)));
    address.ok_or_else(|| invalid("address", text))
}

/// Parses a network, or a single address. Bits beyond its length are cleared.
pub(super) fn parse_network(text: &str) -> mlua::Result<IpNet> {
    let network = text.parse::<IpNet>().map(|network| network.trunc());
    let network = network.or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.map_err(|_| invalid("network", text))
}

/// Reads an address that a script has as text or as an object.
fn address_of(value: &Value) -> mlua::Result<IpAddr> {
    match value {
        Value::String(text) => Ok(parse_address(&text.to_string_lossy())?.ip()),
        Value::UserData(object) => Ok(object.borrow::<ScriptAddress>()?.0.ip()),
        other => Err(mlua::Error::runtime(format!(
            "{} is not an address",
            other.type_name()
        ))),
    }
}

/// A name (`DNSName`).
#[derive(Debug, Clone, Copy)]
pub(super) struct DnsName(pub(super) NameBuf);

impl DnsName {
    fn text(&self) -> String {
        self.0.to_string()
    }

    fn without_dot(&self) -> String {
        let text = self.text();
        text.strip_suffix('.').unwrap_or(&text).to_owned()
    }

    /// Returns the labels in front of an ancestor as a name of their own.
    fn relative_to(&self, ancestor: Name<'_>) -> Option<DnsName> {
        let name = self.0.as_name();
        if !name.is_at_or_below(ancestor) {
            return None;
        }
        let length = name.as_wire().len() - ancestor.as_wire().len();
        let root = Name::from_valid_wire(&[0]);
        NameBuf::join(&name.as_wire()[..length], root)
            .ok()
            .map(DnsName)
    }
}

impl UserData for DnsName {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("toString", |_, this, ()| Ok(this.text()));
        methods.add_method("toStringNoDot", |_, this, ()| Ok(this.without_dot()));
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.text()));
        methods.add_method("countLabels", |_, this, ()| {
            Ok(this.0.as_name().label_count())
        });
        methods.add_method("wireLength", |_, this, ()| {
            Ok(this.0.as_name().as_wire().len())
        });
        methods.add_method("isPartOf", |_, this, other: UserDataRef<DnsName>| {
            Ok(this.0.as_name().is_at_or_below(other.0.as_name()))
        });
        methods.add_method("makeRelative", |_, this, other: UserDataRef<DnsName>| {
            let relative = this.relative_to(other.0.as_name());
            relative
                .ok_or_else(|| mlua::Error::runtime(format!("{} is not below {}", this.0, other.0)))
        });
        methods.add_method("canonCompare", |_, this, other: UserDataRef<DnsName>| {
            Ok(this.0.as_name().canonical_cmp(other.0.as_name()).is_lt())
        });
        methods.add_method_mut("chopOff", |_, this, ()| {
            let parent = this.0.as_name().parent().map(NameBuf::from);
            Ok(match parent {
                Some(parent) => {
                    this.0 = parent;
                    true
                }
                None => false,
            })
        });
        methods.add_method("getRawLabels", |lua, this, ()| {
            let labels = this.0.as_name().labels().filter(|label| !label.is_empty());
            let labels: mlua::Result<Vec<_>> =
                labels.map(|label| lua.create_string(label)).collect();
            lua.create_sequence_from(labels?)
        });
        methods.add_method("equal", |_, this, other: Value| {
            Ok(match other {
                Value::String(text) => parse_name(&text.as_bytes())?.as_name() == this.0.as_name(),
                Value::UserData(object) => {
                    object.borrow::<DnsName>()?.0.as_name() == this.0.as_name()
                }
                _ => false,
            })
        });
        methods.add_meta_method(MetaMethod::Eq, |_, this, other: UserDataRef<DnsName>| {
            Ok(this.0.as_name() == other.0.as_name())
        });
    }
}

/// An address with a port (`ComboAddress`).
#[derive(Debug, Clone, Copy)]
pub(super) struct ScriptAddress(pub(super) SocketAddr);

impl ScriptAddress {
    fn mapped(&self) -> Option<IpAddr> {
        match self.0.ip() {
            IpAddr::V6(address) => address.to_ipv4_mapped().map(IpAddr::V4),
            IpAddr::V4(_) => None,
        }
    }
}

impl UserData for ScriptAddress {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("toString", |_, this, ()| Ok(this.0.ip().to_string()));
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| {
            Ok(this.0.ip().to_string())
        });
        methods.add_method("toStringWithPort", |_, this, ()| Ok(this.0.to_string()));
        methods.add_method("toStringWithPortExcept", |_, this, except: Option<u16>| {
            let is_left_out = this.0.port() == except.unwrap_or(53);
            Ok(if is_left_out {
                this.0.ip().to_string()
            } else {
                this.0.to_string()
            })
        });
        methods.add_method("getPort", |_, this, ()| Ok(this.0.port()));
        methods.add_method("isIPv4", |_, this, ()| Ok(this.0.is_ipv4()));
        methods.add_method("isIPv6", |_, this, ()| Ok(this.0.is_ipv6()));
        methods.add_method("isMappedIPv4", |_, this, ()| Ok(this.mapped().is_some()));
        methods.add_method("mapToIPv4", |_, this, ()| {
            let mapped = this.mapped();
            let mapped = mapped.ok_or_else(|| mlua::Error::runtime("not a mapped IPv4 address"))?;
            Ok(ScriptAddress(SocketAddr::new(mapped, this.0.port())))
        });
        methods.add_method("getRaw", |lua, this, ()| match this.0.ip() {
            IpAddr::V4(address) => lua.create_string(address.octets()),
            IpAddr::V6(address) => lua.create_string(address.octets()),
        });
        methods.add_method_mut("truncate", |_, this, bits: u8| {
            let address = this.0.ip();
            let bits = bits.min(if address.is_ipv4() { 32 } else { 128 });
            if let Ok(network) = IpNet::new(address, bits) {
                this.0.set_ip(network.network());
            }
            Ok(())
        });
        methods.add_meta_method(
            MetaMethod::Eq,
            |_, this, other: UserDataRef<ScriptAddress>| Ok(this.0 == other.0),
        );
    }
}

/// A network (`Netmask`).
#[derive(Debug, Clone, Copy)]
pub(super) struct ScriptNetwork(pub(super) IpNet);

impl UserData for ScriptNetwork {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("empty", |_, _, ()| Ok(false));
        methods.add_method("getBits", |_, this, ()| Ok(this.0.prefix_len()));
        for name in ["getNetwork", "getMaskedNetwork"] {
            methods.add_method(name, |_, this, ()| {
                Ok(ScriptAddress(SocketAddr::new(this.0.network(), 0)))
            });
        }
        for name in ["isIPv4", "isIpv4"] {
            methods.add_method(name, |_, this, ()| Ok(this.0.addr().is_ipv4()));
        }
        for name in ["isIPv6", "isIpv6"] {
            methods.add_method(name, |_, this, ()| Ok(this.0.addr().is_ipv6()));
        }
        methods.add_method("match", |_, this, address: Value| {
            Ok(this.0.contains(&address_of(&address)?))
        });
        methods.add_method("toString", |_, this, ()| Ok(this.0.to_string()));
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.to_string()));
    }
}

/// Networks (`NetmaskGroup`); the longest one that has an address decides, and one with `!` excludes it.
#[derive(Debug, Clone)]
pub(super) struct ScriptNetworks(Vec<(IpNet, bool)>);

impl ScriptNetworks {
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let matching = self
            .0
            .iter()
            .filter(|(network, _)| network.contains(&address));
        let longest = matching.max_by_key(|(network, _)| network.prefix_len());
        longest.is_some_and(|(_, is_member)| *is_member)
    }

    fn add(&mut self, text: &str) -> mlua::Result<()> {
        if self.0.len() == MEMBERS_MAX {
            return Err(mlua::Error::runtime("too many networks"));
        }
        let (text, is_member) = text
            .strip_prefix('!')
            .map_or((text, true), |text| (text, false));
        self.0.push((parse_network(text)?, is_member));
        Ok(())
    }

    fn add_all(&mut self, list: &Table) -> mlua::Result<()> {
        texts(list)?.iter().try_for_each(|text| self.add(text))
    }
}

impl UserData for ScriptNetworks {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("addMask", |_, this, text: String| this.add(&text));
        methods.add_method_mut("addMasks", |_, this, list: Table| this.add_all(&list));
        methods.add_method("match", |_, this, address: Value| {
            budget::charge(this.0.len())?;
            Ok(this.contains(address_of(&address)?))
        });
        methods.add_method("size", |_, this, ()| Ok(this.0.len()));
    }
}

/// A set of addresses (`ComboAddressSet`).
#[derive(Debug, Clone)]
struct ScriptAddresses(Vec<IpAddr>);

impl ScriptAddresses {
    fn add(&mut self, value: &Value) -> mlua::Result<()> {
        match value {
            Value::Table(list) => {
                for at in 1..=list.raw_len() {
                    self.add(&list.raw_get(at)?)?;
                }
                Ok(())
            }
            value if self.0.len() < MEMBERS_MAX => {
                budget::charge(64)?;
                self.0.push(address_of(value)?);
                Ok(())
            }
            _ => Err(mlua::Error::runtime("too many addresses")),
        }
    }
}

impl UserData for ScriptAddresses {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("add", |_, this, value: Value| this.add(&value));
        methods.add_method("check", |_, this, value: Value| {
            budget::charge(this.0.len())?;
            Ok(this.0.contains(&address_of(&value)?))
        });
    }
}

/// The header of the query (`dh`).
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryHeader(pub(super) [u8; 12]);

impl UserData for QueryHeader {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("getID", |_, this, ()| {
            Ok(u16::from_be_bytes([this.0[0], this.0[1]]))
        });
        methods.add_method("getOPCODE", |_, this, ()| Ok(this.0[2] >> 3 & 0xf));
        methods.add_method("getRCODE", |_, this, ()| Ok(this.0[3] & 0xf));
        let flags = [
            ("getAA", 2, 0x04),
            ("getTC", 2, 0x02),
            ("getRD", 2, 0x01),
            ("getRA", 3, 0x80),
            ("getAD", 3, 0x20),
            ("getCD", 3, 0x10),
        ];
        for (name, at, bit) in flags {
            methods.add_method(name, move |_, this, ()| Ok(this.0[at] & bit != 0));
        }
        let counts = [
            ("getQDCOUNT", 4),
            ("getANCOUNT", 6),
            ("getNSCOUNT", 8),
            ("getARCOUNT", 10),
        ];
        for (name, at) in counts {
            methods.add_method(name, move |_, this, ()| {
                Ok(u16::from_be_bytes([this.0[at], this.0[at + 1]]))
            });
        }
    }
}
