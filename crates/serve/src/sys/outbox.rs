//! Replies that are sent later than their batch: collected, and sent in groups with sendmmsg.
//!
//! Invariants: there are at most [`OUTBOX`] replies of at most [`REPLY_MAX`] octets, one after the other in the buffer, which
//! has room for all of them. (In slots of that size, their first octets would compete for the same places in the processor's
//! cache.)

use std::os::fd::{AsRawFd, RawFd};

use super::batch::{REPLY_MAX, ReturnPath, is_full, wait_writable};

/// Maximum number of collected replies.
pub(crate) const OUTBOX: usize = 32;
/// How often one flush waits for room in the send buffer.
const SEND_WAITS: usize = 4;

struct Outgoing {
    path: ReturnPath,
    /// Where its octets start in the buffer.
    start: usize,
    len: usize,
}

/// Replies waiting to be sent.
pub(crate) struct Outbox {
    outgoing: Vec<Outgoing>,
    octets: Box<[u8]>,
    used: usize,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Outbox {
            outgoing: Vec::with_capacity(OUTBOX),
            octets: vec![0; OUTBOX * REPLY_MAX].into_boxed_slice(),
            used: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.outgoing.len() >= OUTBOX
    }

    /// Adds a reply; false if the outbox is full or the reply does not fit a datagram.
    pub(crate) fn push(&mut self, path: ReturnPath, reply: &[u8]) -> bool {
        if self.is_full() || reply.len() > REPLY_MAX {
            return false;
        }
        let (start, len) = (self.used, reply.len());
        self.used += len;
        self.octets[start..self.used].copy_from_slice(reply);
        self.outgoing.push(Outgoing { path, start, len });
        true
    }

    /// Sends everything; bit `i` of the result is set if the kernel accepted reply `i`.
    pub(crate) fn flush(&mut self) -> u32 {
        let (mut next, mut sent) = (0, 0u32);
        while next < self.outgoing.len() {
            let fd = self.outgoing[next].path.fd();
            let same = self.outgoing[next..]
                .iter()
                .take_while(|outgoing| outgoing.path.fd() == fd);
            let end = next + same.count();
            sent |= self.send(fd, next, end);
            next = end;
        }
        self.outgoing.clear();
        self.used = 0;
        sent
    }

    /// Sends the replies `start..end`, which share one socket. A reply that the kernel refuses does not affect the
    /// others.
    fn send(&mut self, fd: RawFd, start: usize, end: usize) -> u32 {
        // SAFETY: zero bytes are valid values of both.
        let mut headers: [libc::mmsghdr; OUTBOX] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut data: [libc::iovec; OUTBOX] = unsafe { std::mem::zeroed() };
        let octets = self.octets.as_mut_ptr();
        for (i, outgoing) in self.outgoing.iter_mut().enumerate().take(end).skip(start) {
            data[i] = libc::iovec {
                // SAFETY: the reply was copied to this place, so the pointer stays inside the buffer.
                iov_base: unsafe { octets.add(outgoing.start) }.cast(),
                iov_len: outgoing.len,
            };
            outgoing.path.fill(&mut headers[i].msg_hdr);
            headers[i].msg_hdr.msg_iov = &raw mut data[i];
            headers[i].msg_hdr.msg_iovlen = 1;
        }
        let (mut next, mut taken, mut waits) = (start, 0u32, 0);
        while next < end {
            // SAFETY: the headers `next..end` were filled above with pointers to objects that live until the end of
            // this function, each with its length; sendmmsg only reads what they point to.
            let sent = unsafe {
                let first = headers.as_mut_ptr().add(next);
                libc::sendmmsg(
                    fd,
                    first,
                    (end - next) as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) => {
                    (next..next + sent).for_each(|i| taken |= 1 << i);
                    next += sent;
                }
                Err(_) if !is_full(&std::io::Error::last_os_error()) => next += 1,
                Err(_) if waits < SEND_WAITS => {
                    waits += 1;
                    wait_writable(fd);
                }
                Err(_) => break,
            }
        }
        taken
    }
}

impl ReturnPath {
    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Points a header to the address and the control message. They must live, unmoved, as long as the header.
    fn fill(&mut self, header: &mut libc::msghdr) {
        header.msg_name = (&raw mut self.address).cast();
        header.msg_namelen = self.address_len;
        header.msg_control = (&raw mut self.control).cast();
        header.msg_controllen = self.control_len as _;
    }
}
