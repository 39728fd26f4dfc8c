//! An AF_XDP socket: the rings that it shares with the kernel, and the buffers of its packets (UMEM).
//!
//! ```text
//! fill ring        -> free buffers for received packets      -> kernel
//! receive ring     <- packets                                <- kernel
//! transmit ring    -> packets to send                        -> kernel
//! completion ring  <- buffers that were sent                 <- kernel
//! ```
//!
//! Buffers below [`RECEIVE_FRAMES`] are for receiving: each is in the fill ring, with the kernel, or in the receive ring. The
//! others are for sending: each is in `free`, in the transmit ring, with the kernel, or in the completion ring. The fill and
//! completion rings have room for all of them, so neither can overflow.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;

/// Octets of a buffer: one Ethernet frame of the usual size, with room for what drivers put before it.
pub(crate) const FRAME: usize = 2048;
/// The longest packet that fits: the kernel leaves 256 octets free before a received one (`XDP_PACKET_HEADROOM`).
pub(crate) const PACKET_MAX: usize = FRAME - 256;
const RECEIVE_FRAMES: u32 = 2048;
const TRANSMIT_FRAMES: u32 = 2048;

/// A ring of entries, of which one side adds and the other removes.
struct SharedRing<T> {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    mask: u32,
    /// The index of our side, which nobody else changes.
    own: u32,
    /// The index of the kernel's side, as of the last look.
    other: u32,
    kind: std::marker::PhantomData<T>,
}

// SAFETY: the ring is used by its owner alone; the kernel synchronises by the indexes.
unsafe impl<T> Send for SharedRing<T> {}

impl<T: Copy> SharedRing<T> {
    /// Maps a ring of `size` entries, a power of two.
    fn map(
        socket: &OwnedFd,
        offsets: &libc::xdp_ring_offset,
        size: u32,
        page_offset: libc::off_t,
    ) -> io::Result<Self> {
        let entries = offsets.desc as usize;
        let len = entries + size as usize * size_of::<T>();
        Ok(Self {
            memory: Mapping::of_descriptor(socket, len, page_offset)?,
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            flags: offsets.flags as usize,
            entries,
            mask: size - 1,
            own: 0,
            other: 0,
            kind: std::marker::PhantomData,
        })
    }

    fn entry(&self, index: u32) -> *mut T {
        let at = self.entries + (index & self.mask) as usize * size_of::<T>();
        debug_assert!(at + size_of::<T>() <= self.memory.len());
        // SAFETY: the masked index is below the number of entries, which the region has room for.
        unsafe { self.memory.start().add(at).cast() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.memory.number(self.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.memory.number(self.consumer)
    }

    /// Checks whether the kernel waits to be woken.
    fn needs_wakeup(&self) -> bool {
        let flags = self.memory.number(self.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Returns entry `ahead` of those that the kernel has added and that were not removed yet.
    fn peek(&mut self, ahead: u32) -> Option<T> {
        if self.other.wrapping_sub(self.own) <= ahead {
            self.other = self.producer().load(Ordering::Acquire);
            if self.other.wrapping_sub(self.own) <= ahead {
                return None;
            }
        }
        // SAFETY: the kernel has written the entry before it moved its index past it, and reuses it after ours has passed.
        Some(unsafe { self.entry(self.own.wrapping_add(ahead)).read() })
    }

    /// Removes entries that were looked at.
    fn remove(&mut self, count: u32) {
        self.own = self.own.wrapping_add(count);
        self.consumer().store(self.own, Ordering::Release);
    }

    /// Writes an entry that the kernel sees with the next [`SharedRing::publish`]; false if the ring is full.
    fn add(&mut self, entry: T) -> bool {
        let size = self.mask + 1;
        if self.own.wrapping_sub(self.other) >= size {
            self.other = self.consumer().load(Ordering::Acquire);
            if self.own.wrapping_sub(self.other) >= size {
                return false;
            }
        }
        // SAFETY: the kernel's index has passed the entry, so that it is ours until our index passes it.
        unsafe { self.entry(self.own).write(entry) };
        self.own = self.own.wrapping_add(1);
        true
    }

    fn publish(&self) {
        self.producer().store(self.own, Ordering::Release);
    }
}

/// A socket bound to one receive queue of an interface.
pub(crate) struct XdpSocket {
    fill: SharedRing<u64>,
    receive: SharedRing<libc::xdp_desc>,
    transmit: SharedRing<libc::xdp_desc>,
    completion: SharedRing<u64>,
    /// Buffers that can be sent, the most recently used last: it is still in the processor's cache.
    free: Vec<u64>,
    is_zero_copy: bool,
    /// Datagrams that were dropped, as of the last check.
    dropped: u64,
    socket: OwnedFd,
    /// After the socket: the kernel uses the buffers as long as it is open.
    buffers: Mapping,
}

impl XdpSocket {
    /// Opens a socket for a queue. With `zero_copy` it fails where the driver does not support that.
    pub(crate) fn open(interface: u32, queue: u32, zero_copy: bool) -> io::Result<Self> {
        // SAFETY: plain numbers.
        let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened the descriptor.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let frames = (RECEIVE_FRAMES + TRANSMIT_FRAMES) as usize;
        let buffers = Mapping::anonymous(frames * FRAME)?;
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
        set(&socket, libc::XDP_UMEM_COMPLETION_RING, &TRANSMIT_FRAMES)?;
        set(&socket, libc::XDP_RX_RING, &RECEIVE_FRAMES)?;
        set(&socket, libc::XDP_TX_RING, &TRANSMIT_FRAMES)?;
        let offsets = option::<libc::xdp_mmap_offsets>(&socket, libc::XDP_MMAP_OFFSETS)?;
        let fill_at = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let completion_at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let mut fill = SharedRing::map(&socket, &offsets.fr, RECEIVE_FRAMES, fill_at)?;
        let completion = SharedRing::map(&socket, &offsets.cr, TRANSMIT_FRAMES, completion_at)?;
        let receive_at = libc::XDP_PGOFF_RX_RING;
        let receive = SharedRing::map(&socket, &offsets.rx, RECEIVE_FRAMES, receive_at)?;
        let transmit_at = libc::XDP_PGOFF_TX_RING;
        let transmit = SharedRing::map(&socket, &offsets.tx, TRANSMIT_FRAMES, transmit_at)?;
        for frame in 0..RECEIVE_FRAMES {
            fill.add(address_of(frame));
        }
        fill.publish();
        bind(&socket, interface, queue, zero_copy)?;
        let free = (RECEIVE_FRAMES..RECEIVE_FRAMES + TRANSMIT_FRAMES).rev();
        Ok(Self {
            fill,
            receive,
            transmit,
            completion,
            free: free.map(address_of).collect(),
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

    /// Passes received packets to `take`, at most `most`, until it returns false: that packet and those after it stay in the
    /// ring. Returns how many were taken.
    pub(crate) fn receive(&mut self, most: usize, mut take: impl FnMut(&[u8]) -> bool) -> usize {
        let mut taken = 0;
        while (taken as usize) < most
            && let Some(packet) = self.receive.peek(taken)
            && take(self.packet(&packet))
        {
            taken += 1;
            // The ring has room for all buffers for receiving.
            self.fill.add(packet.addr & !(FRAME as u64 - 1));
        }
        if taken > 0 {
            self.receive.remove(taken);
            self.fill.publish();
            if self.fill.needs_wakeup() {
                self.wake_receiver();
            }
        }
        taken as usize
    }

    /// Returns the octets of a received packet. Empty if the kernel describes one outside of the buffers.
    fn packet(&self, packet: &libc::xdp_desc) -> &[u8] {
        let (start, len) = (packet.addr as usize, packet.len as usize);
        if start
            .checked_add(len)
            .is_none_or(|end| end > self.buffers.len())
        {
            return &[];
        }
        // SAFETY: within the buffers; the packet is ours until its buffer is in the fill ring again, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.buffers.start().add(start), len) }
    }

    /// Adds a packet that `write` makes in a buffer; false if there is no buffer or it makes none. [`XdpSocket::flush`] sends it.
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut [u8; FRAME]) -> Option<usize>) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        let Some(address) = self.free.pop() else {
            return false;
        };
        // SAFETY: the address is that of a buffer for sending, which is neither with the kernel nor in a ring, and borrowed
        // through `&mut self`.
        let buffer = unsafe {
            &mut *self
                .buffers
                .start()
                .add(address as usize)
                .cast::<[u8; FRAME]>()
        };
        let written = write(buffer).filter(|len| *len <= FRAME);
        let is_added = written.is_some_and(|len| {
            self.transmit.add(libc::xdp_desc {
                addr: address,
                len: len as u32,
                options: 0,
            })
        });
        if !is_added {
            self.free.push(address);
        }
        is_added
    }

    /// Hands added packets to the kernel.
    pub(crate) fn flush(&mut self) {
        self.transmit.publish();
        // A call sends a limited number; what is left goes with the next packets.
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
            self.free.push(address);
            count += 1;
        }
        if count > 0 {
            self.completion.remove(count);
        }
    }

    /// Returns how many datagrams were dropped for lack of room in a ring since the last call.
    pub(crate) fn newly_dropped(&mut self) -> u64 {
        let Ok(statistics) = option::<libc::xdp_statistics>(&self.socket, libc::XDP_STATISTICS)
        else {
            return 0;
        };
        // The first is without a free buffer, the second without room in the receive ring.
        let dropped = statistics.rx_dropped + statistics.rx_ring_full;
        let new = dropped.saturating_sub(self.dropped);
        self.dropped = dropped;
        new
    }

    /// Returns why the socket can no longer be used: its interface is gone. One that is down may come back.
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

/// How often a flush calls the kernel, which sends 32 packets per call and says EAGAIN if there are more.
const FLUSHES: usize = 4;

impl AsRawFd for XdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn address_of(frame: u32) -> u64 {
    u64::from(frame) * FRAME as u64
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

/// Returns an option, whose structure must be plain numbers. It fails on kernels whose structure is shorter.
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

/// A structure of which any octets are a valid value.
trait PlainNumbers {}
// Kernels before 5.4 have offsets without flags.
impl PlainNumbers for libc::xdp_mmap_offsets {}
// Kernels before 5.9 have fewer numbers.
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
