//! Keys that a server shares with its successor: those of connection IDs, Retry tokens and stateless resets. A client
//! then notices no change, or is told at once that its connection has ended (RFC 9000 section 10.3).

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{hkdf, hmac, rand};
use data_encoding::HEXLOWER;
use quinn::crypto::HandshakeTokenKey;
use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use siphasher::sip::SipHasher13;

/// Octets of a connection ID: random ones, the generation, and a keyed checksum.
pub(super) const ID_LEN: usize = 12;
const CHECKED_LEN: usize = 8;
const SECRET_LEN: usize = 32;

/// The keys of QUIC connections, and the generation of this server among those that share them.
#[derive(Clone)]
pub struct QuicIdentity {
    secret: [u8; SECRET_LEN],
    generation: u8,
}

impl std::fmt::Debug for QuicIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuicIdentity")
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Default for QuicIdentity {
    /// Creates new keys.
    fn default() -> Self {
        let mut secret = [0; SECRET_LEN];
        // Fails only on systems without a source of random numbers, where TLS does not work either.
        let _ = rand::fill(&mut secret);
        QuicIdentity {
            secret,
            generation: 0,
        }
    }
}

impl QuicIdentity {
    /// Encodes the keys for a successor, which is the next generation.
    pub fn to_successor(&self) -> String {
        HEXLOWER.encode(&[&[self.generation.wrapping_add(1)], &self.secret[..]].concat())
    }

    /// Decodes the keys of the predecessor.
    pub fn from_predecessor(text: &str) -> Option<Self> {
        let octets = HEXLOWER.decode(text.as_bytes()).ok()?;
        let (generation, secret) = octets.split_first()?;
        Some(QuicIdentity {
            secret: secret.try_into().ok()?,
            generation: *generation,
        })
    }

    fn key(&self, purpose: &str) -> hmac::Tag {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        hmac::sign(&secret, purpose.as_bytes())
    }

    /// Returns the settings of an endpoint, with the keys of its connection IDs and resets.
    pub(super) fn endpoint_config(&self) -> EndpointConfig {
        let reset = hmac::Key::new(hmac::HMAC_SHA256, self.key("reset").as_ref());
        let mut config = EndpointConfig::new(Arc::new(reset));
        let ids = self.connection_ids();
        config.cid_generator(move || Box::new(ids.clone()));
        config
    }

    /// Returns the key of Retry tokens.
    pub(super) fn token_key(&self) -> Arc<dyn HandshakeTokenKey> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]);
        Arc::new(salt.extract(self.key("token").as_ref()))
    }

    /// Returns the key of connection IDs.
    pub(super) fn connection_ids(&self) -> ConnectionIds {
        let mut key = [0; 16];
        key.copy_from_slice(&self.key("connection ID").as_ref()[..16]);
        ConnectionIds {
            key,
            generation: self.generation,
        }
    }
}

/// Creates connection IDs that identify the server that has the connection. The generation is the same for all
/// connections of a server, so it does not link the IDs of one connection (RFC 9000 section 5.1).
#[derive(Clone)]
pub(super) struct ConnectionIds {
    key: [u8; 16],
    pub(super) generation: u8,
}

impl ConnectionIds {
    fn create(&self) -> [u8; ID_LEN] {
        let mut id = [0; ID_LEN];
        let _ = rand::fill(&mut id[1..CHECKED_LEN]);
        id[0] = self.generation;
        let checksum = self.checksum(&id[..CHECKED_LEN]);
        id[CHECKED_LEN..].copy_from_slice(&checksum);
        id
    }

    fn checksum(&self, octets: &[u8]) -> [u8; ID_LEN - CHECKED_LEN] {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(octets);
        ((hasher.finish() >> 32) as u32).to_be_bytes()
    }

    /// Returns the generation of the server that created an ID; `None` if none of ours did.
    pub(super) fn generation_of(&self, id: &[u8]) -> Option<u8> {
        let (checked, checksum) = id.split_at_checked(CHECKED_LEN)?;
        (self.checksum(checked) == checksum).then(|| checked[0])
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.create())
    }

    fn cid_len(&self) -> usize {
        ID_LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_ids_say_which_server_created_them_to_servers_with_the_key() {
        let first = QuicIdentity::default();
        let second = QuicIdentity::from_predecessor(&first.to_successor()).unwrap();
        let (ids, later) = (first.connection_ids(), second.connection_ids());
        let id = ids.create();
        assert_eq!(later.generation_of(&id), Some(0));
        assert_eq!(ids.generation_of(&later.create()), Some(1));
        assert_ne!(id, ids.create());
        let other = QuicIdentity::default().connection_ids();
        assert_eq!(ids.generation_of(&other.create()), None);
        assert_eq!(ids.generation_of(&id[..4]), None);
    }
}
