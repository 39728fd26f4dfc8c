//! Batches that are filled without a receive call: from the packets of an interface, or made for tests and benchmarks.

use std::net::SocketAddr;

use super::{BATCH, DatagramBatch, LocalAddressFrom, QUERY_MAX, encode_address};
use crate::listen::UdpListener;
use crate::xdp::Inbound;

impl DatagramBatch {
    /// Builds a batch as if just received from these clients (at most [`BATCH`]), to test and benchmark a handler
    /// without sockets. Datagrams are cut at [`QUERY_MAX`].
    pub fn of(datagrams: &[(&[u8], SocketAddr)]) -> DatagramBatch {
        let mut batch = DatagramBatch::new();
        for (payload, client) in datagrams.iter().take(BATCH) {
            batch.add(payload, *client);
        }
        batch
    }

    /// Replaces the sender of datagram `i` of a batch built by [`DatagramBatch::of`].
    pub fn set_client(&mut self, i: usize, client: SocketAddr) {
        let (raw, raw_len) = encode_address(client);
        let frame = self.frame_mut();
        frame.addresses[i].0 = raw;
        frame.received[i].msg_hdr.msg_namelen = raw_len as libc::socklen_t;
    }

    /// Empties the batch, for datagrams to a listener.
    pub(crate) fn begin(&mut self, listener: &UdpListener) {
        self.arm(LocalAddressFrom::Bound);
        self.set_listener(listener);
    }

    /// Adds a datagram that an interface has received; the batch must have room. A late reply leaves through the socket of the
    /// listener, from the address that was queried.
    #[inline]
    pub(crate) fn push(&mut self, datagram: &Inbound<'_>) {
        let slot = self.len;
        let is_wildcard = self.local.is_some_and(|local| local.ip().is_unspecified());
        self.add(datagram.payload, datagram.client);
        let frame = self.frame_mut();
        let header = &mut frame.received[slot].msg_hdr;
        let control_len = if is_wildcard {
            frame.controls[slot].set_source(datagram.local.ip())
        } else {
            0
        };
        header.msg_controllen = control_len as _;
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
