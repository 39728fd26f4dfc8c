//! The batch of datagrams that a UDP worker receives, answers in place and sends: its buffers and the message
//! headers for recvmmsg and sendmmsg.
//!
//! All of it is one allocation per worker. Headers point into it and are set up once; a receive resets only the
//! lengths of the slots used last time. A reply is sent to the socket address that the kernel wrote, and on wildcard
//! sockets with the control message that was received (IP_PKTINFO, IPV6_PKTINFO of RFC 3542), so that it leaves from
//! the queried address.
//!
//! Invariants: `frame` is valid and owned by the batch; the pointers in headers point into the same frame; `len <=
//! BATCH`; slots below `len` hold what the last receive wrote. `received_data` points to the queries and `reply_data` to
//! [`REPLY_MAX`] octets for each reply: buffers of the frame, or those of a ring (`filled`).

mod filled;
mod proxied;
mod send;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use socket2::Socket;

use super::address::{ADDRESS_LEN, decode_address, encode_address};
use super::control::{CONTROL_LEN, Control};
use crate::listen::UdpListener;
use crate::listener::ListenerRules;
use proxied::ProxiedSlots;
pub(super) use send::{is_full, wait_writable};

/// Maximum number of datagrams per receive call.
pub const BATCH: usize = 32;
/// Buffer size for a received datagram; a larger one is truncated and marked.
pub const QUERY_MAX: usize = 4096;
/// Buffer size for a reply.
pub const REPLY_MAX: usize = 4096;

#[repr(C, align(8))]
pub(super) struct SocketAddressBytes([u8; ADDRESS_LEN]);

/// A buffer whose stride is not a multiple of the page size: buffers starting a page apart would all map to the same
/// cache sets and evict each other.
#[repr(C, align(64))]
struct Buffer<const N: usize, const PAD: usize> {
    bytes: [u8; N],
    pad: [u8; PAD],
}

/// Memory that the kernel reads and writes. All zero bytes are a valid value.
struct Frame {
    received: [libc::mmsghdr; BATCH],
    received_data: [libc::iovec; BATCH],
    sending: [libc::mmsghdr; BATCH],
    /// `iov_len` is the length of the slot's reply, 0 for none.
    reply_data: [libc::iovec; BATCH],
    addresses: [SocketAddressBytes; BATCH],
    controls: [Control; BATCH],
    queries: [Buffer<QUERY_MAX, 128>; BATCH],
    replies: [Buffer<REPLY_MAX, 256>; BATCH],
}

/// Whether a receive call may block until the first datagram arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Until a datagram arrives or the socket's receive timeout expires.
    ForOne,
    /// Returns at once.
    Never,
}

/// Whether control messages carry the address a datagram was sent to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LocalAddressSource {
    /// The socket is bound to one address; replies leave from it anyway.
    Bound,
    /// A wildcard socket: replies need the control message that came with the query.
    Control,
}

/// Datagrams received together, with room for the reply to each.
pub struct DatagramBatch {
    frame: NonNull<Frame>,
    len: usize,
    /// Whether its datagrams are in the buffers of an XDP ring.
    is_in_ring: bool,
    /// The origin for which the control lengths of unused slots are set.
    armed: LocalAddressSource,
    /// The socket the datagrams were received on, for late replies.
    socket: Option<Arc<Socket>>,
    /// The address that socket is bound to.
    local: Option<SocketAddr>,
    /// Rules for datagrams received there.
    rules: Arc<ListenerRules>,
    /// Datagrams of the batch that came through proxies; created for the first of them.
    proxied: Option<Box<ProxiedSlots>>,
}

// SAFETY: the frame is owned by the batch alone and its pointers point only into itself.
unsafe impl Send for DatagramBatch {}

impl DatagramBatch {
    /// Allocates the buffers.
    pub(crate) fn new() -> DatagramBatch {
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
        DatagramBatch {
            frame,
            len: 0,
            is_in_ring: false,
            armed: LocalAddressSource::Bound,
            socket: None,
            local: None,
            rules: Arc::default(),
            proxied: None,
        }
    }

    fn frame(&self) -> &Frame {
        // SAFETY: the frame is valid and, borrowed through `self`, not written in the meantime.
        unsafe { self.frame.as_ref() }
    }

    fn frame_mut(&mut self) -> &mut Frame {
        // SAFETY: the frame is valid and owned by `self`, which is borrowed mutably.
        unsafe { self.frame.as_mut() }
    }

    /// Returns how many datagrams were received.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Checks whether nothing was received.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns received datagram `i`.
    pub fn query(&self, i: usize) -> &[u8] {
        assert!(i < self.len);
        let frame = self.frame();
        // SAFETY: a slot below `len` has a query, which is not written while the batch is borrowed.
        unsafe { query_at(&frame.received_data[i], &frame.received[i]) }
    }

    /// Checks whether datagram `i` was larger than the receive buffer and is truncated.
    pub fn truncated(&self, i: usize) -> bool {
        debug_assert!(i < self.len);
        self.frame().received[i].msg_hdr.msg_flags & libc::MSG_TRUNC != 0
    }

    /// Returns the source address of datagram `i`. Never a V4-mapped address: IPv6 sockets are V6ONLY.
    pub fn client(&self, i: usize) -> SocketAddr {
        debug_assert!(i < self.len);
        decode_address(&self.frame().addresses[i].0)
    }

    /// Returns query `i`, the buffer for its reply, and the reply length to set (0: no reply).
    pub fn reply(&mut self, i: usize) -> (&[u8], &mut [u8; REPLY_MAX], &mut usize) {
        assert!(i < self.len);
        let frame = self.frame_mut();
        let reply = frame.reply_data[i].iov_base.cast();
        // SAFETY: a slot below `len` has a query and, elsewhere, a buffer for the reply; both are borrowed through `self`.
        let (query, reply) = unsafe {
            let query = query_at(&frame.received_data[i], &frame.received[i]);
            (query, &mut *reply)
        };
        (query, reply, &mut frame.reply_data[i].iov_len)
    }

    /// Returns all received datagrams and, separately, the reply buffers, so that parsed queries can be borrowed
    /// while replies are written.
    pub fn split(&mut self) -> (Queries<'_>, Replies<'_>) {
        let len = self.len;
        // SAFETY: the frame is valid and owned by `self`, which stays borrowed mutably; the socket beside it is
        // only read.
        let frame = unsafe { self.frame.as_mut() };
        let queries = Queries {
            received: &frame.received[..len],
            addresses: &frame.addresses,
            controls: &frame.controls,
            data: &frame.received_data,
            socket: self.socket.as_ref(),
            local: self.local,
            rules: &self.rules,
            proxied: self.proxied.as_deref(),
        };
        let replies = Replies {
            reply_data: &mut frame.reply_data[..len],
        };
        (queries, replies)
    }

    /// Returns reply `i`, empty for none. After sending it is also empty if the kernel refused it.
    pub fn replied(&self, i: usize) -> &[u8] {
        assert!(i < self.len);
        let data = &self.frame().reply_data[i];
        // SAFETY: a slot below `len` has a buffer of that size, which is not written while the batch is borrowed.
        unsafe { slice::from_raw_parts(data.iov_base.cast(), data.iov_len.min(REPLY_MAX)) }
    }

    /// Returns the destination address of datagram `i`; `None` in a constructed batch.
    pub fn local(&self, i: usize) -> Option<SocketAddr> {
        debug_assert!(i < self.len);
        let proxied = self.proxied.as_ref().and_then(|slots| slots.local(i));
        proxied.or_else(|| Some(destination_of(self.local?, &self.frame().controls[i])))
    }

    /// Discards all replies of the batch.
    pub fn silence(&mut self) {
        let len = self.len;
        for data in &mut self.frame_mut().reply_data[..len] {
            data.iov_len = 0;
        }
    }

    /// Returns the rules of the listener that the datagrams were received on.
    #[inline]
    pub(crate) fn rules(&self) -> &ListenerRules {
        &self.rules
    }

    /// Sets the socket that the next datagrams are received on.
    pub(crate) fn set_listener(&mut self, listener: &UdpListener) {
        self.local = Some(listener.local);
        let same = self
            .socket
            .as_ref()
            .is_some_and(|old| Arc::ptr_eq(old, &listener.socket));
        if !same {
            self.socket = Some(Arc::clone(&listener.socket));
            self.rules = Arc::clone(&listener.rules);
        }
    }

    /// Receives the available datagrams, up to a full batch. If none is available (or, when waiting, none arrives in
    /// time), the batch is empty; that is not an error.
    pub(crate) fn receive(
        &mut self,
        socket: &impl AsRawFd,
        wait: Wait,
        origin: LocalAddressSource,
    ) -> io::Result<usize> {
        assert!(!self.is_in_ring, "the kernel would write into a ring");
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
                flags as _,
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
        if origin == LocalAddressSource::Control {
            let frame = self.frame_mut();
            for (header, control) in frame.received[..len].iter_mut().zip(&mut frame.controls) {
                control.prepare_return(&mut header.msg_hdr);
            }
        }
        Ok(len)
    }

    /// Restores the lengths that the last receive overwrote.
    fn arm(&mut self, origin: LocalAddressSource) {
        let used = if self.armed == origin {
            self.len
        } else {
            BATCH
        };
        let control_len = match origin {
            LocalAddressSource::Bound => 0,
            LocalAddressSource::Control => CONTROL_LEN,
        };
        for message in &mut self.frame_mut().received[..used] {
            message.msg_hdr.msg_namelen = ADDRESS_LEN as libc::socklen_t;
            message.msg_hdr.msg_controllen = control_len as _;
        }
        self.armed = origin;
        self.len = 0;
        if let Some(slots) = &mut self.proxied {
            slots.clear();
        }
    }
}

/// The received side of a batch.
#[derive(Clone, Copy)]
pub struct Queries<'a> {
    received: &'a [libc::mmsghdr],
    addresses: &'a [SocketAddressBytes; BATCH],
    controls: &'a [Control; BATCH],
    data: &'a [libc::iovec; BATCH],
    socket: Option<&'a Arc<Socket>>,
    local: Option<SocketAddr>,
    rules: &'a ListenerRules,
    proxied: Option<&'a ProxiedSlots>,
}

impl<'a> Queries<'a> {
    /// Returns the rules of the listener they were received on.
    #[inline]
    pub(crate) fn rules(&self) -> &'a ListenerRules {
        self.rules
    }

    /// Returns how many datagrams were received.
    #[inline]
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Checks whether nothing was received.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Returns received datagram `i`.
    #[inline]
    pub fn query(&self, i: usize) -> &'a [u8] {
        // SAFETY: a slot that was received has a query, which is not written while the batch is borrowed.
        unsafe { query_at(&self.data[i], &self.received[i]) }
    }

    /// Checks whether datagram `i` was larger than the receive buffer and is truncated.
    #[inline]
    pub fn truncated(&self, i: usize) -> bool {
        self.received[i].msg_hdr.msg_flags & libc::MSG_TRUNC != 0
    }

    /// Returns the source address of datagram `i`.
    #[inline]
    pub fn client(&self, i: usize) -> SocketAddr {
        decode_address(&self.addresses[i].0)
    }

    /// Returns the destination address of datagram `i`; `None` in a constructed batch.
    #[inline]
    pub fn local(&self, i: usize) -> Option<SocketAddr> {
        let proxied = self.proxied.and_then(|slots| slots.local(i));
        proxied.or_else(|| Some(destination_of(self.local?, &self.controls[i])))
    }

    /// Returns the reply path to the sender of datagram `i`, for a late reply. A constructed batch has none.
    pub(crate) fn return_path(&self, i: usize) -> Option<ReturnPath> {
        let header = &self.received[i].msg_hdr;
        Some(ReturnPath {
            socket: Arc::clone(self.socket?),
            address: match self.proxied.and_then(|slots| slots.sender(i)) {
                Some(sender) => SocketAddressBytes(sender.0),
                None => SocketAddressBytes(self.addresses[i].0),
            },
            address_len: header.msg_namelen.min(ADDRESS_LEN as libc::socklen_t),
            control: self.controls[i].clone(),
            // usize with glibc, u32 with musl.
            #[allow(clippy::unnecessary_cast)]
            control_len: (header.msg_controllen as usize).min(CONTROL_LEN),
        })
    }
}

/// The reply path to the sender of a datagram: the socket it was received on, the sender's address, and on wildcard
/// sockets the control message that makes the reply leave from the queried address.
pub(crate) struct ReturnPath {
    pub(super) socket: Arc<Socket>,
    pub(super) address: SocketAddressBytes,
    pub(super) address_len: libc::socklen_t,
    pub(super) control: Control,
    pub(super) control_len: usize,
}

/// The sending side of a batch.
pub struct Replies<'a> {
    reply_data: &'a mut [libc::iovec],
}

impl Replies<'_> {
    /// Returns the buffer for reply `i`.
    #[inline]
    pub fn buffer(&mut self, i: usize) -> &mut [u8; REPLY_MAX] {
        // SAFETY: a received slot has a buffer of this size for its reply alone, borrowed through `self`.
        unsafe { &mut *self.reply_data[i].iov_base.cast() }
    }

    /// Sets the length of reply `i`; 0 means no reply.
    #[inline]
    pub fn set_len(&mut self, i: usize, len: usize) {
        self.reply_data[i].iov_len = len;
    }
}

/// Returns the query of a slot.
///
/// # Safety
/// The slot has a query, which is not written as long as the result is used.
#[inline]
unsafe fn query_at<'a>(data: &libc::iovec, message: &libc::mmsghdr) -> &'a [u8] {
    let len = (message.msg_len as usize).min(QUERY_MAX);
    // SAFETY: promised by the caller; no query is longer than the buffers of a batch.
    unsafe { slice::from_raw_parts(data.iov_base.cast(), len) }
}

/// Returns the destination address of a datagram, from its socket and its control message.
#[inline]
fn destination_of(bound: SocketAddr, control: &Control) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        bound
    } else {
        SocketAddr::new(control.destination(bound), bound.port())
    }
}

impl Drop for DatagramBatch {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constructed_batch_looks_like_a_received_one() {
        let client: SocketAddr = "[2001:db8::1]:53".parse().unwrap();
        let mut batch =
            DatagramBatch::from_datagrams(&[(b"query", client), (&[1; QUERY_MAX + 1], client)]);
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
}
