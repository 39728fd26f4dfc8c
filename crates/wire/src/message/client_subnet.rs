//! The EDNS client subnet option (RFC 7871): the network of the client that a resolver queries for.

use super::{HEADER, skip_name};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Octets of the option before the address: family, source prefix length, scope prefix length.
const FIXED: usize = 4;

/// The network of a client. The prefix length 0 means that the client opted out (RFC 7871 section
/// 7.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientSubnet {
    /// 1 for IPv4, 2 for IPv6; 0, which dig sends, only without an address.
    family: u8,
    source: u8,
    /// The prefix length that the answer depends on; 0 in a request.
    scope: u8,
    address: [u8; 16],
}

impl ClientSubnet {
    /// Parses the option of a request; `None` if it is malformed, which is FORMERR (RFC 7871 section 6).
    pub fn parse(option: &[u8]) -> Option<Self> {
        let subnet = Self::parse_any(option)?;
        // RFC 7871 section 6: in queries, SCOPE PREFIX-LENGTH must be 0.
        (subnet.scope == 0).then_some(subnet)
    }

    /// Parses the option of a request or of a reply.
    fn parse_any(option: &[u8]) -> Option<Self> {
        let ([0, family, source, scope], sent) = option.split_first_chunk::<FIXED>()? else {
            return None;
        };
        let mut address = [0; 16];
        let bits = max_prefix(*family)?;
        let octets = usize::from(source.div_ceil(8));
        // The address has as many octets as the prefix needs, and no bits beyond it.
        let unused = (8 * octets) as u32 - u32::from(*source);
        let beyond = sent.last().map_or(0, |last| last & !(0xff << unused) as u8);
        if *source > bits || *scope > bits || sent.len() != octets || beyond != 0 {
            return None;
        }
        address[..octets].copy_from_slice(sent);
        Some(ClientSubnet {
            family: *family,
            source: *source,
            scope: *scope,
            address,
        })
    }

    /// Finds the option in a complete message.
    pub fn find_in(message: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER] = message.first_chunk()?;
        let count = |at: usize| u32::from(u16::from_be_bytes([header[at], header[at + 1]]));
        let mut at = HEADER;
        for _ in 0..count(4) {
            at += skip_name(message, at)? + 4;
        }
        for _ in 0..count(6) + count(8) + count(10) {
            at += skip_name(message, at)?;
            let fixed: &[u8; 10] = message.get(at..)?.first_chunk()?;
            let end = at + 10 + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
            if fixed[..2] == [0, 41] {
                return Self::find_in_options(message.get(at + 10..end)?);
            }
            at = end;
        }
        None
    }

    /// Finds the option among those of an OPT record.
    pub fn find_in_options(mut options: &[u8]) -> Option<Self> {
        while let Some((head, rest)) = options.split_first_chunk::<4>() {
            let len = u16::from_be_bytes([head[2], head[3]]);
            let (value, behind) = rest.split_at_checked(len.into())?;
            if head[..2] == [0, 8] {
                return Self::parse_any(value);
            }
            options = behind;
        }
        None
    }

    /// Returns the address; that of an unknown client is unspecified.
    pub fn address(&self) -> IpAddr {
        if self.family == 2 {
            Ipv6Addr::from(self.address).into()
        } else {
            let [a, b, c, d, ..] = self.address;
            Ipv4Addr::new(a, b, c, d).into()
        }
    }

    /// Returns the number of leading bits of the address that are known.
    pub fn source(&self) -> u8 {
        self.source
    }

    /// Returns the prefix length that the answer depends on.
    pub fn scope(&self) -> u8 {
        self.scope
    }

    /// Notes that the answer depends on this many leading bits of the client's address.
    pub fn lengthen_scope(&mut self, bits: u8) {
        // RFC 7871 section 7.2.1: an answer for an unknown client is for all clients.
        if self.source > 0 {
            let most = max_prefix(self.family).unwrap_or(0);
            self.scope = self.scope.max(bits.min(most));
        }
    }

    /// Returns the subnet as it is passed on to another server: at most 24 or 56 bits of the address (RFC 7871 section
    /// 11.1).
    pub fn to_pass_on(mut self) -> Self {
        self.scope = 0;
        self.source = self.source.min(if self.family == 2 { 56 } else { 24 });
        let octets = usize::from(self.source.div_ceil(8));
        self.address[octets..].fill(0);
        if let Some(last) = self.address[..octets].last_mut() {
            let unused = (8 * octets) as u32 - u32::from(self.source);
            *last &= 0xff << unused;
        }
        self
    }

    /// Returns the number of address octets in the option.
    pub fn address_octets(&self) -> usize {
        self.source.div_ceil(8).into()
    }

    /// Returns the octets of the option without its code and length.
    pub fn octets(&self) -> usize {
        FIXED + self.address_octets()
    }

    /// Writes the option without its code and length into `out`, which must have exactly its length.
    pub fn write(&self, out: &mut [u8]) {
        let (fixed, address) = out.split_at_mut(FIXED);
        fixed.copy_from_slice(&[0, self.family, self.source, self.scope]);
        address.copy_from_slice(&self.address[..self.address_octets()]);
    }
}

/// Returns the bits of an address of a family.
fn max_prefix(family: u8) -> Option<u8> {
    match family {
        0 => Some(0),
        1 => Some(32),
        2 => Some(128),
        _ => None,
    }
}

impl fmt::Display for ClientSubnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_written_as_it_was_sent_with_the_scope() {
        for option in [
            &[0, 1, 24, 0, 192, 0, 2][..],
            &[0, 1, 0, 0],
            &[0, 0, 0, 0],
            &[0, 1, 32, 0, 192, 0, 2, 1],
            &[0, 1, 25, 0, 192, 0, 2, 128],
            &[0, 2, 56, 0, 0x20, 1, 13, 0xb8, 1, 2, 3],
        ] {
            let mut subnet = ClientSubnet::parse(option).unwrap();
            subnet.lengthen_scope(20);
            subnet.lengthen_scope(7);
            let mut written = vec![0; subnet.octets()];
            subnet.write(&mut written);
            let mut expected = option.to_vec();
            expected[3] = if option[2] == 0 { 0 } else { 20 };
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn malformed_options_are_rejected() {
        for option in [
            &[][..],
            &[0, 1, 24],
            &[0, 1, 24, 0, 192, 0],
            &[0, 1, 24, 0, 192, 0, 2, 0],
            &[0, 1, 33, 0, 192, 0, 2, 1, 0],
            &[0, 1, 23, 0, 192, 0, 3],
            &[0, 1, 24, 1, 192, 0, 2],
            &[0, 0, 8, 0, 10],
            &[0, 3, 0, 0],
            &[1, 1, 0, 0],
            &[
                0, 2, 129, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
            &[0, 1, 0, 0, 0],
        ] {
            assert_eq!(ClientSubnet::parse(option), None, "{option:?}");
        }
    }

    #[test]
    fn no_more_than_a_network_is_passed_on() {
        let subnet = ClientSubnet::parse(&[0, 1, 32, 0, 192, 0, 2, 1]).unwrap();
        assert_eq!(subnet.to_pass_on().to_string(), "192.0.2.0/24");
        let subnet = ClientSubnet::parse(&[0, 1, 12, 0, 172, 16]).unwrap();
        assert_eq!(subnet.to_pass_on(), subnet);
        let long = [0, 2, 64, 0, 0x20, 1, 13, 0xb8, 1, 2, 3, 4];
        let subnet = ClientSubnet::parse(&long).unwrap();
        assert_eq!(subnet.to_pass_on().to_string(), "2001:db8:102:300::/56");
    }
}
