//! An AF_XDP socket: the rings that it shares with the kernel, and the buffers of its packets (UMEM).
//!
//! ```text
//! fill ring        -> free buffers for received packets      -> kernel
//! receive ring     <- packets                                <- kernel
//! transmit ring    -> packets to send                        -> kernel
//! completion ring  <- buffers that were sent                 <- kernel
//! ```
//!
//! A datagram is answered in place: the query is read from the buffer that the kernel wrote, and the reply is written
//! to a buffer that is sent. Buffers below [`RECEIVE_FRAMES`] are for receiving: each is in the fill ring, with the
//! kernel, in the receive ring, or in `held`. After them are the buffers for sending, of several frames each, since a
//! reply can be longer than a packet: each is in `free`, in `held`, in the transmit ring, with the kernel, or in the
//! completion ring. The fill and completion rings have room for all of them, so neither can overflow.

mod ring;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nameward_zone::prefetch;

use super::batch::{BATCH, DatagramBatch, REPLY_MAX};
use super::mapping::Mapping;
use super::set_option;
use crate::xdp::Inbound;
use ring::SharedRing;

/// Octets of a frame: an Ethernet frame of the usual size, with room for what drivers put in front of it.
const FRAME: usize = 2048;
/// The longest packet that is received: the kernel reserves 256 octets in front of it (`XDP_PACKET_HEADROOM`).
pub(crate) const PACKET_MAX: usize = FRAME - 256;
const RECEIVE_FRAMES: u32 = 2048;
/// Buffers for sending, and the octets of each: room for headers and the longest reply. What does not fit into a
/// frame is sent through a socket.
const TRANSMIT_BUFFERS: u32 = 1024;
const HEAD_ROOM: usize = 128;
const TRANSMIT_BUFFER: usize = (HEAD_ROOM + REPLY_MAX).div_ceil(FRAME) * FRAME;
/// Where the first of them starts.
const TRANSMIT_START: usize = RECEIVE_FRAMES as usize * FRAME;
/// Socket send buffer: limits the packets waiting to be sent, which the kernel counts as about one KiB each.
const SEND_BUFFER: libc::c_int = 2 << 20;
/// Octets of a packet that are read first: headers and question.
const CACHE_LINE: usize = 64;

/// A packet whose datagram is in a batch.
struct HeldPacket {
    received: u64,
    /// The buffer for its reply, until it is sent.
    reply: Option<u64>,
}

/// How a received packet is treated.
pub(crate) enum PacketReading<'p> {
    /// Its datagram is added to the batch.
    Datagram(Inbound<'p>),
    /// It has no datagram that can be answered.
    Nothing,
    /// It stays in the ring, and so do those after it.
    Stop,
}

/// A socket bound to one receive queue of an interface.
pub(crate) struct XdpSocket {
    fill: SharedRing<u64>,
    receive: SharedRing<libc::xdp_desc>,
    transmit: SharedRing<libc::xdp_desc>,
    completion: SharedRing<u64>,
    /// Buffers available for sending, the most recently used last: it is still in the processor's cache.
    free: Vec<u64>,
    /// The packets of the batch that is being answered, by slot.
    held: Vec<HeldPacket>,
    is_zero_copy: bool,
    /// Dropped datagrams as of the last check.
    dropped: u64,
    socket: OwnedFd,
    /// Dropped after the socket: the kernel uses the buffers while the socket is open.
    buffers: Mapping,
}

impl XdpSocket {
    /// Opens a socket for a queue. With `zero_copy` it fails if the driver does not support that.
    pub(crate) fn open(interface: u32, queue: u32, zero_copy: bool) -> io::Result<Self> {
        // SAFETY: plain numbers.
        let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened the descriptor.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let transmit_octets = TRANSMIT_BUFFERS as usize * TRANSMIT_BUFFER;
        let buffers = Mapping::anonymous(TRANSMIT_START + transmit_octets)?;
        let region = libc::xdp_umem_reg {
            addr: buffers.start() as u64,
            len: buffers.len() as u64,
            chunk_size: FRAME as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&socket, libc::XDP_UMEM_REG, &region)?;
        set(&socket, libc::XDP_UMEM_FILL_RING, &RECEIVE_FRAMES)?;
        set(&socket, libc::XDP_UMEM_COMPLETION_RING, &TRANSMIT_BUFFERS)?;
        set(&socket, libc::XDP_RX_RING, &RECEIVE_FRAMES)?;
        set(&socket, libc::XDP_TX_RING, &TRANSMIT_BUFFERS)?;
        let offsets = option::<libc::xdp_mmap_offsets>(&socket, libc::XDP_MMAP_OFFSETS)?;
        let fill_at = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let completion_at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let mut fill = SharedRing::map(&socket, &offsets.fr, RECEIVE_FRAMES, fill_at)?;
        let completion = SharedRing::map(&socket, &offsets.cr, TRANSMIT_BUFFERS, completion_at)?;
        let receive_at = libc::XDP_PGOFF_RX_RING;
        let receive = SharedRing::map(&socket, &offsets.rx, RECEIVE_FRAMES, receive_at)?;
        let transmit_at = libc::XDP_PGOFF_TX_RING;
        let transmit = SharedRing::map(&socket, &offsets.tx, TRANSMIT_BUFFERS, transmit_at)?;
        for frame in 0..RECEIVE_FRAMES {
            fill.add(u64::from(frame) * FRAME as u64);
        }
        fill.publish();
        // With the default limit, a burst of a few batches fills it. Without privileges, the system's limit applies.
        let _ = set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER);
        bind(&socket, interface, queue, zero_copy)?;
        let free = (0..TRANSMIT_BUFFERS as usize).rev();
        let free = free.map(|number| (TRANSMIT_START + number * TRANSMIT_BUFFER) as u64);
        Ok(Self {
            fill,
            receive,
            transmit,
            completion,
            free: free.collect(),
            held: Vec::with_capacity(BATCH),
            is_zero_copy: zero_copy,
            dropped: 0,
            socket,
            buffers,
        })
    }

    /// Checks whether packets are not copied between the driver and the buffers.
    pub(crate) fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Checks whether packets have been received.
    pub(crate) fn has_packets(&mut self) -> bool {
        self.receive.peek(0).is_some()
    }

    /// Adds received datagrams to a batch as `read` decides, at most [`BATCH`], and begins the batch before the first
    /// one. Returns how many packets were taken. Must be followed by [`XdpSocket::release`].
    pub(crate) fn receive(
        &mut self,
        batch: &mut DatagramBatch,
        mut read: impl for<'p> FnMut(&'p [u8], &mut DatagramBatch) -> PacketReading<'p>,
    ) -> usize {
        assert!(self.held.is_empty(), "the last batch was released");
        if self.free.len() < BATCH {
            self.reclaim();
        }
        self.prefetch_packets();
        let mut taken = 0;
        while (taken as usize) < BATCH
            && let Some(packet) = self.receive.peek(taken)
        {
            let received = packet.addr & !(FRAME as u64 - 1);
            match read(packet_at(&self.buffers, &packet), batch) {
                PacketReading::Stop => break,
                // The fill ring has room for all receive buffers.
                PacketReading::Nothing => _ = self.fill.add(received),
                PacketReading::Datagram(datagram) => {
                    let reply = self.free.pop();
                    // SAFETY: the address is that of a send buffer, with room for this offset.
                    let at = reply.map(|reply| unsafe {
                        self.buffers.start().add(reply as usize + HEAD_ROOM)
                    });
                    // SAFETY: the packet was received and the buffer was free. Both are in `held`, and not accessed
                    // by the kernel or by this process, except through the batch, until `release` clears it or `send`
                    // passes a finished reply on.
                    unsafe { batch.push_in_place(&datagram, at) };
                    self.held.push(HeldPacket { received, reply });
                }
            }
            taken += 1;
        }
        if taken > 0 {
            self.receive.remove(taken);
        }
        taken as usize
    }

    /// Prefetches the headers and questions of the next packets together: another processor may have written them.
    fn prefetch_packets(&mut self) {
        for ahead in 0..BATCH as u32 {
            let Some(packet) = self.receive.peek(ahead) else {
                break;
            };
            let packet = packet_at(&self.buffers, &packet);
            for line in packet.chunks(CACHE_LINE).take(2) {
                prefetch(&line[0]);
            }
        }
    }

    /// Queues the packet with the reply in a slot of the batch: `payload` octets, in front of which `write` puts
    /// `head` octets of headers. False if it must be sent through a socket. [`XdpSocket::flush`] sends it.
    pub(crate) fn send(
        &mut self,
        slot: usize,
        (head, payload): (usize, usize),
        write: impl FnOnce(&mut [u8]) -> Option<()>,
    ) -> bool {
        let held = &mut self.held[slot];
        let Some(reply) = held.reply else {
            return false;
        };
        if head > HEAD_ROOM || HEAD_ROOM + payload > FRAME {
            return false;
        }
        let (start, len) = (reply as usize + HEAD_ROOM - head, head + payload);
        // SAFETY: within the first frame of a buffer that is neither with the kernel nor in a ring; no reference of the batch to it
        // is alive.
        let frame = unsafe { std::slice::from_raw_parts_mut(self.buffers.start().add(start), len) };
        let is_added = write(frame).is_some()
            && self.transmit.add(libc::xdp_desc {
                addr: start as u64,
                len: len as u32,
                options: 0,
            });
        if is_added {
            held.reply = None;
        }
        is_added
    }

    /// Ends a batch: its buffers are available again for receiving and sending.
    pub(crate) fn release(&mut self, batch: &mut DatagramBatch) {
        batch.clear();
        for packet in self.held.drain(..) {
            self.fill.add(packet.received);
            self.free.extend(packet.reply);
        }
        self.fill.publish();
        if self.fill.needs_wakeup() {
            self.wake_receiver();
        }
    }

    /// Submits queued packets to the kernel.
    pub(crate) fn flush(&mut self) {
        self.transmit.publish();
        // A call sends a limited number; the rest is sent with the next packets.
        for _ in 0..FLUSHES {
            if !self.transmit.needs_wakeup() {
                break;
            }
            let Err(error) = self.wake_sender() else {
                break;
            };
            if error.raw_os_error() != Some(libc::EAGAIN) {
                break;
            }
        }
        self.reclaim();
    }

    /// Takes back the buffers that were sent.
    fn reclaim(&mut self) {
        let mut count = 0;
        while let Some(address) = self.completion.peek(count) {
            // The completion has the address of the packet, which is inside its buffer.
            let packet = (address as usize).saturating_sub(TRANSMIT_START);
            self.free.push(address - (packet % TRANSMIT_BUFFER) as u64);
            count += 1;
        }
        if count > 0 {
            self.completion.remove(count);
        }
    }

    /// Returns how many datagrams were dropped since the last call because a ring was full.
    pub(crate) fn newly_dropped(&mut self) -> u64 {
        let Ok(statistics) = option::<libc::xdp_statistics>(&self.socket, libc::XDP_STATISTICS)
        else {
            return 0;
        };
        // The first counts packets without a free buffer, the second those without room in the receive ring.
        let dropped = statistics.rx_dropped + statistics.rx_ring_full;
        let new = dropped.saturating_sub(self.dropped);
        self.dropped = dropped;
        new
    }

    /// Returns why the socket can no longer be used: its interface was removed. An interface that is merely down may
    /// come up again.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        let error = self.wake_sender().err()?;
        (error.raw_os_error() == Some(libc::ENXIO)).then_some(error)
    }

    fn wake_sender(&self) -> io::Result<()> {
        // SAFETY: no data and no address are passed.
        let result = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        match result {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn wake_receiver(&self) {
        // SAFETY: no buffer and no address are passed.
        unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }
}

/// Maximum number of calls per flush: the kernel sends 32 packets per call and returns EAGAIN if there are more.
const FLUSHES: usize = 4;

impl AsRawFd for XdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Returns the octets of a received packet; empty if the kernel describes one outside the buffers.
fn packet_at<'b>(buffers: &'b Mapping, packet: &libc::xdp_desc) -> &'b [u8] {
    let (start, len) = (packet.addr as usize, packet.len as usize);
    if start.checked_add(len).is_none_or(|end| end > buffers.len()) {
        return &[];
    }
    // SAFETY: within the buffers; the packet is not written until its buffer is in the fill ring again.
    unsafe { std::slice::from_raw_parts(buffers.start().add(start), len) }
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, a plain structure that lives through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            (value as *const T).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads an option whose structure is plain numbers. Fails on kernels whose structure is shorter.
fn option<T: PlainNumbers>(socket: &OwnedFd, option: libc::c_int) -> io::Result<T> {
    // SAFETY: zero bytes are a valid value of a structure of plain numbers.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointers are to objects that live through the call, and the length is that of the structure.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            (&raw mut value).cast(),
            &mut len,
        )
    };
    match result {
        0 if len as usize == size_of::<T>() => Ok(value),
        0 => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A structure for which any octets are a valid value.
trait PlainNumbers {}
// Kernels before 5.4 have offsets without flags.
impl PlainNumbers for libc::xdp_mmap_offsets {}
// Kernels before 5.9 have fewer counters.
impl PlainNumbers for libc::xdp_statistics {}

fn bind(socket: &OwnedFd, interface: u32, queue: u32, zero_copy: bool) -> io::Result<()> {
    let copying = if zero_copy {
        libc::XDP_ZEROCOPY
    } else {
        libc::XDP_COPY
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copying,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: the pointer and the length describe `address`, which lives through the call.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
