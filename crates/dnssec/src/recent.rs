//! The signatures that a thread served last, found by the RRset as it is stored.
//!
//! A search of the signature cache takes the RRset in canonical form, the fields of its RRSIG, a hash of both and a lock: as much time
//! as the rest of a warm answer. Here a signature is kept with a copy of everything that it follows from: the octets of owner and
//! RRset as the zone stores them, the signing state, and the time for which it is served. An entry is used only if all of that is
//! equal, so it never becomes wrong. Where an RRset is stored only selects the slot.

use crate::signing::{Rrsigs, Signing};

/// Number of slots, a power of two: the RRsets that a thread serves again and again.
const SLOTS: usize = 2048;
/// Octets of the longest entry: with more, copying takes most of the time anyway.
const OCTETS_MAX: usize = 1024;
/// Of so many signatures that are not here, one is kept: names that are queried once do not replace the others.
const KEPT_OF: u32 = 4;

/// An RRset as a zone stores it.
#[derive(Clone, Copy)]
pub struct StoredSet<'a> {
    /// Its owner in wire form.
    pub owner: &'a [u8],
    /// Type, TTL and records, in whatever form they are stored.
    pub octets: &'a [u8],
}

#[derive(Default)]
struct SignatureSlot {
    /// [`Signing::identity`]; zeros in an empty slot.
    signing: (u64, u64),
    /// The first and the last second for which the signatures are served.
    times: (u32, u32),
    /// Where in `octets` the RRset starts, and where the signatures do.
    set_at: u16,
    rrsigs_at: u16,
    /// Owner, RRset, and each RRSIG after its length.
    octets: Vec<u8>,
}

/// The signatures that a thread served last.
#[derive(Default)]
pub struct RecentSignatures {
    /// Empty until the first signature.
    slots: Vec<SignatureSlot>,
    missed: u32,
}

impl RecentSignatures {
    /// Returns the RRSIG data of an RRset at `now`, if it is here.
    #[inline]
    pub fn find(
        &self,
        set: StoredSet<'_>,
        signing: &Signing,
        now: u32,
    ) -> Option<RecentRrsigs<'_>> {
        let slot = self.slots.get(index(set))?;
        let (first, last) = slot.times;
        if slot.signing != signing.identity() || !(first..=last).contains(&now) {
            return None;
        }
        let (owner, rest) = slot.octets.split_at_checked(usize::from(slot.set_at))?;
        let len = slot.rrsigs_at.checked_sub(slot.set_at)?;
        let (octets, rrsigs) = rest.split_at_checked(usize::from(len))?;
        (owner == set.owner && octets == set.octets).then_some(RecentRrsigs(rrsigs))
    }

    /// Keeps the signatures of an RRset, which are served through the last of `times`.
    pub fn keep(
        &mut self,
        set: StoredSet<'_>,
        signing: &Signing,
        times: (u32, u32),
        rrsigs: &Rrsigs,
    ) {
        self.missed = self.missed.wrapping_add(1);
        let signed: usize = rrsigs.iter().map(|rrsig| 2 + rrsig.len()).sum();
        let len = set.owner.len() + set.octets.len() + signed;
        if !self.missed.is_multiple_of(KEPT_OF) || len > OCTETS_MAX || rrsigs.is_empty() {
            return;
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, SignatureSlot::default);
        }
        let slot = &mut self.slots[index(set)];
        slot.signing = signing.identity();
        slot.times = times;
        slot.set_at = set.owner.len() as u16;
        slot.rrsigs_at = (set.owner.len() + set.octets.len()) as u16;
        slot.octets.clear();
        slot.octets.reserve_exact(len);
        slot.octets.extend_from_slice(set.owner);
        slot.octets.extend_from_slice(set.octets);
        for rrsig in rrsigs {
            slot.octets
                .extend_from_slice(&(rrsig.len() as u16).to_be_bytes());
            slot.octets.extend_from_slice(rrsig);
        }
    }
}

/// Returns the slot of an RRset: by its address, which takes no time to find out. RRsets are some dozens of octets apart.
fn index(set: StoredSet<'_>) -> usize {
    let place = (set.octets.as_ptr() as usize as u64) >> 2;
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % SLOTS
}

/// The data of RRSIGs, each after its length.
#[derive(Clone, Copy)]
pub struct RecentRrsigs<'a>(&'a [u8]);

impl<'a> Iterator for RecentRrsigs<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk()?;
        let (rrsig, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        self.0 = rest;
        Some(rrsig)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CanonicalSet, KeyUse, Keys, Making, SignatureCache, SigningKey, SigningPolicy};
    use nameward_wire::{NameBuf, Type};
    use std::sync::Arc;

    const KEY: &str = "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
                       PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";

    fn signing(cache: &Arc<SignatureCache>) -> Signing {
        let apex: NameBuf = "example.".parse().unwrap();
        let key = SigningKey::read(KEY.as_bytes(), 257, KeyUse::EVERYTHING).unwrap();
        let keys = Arc::new(Keys::new(vec![key]));
        let policy = Arc::new(SigningPolicy::default());
        Signing::new(apex.as_name(), keys, policy, Arc::clone(cache))
    }

    #[test]
    fn a_signature_is_cached_by_all_of_its_inputs() {
        let cache = Arc::new(SignatureCache::new(100));
        let (one, other) = (signing(&cache), signing(&cache));
        let owner: NameBuf = "www.example.".parse().unwrap();
        let data: &[u8] = &[192, 0, 2, 1];
        let records = std::iter::once(data);
        let canonical = CanonicalSet::new(owner.as_name(), Type::A, 60, records);
        let now = 1_794_722_400;
        let rrsigs = one
            .signatures(&canonical, now, &mut { Making::NOW })
            .unwrap();
        let times = one.served_times(&canonical, now);
        assert!(times.0 == now && times.1 > now);
        let mut stored = data.to_vec();
        let mut recent = RecentSignatures::default();
        let set = StoredSet {
            owner: owner.as_name().as_wire(),
            octets: &stored,
        };
        assert!(recent.find(set, &one, now).is_none());
        (0..KEPT_OF).for_each(|_| recent.keep(set, &one, times, &rrsigs));
        let found: Vec<&[u8]> = recent.find(set, &one, now).unwrap().collect();
        assert_eq!(found, [&rrsigs[0][..]]);
        assert!(recent.find(set, &one, times.1).is_some());
        assert!(recent.find(set, &one, times.1 + 1).is_none());
        assert!(recent.find(set, &one, now - 1).is_none());
        assert!(recent.find(set, &other, now).is_none());
        let elsewhere = StoredSet { owner: &[0], ..set };
        assert!(recent.find(elsewhere, &one, now).is_none());
        cache.flush();
        assert!(recent.find(set, &one, now).is_none());
        (0..KEPT_OF).for_each(|_| recent.keep(set, &one, times, &rrsigs));
        assert!(recent.find(set, &one, now).is_some());
        // Another record at the same address.
        stored[3] = 2;
        let set = StoredSet {
            owner: owner.as_name().as_wire(),
            octets: &stored,
        };
        assert!(recent.find(set, &one, now).is_none());
    }
}
