//! The signature cache: RRSIGs made here, keyed by the data they sign.
//!
//! The key contains the DNSSEC key and every signed octet, so an entry never becomes wrong and nothing has to be
//! dropped when a zone changes; entries no longer requested are evicted one by one. A digest instead of the octets
//! would be shorter, but SHA-256 takes longer than the rest of a warm answer, and a fast hash alone could be made to
//! collide by a customer who chooses records, which would make another customer's answers bogus.

use aws_lc_rs::digest::{SHA256, digest};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Equivalent};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Octets of records that a key contains verbatim. For longer ones it contains their digest, whose cost is small
/// relative to an answer of that size.
const RECORDS_MAX: usize = 256;

/// The octets that a signature is made over.
#[derive(Clone, Copy)]
pub(crate) struct SignedOctets<'a> {
    /// The fingerprint of the key, and the RRSIG data up to the signature.
    pub(crate) head: &'a [u8],
    /// The records in canonical form.
    pub(crate) records: &'a [u8],
}

struct SignedKey {
    hash: u64,
    octets: Box<[u8]>,
}

impl PartialEq for SignedKey {
    fn eq(&self, other: &Self) -> bool {
        self.octets == other.octets
    }
}

impl Eq for SignedKey {}

impl Hash for SignedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

struct BorrowedSignedKey<'a> {
    hash: u64,
    octets: SignedOctets<'a>,
}

impl Hash for BorrowedSignedKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<SignedKey> for BorrowedSignedKey<'_> {
    fn equivalent(&self, key: &SignedKey) -> bool {
        let SignedOctets { head, records } = self.octets;
        let halves = key.octets.split_at_checked(head.len());
        halves.is_some_and(|halves| halves == (head, records))
    }
}

/// A cache of RRSIGs.
pub struct SignatureCache {
    signatures: Option<Cache<SignedKey, Arc<[u8]>, quick_cache::UnitWeighter, AsHashed>>,
    hashing: DefaultHashBuilder,
    flushes: AtomicU64,
}

impl SignatureCache {
    /// Creates a cache for this many signatures; 0 disables it.
    pub fn new(entries: usize) -> Self {
        let new = || {
            Cache::with(
                entries,
                entries as u64,
                quick_cache::UnitWeighter,
                AsHashed,
                Default::default(),
            )
        };
        SignatureCache {
            signatures: (entries > 0).then(new),
            hashing: DefaultHashBuilder::default(),
            flushes: AtomicU64::new(0),
        }
    }

    pub(crate) fn find(&self, octets: SignedOctets<'_>) -> Option<Arc<[u8]>> {
        let signatures = self.signatures.as_ref()?;
        self.with_key(octets, |key| signatures.get(key))
    }

    pub(crate) fn insert(&self, octets: SignedOctets<'_>, rrsig: Arc<[u8]>) {
        let Some(signatures) = &self.signatures else {
            return;
        };
        self.with_key(octets, |key| {
            let SignedOctets { head, records } = key.octets;
            let owned = SignedKey {
                hash: key.hash,
                octets: [head, records].concat().into(),
            };
            signatures.insert(owned, rrsig);
        });
    }

    fn with_key<T>(
        &self,
        SignedOctets { head, records }: SignedOctets<'_>,
        then: impl FnOnce(&BorrowedSignedKey<'_>) -> T,
    ) -> T {
        let digest = (records.len() > RECORDS_MAX).then(|| digest(&SHA256, records));
        let records = digest.as_ref().map_or(records, AsRef::as_ref);
        let mut hasher = self.hashing.build_hasher();
        hasher.write(head);
        hasher.write(records);
        then(&BorrowedSignedKey {
            hash: hasher.finish(),
            octets: SignedOctets { head, records },
        })
    }

    /// Returns how often all entries were dropped.
    #[inline]
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Checks whether signatures are cached at all.
    pub(crate) fn is_on(&self) -> bool {
        self.signatures.is_some()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.signatures.as_ref().map_or(0, Cache::len)
    }

    /// Checks whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all entries; returns how many there were.
    pub fn flush(&self) -> usize {
        let count = self.len();
        self.flushes.fetch_add(1, Ordering::Relaxed);
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

/// Uses the hash that a key carries.
#[derive(Clone, Default)]
struct AsHashed;

struct Brought(u64);

impl BuildHasher for AsHashed {
    type Hasher = Brought;

    fn build_hasher(&self) -> Brought {
        Brought(0)
    }
}

impl Hasher for Brought {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys write their hash alone");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_found_by_key_head_and_records_alone() {
        let cache = SignatureCache::new(100);
        let long = vec![7; RECORDS_MAX + 1];
        let mut longer = long.clone();
        longer.push(7);
        let all: [(&[u8], &[u8]); 5] = [
            (b"head", b"records"),
            (b"headr", b"ecords"),
            (b"head", b""),
            (b"head", &long),
            (b"head", &longer),
        ];
        for (index, (head, records)) in all.into_iter().enumerate() {
            let octets = SignedOctets { head, records };
            assert_eq!(cache.find(octets), None, "{index}");
            cache.insert(octets, Arc::new([index as u8]));
        }
        for (index, (head, records)) in all.into_iter().enumerate() {
            let found = cache.find(SignedOctets { head, records });
            assert_eq!(found.as_deref(), Some(&[index as u8][..]));
        }
        assert_eq!((cache.len(), cache.flush(), cache.len()), (5, 5, 0));
    }
}
