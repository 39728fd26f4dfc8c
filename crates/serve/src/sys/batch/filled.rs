//! Batches that are filled without a receive call: with packets in the buffers of an XDP ring, or with copies, for
//! tests and benchmarks.

use std::net::SocketAddr;

use super::{BATCH, DatagramBatch, LocalAddressSource, QUERY_MAX, encode_address};
use crate::listen::UdpListener;
use crate::xdp::Inbound;

impl DatagramBatch {
    /// Builds a batch as if just received from these clients (at most [`BATCH`]), to test and benchmark a handler
    /// without sockets. Datagrams are cut at [`QUERY_MAX`].
    pub fn from_datagrams(datagrams: &[(&[u8], SocketAddr)]) -> DatagramBatch {
        let mut batch = DatagramBatch::new();
        for (payload, client) in datagrams.iter().take(BATCH) {
            batch.add(payload, *client);
        }
        batch
    }

    /// Returns datagram `i` of a batch built by [`DatagramBatch::from_datagrams`], to change it.
    pub fn query_mut(&mut self, i: usize) -> &mut [u8] {
        assert!(i < self.len && !self.is_in_ring);
        let frame = self.frame_mut();
        let len = frame.received[i].msg_len as usize;
        &mut frame.queries[i].bytes[..len]
    }

    /// Replaces the sender of datagram `i` of a batch built by [`DatagramBatch::from_datagrams`].
    pub fn set_client(&mut self, i: usize, client: SocketAddr) {
        let (raw, raw_len) = encode_address(client);
        let frame = self.frame_mut();
        frame.addresses[i].0 = raw;
        frame.received[i].msg_hdr.msg_namelen = raw_len as libc::socklen_t;
    }

    /// Empties the batch, for datagrams from an XDP ring to a listener.
    pub(crate) fn begin(&mut self, listener: &UdpListener) {
        self.is_in_ring = true;
        self.arm(LocalAddressSource::Bound);
        self.set_listener(listener);
    }

    /// Empties the batch: its buffers return to the ring.
    pub(in crate::sys) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a datagram in place, in the buffers of an XDP ring; [`DatagramBatch::begin`] was called and the batch is
    /// not full. Its reply is written to `reply`, or to a buffer of the batch. A late reply is sent through the
    /// listener's socket, from the queried address.
    ///
    /// # Safety
    /// The payload, and [`super::REPLY_MAX`] octets at `reply`, can be read and written, and nothing else accesses them, until the
    /// batch is cleared or begun again.
    #[inline]
    pub(in crate::sys) unsafe fn push_in_place(
        &mut self,
        datagram: &Inbound<'_>,
        reply: Option<*mut u8>,
    ) {
        let slot = self.len;
        let is_wildcard = self.local.is_some_and(|local| local.ip().is_unspecified());
        let raw = self.frame.as_ptr();
        // SAFETY: `raw` is the valid frame, and the pointer is derived from it by place.
        let own = unsafe { (&raw mut (*raw).replies[slot].bytes).cast() };
        let frame = self.frame_mut();
        frame.received_data[slot].iov_base = datagram.payload.as_ptr().cast_mut().cast();
        frame.reply_data[slot] = libc::iovec {
            iov_base: reply.map_or(own, <*mut u8>::cast),
            iov_len: 0,
        };
        let control_len = if is_wildcard {
            frame.controls[slot].set_source(datagram.local.ip())
        } else {
            0
        };
        let message = &mut frame.received[slot];
        message.msg_len = datagram.payload.len() as libc::c_uint;
        message.msg_hdr.msg_flags = 0;
        message.msg_hdr.msg_controllen = control_len as _;
        self.set_client(slot, datagram.client);
        self.len = slot + 1;
    }

    #[inline]
    fn add(&mut self, payload: &[u8], client: SocketAddr) {
        let slot = self.len;
        let len = payload.len().min(QUERY_MAX);
        let frame = self.frame_mut();
        frame.queries[slot].bytes[..len].copy_from_slice(&payload[..len]);
        frame.reply_data[slot].iov_len = 0;
        let message = &mut frame.received[slot];
        message.msg_len = len as libc::c_uint;
        message.msg_hdr.msg_flags = if len < payload.len() {
            libc::MSG_TRUNC
        } else {
            0
        };
        self.set_client(slot, client);
        self.len = slot + 1;
    }
}
