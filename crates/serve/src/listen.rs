//! Binding of the UDP and TCP sockets, separate from serving them, so that privileges can be dropped in between.
//!
//! Invariants of bound sockets: every worker has one UDP socket per address, all in one SO_REUSEPORT group; TCP
//! listens on the same address and port, unless an address has one transport only; IPv6 sockets are V6ONLY; no other process had the port. RFC 9715 section
//! 3.1: UDP responses are not subject to path MTU discovery, whose messages can be forged.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, Type};

use crate::listener::{ListenAddress, ListenerRules, StreamListener};
use crate::sys::{self, batch::LocalAddressFrom};

/// Connections the kernel completes before we accept them; it uses the lesser of this and net.core.somaxconn.
const TCP_BACKLOG: i32 = 4096;
/// Maximum number of attempts to find a port that is free for both UDP and TCP, when port 0 is configured.
const FREE_PORT_TRIES: usize = 32;
/// Receive and send buffer sizes requested for each UDP socket: bursts wait there while a batch is answered.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// One UDP socket of one worker.
#[derive(Debug)]
pub struct UdpListener {
    pub(crate) socket: Arc<Socket>,
    pub(crate) local: SocketAddr,
    pub(crate) origin: LocalAddressFrom,
    pub(crate) rules: Arc<ListenerRules>,
}

impl UdpListener {
    /// Returns the address it is bound to.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns a second handle to the same socket, as a std type.
    pub fn try_clone_std(&self) -> io::Result<std::net::UdpSocket> {
        Ok(self.socket.try_clone()?.into())
    }
}

/// All sockets of the server, bound and not yet served.
#[derive(Debug)]
pub struct Bound {
    /// The sockets of each worker, one per address with UDP.
    pub udp: Vec<Vec<UdpListener>>,
    /// One listener per address with TCP, non-blocking.
    pub tcp: Vec<StreamListener>,
    /// The addresses in the configured order, with the actual port where 0 was configured.
    pub addresses: Vec<SocketAddr>,
}

/// The transport of an address that could not be bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortProtocol {
    /// Datagrams.
    Udp,
    /// Streams.
    Tcp,
    /// Encrypted streams.
    Tls,
    /// HTTP over encrypted streams.
    Https,
    /// QUIC.
    Quic,
}

impl fmt::Display for PortProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortProtocol::Udp => "udp",
            PortProtocol::Tcp => "tcp",
            PortProtocol::Tls => "tls",
            PortProtocol::Https => "https",
            PortProtocol::Quic => "quic",
        })
    }
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The kernel refused the address.
    #[error("cannot listen on {address}/{transport}: {}", reason(.source))]
    Refused {
        /// The configured address.
        address: SocketAddr,
        /// The transport that was refused.
        transport: PortProtocol,
        /// The kernel's error.
        source: io::Error,
    },
    /// Two configured addresses overlap.
    #[error("cannot listen on {address}: {other} in the same list already covers it")]
    Overlap {
        /// The later of the two.
        address: SocketAddr,
        /// The earlier of the two.
        other: SocketAddr,
    },
    /// No address is configured.
    #[error("no address to listen on")]
    NoAddress,
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => "address already in use (is another server running?)".to_owned(),
        Some(libc::EACCES | libc::EPERM) => {
            "permission denied (ports below 1024 need root or CAP_NET_BIND_SERVICE)".to_owned()
        }
        Some(libc::EADDRNOTAVAIL) => "no interface has this address".to_owned(),
        Some(libc::EAFNOSUPPORT) => "address family not supported by this host".to_owned(),
        Some(libc::EMFILE | libc::ENFILE) => "too many open files (see ulimit -n)".to_owned(),
        _ => {
            let text = error.to_string();
            let plain = text.split(" (os error").next().unwrap_or_default();
            plain.to_lowercase()
        }
    }
}

/// Binds every address for `workers` UDP workers (at least one) and for TCP. An address with port 0 gets a free port,
/// the same for both transports.
pub fn bind_all<A>(addresses: &[A], workers: usize) -> Result<Bound, ListenError>
where
    A: Clone + Into<ListenAddress>,
{
    let addresses: Vec<ListenAddress> = addresses.iter().cloned().map(Into::into).collect();
    if addresses.is_empty() {
        return Err(ListenError::NoAddress);
    }
    reject_overlap(&addresses)?;
    let workers = workers.max(1);
    let mut bound = Bound {
        udp: (0..workers).map(|_| Vec::new()).collect(),
        tcp: Vec::new(),
        addresses: Vec::new(),
    };
    for entry in &addresses {
        let (first, tcp, local) = bind_first(entry)?;
        if let Some(first) = first {
            bound.udp[0].push(first);
            for worker in &mut bound.udp[1..] {
                let socket = bind_udp(local, &entry.rules, Sharing::Join);
                worker.push(socket.map_err(refused(local, PortProtocol::Udp))?);
            }
        }
        let rules = Arc::clone(&entry.rules);
        bound
            .tcp
            .extend(tcp.map(|listener| StreamListener { listener, rules }));
        bound.addresses.push(local);
    }
    Ok(bound)
}

/// Binds every address for streams of a protocol. Port 0 gets a free port.
pub fn bind_streams(
    addresses: &[SocketAddr],
    transport: PortProtocol,
) -> Result<Vec<TcpListener>, ListenError> {
    let entries: Vec<ListenAddress> = addresses.iter().copied().map(Into::into).collect();
    reject_overlap(&entries)?;
    let bind = |address: &SocketAddr| bind_tcp(*address).map_err(refused(*address, transport));
    addresses.iter().map(bind).collect()
}

/// Binds every address for QUIC. Port 0 gets a free port.
pub fn bind_quic(addresses: &[SocketAddr]) -> Result<Vec<UdpSocket>, ListenError> {
    let entries: Vec<ListenAddress> = addresses.iter().copied().map(Into::into).collect();
    reject_overlap(&entries)?;
    let bind = |address: &SocketAddr| {
        let bound = bind_quic_socket(*address);
        bound.map_err(refused(*address, PortProtocol::Quic))
    };
    addresses.iter().map(bind).collect()
}

fn bind_quic_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    enlarge_buffers(&socket);
    Ok(socket.into())
}

fn refused(address: SocketAddr, transport: PortProtocol) -> impl Fn(io::Error) -> ListenError {
    move |source| ListenError::Refused {
        address,
        transport,
        source,
    }
}

/// Rejects addresses that overlap. The kernel would report "in use" and the operator would search for another server.
fn reject_overlap(addresses: &[ListenAddress]) -> Result<(), ListenError> {
    for (index, entry) in addresses.iter().enumerate() {
        let address = entry.address;
        let covers = |earlier: &&ListenAddress| {
            let (other, transports) = (earlier.address, earlier.transports);
            let shares_transport =
                transports.udp && entry.transports.udp || transports.tcp && entry.transports.tcp;
            shares_transport
                && other.port() == address.port()
                && other.is_ipv4() == address.is_ipv4()
                && (other == address
                    || other.ip().is_unspecified()
                    || address.ip().is_unspecified())
        };
        if address.port() != 0
            && let Some(earlier) = addresses[..index].iter().find(covers)
        {
            let other = earlier.address;
            return Err(ListenError::Overlap { address, other });
        }
    }
    Ok(())
}

/// The first sockets of an address, and the address with its actual port.
type FirstSockets = (Option<UdpListener>, Option<TcpListener>, SocketAddr);

/// Binds the first worker's UDP socket and the TCP listener of one address.
fn bind_first(entry: &ListenAddress) -> Result<FirstSockets, ListenError> {
    let (address, transports) = (entry.address, entry.transports);
    let mut tries = 0;
    loop {
        tries += 1;
        let udp = transports
            .udp
            .then(|| bind_udp(address, &entry.rules, Sharing::Found));
        let udp = udp
            .transpose()
            .map_err(refused(address, PortProtocol::Udp))?;
        let local = udp.as_ref().map_or(address, |udp| udp.local);
        if !transports.tcp {
            return Ok((udp, None, local));
        }
        match bind_tcp(local).and_then(|tcp| Ok((tcp.local_addr()?, tcp))) {
            Ok((local, tcp)) => return Ok((udp, Some(tcp), local)),
            // A free UDP port may be taken for TCP: try another one.
            Err(_) if address.port() == 0 && tries < FREE_PORT_TRIES => {}
            Err(error) => return Err(refused(local, PortProtocol::Tcp)(error)),
        }
    }
}

/// How a UDP socket joins the SO_REUSEPORT group of its port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// It must be the first: bound alone, so that a second server of the same user fails here instead of silently
    /// getting half of the queries; opened for sharing only then.
    Found,
    /// It joins the group.
    Join,
}

fn bind_udp(
    address: SocketAddr,
    rules: &Arc<ListenerRules>,
    sharing: Sharing,
) -> io::Result<UdpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if sharing == Sharing::Join {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    if sharing == Sharing::Found {
        socket.set_reuse_port(true)?;
    }
    let (level, discover, omit) = match address {
        SocketAddr::V4(_) => (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_OMIT,
        ),
        SocketAddr::V6(_) => (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_OMIT,
        ),
    };
    sys::set_option(&socket, level, discover, omit)?;
    let origin = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            sys::set_option(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
            LocalAddressFrom::Control
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            sys::set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            LocalAddressFrom::Control
        }
        _ => LocalAddressFrom::Bound,
    };
    enlarge_buffers(&socket);
    let local = local_address(&socket)?;
    Ok(UdpListener {
        socket: Arc::new(socket),
        local,
        origin,
        rules: Arc::clone(rules),
    })
}

/// Requests large buffers and accepts what is granted: root gets all, others up to rmem_max.
fn enlarge_buffers(socket: &Socket) {
    let (receive, send) = (RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES);
    let forced = |name, bytes: usize| {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        sys::set_option(socket, libc::SOL_SOCKET, name, bytes).is_ok()
    };
    if !forced(libc::SO_RCVBUFFORCE, receive) {
        let _ = socket.set_recv_buffer_size(receive);
    }
    if !forced(libc::SO_SNDBUFFORCE, send) {
        let _ = socket.set_send_buffer_size(send);
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Only so that connections of an earlier run in TIME_WAIT do not prevent a restart.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(TCP_BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn local_address(socket: &Socket) -> io::Result<SocketAddr> {
    socket
        .local_addr()?
        .as_socket()
        .ok_or_else(|| io::Error::other("not an Internet socket"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::ListenTransports;

    fn loopback() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn second_server_on_the_port_is_refused_in_one_line() {
        let first = bind_all(&[loopback()], 2).unwrap();
        let error = bind_all(&first.addresses, 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "cannot listen on {}/udp: address already in use (is another server running?)",
                first.addresses[0]
            )
        );
    }

    #[test]
    fn port_taken_for_tcp_only_is_named_as_tcp() {
        let taken = TcpListener::bind(loopback()).unwrap();
        let address = taken.local_addr().unwrap();
        let error = bind_all(&[address], 1).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("cannot listen on {address}/tcp: address already")),
            "{error}"
        );
    }

    #[test]
    fn port_zero_gives_workers_and_tcp_the_same_port() {
        let bound = bind_all(&[loopback(), "[::1]:0".parse().unwrap()], 3).unwrap();
        assert_eq!(bound.udp.len(), 3);
        for (index, address) in bound.addresses.iter().enumerate() {
            assert_ne!(address.port(), 0);
            let tcp = &bound.tcp[index].listener;
            assert_eq!(tcp.local_addr().unwrap(), *address);
            for worker in &bound.udp {
                assert_eq!(worker[index].local(), *address);
            }
        }
    }

    #[test]
    fn an_address_may_have_one_transport_only() {
        let only = |udp, tcp| ListenAddress {
            transports: ListenTransports { udp, tcp },
            ..ListenAddress::from(loopback())
        };
        let bound = bind_all(&[only(true, false), only(false, true)], 2).unwrap();
        let (udp, tcp) = (bound.addresses[0], bound.addresses[1]);
        assert_eq!(
            (bound.udp[0].len(), bound.udp[1].len(), bound.tcp.len()),
            (1, 1, 1)
        );
        assert_eq!(bound.udp[1][0].local(), udp);
        assert_eq!(bound.tcp[0].listener.local_addr().unwrap(), tcp);
        // The other transport of each port is free.
        let at = |address: SocketAddr, entry: ListenAddress| ListenAddress { address, ..entry };
        let others = [at(tcp, only(true, false)), at(udp, only(false, true))];
        assert!(bind_all(&others, 1).is_ok());
    }

    #[test]
    fn overlapping_addresses_are_named() {
        let list = ["0.0.0.0:5399", "[::]:5399", "127.0.0.1:5399"]
            .map(|a| a.parse::<SocketAddr>().unwrap());
        assert_eq!(
            bind_all(&list, 1).unwrap_err().to_string(),
            "cannot listen on 127.0.0.1:5399: 0.0.0.0:5399 in the same list already covers it"
        );
    }

    #[test]
    fn foreign_address_is_explained() {
        let error = bind_all(&["192.0.2.1:0".parse::<SocketAddr>().unwrap()], 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot listen on 192.0.2.1:0/udp: no interface has this address"
        );
    }
}
