//! Ethernet frames with UDP datagrams: parsing of received ones, and the headers of replies.
//!
//! The filter has already checked lengths and addresses of a frame; nothing of that is relied on here. What the
//! kernel would drop before it reaches a socket is dropped too: bad checksums, sources that cannot be answered.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

const ETHERNET: usize = 14;
const VLAN_TAG: usize = 4;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
/// The longest headers: Ethernet with a VLAN tag, IPv6, UDP.
const HEAD_MAX: usize = ETHERNET + VLAN_TAG + IPV6 + UDP;

const TYPE_VLAN: [u8; 2] = [0x81, 0x00];
const TYPE_SERVICE_VLAN: [u8; 2] = [0x88, 0xa8];
const TYPE_IPV4: [u8; 2] = [0x08, 0x00];
const TYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const PROTOCOL_UDP: u8 = 17;
/// Hop limit of a reply, as for a socket.
const HOPS: u8 = 64;

/// A received datagram.
#[derive(Debug, PartialEq, Eq)]
pub struct Inbound<'f> {
    /// The sender.
    pub client: SocketAddr,
    /// The destination.
    pub local: SocketAddr,
    /// The message.
    pub payload: &'f [u8],
}

/// The headers of the reply to a datagram, without lengths and checksums.
#[derive(Clone, Copy)]
pub struct ReplyHead {
    octets: [u8; HEAD_MAX],
    /// Offsets of the IP header and of the payload.
    ip: u8,
    payload: u8,
}

impl Default for ReplyHead {
    fn default() -> Self {
        Self {
            octets: [0; HEAD_MAX],
            ip: 0,
            payload: 0,
        }
    }
}

/// Parses a frame received on an interface, and prepares the headers of its reply. `None` if it has no datagram that
/// can be answered.
pub fn read<'f>(frame: &'f [u8], interface: u32, head: &mut ReplyHead) -> Option<Inbound<'f>> {
    let (ethernet, mut rest) = frame.split_first_chunk::<ETHERNET>()?;
    let mut kind = [ethernet[12], ethernet[13]];
    let mut ip_at = ETHERNET;
    if kind == TYPE_VLAN || kind == TYPE_SERVICE_VLAN {
        let (tag, inner) = rest.split_first_chunk::<VLAN_TAG>()?;
        kind = [tag[2], tag[3]];
        ip_at += VLAN_TAG;
        rest = inner;
    }
    // A reply is sent to the sender, which must be a unicast address.
    if ethernet[6] & 1 != 0 {
        return None;
    }
    head.octets[..ip_at].copy_from_slice(&frame[..ip_at]);
    head.octets[..6].copy_from_slice(&ethernet[6..12]);
    head.octets[6..12].copy_from_slice(&ethernet[..6]);
    head.ip = ip_at as u8;
    match kind {
        TYPE_IPV4 => read_ipv4(rest, ip_at, head),
        TYPE_IPV6 => read_ipv6(rest, ip_at, interface, head),
        _ => None,
    }
}

fn read_ipv4<'f>(packet: &'f [u8], at: usize, head: &mut ReplyHead) -> Option<Inbound<'f>> {
    let (ip, rest) = packet.split_first_chunk::<IPV4>()?;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let is_fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
    if ip[0] != 0x45 || ip[9] != PROTOCOL_UDP || is_fragment || fold(sum(ip)) != 0xffff {
        return None;
    }
    let datagram = rest.get(..total.checked_sub(IPV4)?)?;
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *ip;
    let (source, target) = (Ipv4Addr::new(s0, s1, s2, s3), Ipv4Addr::new(d0, d1, d2, d3));
    if source.is_multicast()
        || source.is_broadcast()
        || source.is_loopback()
        || source.octets()[0] == 0
    {
        return None;
    }
    let pseudo = sum(&ip[12..20]) + u64::from(PROTOCOL_UDP);
    let udp = Udp::read(datagram, pseudo, true)?;
    let header = &mut head.octets[at..at + IPV4 + UDP];
    header[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, HOPS, PROTOCOL_UDP, 0, 0]);
    header[12..16].copy_from_slice(&target.octets());
    header[16..20].copy_from_slice(&source.octets());
    udp.prepare(&mut header[IPV4..]);
    head.payload = (at + IPV4 + UDP) as u8;
    Some(Inbound {
        client: SocketAddrV4::new(source, udp.source).into(),
        local: SocketAddrV4::new(target, udp.target).into(),
        payload: udp.payload,
    })
}

fn read_ipv6<'f>(
    packet: &'f [u8],
    at: usize,
    interface: u32,
    head: &mut ReplyHead,
) -> Option<Inbound<'f>> {
    let (ip, rest) = packet.split_first_chunk::<IPV6>()?;
    if ip[0] >> 4 != 6 || ip[6] != PROTOCOL_UDP {
        return None;
    }
    let datagram = rest.get(..usize::from(u16::from_be_bytes([ip[4], ip[5]])))?;
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&ip[at..at + 16]);
        Ipv6Addr::from(octets)
    };
    let (source, target) = (address(8), address(24));
    if source.is_multicast()
        || source.is_unspecified()
        || source.is_loopback()
        || source.to_ipv4_mapped().is_some()
    {
        return None;
    }
    let pseudo = sum(&ip[8..40]) + u64::from(PROTOCOL_UDP);
    // RFC 8200 section 8.1: a checksum is mandatory.
    let udp = Udp::read(datagram, pseudo, false)?;
    let header = &mut head.octets[at..at + IPV6 + UDP];
    header[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, PROTOCOL_UDP, HOPS]);
    header[8..24].copy_from_slice(&target.octets());
    header[24..40].copy_from_slice(&source.octets());
    udp.prepare(&mut header[IPV6..]);
    head.payload = (at + IPV6 + UDP) as u8;
    let scope = if source.is_unicast_link_local() {
        interface
    } else {
        0
    };
    Some(Inbound {
        client: SocketAddrV6::new(source, udp.source, 0, scope).into(),
        local: SocketAddr::new(IpAddr::V6(target), udp.target),
        payload: udp.payload,
    })
}

/// The UDP header of a datagram, and what follows.
struct Udp<'f> {
    source: u16,
    target: u16,
    payload: &'f [u8],
}

impl<'f> Udp<'f> {
    /// Reads a datagram; `pseudo` is the sum of the addresses and the protocol (RFC 768).
    fn read(datagram: &'f [u8], pseudo: u64, may_lack_checksum: bool) -> Option<Self> {
        let (udp, _) = datagram.split_first_chunk::<UDP>()?;
        let number = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
        let (source, target, len, checksum) = (number(0), number(2), number(4), number(6));
        let datagram = datagram.get(..usize::from(len))?;
        let payload = datagram.get(UDP..)?;
        let pseudo = pseudo + u64::from(len);
        let is_valid = match checksum {
            0 => may_lack_checksum,
            // From another network namespace of this host, the checksum only covers the pseudo header: it would be
            // completed by the hardware.
            checksum => fold(pseudo + sum(datagram)) == 0xffff || checksum == fold(pseudo),
        };
        (is_valid && source != 0).then_some(Self {
            source,
            target,
            payload,
        })
    }

    fn prepare(&self, header: &mut [u8]) {
        header[..2].copy_from_slice(&self.target.to_be_bytes());
        header[2..4].copy_from_slice(&self.source.to_be_bytes());
        header[4..UDP].fill(0);
    }
}

impl ReplyHead {
    /// Returns the length of the IP packet that carries a payload.
    pub fn packet_len(&self, payload: usize) -> usize {
        usize::from(self.payload - self.ip) + payload
    }

    /// Returns the number of octets in front of the payload.
    pub fn len(&self) -> usize {
        usize::from(self.payload)
    }

    /// Checks whether no datagram was parsed.
    pub fn is_empty(&self) -> bool {
        self.payload == 0
    }

    /// Writes the headers of a frame that already has its payload after [`ReplyHead::len`] octets; `identification`
    /// is that of an IPv4 packet. `None` if the frame is too long or too short.
    pub fn write(&self, frame: &mut [u8], identification: u16) -> Option<()> {
        let (ip_at, payload_at) = (usize::from(self.ip), usize::from(self.payload));
        let end = frame.len();
        let head = self.octets.get(..payload_at)?;
        frame.get_mut(..payload_at)?.copy_from_slice(head);
        let udp_at = payload_at.checked_sub(UDP)?;
        let udp_len = u16::try_from(end - udp_at).ok()?;
        let ip_len = u16::try_from(end - ip_at).ok()?;
        frame[udp_at + 4..udp_at + 6].copy_from_slice(&udp_len.to_be_bytes());
        let addresses = if udp_at - ip_at == IPV4 {
            let ip = &mut frame[ip_at..udp_at];
            ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
            ip[4..6].copy_from_slice(&identification.to_be_bytes());
            let checksum = !fold(sum(ip));
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            ip_at + 12
        } else {
            frame[ip_at + 4..ip_at + 6].copy_from_slice(&udp_len.to_be_bytes());
            ip_at + 8
        };
        let total = sum(&frame[addresses..]) + u64::from(PROTOCOL_UDP) + u64::from(udp_len);
        // RFC 768: a checksum of zero is sent as all ones, because zero means that there is none.
        let checksum = match !fold(total) {
            0 => 0xffff,
            checksum => checksum,
        };
        frame[udp_at + 6..udp_at + 8].copy_from_slice(&checksum.to_be_bytes());
        Some(())
    }
}

/// Adds the 16-bit words of some octets. RFC 1071 section 2 (B): the sum does not depend on the byte order until the
/// end, so no octets are swapped before.
fn sum(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<4>();
    let words = words
        .iter()
        .map(|word| u64::from(u32::from_ne_bytes(*word)));
    let total: u64 = words.sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let total = total + u64::from(u32::from_ne_bytes(last));
    u64::from(u16::from_be(fold(total)))
}

/// Folds a sum into 16 bits.
fn fold(sum: u64) -> u16 {
    let mut sum = (sum >> 32) + (sum & 0xffff_ffff);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests;
