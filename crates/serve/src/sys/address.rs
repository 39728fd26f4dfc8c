//! Conversion of socket addresses to and from the kernel's byte layout.

use std::ffi::c_int;
use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Large enough for sockaddr_in and sockaddr_in6.
pub(super) const ADDRESS_LEN: usize = size_of::<libc::sockaddr_in6>();

const PORT: usize = offset_of!(libc::sockaddr_in, sin_port);
const V4_ADDRESS: usize = offset_of!(libc::sockaddr_in, sin_addr);
const V6_FLOW: usize = offset_of!(libc::sockaddr_in6, sin6_flowinfo);
const V6_ADDRESS: usize = offset_of!(libc::sockaddr_in6, sin6_addr);
const V6_SCOPE: usize = offset_of!(libc::sockaddr_in6, sin6_scope_id);

/// Decodes a sockaddr_in or sockaddr_in6 written by the kernel.
pub(super) fn decode_address(raw: &[u8; ADDRESS_LEN]) -> SocketAddr {
    let port = u16::from_be_bytes([raw[PORT], raw[PORT + 1]]);
    let four = |at: usize| [raw[at], raw[at + 1], raw[at + 2], raw[at + 3]];
    match c_int::from(u16::from_ne_bytes([raw[0], raw[1]])) {
        libc::AF_INET6 => {
            let mut address = [0; 16];
            address.copy_from_slice(&raw[V6_ADDRESS..V6_ADDRESS + 16]);
            SocketAddr::V6(SocketAddrV6::new(
                Ipv6Addr::from(address),
                port,
                u32::from_ne_bytes(four(V6_FLOW)),
                u32::from_ne_bytes(four(V6_SCOPE)),
            ))
        }
        libc::AF_INET => SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(four(V4_ADDRESS)), port)),
        // Our sockets use these two families only; anything else becomes the unspecified address.
        _ => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    }
}

/// Encodes a sockaddr_in or sockaddr_in6; returns it with its length.
pub(super) fn encode_address(address: SocketAddr) -> ([u8; ADDRESS_LEN], usize) {
    let mut raw = [0; ADDRESS_LEN];
    let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
    put(PORT, &address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            put(0, &(libc::AF_INET as u16).to_ne_bytes());
            put(V4_ADDRESS, &v4.ip().octets());
            (raw, size_of::<libc::sockaddr_in>())
        }
        SocketAddr::V6(v6) => {
            put(0, &(libc::AF_INET6 as u16).to_ne_bytes());
            put(V6_FLOW, &v6.flowinfo().to_ne_bytes());
            put(V6_ADDRESS, &v6.ip().octets());
            put(V6_SCOPE, &v6.scope_id().to_ne_bytes());
            (raw, ADDRESS_LEN)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_encoding_and_decoding() {
        for text in ["192.0.2.1:5353", "[2001:db8::1]:53", "[fe80::1%3]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(decode_address(&encode_address(address).0), address);
        }
    }

    #[test]
    fn addresses_decode_as_the_kernel_writes_them() {
        let mut raw = [0; ADDRESS_LEN];
        raw[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        raw[2..8].copy_from_slice(&[0x14, 0xe9, 192, 0, 2, 1]);
        assert_eq!(
            decode_address(&raw),
            "192.0.2.1:5353".parse::<SocketAddr>().unwrap()
        );
        raw[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        raw[4..8].fill(0);
        raw[8..10].copy_from_slice(&[0x20, 1]);
        raw[23] = 9;
        raw[24..28].copy_from_slice(&3u32.to_ne_bytes());
        let expected = SocketAddrV6::new("2001::9".parse().unwrap(), 5353, 0, 3);
        assert_eq!(decode_address(&raw), SocketAddr::V6(expected));
    }
}
