//! The signature cache: RRSIGs that were made, by what they sign.
//!
//! The key is a digest of the key and of every octet that is signed, so an entry is right for ever and nothing has to
//! be dropped when a zone changes; what nobody asks for any more is evicted, one by one.

use quick_cache::sync::Cache;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// Digest of the key's fingerprint and of what is signed.
pub(crate) type Signed = [u8; 32];

/// RRSIGs that were made.
pub struct SignatureCache {
    signatures: Option<Cache<Signed, Arc<[u8]>, quick_cache::UnitWeighter, Leading>>,
}

impl SignatureCache {
    /// Room for this many signatures; 0 keeps none.
    pub fn new(entries: usize) -> Self {
        let new = || {
            Cache::with(
                entries,
                entries as u64,
                quick_cache::UnitWeighter,
                Leading,
                Default::default(),
            )
        };
        SignatureCache {
            signatures: (entries > 0).then(new),
        }
    }

    pub(crate) fn find(&self, signed: &Signed) -> Option<Arc<[u8]>> {
        self.signatures.as_ref()?.get(signed)
    }

    pub(crate) fn keep(&self, signed: Signed, rrsig: Arc<[u8]>) {
        if let Some(signatures) = &self.signatures {
            signatures.insert(signed, rrsig);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.signatures.as_ref().map_or(0, Cache::len)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all; returns how many there were.
    pub fn flush(&self) -> usize {
        let count = self.len();
        if let Some(signatures) = &self.signatures {
            signatures.clear();
        }
        count
    }
}

impl std::fmt::Debug for SignatureCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} signatures", self.len())
    }
}

/// A digest is as good a hash as there is: its first octets are taken as they are.
#[derive(Clone, Default)]
struct Leading;

struct First(u64);

impl BuildHasher for Leading {
    type Hasher = First;

    fn build_hasher(&self) -> First {
        First(0)
    }
}

impl Hasher for First {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 ^= u64::from_le_bytes(*first);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
