//! The addresses of this host, from the operating system: for `localhost` and `localnets`, and for the queues of interfaces.

#![allow(unsafe_code)]

use std::{
    ffi::CStr,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr,
};

/// An address of an interface that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The name of the interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// The prefix length of its network.
    pub prefix: u8,
}

/// Returns the addresses of all interfaces that are up.
pub fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `first` is a valid location for the pointer to the list that the call allocates.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: `next` is null or an entry of the list, which stays valid until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let is_up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        // SAFETY: both pointers are null or point to a socket address in the list.
        let (address, mask) = unsafe { (read(entry.ifa_addr), read(entry.ifa_netmask)) };
        if let (true, Some(address), Some(mask)) = (is_up, address, mask) {
            let bits = match mask {
                IpAddr::V4(mask) => mask.to_bits().leading_ones(),
                IpAddr::V6(mask) => mask.to_bits().leading_ones(),
            };
            // SAFETY: every entry has a name, a C string in the list.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push(InterfaceAddress {
                interface: name.to_string_lossy().into_owned(),
                address,
                prefix: bits as u8,
            });
        }
    }
    // SAFETY: the list came from `getifaddrs`, and nothing in it is kept.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Returns the address in a socket address, if it is an IP address.
///
/// # Safety
/// `address` must be null or point to a socket address of the length that its family has.
unsafe fn read(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: guaranteed by the caller.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: a socket address of this family is a `sockaddr_in`.
            let v4 = unsafe { ptr::read_unaligned(address.cast::<libc::sockaddr_in>()) };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: a socket address of this family is a `sockaddr_in6`.
            let v6 = unsafe { ptr::read_unaligned(address.cast::<libc::sockaddr_in6>()) };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_address_is_one_of_them() {
        let all = addresses().unwrap();
        let loopback = InterfaceAddress {
            interface: "lo".into(),
            address: Ipv4Addr::LOCALHOST.into(),
            prefix: 8,
        };
        assert!(all.contains(&loopback), "{all:?}");
    }
}
