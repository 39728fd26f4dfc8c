//! The PROXY protocol of HAProxy, versions 1 and 2: a header before the data, in which a proxy names the client.
//!
//! ```text
//! v2: 12 octets of signature | version, command | family, transport | length | addresses, TLVs    datagrams, streams
//! v1: "PROXY TCP4 192.0.2.1 192.0.2.53 56324 53\r\n"                                               streams
//! ```
//! Reading a header is a pure function over the octets received so far. Replies have no header.
//!
//! A header is trusted only if its sender is one of the listener's proxies, which must send one. Otherwise a client
//! could choose the address that access lists see, or a proxy could hide its clients behind its own address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::{Duration, Instant};

use nameward_base::sync::Mutex;
use nameward_stats::LogThrottle;

/// The signature of version 2: no other protocol starts like this, and no DNS message over TCP is so long.
pub const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Octets of a version 2 header before the addresses.
pub const FIXED: usize = 16;
/// The longest version 1 header, with its line end.
pub const LINE_MAX: usize = 107;
/// The longest version 2 header that is read. dnsdist and HAProxy send TLVs of a few dozen octets.
pub const HEADER_MAX: usize = 2048;

/// A complete header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Its length in octets; the data follows.
    pub len: usize,
    /// The client and the address it connected to. `None` if the proxy opened the connection itself (LOCAL, for
    /// health checks) or does not know the client: then the addresses of the socket apply.
    pub ends: Option<ProxiedEnds>,
}

/// The addresses of a connection or datagram at the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxiedEnds {
    /// The client.
    pub client: SocketAddr,
    /// The address it connected to.
    pub local: SocketAddr,
}

/// Why there is no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHeader {
    /// The octets so far may be the start of a header; this many are needed to decide.
    Incomplete(usize),
    /// These octets are not a header.
    Malformed,
}

/// Reads the header at the start of a datagram: version 2 only, and complete.
pub fn read_datagram(packet: &[u8]) -> Option<ProxyHeader> {
    read_v2(packet).ok()
}

/// Reads the header at the start of a stream: version 1 or 2.
pub fn read_stream(octets: &[u8]) -> Result<ProxyHeader, NoHeader> {
    if octets.is_empty() {
        return Err(NoHeader::Incomplete(1));
    }
    let common = octets.len().min(SIGNATURE.len());
    if octets[..common] == SIGNATURE[..common] {
        read_v2(octets)
    } else {
        read_v1(octets)
    }
}

fn read_v2(octets: &[u8]) -> Result<ProxyHeader, NoHeader> {
    let Some((fixed, rest)) = octets.split_first_chunk::<FIXED>() else {
        let common = octets.len().min(SIGNATURE.len());
        return if octets[..common] == SIGNATURE[..common] {
            Err(NoHeader::Incomplete(FIXED))
        } else {
            Err(NoHeader::Malformed)
        };
    };
    let [.., version_and_command, family, high, low] = *fixed;
    let len = usize::from(u16::from_be_bytes([high, low]));
    if fixed[..12] != SIGNATURE || version_and_command >> 4 != 2 || FIXED + len > HEADER_MAX {
        return Err(NoHeader::Malformed);
    }
    let body = rest.get(..len).ok_or(NoHeader::Incomplete(FIXED + len))?;
    let ends = match (version_and_command & 0x0f, family >> 4) {
        // LOCAL: the addresses are ignored.
        (0, _) => None,
        // The proxy cannot name the client; the specification then uses the addresses of the socket.
        (1, 0) => None,
        (1, 1) if family & 0x0f != 0 => Some(v4_ends(body).ok_or(NoHeader::Malformed)?),
        (1, 2) if family & 0x0f != 0 => Some(v6_ends(body).ok_or(NoHeader::Malformed)?),
        // Other commands, Unix sockets, and address families without a transport.
        _ => return Err(NoHeader::Malformed),
    };
    Ok(ProxyHeader {
        len: FIXED + len,
        ends,
    })
}

fn v4_ends(body: &[u8]) -> Option<ProxiedEnds> {
    let addresses: &[u8; 12] = body.first_chunk()?;
    let ip = |at: usize| {
        let octets: [u8; 4] = addresses[at..at + 4].try_into().expect("of this length");
        IpAddr::V4(Ipv4Addr::from(octets))
    };
    let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
    Some(ProxiedEnds {
        client: SocketAddr::new(ip(0), port(8)),
        local: SocketAddr::new(ip(4), port(10)),
    })
}

fn v6_ends(body: &[u8]) -> Option<ProxiedEnds> {
    let addresses: &[u8; 36] = body.first_chunk()?;
    let ip = |at: usize| {
        let octets: [u8; 16] = addresses[at..at + 16].try_into().expect("of this length");
        // A proxy with dual-stack sockets sends IPv4 clients in this form.
        IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
    };
    let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
    Some(ProxiedEnds {
        client: SocketAddr::new(ip(0), port(32)),
        local: SocketAddr::new(ip(16), port(34)),
    })
}

fn read_v1(octets: &[u8]) -> Result<ProxyHeader, NoHeader> {
    const START: &[u8] = b"PROXY ";
    let common = octets.len().min(START.len());
    if octets[..common] != START[..common] {
        return Err(NoHeader::Malformed);
    }
    let end = octets.windows(2).position(|pair| pair == b"\r\n");
    let Some(end) = end.filter(|end| end + 2 <= LINE_MAX) else {
        return if octets.len() < LINE_MAX && end.is_none() {
            Err(NoHeader::Incomplete(octets.len() + 1))
        } else {
            Err(NoHeader::Malformed)
        };
    };
    let line = octets.get(START.len()..end).unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| NoHeader::Malformed)?;
    let mut words = line.split(' ');
    let ends = match words.next() {
        // The rest of the line is ignored.
        Some("UNKNOWN") => None,
        Some("TCP4") => Some(line_ends::<Ipv4Addr>(words).ok_or(NoHeader::Malformed)?),
        Some("TCP6") => Some(line_ends::<Ipv6Addr>(words).ok_or(NoHeader::Malformed)?),
        _ => return Err(NoHeader::Malformed),
    };
    Ok(ProxyHeader { len: end + 2, ends })
}

fn line_ends<A: FromStr + Into<IpAddr>>(
    mut words: std::str::Split<'_, char>,
) -> Option<ProxiedEnds> {
    let ip = |word: &str| Some(word.parse::<A>().ok()?.into().to_canonical());
    let (client, local) = (ip(words.next()?)?, ip(words.next()?)?);
    let port = |word: &str| word.parse::<u16>().ok().filter(|_| !word.starts_with('+'));
    let (client_port, local_port) = (port(words.next()?)?, port(words.next()?)?);
    words.next().is_none().then_some(ProxiedEnds {
        client: SocketAddr::new(client, client_port),
        local: SocketAddr::new(local, local_port),
    })
}

/// Minimum interval between two log lines about packets without a header.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Logs proxies that send no valid header, at most one line a minute.
pub(crate) struct HeaderLog(Mutex<LogThrottle>);

impl Default for HeaderLog {
    fn default() -> Self {
        HeaderLog(Mutex::new(LogThrottle::new(LOG_INTERVAL)))
    }
}

impl HeaderLog {
    #[cold]
    pub(crate) fn warn(&self, proxy: SocketAddr, transport: &str) {
        let Some(_) = self.0.lock().admit("", Instant::now()) else {
            return;
        };
        let proxy = proxy.ip();
        tracing::warn!(
            "{proxy}: no valid PROXY header over {transport}; dropped: proxy_protocol_from lists this address, so each \
             datagram and connection from it needs one (dnsdist: useProxyProtocol=true, HAProxy: send-proxy-v2)"
        );
    }
}

#[cfg(test)]
mod tests;
