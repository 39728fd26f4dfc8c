//! Binding of the UDP and TCP sockets, separate from serving them, so that privileges can be dropped in between.
//!
//! Invariants of bound sockets: every worker has one UDP socket per address, all in one
//! SO_REUSEPORT group; TCP listens on the same address and port, unless an address has only one
//! transport; IPv6 sockets are V6ONLY; no other process had the port. RFC 9715 section 3.1: UDP
//! responses are not subject to path MTU discovery, whose messages can be forged.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nameward_stats::Protocol;
use socket2::{Domain, Socket, Type};

use crate::inherited::InheritedSockets;
use crate::listener::{ListenAddress, ListenerRules, StreamListener};
use crate::quic::QuicListener;
use crate::sys::{self, batch::LocalAddressSource};

/// Connections the kernel completes before we accept them; it uses the lesser of this and net.core.somaxconn.
const TCP_BACKLOG: i32 = 4096;
/// Maximum number of attempts to find a port that is free for both UDP and TCP, when port 0 is configured.
const FREE_PORT_TRIES: usize = 32;
/// Receive and send buffer sizes requested for each UDP socket: they absorb bursts while a batch is
/// answered.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// One UDP socket of one worker.
#[derive(Debug, Clone)]
pub struct UdpListener {
    pub(crate) socket: Arc<Socket>,
    pub(crate) local: SocketAddr,
    pub(crate) origin: LocalAddressSource,
    pub(crate) rules: Arc<ListenerRules>,
}

impl UdpListener {
    /// Returns the address it is bound to.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Checks whether it receives datagrams to an address.
    pub(crate) fn covers(&self, address: SocketAddr) -> bool {
        let local = self.local;
        local.port() == address.port()
            && (local.ip() == address.ip()
                || local.ip().is_unspecified() && local.is_ipv4() == address.is_ipv4())
    }

    /// Returns a second handle to the same socket, as a std type.
    pub fn try_clone_std(&self) -> io::Result<std::net::UdpSocket> {
        Ok(self.socket.try_clone()?.into())
    }
}

/// All sockets of the server, bound but not served yet.
#[derive(Debug)]
pub struct Bound {
    /// The sockets of each worker, one per address with UDP.
    pub udp: Vec<Vec<UdpListener>>,
    /// One non-blocking listener per address with TCP.
    pub tcp: Vec<StreamListener>,
    /// The addresses in the configured order, with the actual port where 0 was configured.
    pub addresses: Vec<SocketAddr>,
}

impl Bound {
    /// Duplicates all descriptors, for a successor process.
    pub fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let udp = self.udp.iter().flatten().map(|one| one.socket.as_fd());
        let tcp = self.tcp.iter().map(|one| one.listener.as_fd());
        udp.chain(tcp).map(|one| one.try_clone_to_owned()).collect()
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
        transport: Protocol,
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
            "permission denied (ports below 1024 need root, CAP_NET_BIND_SERVICE or nameward.socket)"
                .to_owned()
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
    bind_with(&addresses, workers, &mut InheritedSockets::default())
}

/// Like [`bind_all`], but uses sockets bound by another process where there are any. All inherited
/// sockets of an address are used: datagrams in a socket that is not read would be lost.
pub fn bind_with(
    addresses: &[ListenAddress],
    workers: usize,
    inherited: &mut InheritedSockets,
) -> Result<Bound, ListenError> {
    if addresses.is_empty() {
        return Err(ListenError::NoAddress);
    }
    reject_overlap(addresses)?;
    let workers = workers.max(1);
    let mut bound = Bound {
        udp: (0..workers).map(|_| Vec::new()).collect(),
        tcp: Vec::new(),
        addresses: Vec::new(),
    };
    for entry in addresses {
        let (udp, tcp, local) = bind_entry(entry, workers, inherited)?;
        for (index, socket) in udp.into_iter().enumerate() {
            bound.udp[index % workers].push(socket);
        }
        let rules = Arc::clone(&entry.rules);
        bound
            .tcp
            .extend(tcp.map(|listener| StreamListener { listener, rules }));
        bound.addresses.push(local);
    }
    Ok(bound)
}

/// Binds every address for streams of a protocol, except inherited ones. Port 0 selects a free
/// port.
pub fn bind_streams(
    addresses: &[SocketAddr],
    transport: Protocol,
    inherited: &mut InheritedSockets,
) -> Result<Vec<TcpListener>, ListenError> {
    let entries: Vec<ListenAddress> = addresses.iter().copied().map(Into::into).collect();
    reject_overlap(&entries)?;
    let bind = |address: &SocketAddr| match inherited.take_tcp(*address) {
        Some(listener) => Ok(listener),
        None => bind_tcp(*address).map_err(refused(*address, transport)),
    };
    addresses.iter().map(bind).collect()
}

/// Binds every address for QUIC, except inherited ones. Port 0 selects a free port.
pub fn bind_quic(
    addresses: &[SocketAddr],
    inherited: &mut InheritedSockets,
) -> Result<Vec<QuicListener>, ListenError> {
    let entries: Vec<ListenAddress> = addresses.iter().copied().map(Into::into).collect();
    reject_overlap(&entries)?;
    let bind = |address: &SocketAddr| {
        let bound = match inherited.take_quic(*address) {
            Some((socket, before)) => QuicListener::new(socket, before),
            None => bind_quic_socket(*address).and_then(|socket| QuicListener::new(socket, None)),
        };
        bound.map_err(refused(*address, Protocol::Quic))
    };
    addresses.iter().map(bind).collect()
}

fn bind_quic_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = open_socket(address, Type::DGRAM)?;
    socket.bind(&address.into())?;
    enlarge_buffers(&socket);
    Ok(socket.into())
}

fn refused(address: SocketAddr, transport: Protocol) -> impl Fn(io::Error) -> ListenError {
    move |source| ListenError::Refused {
        address,
        transport,
        source,
    }
}

/// Rejects overlapping addresses. The kernel would report "in use", and the operator would search
/// for another server.
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

/// The UDP sockets of an address, its TCP listener, and the address with its actual port.
type EntrySockets = (Vec<UdpListener>, Option<TcpListener>, SocketAddr);

/// Binds the sockets of one address, or uses inherited ones. If fewer sockets were inherited than
/// there are workers, some workers share one: a new socket in the group would receive datagrams
/// before this process serves.
fn bind_entry(
    entry: &ListenAddress,
    workers: usize,
    inherited: &mut InheritedSockets,
) -> Result<EntrySockets, ListenError> {
    let sockets = if entry.transports.udp {
        inherited.take_udp(entry.address)
    } else {
        Vec::new()
    };
    let prepare = |socket: Socket| {
        socket.set_nonblocking(false)?;
        prepare_udp(socket, &entry.rules)
    };
    let udp: io::Result<Vec<_>> = sockets.into_iter().map(prepare).collect();
    let mut udp = udp.map_err(refused(entry.address, Protocol::Udp))?;
    if let Some(local) = udp.first().map(|first| first.local) {
        let missing = workers.saturating_sub(udp.len());
        let shared: Vec<_> = udp.iter().cycle().take(missing).cloned().collect();
        udp.extend(shared);
        let has_tcp = entry.transports.tcp;
        let tcp = has_tcp.then(|| {
            inherited
                .take_tcp(local)
                .map_or_else(|| bind_tcp(local), Ok)
        });
        let tcp = tcp.transpose().map_err(refused(local, Protocol::Tcp))?;
        return Ok((udp, tcp, local));
    }
    let (first, tcp, local) = bind_first(entry, inherited)?;
    if let Some(first) = first {
        udp.push(first);
        for _ in 1..workers {
            let socket = bind_udp(local, &entry.rules, Sharing::Join);
            udp.push(socket.map_err(refused(local, Protocol::Udp))?);
        }
    }
    Ok((udp, tcp, local))
}

/// The first sockets of an address, and the address with its actual port.
type FirstSockets = (Option<UdpListener>, Option<TcpListener>, SocketAddr);

/// Binds the first worker's UDP socket and the TCP listener of one address.
fn bind_first(
    entry: &ListenAddress,
    inherited: &mut InheritedSockets,
) -> Result<FirstSockets, ListenError> {
    let (address, transports) = (entry.address, entry.transports);
    let mut tries = 0;
    loop {
        tries += 1;
        let udp = transports
            .udp
            .then(|| bind_udp(address, &entry.rules, Sharing::Found));
        let udp = udp.transpose().map_err(refused(address, Protocol::Udp))?;
        let local = udp.as_ref().map_or(address, |udp| udp.local);
        if !transports.tcp {
            return Ok((udp, None, local));
        }
        let tcp = inherited
            .take_tcp(local)
            .map_or_else(|| bind_tcp(local), Ok);
        match tcp.and_then(|tcp| Ok((tcp.local_addr()?, tcp))) {
            Ok((local, tcp)) => return Ok((udp, Some(tcp), local)),
            // A free UDP port may be taken for TCP: try another one.
            Err(_) if address.port() == 0 && tries < FREE_PORT_TRIES => {}
            Err(error) => return Err(refused(local, Protocol::Tcp)(error)),
        }
    }
}

/// Whether a UDP socket creates or joins the SO_REUSEPORT group of its port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// It creates the group: bound exclusively first, so that a second server of the same user
    /// fails here instead of silently getting half of the queries; opened for sharing only then.
    Found,
    /// It joins the group.
    Join,
}

/// Creates a socket for datagrams or streams.
fn open_socket(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

fn bind_udp(
    address: SocketAddr,
    rules: &Arc<ListenerRules>,
    sharing: Sharing,
) -> io::Result<UdpListener> {
    let socket = open_socket(address, Type::DGRAM)?;
    if sharing == Sharing::Join {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    if sharing == Sharing::Found {
        socket.set_reuse_port(true)?;
    }
    prepare_udp(socket, rules)
}

/// Sets the options of a bound socket.
fn prepare_udp(socket: Socket, rules: &Arc<ListenerRules>) -> io::Result<UdpListener> {
    let address = local_address(&socket)?;
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
            LocalAddressSource::Control
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            sys::set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            LocalAddressSource::Control
        }
        _ => LocalAddressSource::Bound,
    };
    enlarge_buffers(&socket);
    Ok(UdpListener {
        socket: Arc::new(socket),
        local: address,
        origin,
        rules: Arc::clone(rules),
    })
}

/// Requests large buffers and accepts what is granted: root gets all, others up to rmem_max. Larger
/// existing buffers are left alone: the service manager may have set them, and an unprivileged
/// request would shrink them.
fn enlarge_buffers(socket: &Socket) {
    let (receive, send) = (RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES);
    let forced = |name, bytes: usize| {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        sys::set_option(socket, libc::SOL_SOCKET, name, bytes).is_ok()
    };
    let is_large = |size: io::Result<usize>, wanted| size.is_ok_and(|size| size >= wanted);
    let receives_enough = is_large(socket.recv_buffer_size(), receive);
    if !receives_enough && !forced(libc::SO_RCVBUFFORCE, receive) {
        let _ = socket.set_recv_buffer_size(receive);
    }
    let sends_enough = is_large(socket.send_buffer_size(), send);
    if !sends_enough && !forced(libc::SO_SNDBUFFORCE, send) {
        let _ = socket.set_send_buffer_size(send);
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = open_socket(address, Type::STREAM)?;
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
mod tests;
