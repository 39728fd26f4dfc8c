//! The client that an answer is made for, as far as answers may depend on it.

use nameward_wire::message::Query;
use std::net::IpAddr;

/// The client that an answer is made for: the sender of the query, or the network that a believed resolver named in the
/// client subnet option (RFC 7871).
///
/// Whatever depends on it notes the number of bits it looked at ([`crate::Scratch::note_client_bits`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveClient {
    /// Its address; the bits beyond the prefix are 0.
    pub address: IpAddr,
    /// The number of leading bits that are known: all of them, unless it is a subnet. 0 is an unknown client, which is
    /// answered like one that no network and no country matches (RFC 7871 section 7.1.2).
    pub prefix: u8,
    /// It was named by a resolver.
    pub is_subnet: bool,
}

impl EffectiveClient {
    /// Returns the client of a query that was sent from this address.
    #[inline]
    pub fn new(query: &Query<'_>, sender: IpAddr) -> Self {
        match query.reply_options.subnet {
            None => EffectiveClient {
                address: sender,
                prefix: if sender.is_ipv4() { 32 } else { 128 },
                is_subnet: false,
            },
            Some(subnet) => EffectiveClient {
                address: subnet.address(),
                prefix: subnet.source(),
                is_subnet: true,
            },
        }
    }

    /// Checks whether nothing is known about the client.
    pub fn is_unknown(&self) -> bool {
        self.prefix == 0
    }
}
