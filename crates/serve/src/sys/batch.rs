//! The batch of datagrams a UDP worker receives, answers in place and sends: its buffers and the
//! message headers recvmmsg and sendmmsg work on.
//!
//! All of it is one allocation, made once a worker. Headers point into it and are set up once; a
//! receive resets only the lengths of the slots used last time. A reply goes to the very socket
//! address the kernel wrote, and on wildcard sockets carries back the very control message
//! (IP_PKTINFO, IPV6_PKTINFO of RFC 3542) that came in, so that it leaves from the address that
//! was asked.
//!
//! Invariants: `frame` is valid and owned by the batch; the pointers in headers point into the
//! same frame; `len <= BATCH`; slots below `len` hold what the last receive wrote.

use std::ffi::c_int;
use std::io;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use socket2::Socket;

use super::address::{ADDRESS_LEN, decode_address, encode_address};

/// Datagrams of one receive call at most.
pub const BATCH: usize = 32;
/// Room for one received datagram; a larger one is cut and marked.
pub const QUERY_MAX: usize = 4096;
/// Room for one reply.
pub const REPLY_MAX: usize = 4096;

/// cmsghdr with its data aligned, then in6_pktinfo (the larger of the two), rounded up.
const CONTROL_DATA: usize = size_of::<libc::cmsghdr>().next_multiple_of(size_of::<usize>());
const CONTROL_LEN: usize =
    CONTROL_DATA + size_of::<libc::in6_pktinfo>().next_multiple_of(size_of::<usize>());

/// How often one batch waits for room in the send buffer, and how long each time.
const SEND_WAITS: usize = 4;
const SEND_WAIT: Duration = Duration::from_millis(2);

#[repr(C, align(8))]
pub(super) struct Address([u8; ADDRESS_LEN]);

#[repr(C, align(8))]
pub(super) struct Control([u8; CONTROL_LEN]);

/// A buffer whose stride is not a multiple of the page: heads of buffers a page apart would all
/// fall into the same cache sets and evict each other.
#[repr(C, align(64))]
struct Buffer<const N: usize, const PAD: usize> {
    bytes: [u8; N],
    pad: [u8; PAD],
}

/// What the kernel reads and writes. All zero bytes are a valid value of it.
struct Frame {
    received: [libc::mmsghdr; BATCH],
    received_data: [libc::iovec; BATCH],
    sending: [libc::mmsghdr; BATCH],
    /// `iov_len` is the length of the reply of the slot, 0 for silence.
    reply_data: [libc::iovec; BATCH],
    addresses: [Address; BATCH],
    controls: [Control; BATCH],
    queries: [Buffer<QUERY_MAX, 128>; BATCH],
    replies: [Buffer<REPLY_MAX, 256>; BATCH],
}

/// Whether a receive call may sleep until the first datagram is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Until a datagram comes or the socket's receive timeout is over.
    ForOne,
    /// Not at all.
    Never,
}

/// Whether control messages name the address a datagram came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The socket is bound to one address; replies leave from it anyway.
    Bound,
    /// A wildcard socket: replies need the control message that came with the query.
    Control,
}

/// Datagrams received together, with room for the reply to each.
pub struct Batch {
    frame: NonNull<Frame>,
    len: usize,
    /// What the control lengths of unused slots are set for.
    armed: Origin,
    /// Where the datagrams came in, for replies that are sent later.
    socket: Option<Arc<Socket>>,
    /// What that socket is bound to.
    local: Option<SocketAddr>,
}

// SAFETY: the frame is owned by the batch alone and its pointers lead only into itself.
unsafe impl Send for Batch {}

impl Batch {
    /// Allocates the buffers.
    pub(crate) fn new() -> Batch {
        let layout = std::alloc::Layout::new::<Frame>();
        // SAFETY: the layout is not of size zero, and zero bytes are a valid Frame (integers,
        // byte arrays and raw pointers).
        let raw = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<Frame>();
        let Some(frame) = NonNull::new(raw) else {
            std::alloc::handle_alloc_error(layout)
        };
        for slot in 0..BATCH {
            // SAFETY: `raw` is valid for the whole Frame and nothing else refers to it. Pointers
            // are derived from `raw` by place, so later borrows of the frame do not end them.
            unsafe {
                (*raw).received_data[slot] = libc::iovec {
                    iov_base: (&raw mut (*raw).queries[slot].bytes).cast(),
                    iov_len: QUERY_MAX,
                };
                (*raw).reply_data[slot] = libc::iovec {
                    iov_base: (&raw mut (*raw).replies[slot].bytes).cast(),
                    iov_len: 0,
                };
                let header = &raw mut (*raw).received[slot].msg_hdr;
                (*header).msg_name = (&raw mut (*raw).addresses[slot]).cast();
                (*header).msg_namelen = ADDRESS_LEN as libc::socklen_t;
                (*header).msg_iov = &raw mut (*raw).received_data[slot];
                (*header).msg_iovlen = 1;
                (*header).msg_control = (&raw mut (*raw).controls[slot]).cast();
                (*raw).sending[slot].msg_hdr.msg_iovlen = 1;
            }
        }
        Batch {
            frame,
            len: 0,
            armed: Origin::Bound,
            socket: None,
            local: None,
        }
    }

    /// A batch as if just received from these clients (at most [`BATCH`] of them), to test and
    /// measure a handler without sockets. Datagrams are cut at [`QUERY_MAX`].
    pub fn of(datagrams: &[(&[u8], SocketAddr)]) -> Batch {
        let mut batch = Batch::new();
        batch.len = datagrams.len().min(BATCH);
        let frame = batch.frame_mut();
        for (slot, (bytes, client)) in datagrams.iter().take(BATCH).enumerate() {
            let len = bytes.len().min(QUERY_MAX);
            frame.queries[slot].bytes[..len].copy_from_slice(&bytes[..len]);
            let message = &mut frame.received[slot];
            message.msg_len = len as libc::c_uint;
            if len < bytes.len() {
                message.msg_hdr.msg_flags = libc::MSG_TRUNC;
            }
            let (raw, raw_len) = encode_address(*client);
            frame.addresses[slot].0 = raw;
            message.msg_hdr.msg_namelen = raw_len as libc::socklen_t;
        }
        batch
    }

    fn frame(&self) -> &Frame {
        // SAFETY: the frame is valid and, borrowed through `self`, not written meanwhile.
        unsafe { self.frame.as_ref() }
    }

    fn frame_mut(&mut self) -> &mut Frame {
        // SAFETY: the frame is valid and owned by `self`, which is borrowed mutably.
        unsafe { self.frame.as_mut() }
    }

    /// How many datagrams were received.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was received.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Received datagram `i`.
    pub fn query(&self, i: usize) -> &[u8] {
        debug_assert!(i < self.len);
        let frame = self.frame();
        let len = (frame.received[i].msg_len as usize).min(QUERY_MAX);
        &frame.queries[i].bytes[..len]
    }

    /// Whether datagram `i` was larger than the receive buffer, so that its end is lost.
    pub fn truncated(&self, i: usize) -> bool {
        debug_assert!(i < self.len);
        self.frame().received[i].msg_hdr.msg_flags & libc::MSG_TRUNC != 0
    }

    /// Where datagram `i` came from. Never a V4-mapped address: IPv6 sockets are V6ONLY.
    pub fn client(&self, i: usize) -> SocketAddr {
        debug_assert!(i < self.len);
        decode_address(&self.frame().addresses[i].0)
    }

    /// Query `i`, room for its reply, and the reply's length to be set (0: no reply).
    pub fn reply(&mut self, i: usize) -> (&[u8], &mut [u8; REPLY_MAX], &mut usize) {
        debug_assert!(i < self.len);
        let frame = self.frame_mut();
        let len = (frame.received[i].msg_len as usize).min(QUERY_MAX);
        (
            &frame.queries[i].bytes[..len],
            &mut frame.replies[i].bytes,
            &mut frame.reply_data[i].iov_len,
        )
    }

    /// All received datagrams, and the room for replies beside them, so that parsed queries can be
    /// kept while replies are written.
    pub fn split(&mut self) -> (Queries<'_>, Replies<'_>) {
        let len = self.len;
        // SAFETY: the frame is valid and owned by `self`, which stays borrowed mutably; the socket beside it is
        // only read.
        let frame = unsafe { self.frame.as_mut() };
        let queries = Queries {
            received: &frame.received[..len],
            addresses: &frame.addresses,
            controls: &frame.controls,
            queries: &frame.queries,
            socket: self.socket.as_ref(),
            local: self.local,
        };
        let replies = Replies {
            replies: &mut frame.replies,
            reply_data: &mut frame.reply_data,
        };
        (queries, replies)
    }

    /// Reply `i` as it stands, empty for none. After sending: empty also if the kernel refused it.
    pub fn replied(&self, i: usize) -> &[u8] {
        debug_assert!(i < self.len);
        let frame = self.frame();
        &frame.replies[i].bytes[..frame.reply_data[i].iov_len.min(REPLY_MAX)]
    }

    /// Forgets all replies of the batch.
    pub fn silence(&mut self) {
        let len = self.len;
        for data in &mut self.frame_mut().reply_data[..len] {
            data.iov_len = 0;
        }
    }

    /// Tells which socket the next datagrams come from.
    pub(crate) fn set_socket(&mut self, socket: &Arc<Socket>, local: SocketAddr) {
        self.local = Some(local);
        let same = self
            .socket
            .as_ref()
            .is_some_and(|old| Arc::ptr_eq(old, socket));
        if !same {
            self.socket = Some(Arc::clone(socket));
        }
    }

    /// Receives what is there, up to a full batch. Nothing there (or, waiting, nothing in time)
    /// is an empty batch and no error.
    pub(crate) fn receive(
        &mut self,
        socket: &impl AsRawFd,
        wait: Wait,
        origin: Origin,
    ) -> io::Result<usize> {
        self.arm(origin);
        let flags = match wait {
            Wait::ForOne => libc::MSG_WAITFORONE,
            Wait::Never => libc::MSG_DONTWAIT,
        };
        // SAFETY: the frame holds BATCH headers whose pointers and lengths describe buffers in
        // the frame; no reference into it is alive during the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                (&raw mut (*self.frame.as_ptr()).received).cast(),
                BATCH as libc::c_uint,
                flags,
                ptr::null_mut(),
            )
        };
        let Ok(received) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        };
        self.len = received.min(BATCH);
        let len = self.len;
        self.silence();
        if origin == Origin::Control {
            let frame = self.frame_mut();
            for (header, control) in frame.received[..len].iter_mut().zip(&mut frame.controls) {
                prepare_return(&mut header.msg_hdr, &mut control.0);
            }
        }
        Ok(len)
    }

    /// Gives the lengths the last receive used up their full size again.
    fn arm(&mut self, origin: Origin) {
        let used = if self.armed == origin {
            self.len
        } else {
            BATCH
        };
        let control_len = match origin {
            Origin::Bound => 0,
            Origin::Control => CONTROL_LEN,
        };
        for message in &mut self.frame_mut().received[..used] {
            message.msg_hdr.msg_namelen = ADDRESS_LEN as libc::socklen_t;
            message.msg_hdr.msg_controllen = control_len as _;
        }
        self.armed = origin;
        self.len = 0;
    }

    /// Sends the replies of the batch; returns how many the kernel took.
    ///
    /// A full send buffer is waited for a bounded time. A destination the kernel refuses costs its
    /// own reply only.
    pub(crate) fn send(&mut self, socket: &impl AsRawFd) -> usize {
        let total = self.collect_replies();
        let fd = socket.as_raw_fd();
        let (mut next, mut sent, mut waits) = (0, 0, 0);
        while next < total {
            match self.send_from(fd, next, total) {
                Ok(taken) => {
                    next += taken;
                    sent += taken;
                }
                Err(error) if is_full(&error) && waits < SEND_WAITS => {
                    waits += 1;
                    wait_writable(fd);
                }
                Err(error) if is_full(&error) => {
                    (next..total).for_each(|unsent| self.forget_reply(unsent));
                    break;
                }
                // EPERM of a packet filter, ENETUNREACH, EINVAL for port 0: skip this one.
                Err(_) => {
                    self.forget_reply(next);
                    next += 1;
                }
            }
        }
        sent
    }

    /// Marks the reply behind a send header as not sent.
    fn forget_reply(&mut self, index: usize) {
        // SAFETY: the header was filled by collect_replies, so its iovec is one of `reply_data`, and no
        // reference into the frame is alive.
        unsafe { (*(*self.frame.as_ptr()).sending[index].msg_hdr.msg_iov).iov_len = 0 };
    }

    /// Fills the send headers, one after another, with the slots that have a reply.
    fn collect_replies(&mut self) -> usize {
        let raw = self.frame.as_ptr();
        let mut total = 0;
        for slot in 0..self.len {
            // SAFETY: `raw` is the valid frame, `slot` and `total` are below BATCH, and no
            // reference into the frame is alive. Stored pointers are derived from `raw` by place.
            unsafe {
                let reply = &raw mut (*raw).reply_data[slot];
                if (*reply).iov_len == 0 {
                    continue;
                }
                // The handler sets this length; the kernel must not read past the buffer.
                (*reply).iov_len = (*reply).iov_len.min(REPLY_MAX);
                let received = &raw const (*raw).received[slot].msg_hdr;
                let header = &raw mut (*raw).sending[total].msg_hdr;
                (*header).msg_name = (*received).msg_name;
                (*header).msg_namelen = (*received).msg_namelen;
                (*header).msg_iov = reply;
                (*header).msg_control = (*received).msg_control;
                (*header).msg_controllen = (*received).msg_controllen;
            }
            total += 1;
        }
        total
    }

    fn send_from(&mut self, fd: RawFd, next: usize, total: usize) -> io::Result<usize> {
        debug_assert!(next < total && total <= BATCH);
        // SAFETY: headers `next..total` were filled by collect_replies with pointers and lengths
        // of buffers in the frame; no reference into it is alive during the call.
        let sent = unsafe {
            libc::sendmmsg(
                fd,
                (&raw mut (*self.frame.as_ptr()).sending[next]).cast(),
                (total - next) as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// The received side of a batch.
#[derive(Clone, Copy)]
pub struct Queries<'a> {
    received: &'a [libc::mmsghdr],
    addresses: &'a [Address; BATCH],
    controls: &'a [Control; BATCH],
    queries: &'a [Buffer<QUERY_MAX, 128>; BATCH],
    socket: Option<&'a Arc<Socket>>,
    local: Option<SocketAddr>,
}

impl<'a> Queries<'a> {
    /// How many datagrams were received.
    #[inline]
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Whether nothing was received.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Received datagram `i`.
    #[inline]
    pub fn query(&self, i: usize) -> &'a [u8] {
        let len = (self.received[i].msg_len as usize).min(QUERY_MAX);
        &self.queries[i].bytes[..len]
    }

    /// Whether datagram `i` was larger than the receive buffer, so that its end is lost.
    #[inline]
    pub fn truncated(&self, i: usize) -> bool {
        self.received[i].msg_hdr.msg_flags & libc::MSG_TRUNC != 0
    }

    /// Where datagram `i` came from.
    #[inline]
    pub fn client(&self, i: usize) -> SocketAddr {
        decode_address(&self.addresses[i].0)
    }

    /// The address that datagram `i` came to; `None` in a made batch.
    #[inline]
    pub fn local(&self, i: usize) -> Option<SocketAddr> {
        let bound = self.local?;
        if !bound.ip().is_unspecified() {
            return Some(bound);
        }
        let control = &self.controls[i].0;
        let octets = |at: usize| control[CONTROL_DATA + at..].iter().copied();
        let ip = match bound {
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
        };
        Some(SocketAddr::new(ip, bound.port()))
    }

    /// The way back to the sender of datagram `i`, for a reply that comes later. A made batch has none.
    pub(crate) fn return_path(&self, i: usize) -> Option<ReturnPath> {
        let header = &self.received[i].msg_hdr;
        Some(ReturnPath {
            socket: Arc::clone(self.socket?),
            address: Address(self.addresses[i].0),
            address_len: header.msg_namelen.min(ADDRESS_LEN as libc::socklen_t),
            control: Control(self.controls[i].0),
            // usize with glibc, u32 with musl.
            #[allow(clippy::unnecessary_cast)]
            control_len: (header.msg_controllen as usize).min(CONTROL_LEN),
        })
    }
}

/// The way back to the sender of a datagram: the socket it came to, its address, and on wildcard sockets the control
/// message that lets the reply leave from the address that was asked.
pub(crate) struct ReturnPath {
    pub(super) socket: Arc<Socket>,
    pub(super) address: Address,
    pub(super) address_len: libc::socklen_t,
    pub(super) control: Control,
    pub(super) control_len: usize,
}

/// The side of a batch that is sent.
pub struct Replies<'a> {
    replies: &'a mut [Buffer<REPLY_MAX, 256>; BATCH],
    reply_data: &'a mut [libc::iovec; BATCH],
}

impl Replies<'_> {
    /// Room for reply `i`.
    #[inline]
    pub fn buffer(&mut self, i: usize) -> &mut [u8; REPLY_MAX] {
        &mut self.replies[i].bytes
    }

    /// Sets the length of reply `i`; 0 is silence.
    #[inline]
    pub fn set_len(&mut self, i: usize, len: usize) {
        self.reply_data[i].iov_len = len;
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed once; Frame has nothing to drop.
        unsafe {
            std::alloc::dealloc(
                self.frame.as_ptr().cast(),
                std::alloc::Layout::new::<Frame>(),
            );
        }
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR)
    )
}

pub(super) fn wait_writable(fd: RawFd) {
    super::poll(
        &mut [libc::pollfd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        }],
        SEND_WAIT,
    );
}

/// Turns the control message of a received datagram into that of its reply: same address, but the
/// interface is left to routing, except for link-local addresses, which mean nothing without it.
fn prepare_return(header: &mut libc::msghdr, control: &mut [u8; CONTROL_LEN]) {
    const V4_INDEX: usize = CONTROL_DATA + offset_of!(libc::in_pktinfo, ipi_ifindex);
    const V6_ADDRESS: usize = CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_addr);
    const V6_INDEX: usize = CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_ifindex);
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
            let link_local = control[V6_ADDRESS] == 0xfe && control[V6_ADDRESS + 1] & 0xc0 == 0x80;
            if !link_local {
                control[V6_INDEX..V6_INDEX + 4].fill(0);
            }
        }
        _ => header.msg_controllen = 0,
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

    fn control(level: c_int, kind: c_int) -> [u8; CONTROL_LEN] {
        let mut bytes = [0; CONTROL_LEN];
        let (at, to) = (
            offset_of!(libc::cmsghdr, cmsg_level),
            offset_of!(libc::cmsghdr, cmsg_type),
        );
        bytes[at..at + 4].copy_from_slice(&level.to_ne_bytes());
        bytes[to..to + 4].copy_from_slice(&kind.to_ne_bytes());
        bytes[CONTROL_DATA..].fill(7);
        bytes
    }

    #[test]
    fn reply_keeps_interface_for_link_local_only() {
        let at = CONTROL_DATA + offset_of!(libc::in6_pktinfo, ipi6_ifindex);
        let mut global = control(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
        prepare_return(&mut header(CONTROL_LEN), &mut global);
        assert_eq!(global[at..at + 4], [0; 4]);
        assert_eq!(global[CONTROL_DATA], 7, "the address stays");

        let mut local = control(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
        local[CONTROL_DATA..CONTROL_DATA + 2].copy_from_slice(&[0xfe, 0x80]);
        prepare_return(&mut header(CONTROL_LEN), &mut local);
        assert_eq!(local[at..at + 4], [7; 4]);
    }

    #[test]
    fn made_batch_looks_like_a_received_one() {
        let client: SocketAddr = "[2001:db8::1]:53".parse().unwrap();
        let mut batch = Batch::of(&[(b"query", client), (&[1; QUERY_MAX + 1], client)]);
        assert_eq!((batch.len(), batch.client(0)), (2, client));
        assert_eq!((batch.truncated(0), batch.truncated(1)), (false, true));
        let (query, reply, len) = batch.reply(0);
        reply[..5].copy_from_slice(query);
        *len = 5;
        assert_eq!(
            (batch.replied(0), batch.replied(1)),
            (&b"query"[..], &b""[..])
        );
        batch.silence();
        assert_eq!(batch.replied(0), b"");
    }

    #[test]
    fn foreign_or_missing_control_message_is_not_sent_back() {
        let mut none = header(0);
        prepare_return(&mut none, &mut control(libc::IPPROTO_IP, libc::IP_PKTINFO));
        assert_eq!(none.msg_controllen, 0);
        let mut foreign = header(CONTROL_LEN);
        prepare_return(&mut foreign, &mut control(libc::SOL_SOCKET, 1));
        assert_eq!(foreign.msg_controllen, 0);
    }
}
