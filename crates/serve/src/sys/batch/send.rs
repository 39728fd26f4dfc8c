//! Sends the replies of a batch: the headers for sendmmsg, and the waits for room in the send buffer.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use super::{BATCH, DatagramBatch, REPLY_MAX};

/// How often one batch waits for room in the send buffer, and how long each time.
const SEND_WAITS: usize = 4;
const SEND_WAIT: Duration = Duration::from_millis(2);

impl DatagramBatch {
    /// Sends the replies of the batch; returns how many the kernel accepted.
    ///
    /// Waits a bounded time for a full send buffer. A destination the kernel refuses affects its own
    /// reply only.
    pub(crate) fn send(&mut self, socket: &impl AsRawFd) -> usize {
        self.send_slots(socket, u32::MAX)
    }

    /// Sends those replies of the batch whose bit is set in `slots`.
    pub(crate) fn send_slots(&mut self, socket: &impl AsRawFd, slots: u32) -> usize {
        // Replies are sent to the proxies; everywhere else, the addresses are those of the clients behind them.
        self.swap_senders();
        let sent = self.send_all(socket.as_raw_fd(), slots);
        self.swap_senders();
        sent
    }

    fn send_all(&mut self, fd: RawFd, slots: u32) -> usize {
        let total = self.collect_replies(slots);
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
                    (next..total).for_each(|unsent| self.mark_reply_unsent(unsent));
                    break;
                }
                // EPERM from a packet filter, ENETUNREACH, EINVAL for port 0: skip this one.
                Err(_) => {
                    self.mark_reply_unsent(next);
                    next += 1;
                }
            }
        }
        sent
    }

    /// Marks the reply in a slot as not sent.
    pub(crate) fn mark_unsent(&mut self, slot: usize) {
        self.frame_mut().reply_data[slot].iov_len = 0;
    }

    /// Marks the reply behind a send header as not sent.
    fn mark_reply_unsent(&mut self, index: usize) {
        // SAFETY: the header was filled by collect_replies, so its iovec is one of `reply_data`, and no
        // reference into the frame is alive.
        unsafe { (*(*self.frame.as_ptr()).sending[index].msg_hdr.msg_iov).iov_len = 0 };
    }

    /// Fills the send headers with the selected slots that have a reply.
    fn collect_replies(&mut self, slots: u32) -> usize {
        let raw = self.frame.as_ptr();
        let mut total = 0;
        for slot in 0..self.len {
            // SAFETY: `raw` is the valid frame, `slot` and `total` are below BATCH, and no
            // reference into the frame is alive. Stored pointers are derived from `raw` by place.
            unsafe {
                let reply = &raw mut (*raw).reply_data[slot];
                if (*reply).iov_len == 0 || slots & 1 << slot == 0 {
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
                // The type of flags differs between glibc and musl.
                libc::MSG_DONTWAIT as _,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

pub(in crate::sys) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR)
    )
}

pub(in crate::sys) fn wait_writable(fd: RawFd) {
    crate::sys::poll(
        &mut [libc::pollfd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        }],
        SEND_WAIT,
    );
}
