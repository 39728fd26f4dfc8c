//! Hashes of a name and all its ancestors, computed in one pass.
//!
//! The hash of a name is derived from the hash of its parent and its leftmost label, so one pass from the right yields
//! the hash of every suffix. One key serves the zone table, the contents of a zone and the search for the closest
//! encloser. Case is folded exactly (not by `| 0x20`, which would let a customer of a shared server create many
//! colliding names). The seed is random per process.

use nameward_wire::Name;
use nameward_wire::name::{MAX_LABELS, MAX_NAME, lower8};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0u64) | 1);

/// A name prepared for lookups.
#[derive(Clone)]
pub struct NameKey {
    /// The name in lower case, padded so that eight octets can be read from the start of any label.
    lower: [u8; MAX_NAME + 17],
    len: u8,
    labels: u8,
    /// Start of each label, from the left, including the root label.
    offsets: [u8; PLACES],
    /// The hash of the suffix with `n` labels.
    hashes: [u64; PLACES],
}

/// One entry for the root and one per label: a power of two, so that a masked index needs no bounds check.
const PLACES: usize = MAX_LABELS + 1;
const _: () = assert!(PLACES.is_power_of_two());

impl Default for NameKey {
    fn default() -> Self {
        let mut key = NameKey {
            lower: [0; MAX_NAME + 17],
            len: 1,
            labels: 0,
            offsets: [0; PLACES],
            hashes: [0; PLACES],
        };
        key.set(Name::ROOT);
        key
    }
}

impl NameKey {
    /// Creates the key of `name`. On the hot path, reuse a key with [`NameKey::set`].
    pub fn new(name: Name<'_>) -> Self {
        let mut key = NameKey::default();
        key.set(name);
        key
    }

    /// Sets the key to `name`.
    #[inline]
    pub fn set(&mut self, name: Name<'_>) {
        let wire = name.as_wire();
        lower_into(wire, &mut self.lower);
        self.len = wire.len() as u8;
        let (mut at, mut count) = (0usize, 0usize);
        while let Some(&octets @ 1..) = wire.get(at)
            && count < MAX_LABELS
        {
            self.offsets[count] = at as u8;
            count += 1;
            at += 1 + octets as usize;
        }
        self.offsets[count] = at as u8;
        self.labels = count as u8;
        let mut hash = *SEED;
        self.hashes[0] = hash;
        for n in 1..=count {
            hash = self.mix_label(hash, self.offsets[(count - n) % PLACES] as usize);
            self.hashes[n % PLACES] = hash;
        }
    }

    /// Returns the start of the suffix with `n` labels.
    #[inline]
    fn start(&self, n: usize) -> usize {
        debug_assert!(n <= self.labels());
        self.offsets[self.labels().wrapping_sub(n) % PLACES] as usize
    }

    #[inline]
    fn mix_label(&self, parent: u64, start: usize) -> u64 {
        // The length octet is hashed with the label, so labels cannot run into each other.
        let octets = 1 + self.lower[start] as usize;
        let mut hash = parent;
        let (mut at, mut left) = (start, octets);
        loop {
            let mut chunk = [0u8; 8];
            chunk.copy_from_slice(&self.lower[at..at + 8]);
            let word = u64::from_le_bytes(chunk);
            if left <= 8 {
                let word = word & (u64::MAX >> (64 - 8 * left));
                return fold(hash ^ word, 0x9e37_79b9_7f4a_7c15);
            }
            hash = fold(hash ^ word, 0xa076_1d64_78bd_642f);
            at += 8;
            left -= 8;
        }
    }

    /// Returns the number of labels, not counting the root.
    #[inline]
    pub fn labels(&self) -> usize {
        self.labels as usize
    }

    /// Returns the suffix with `n` labels, in lower case.
    #[inline]
    pub fn suffix(&self, n: usize) -> Name<'_> {
        Name::from_valid_wire(&self.lower[self.start(n)..self.len as usize])
    }

    /// Returns the octets of the labels in front of the suffix with `n` labels.
    #[inline]
    pub fn prefix_len(&self, n: usize) -> usize {
        self.start(n)
    }

    /// Returns the hash of the suffix with `n` labels.
    #[inline]
    pub fn hash(&self, n: usize) -> u64 {
        debug_assert!(n <= self.labels());
        self.hashes[n % PLACES]
    }

    /// Returns the hash of `*.` prepended to the suffix with `n` labels.
    #[inline]
    pub fn wildcard_hash(&self, n: usize) -> u64 {
        fold(
            self.hashes[n] ^ u64::from_le_bytes(*b"\x01*\0\0\0\0\0\0"),
            0x9e37_79b9_7f4a_7c15,
        )
    }
}

/// Returns a name in wire form and lower case.
pub(crate) fn lower_case(name: Name<'_>) -> Box<[u8]> {
    let key = NameKey::new(name);
    key.suffix(key.labels()).as_wire().into()
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * (b ^ 0x1234_5678_9abc_def1) as u128;
    (product as u64 ^ (product >> 64) as u64).rotate_left(23) ^ a
}

/// Copies `wire` in lower case, sixteen octets at a time; the last step overlaps the previous one.
#[inline]
fn lower_into(wire: &[u8], out: &mut [u8; MAX_NAME + 17]) {
    let len = wire.len();
    if let (Some(tail), true) = (wire.last_chunk::<16>(), len <= MAX_NAME) {
        let mut at = 0;
        while at + 16 < len {
            let mut step = [0; 16];
            step.copy_from_slice(&wire[at..at + 16]);
            out[at..at + 16].copy_from_slice(&lower16(step));
            at += 16;
        }
        out[len - 16..len].copy_from_slice(&lower16(*tail));
        return;
    }
    if let (Some(head), Some(tail)) = (wire.first_chunk::<8>(), wire.last_chunk::<8>()) {
        let (head, tail) = (u64::from_le_bytes(*head), u64::from_le_bytes(*tail));
        out[..8].copy_from_slice(&lower8(head).to_le_bytes());
        out[len - 8..len].copy_from_slice(&lower8(tail).to_le_bytes());
        return;
    }
    for (to, from) in out.iter_mut().zip(wire) {
        *to = from.to_ascii_lowercase();
    }
}

/// Lower-cases the ASCII letters among sixteen octets: the compiler vectorises this.
#[inline]
fn lower16(octets: [u8; 16]) -> [u8; 16] {
    octets.map(|octet| octet.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::NameBuf;

    #[test]
    fn suffix_hashes_are_those_of_the_ancestors() {
        let name: NameBuf = "Www.A-Rather-Long-Label.Example.ORG".parse().unwrap();
        let key = NameKey::new(name.as_name());
        let mut ancestor = name.as_name();
        for n in (0..=key.labels()).rev() {
            let alone = NameKey::new(ancestor);
            assert_eq!(alone.hash(n), key.hash(n));
            assert_eq!(key.suffix(n), ancestor);
            ancestor = ancestor.parent().unwrap_or(Name::ROOT);
        }
        let star: NameBuf = "*.example.org".parse().unwrap();
        assert_eq!(NameKey::new(star.as_name()).hash(3), key.wildcard_hash(2));
    }

    #[test]
    fn every_length_is_copied_in_lower_case() {
        for len in 0..=MAX_NAME {
            let wire: Vec<u8> = (0..len).map(|i| (i * 37 + 60) as u8).collect();
            let mut out = [0xee; MAX_NAME + 17];
            lower_into(&wire, &mut out);
            assert_eq!(out[..len], wire.to_ascii_lowercase());
            assert!(out[len..].iter().all(|&octet| octet == 0xee), "{len}");
        }
    }
}
