//! Datagrams received through a proxy: the header is removed, and the client that it names replaces the sender until
//! the reply is sent.
//!
//! Slots are allocated only for listeners with proxies.

use std::net::SocketAddr;

use super::{ADDRESS_LEN, BATCH, DatagramBatch, SocketAddressBytes, encode_address};
use crate::proxy::{ProxiedEnds, read_datagram};

/// The datagrams of a batch that were received through proxies.
pub(super) struct ProxiedSlots([Option<ProxiedSlot>; BATCH]);

struct ProxiedSlot {
    /// The proxy, or the client while replies are sent.
    other: SocketAddressBytes,
    local: SocketAddr,
}

impl ProxiedSlots {
    pub(super) fn clear(&mut self) {
        self.0 = [const { None }; BATCH];
    }

    /// Returns the address that the client of datagram `i` sent it to.
    pub(super) fn local(&self, i: usize) -> Option<SocketAddr> {
        Some(self.0.get(i)?.as_ref()?.local)
    }

    /// Returns the proxy that sent datagram `i`, as the kernel wrote it.
    pub(super) fn sender(&self, i: usize) -> Option<&SocketAddressBytes> {
        Some(&self.0.get(i)?.as_ref()?.other)
    }
}

impl DatagramBatch {
    /// Removes the PROXY headers of datagrams from proxies. A datagram without a valid one becomes empty, which no
    /// query is; `refused` is called with its sender.
    #[cold]
    pub(crate) fn read_proxy_headers(&mut self, mut refused: impl FnMut(SocketAddr)) {
        for i in 0..self.len() {
            let sender = self.client(i);
            if !self.rules.is_proxy(sender) {
                continue;
            }
            let (header, len) = (read_datagram(self.query(i)), self.query(i).len());
            let frame = self.frame_mut();
            let Some(header) = header else {
                frame.received[i].msg_len = 0;
                refused(sender);
                continue;
            };
            let query = frame.received_data[i].iov_base.cast::<u8>();
            // SAFETY: the query has `len` octets, of which the header is a part; nothing else refers to them.
            unsafe { std::ptr::copy(query.add(header.len), query, len - header.len) };
            frame.received[i].msg_len = (len - header.len) as libc::c_uint;
            if let Some(ends) = header.ends {
                self.set_proxied(i, ends);
            }
        }
    }

    fn set_proxied(&mut self, i: usize, ends: ProxiedEnds) {
        let (client, _) = encode_address(ends.client);
        let slot = &mut self.frame_mut().addresses[i];
        let other = std::mem::replace(slot, SocketAddressBytes(client));
        let slots = self
            .proxied
            .get_or_insert_with(|| Box::new(ProxiedSlots([const { None }; BATCH])));
        slots.0[i] = Some(ProxiedSlot {
            other,
            local: ends.local,
        });
    }

    /// Exchanges the addresses of clients behind proxies and of the proxies.
    pub(super) fn swap_senders(&mut self) {
        let Some(mut slots) = self.proxied.take() else {
            return;
        };
        let addresses = &mut self.frame_mut().addresses;
        for (slot, address) in slots.0.iter_mut().zip(addresses) {
            if let Some(slot) = slot {
                std::mem::swap(&mut slot.other, address);
            }
        }
        self.proxied = Some(slots);
    }
}

const _: () = assert!(size_of::<SocketAddressBytes>() >= ADDRESS_LEN);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::ListenerRules;
    use crate::proxy::SIGNATURE;
    use nameward_zone::{AccessEntry, AccessList, AccessWord};
    use std::sync::Arc;

    #[test]
    fn a_datagram_from_a_proxy_has_the_address_of_its_client_until_the_reply_is_sent() {
        let proxy: SocketAddr = "192.0.2.7:4711".parse().unwrap();
        let other: SocketAddr = "[2001:db8::9]:53".parse().unwrap();
        let addresses = [203, 0, 113, 5, 198, 51, 100, 53, 0x10, 0, 0, 53];
        let header = [&SIGNATURE[..], &[0x21, 0x12, 0, 12], &addresses].concat();
        let local = [&SIGNATURE[..], &[0x20, 0, 0, 0], b"check"].concat();
        let query = [&header[..], b"query"].concat();
        let mut batch = DatagramBatch::from_datagrams(&[
            (&query, proxy),
            (b"query", proxy),
            (&query, other),
            (&local, proxy),
        ]);
        let network = AccessWord::Network(proxy.ip(), 32);
        batch.rules = Arc::new(ListenerRules {
            proxies: Some(AccessList::new(&[AccessEntry::positive(network)])),
            ..ListenerRules::default()
        });
        let mut refused = Vec::new();
        batch.read_proxy_headers(|sender| refused.push(sender));
        assert_eq!(refused, [proxy]);
        let client: SocketAddr = "203.0.113.5:4096".parse().unwrap();
        assert_eq!((batch.query(0), batch.client(0)), (&b"query"[..], client));
        assert_eq!(batch.local(0), "198.51.100.53:53".parse().ok());
        assert_eq!((batch.query(1), batch.client(1)), (&b""[..], proxy));
        // A header from another sender is ordinary data.
        assert_eq!((batch.query(2), batch.client(2)), (&query[..], other));
        assert_eq!((batch.query(3), batch.client(3)), (&b"check"[..], proxy));
        batch.swap_senders();
        assert_eq!(batch.client(0), proxy);
        batch.swap_senders();
        assert_eq!(batch.client(0), client);
    }
}
