//! The control message of a datagram: IP_PKTINFO, or IPV6_PKTINFO of RFC 3542, in the kernel's layout.

use std::ffi::c_int;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};

/// cmsghdr with its data aligned, then in6_pktinfo (the larger of the two), rounded up.
const CONTROL_DATA: usize = size_of::<libc::cmsghdr>().next_multiple_of(size_of::<usize>());
pub(super) const CONTROL_LEN: usize =
    CONTROL_DATA + size_of::<libc::in6_pktinfo>().next_multiple_of(size_of::<usize>());

/// Buffer for one control message.
#[repr(C, align(8))]
#[derive(Clone)]
pub(super) struct Control([u8; CONTROL_LEN]);

impl Control {
    /// Returns the destination address of the datagram, of the family that its socket is bound to.
    #[inline]
    pub(super) fn destination(&self, bound: SocketAddr) -> IpAddr {
        let octets = |at: usize| self.0[CONTROL_DATA + at..].iter().copied();
        match bound {
            SocketAddr::V4(_) => {
                let mut ip = [0; 4];
                let addr = octets(offset_of!(libc::in_pktinfo, ipi_spec_dst));
                ip.iter_mut().zip(addr).for_each(|(to, from)| *to = from);
                IpAddr::from(ip)
            }
            SocketAddr::V6(_) => {
                let mut ip = [0; 16];
                let addr = octets(offset_of!(libc::in6_pktinfo, ipi6_addr));
                ip.iter_mut().zip(addr).for_each(|(to, from)| *to = from);
                IpAddr::from(ip)
            }
        }
    }

    /// Builds the control message of a reply that leaves from an address, on the route that the kernel chooses;
    /// returns its length.
    pub(super) fn set_source(&mut self, source: IpAddr) -> usize {
        let (level, kind, address, data) = match source {
            IpAddr::V4(_) => (
                libc::IPPROTO_IP,
                libc::IP_PKTINFO,
                offset_of!(libc::in_pktinfo, ipi_spec_dst),
                size_of::<libc::in_pktinfo>(),
            ),
            IpAddr::V6(_) => (
                libc::IPPROTO_IPV6,
                libc::IPV6_PKTINFO,
                offset_of!(libc::in6_pktinfo, ipi6_addr),
                size_of::<libc::in6_pktinfo>(),
            ),
        };
        self.0.fill(0);
        let mut put =
            |at: usize, octets: &[u8]| self.0[at..at + octets.len()].copy_from_slice(octets);
        // musl has a 32-bit length, followed by padding.
        put(0, &(CONTROL_DATA + data).to_le_bytes());
        put(offset_of!(libc::cmsghdr, cmsg_level), &level.to_ne_bytes());
        put(offset_of!(libc::cmsghdr, cmsg_type), &kind.to_ne_bytes());
        match source {
            IpAddr::V4(v4) => put(CONTROL_DATA + address, &v4.octets()),
            IpAddr::V6(v6) => put(CONTROL_DATA + address, &v6.octets()),
        }
        CONTROL_DATA + data.next_multiple_of(size_of::<usize>())
    }

    /// Turns the control message of a received datagram into that of its reply: same address, but the
    /// interface is left to routing, except for link-local addresses, which mean nothing without it.
    #[inline]
    pub(super) fn prepare_return(&mut self, header: &mut libc::msghdr) {
        const V4_INDEX: usize = CONTROL_DATA + offset_of!(libc::in_pktinfo, ipi_ifindex);
        const V6_ADDRESS: usize = CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_addr);
        const V6_INDEX: usize = CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_ifindex);
        let control = &mut self.0;
        // usize with glibc, u32 with musl.
        #[allow(clippy::unnecessary_cast)]
        let control_len = header.msg_controllen as usize;
        if control_len < size_of::<libc::cmsghdr>() {
            header.msg_controllen = 0;
            return;
        }
        let level = read_int(control, offset_of!(libc::cmsghdr, cmsg_level));
        let kind = read_int(control, offset_of!(libc::cmsghdr, cmsg_type));
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => control[V4_INDEX..V4_INDEX + 4].fill(0),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let link_local =
                    control[V6_ADDRESS] == 0xfe && control[V6_ADDRESS + 1] & 0xc0 == 0x80;
                if !link_local {
                    control[V6_INDEX..V6_INDEX + 4].fill(0);
                }
            }
            _ => header.msg_controllen = 0,
        }
    }
}

fn read_int(bytes: &[u8; CONTROL_LEN], at: usize) -> c_int {
    c_int::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(controllen: usize) -> libc::msghdr {
        // SAFETY: zero bytes are a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_controllen = controllen as _;
        header
    }

    fn control(level: c_int, kind: c_int) -> Control {
        let mut bytes = [0; CONTROL_LEN];
        let (at, to) = (
            offset_of!(libc::cmsghdr, cmsg_level),
            offset_of!(libc::cmsghdr, cmsg_type),
        );
        bytes[at..at + 4].copy_from_slice(&level.to_ne_bytes());
        bytes[to..to + 4].copy_from_slice(&kind.to_ne_bytes());
        bytes[CONTROL_DATA..].fill(7);
        Control(bytes)
    }

    #[test]
    fn reply_keeps_interface_for_link_local_only() {
        let at = CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_ifindex);
        let mut global = control(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
        global.prepare_return(&mut header(CONTROL_LEN));
        assert_eq!(global.0[at..at + 4], [0; 4]);
        assert_eq!(global.0[CONTROL_DATA], 7, "the address stays");

        let mut local = control(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
        local.0[CONTROL_DATA..CONTROL_DATA + 2].copy_from_slice(&[0xfe, 0x80]);
        local.prepare_return(&mut header(CONTROL_LEN));
        assert_eq!(local.0[at..at + 4], [7; 4]);
    }

    #[test]
    fn foreign_or_missing_control_message_is_not_sent_back() {
        let mut none = header(0);
        control(libc::IPPROTO_IP, libc::IP_PKTINFO).prepare_return(&mut none);
        assert_eq!(none.msg_controllen, 0);
        let mut foreign = header(CONTROL_LEN);
        control(libc::SOL_SOCKET, 1).prepare_return(&mut foreign);
        assert_eq!(foreign.msg_controllen, 0);
    }
}
