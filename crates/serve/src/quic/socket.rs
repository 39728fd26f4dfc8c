//! A UDP socket for QUIC that two servers can read while one takes over from the other.
//!
//! The kernel gives each packet to one of them. Each passes on the packets of the other one's connections: the
//! connection ID tells which server created it. So connections of the predecessor continue until they end, and no
//! packet is answered with a reset by a server that does not know its connection.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use tokio::io::ReadBuf;

use super::identity::{ConnectionIds, ID_LEN, QuicIdentity};

/// Octets in front of a packet that is passed on: its source (address and port), its destination, and the ECN field.
const HEAD_LEN: usize = 16 + 2 + 16 + 1;
/// The largest packet that is passed on: endpoints accept no larger ones.
const PACKET_MAX: usize = 1500;

/// A bound UDP socket for QUIC.
#[derive(Debug)]
pub struct QuicListener {
    pub(crate) socket: UdpSocket,
    /// For exchanging packets with a successor: our end, and its end.
    successor: (UnixDatagram, UnixDatagram),
    /// For exchanging packets with the predecessor.
    predecessor: Option<UnixDatagram>,
}

impl QuicListener {
    /// Creates a listener, with the connection to the predecessor if there is one.
    pub fn new(socket: UdpSocket, predecessor: Option<UnixDatagram>) -> io::Result<Self> {
        Ok(QuicListener {
            socket,
            successor: UnixDatagram::pair()?,
            predecessor,
        })
    }

    /// Returns the address it is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns copies of the descriptors for a successor: the socket, then its end of the connection to this server.
    pub fn descriptors(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([
            self.socket.as_fd().try_clone_to_owned()?,
            self.successor.1.as_fd().try_clone_to_owned()?,
        ])
    }
}

/// The server that has a packet's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketOwner {
    /// This server, which also gets new connections.
    Ours,
    /// A predecessor.
    Predecessor,
    /// A successor.
    Successor,
    /// None of these servers created the connection ID.
    Unknown,
}

/// A connection to another server for exchanging packets.
struct PacketExchange {
    sender: UnixDatagram,
    receiver: tokio::net::UnixDatagram,
    /// The other server has exited.
    is_closed: AtomicBool,
}

impl PacketExchange {
    fn new(socket: UnixDatagram) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(PacketExchange {
            sender: socket.try_clone()?,
            receiver: tokio::net::UnixDatagram::from_std(socket)?,
            is_closed: AtomicBool::new(false),
        })
    }

    /// Passes a packet on; false if there is no server to receive it. A packet that does not fit is lost, as on a
    /// network.
    fn send(&self, packet: &[u8], meta: &RecvMeta) -> bool {
        match self.sender.send(&[&head_of(meta)[..], packet].concat()) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Receives a packet.
    fn poll_recv(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<RecvMeta> {
        let mut space = [0; HEAD_LEN + PACKET_MAX];
        while !self.is_closed.load(Ordering::Relaxed) {
            let mut read = ReadBuf::new(&mut space);
            if ready!(self.receiver.poll_recv(cx, &mut read)).is_err() {
                self.is_closed.store(true, Ordering::Relaxed);
                break;
            }
            let Some((head, packet)) = read.filled().split_first_chunk::<HEAD_LEN>() else {
                continue;
            };
            if let Some(into) = into.get_mut(..packet.len()) {
                into.copy_from_slice(packet);
                return Poll::Ready(read_head(head, packet.len()));
            }
        }
        Poll::Pending
    }
}

/// Encodes the addresses and the ECN field of a packet that is passed on.
fn head_of(meta: &RecvMeta) -> [u8; HEAD_LEN] {
    let mapped = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let mut octets = [0; HEAD_LEN];
    octets[..16].copy_from_slice(&mapped(meta.addr.ip()));
    octets[16..18].copy_from_slice(&meta.addr.port().to_be_bytes());
    let destination = meta.dst_ip.map_or([0; 16], mapped);
    octets[18..34].copy_from_slice(&destination);
    octets[34] = meta.ecn.map_or(0, |ecn| ecn as u8);
    octets
}

/// Decodes what [`head_of`] has encoded, for a packet of this length.
fn read_head(octets: &[u8; HEAD_LEN], len: usize) -> RecvMeta {
    let ip = |start: usize| {
        let mut ip = [0; 16];
        ip.copy_from_slice(&octets[start..start + 16]);
        Ipv6Addr::from(ip).to_canonical()
    };
    let destination = ip(18);
    RecvMeta {
        addr: SocketAddr::new(ip(0), u16::from_be_bytes([octets[16], octets[17]])),
        len,
        stride: len,
        ecn: EcnCodepoint::from_bits(octets[34]),
        dst_ip: Some(destination).filter(|ip| !ip.is_unspecified()),
    }
}

/// The socket of an endpoint.
pub(super) struct QuicSocket {
    udp: Arc<dyn AsyncUdpSocket>,
    ids: ConnectionIds,
    successor: PacketExchange,
    predecessor: Option<PacketExchange>,
    /// A successor has taken over the UDP socket.
    is_released: AtomicBool,
}

impl fmt::Debug for QuicSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicSocket").finish_non_exhaustive()
    }
}

impl QuicSocket {
    /// Must be called within the runtime.
    pub(super) fn new(listener: QuicListener, identity: &QuicIdentity) -> io::Result<Self> {
        listener.socket.set_nonblocking(true)?;
        Ok(QuicSocket {
            udp: TokioRuntime.wrap_udp_socket(listener.socket)?,
            ids: identity.connection_ids(),
            successor: PacketExchange::new(listener.successor.0)?,
            predecessor: listener.predecessor.map(PacketExchange::new).transpose()?,
            is_released: AtomicBool::new(false),
        })
    }

    /// Leaves the UDP socket to the successor, which passes on packets for connections that are open here.
    pub(super) fn release(&self) {
        self.is_released.store(true, Ordering::Release);
    }

    fn owner(&self, packet: &[u8]) -> PacketOwner {
        let (id, is_short) = match packet {
            // RFC 8999 section 5.2: a short header; we created its ID.
            [first, rest @ ..] if first & 0x80 == 0 => (rest.get(..ID_LEN), true),
            // Section 5.1: a long header; clients choose the first ID themselves.
            [_, _, _, _, _, len, rest @ ..] if usize::from(*len) == ID_LEN => {
                (rest.get(..ID_LEN), false)
            }
            _ => (None, false),
        };
        match id.and_then(|id| self.ids.generation_of(id)) {
            Some(generation) if generation == self.ids.generation => PacketOwner::Ours,
            Some(generation) if generation.wrapping_sub(self.ids.generation) < 128 => {
                PacketOwner::Successor
            }
            Some(_) => PacketOwner::Predecessor,
            None if is_short => PacketOwner::Unknown,
            None => PacketOwner::Ours,
        }
    }

    /// Passes a packet on to the server that has its connection; true if it is this server.
    fn is_ours(&self, packet: &[u8], meta: &RecvMeta) -> bool {
        match self.owner(packet) {
            PacketOwner::Ours => true,
            PacketOwner::Successor => {
                self.successor.send(packet, meta);
                false
            }
            // Without the predecessor, the endpoint answers with a stateless reset.
            PacketOwner::Predecessor => {
                let predecessor = self.predecessor.as_ref();
                !predecessor.is_some_and(|predecessor| predecessor.send(packet, meta))
            }
            PacketOwner::Unknown => false,
        }
    }

    /// Removes the packets of other servers from a buffer, which may contain several of the same size.
    fn retain_ours(&self, buffer: &mut [u8], meta: &mut RecvMeta) {
        let stride = meta.stride.max(1);
        let (mut read, mut retained) = (0, 0);
        while read < meta.len {
            let end = (read + stride).min(meta.len);
            if self.is_ours(&buffer[read..end], meta) {
                buffer.copy_within(read..end, retained);
                retained += end - read;
            }
            read = end;
        }
        meta.len = retained;
    }
}

impl AsyncUdpSocket for QuicSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.udp).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.udp.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        while !self.is_released.load(Ordering::Acquire) {
            let Poll::Ready(received) = self.udp.poll_recv(cx, buffers, meta) else {
                break;
            };
            let mut retained = 0;
            for index in 0..received? {
                self.retain_ours(&mut buffers[index], &mut meta[index]);
                if meta[index].len > 0 {
                    buffers.swap(retained, index);
                    meta.swap(retained, index);
                    retained += 1;
                }
            }
            if retained > 0 {
                return Poll::Ready(Ok(retained));
            }
        }
        let (Some(buffer), Some(first)) = (buffers.first_mut(), meta.first_mut()) else {
            return Poll::Pending;
        };
        for exchange in [Some(&self.successor), self.predecessor.as_ref()] {
            let Some(exchange) = exchange else {
                continue;
            };
            while let Poll::Ready(received) = exchange.poll_recv(cx, buffer) {
                *first = received;
                // Of several servers that have taken over from each other, only neighbours are connected.
                self.retain_ours(buffer, first);
                if first.len > 0 {
                    return Poll::Ready(Ok(1));
                }
            }
        }
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.udp.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.udp.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.udp.may_fragment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn::ConnectionIdGenerator as _;

    #[test]
    fn the_header_of_a_packet_that_is_passed_on_is_preserved() {
        for (source, destination) in [
            ("192.0.2.1:853", Some("192.0.2.2")),
            ("[2001:db8::1]:5353", Some("2001:db8::2")),
            ("127.0.0.1:1", None),
        ] {
            for ecn in [None, Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ce)] {
                let meta = RecvMeta {
                    addr: source.parse().unwrap(),
                    dst_ip: destination.map(|ip| ip.parse().unwrap()),
                    ecn,
                    ..RecvMeta::default()
                };
                let read = read_head(&head_of(&meta), 30);
                assert_eq!(
                    (read.addr, read.dst_ip, read.ecn),
                    (meta.addr, meta.dst_ip, ecn)
                );
                assert_eq!((read.len, read.stride), (30, 30));
            }
        }
    }

    #[tokio::test]
    async fn packets_go_to_the_server_that_has_their_connection() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let first = QuicIdentity::default();
        let second = QuicIdentity::from_predecessor(&first.to_successor()).unwrap();
        let old = QuicListener::new(socket(), None).unwrap();
        let [_, end] = old.descriptors().unwrap();
        let new = QuicListener::new(socket(), Some(end.into())).unwrap();
        let old = QuicSocket::new(old, &first).unwrap();
        let new = QuicSocket::new(new, &second).unwrap();
        let packet = |identity: &QuicIdentity, first: &[u8], len: usize| {
            let id = identity.connection_ids().generate_cid();
            let mut packet = [first, &id[..]].concat();
            packet.resize(len, 7);
            packet
        };
        let (short, long) = (&[0x40][..], &[0xC0, 0, 0, 0, 1, ID_LEN as u8][..]);
        let other = QuicIdentity::default();
        for (socket, owners) in [
            (&old, [PacketOwner::Ours, PacketOwner::Successor]),
            (&new, [PacketOwner::Predecessor, PacketOwner::Ours]),
        ] {
            for head in [short, long] {
                assert_eq!(socket.owner(&packet(&first, head, 30)), owners[0]);
                assert_eq!(socket.owner(&packet(&second, head, 30)), owners[1]);
            }
            assert_eq!(
                socket.owner(&packet(&other, short, 30)),
                PacketOwner::Unknown
            );
            assert_eq!(socket.owner(&packet(&other, long, 30)), PacketOwner::Ours);
        }
        // In a buffer of three packets, the first and the last belong to the old server.
        let mut buffer = [
            packet(&first, short, 40),
            packet(&second, short, 40),
            packet(&first, short, 21),
        ]
        .concat();
        let mut meta = RecvMeta {
            len: buffer.len(),
            stride: 40,
            ..RecvMeta::default()
        };
        new.retain_ours(&mut buffer, &mut meta);
        assert_eq!(meta.len, 40);
        assert_eq!(new.owner(&buffer[..40]), PacketOwner::Ours);
        let mut sizes = Vec::new();
        for _ in 0..2 {
            let mut into = [0; 100];
            let mut buffers = [IoSliceMut::new(&mut into)];
            let mut metas = [RecvMeta::default()];
            old.release();
            let received =
                std::future::poll_fn(|cx| old.poll_recv(cx, &mut buffers, &mut metas)).await;
            assert_eq!(received.unwrap(), 1);
            sizes.push(metas[0].len);
        }
        assert_eq!(sizes, [40, 21]);
        // When the old server has exited, its clients get a reset.
        drop(old);
        assert!(new.is_ours(&packet(&first, short, 40), &meta));
    }
}
