//! Addresses, networks and ranges in the notation of other servers, converted to Nameward syntax.

use std::net::{IpAddr, SocketAddr};

use super::ImportedTls;

/// Maximum number of networks that a range is split into: the worst case for IPv6.
const PARTS_MAX: usize = 254;

/// Listeners of a server that is not reachable from outside.
pub(crate) const LOOPBACK: [&str; 2] = ["127.0.0.1:53", "[::1]:53"];

/// Formats an address as in nameward.toml: with the port only if it is not 53.
pub(crate) fn written(address: IpAddr, port: u16) -> String {
    match port {
        53 => address.to_string(),
        _ => SocketAddr::new(address, port).to_string(),
    }
}

/// Formats the address of a server: with TLS always with its port, since the default depends on that.
pub(crate) fn of_server(address: IpAddr, port: u16, tls: Option<&ImportedTls>) -> String {
    match tls {
        Some(_) => SocketAddr::new(address, port).to_string(),
        None => written(address, port),
    }
}

/// Parses a number with a unit, for which there is a factor; without one the unit is empty.
pub(crate) fn with_unit(text: &str, factor: impl FnOnce(&str) -> Option<u64>) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let factor = factor(unit)?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Parses `ADDRESS` or `ADDRESS@PORT`.
pub(crate) fn at_port(text: &str, default: u16) -> Option<(IpAddr, u16)> {
    match text.split_once('@') {
        Some((address, port)) => Some((address.parse().ok()?, port.parse().ok()?)),
        None => Some((text.parse().ok()?, default)),
    }
}

/// Parses `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
pub(crate) fn colon_port(text: &str, default: u16) -> Option<(IpAddr, u16)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, default));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip(), address.port()));
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    Some((inner.parse().ok()?, default))
}

/// Returns a network in Nameward syntax, with its prefix length.
pub(crate) fn network(text: &str) -> Option<(String, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits)),
        None => (text.parse::<IpAddr>().ok()?, None),
    };
    let width = width(address);
    let bits = match bits {
        Some(bits) => bits.parse::<u8>().ok().filter(|bits| *bits <= width)?,
        None => width,
    };
    Some((spelled(address, bits), bits))
}

/// Returns the networks of an NSD or Knot entry: an address, a network, `ADDRESS&MASK` or
/// `FIRST-LAST`.
pub(crate) fn networks(text: &str) -> Option<Vec<String>> {
    if let Some((first, last)) = text.split_once('-') {
        return range(first.parse().ok()?, last.parse().ok()?);
    }
    if let Some((address, mask)) = text.split_once('&') {
        let (address, mask) = (address.parse().ok()?, mask.parse::<IpAddr>().ok()?);
        let (width, ones) = (width(address), number(mask));
        if width != self::width(mask) {
            return None;
        }
        let ones = ones << (128 - u32::from(width));
        let bits = ones.leading_ones();
        // A non-contiguous mask is not a network.
        let is_whole = bits == ones.count_ones();
        return is_whole.then(|| vec![spelled(address, bits as u8)]);
    }
    network(text).map(|(network, _)| vec![network])
}

/// Returns the networks that an address range is split into.
pub(crate) fn range(first: IpAddr, last: IpAddr) -> Option<Vec<String>> {
    let width = u32::from(width(first));
    if width != u32::from(self::width(last)) || number(first) > number(last) {
        return None;
    }
    let (mut at, last) = (number(first), number(last));
    let mut parts = Vec::new();
    while parts.len() <= PARTS_MAX {
        // The largest network that starts here and does not exceed the end.
        let mut free = at.trailing_zeros().min(width);
        let end = |free: u32| match free {
            128 => u128::MAX,
            _ => at | ((1_u128 << free) - 1),
        };
        while end(free) > last {
            free -= 1;
        }
        parts.push(spelled(address(at, width), (width - free) as u8));
        match end(free) {
            end if end >= last => return Some(parts),
            end => at = end + 1,
        }
    }
    None
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn address(number: u128, width: u32) -> IpAddr {
    match width {
        32 => IpAddr::V4((number as u32).into()),
        _ => IpAddr::V6(number.into()),
    }
}

pub(crate) fn spelled(address: IpAddr, bits: u8) -> String {
    if bits == width(address) {
        address.to_string()
    } else {
        format!("{address}/{bits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_lengths_are_checked() {
        let length = |text| network(text).map(|(_, length)| length);
        assert_eq!(length("10.0.0.0/8"), Some(8));
        assert_eq!(length("::1"), Some(128));
        assert_eq!(length("10.0.0.0/33"), None);
        assert_eq!(length("default"), None);
    }

    #[test]
    fn ranges_and_masks_become_networks() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.0&255.255.255.0", "192.0.2.0/24"),
            ("192.0.2.4-192.0.2.7", "192.0.2.4/30"),
            ("192.0.2.1-192.0.2.4", "192.0.2.1 192.0.2.2/31 192.0.2.4"),
            ("0.0.0.0-255.255.255.255", "0.0.0.0/0"),
            ("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
        ] {
            assert_eq!(networks(text).unwrap().join(" "), expected, "{text}");
        }
        for wrong in [
            "192.0.2.0&255.0.255.0",
            "192.0.2.9-192.0.2.1",
            "x",
            "192.0.2.0/33",
        ] {
            assert_eq!(networks(wrong), None, "{wrong}");
        }
    }
}
