//! Word-at-a-time operations on names: lower case, equality, common tails.

/// Lower-cases the ASCII letters among eight octets at once.
#[inline]
pub fn lower8(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low7 = word & (0x7f * ONES);
    let at_least_a = low7 + (0x80 - b'A' as u64) * ONES;
    let above_z = low7 + (0x7f - b'Z' as u64) * ONES;
    let upper = !word & (at_least_a ^ above_z) & (0x80 * ONES);
    word | upper >> 2
}

/// Compares two slices for equality. Optimised for names, which are short: a few overlapping words instead of a library
/// call.
#[inline]
pub fn same_octets(a: &[u8], b: &[u8]) -> bool {
    #[inline(always)]
    fn ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk::<N>() && a.last_chunk::<N>() == b.last_chunk::<N>()
    }
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        4..8 => ends::<4>(a, b),
        8..16 => ends::<8>(a, b),
        16..=32 => ends::<16>(a, b),
        _ => a == b,
    }
}

/// Returns the octets of the longest common tail of two names, ignoring case.
#[inline]
pub(crate) fn common_tail(a: &[u8], b: &[u8]) -> usize {
    let most = a.len().min(b.len());
    let (a, b) = (&a[a.len() - most..], &b[b.len() - most..]);
    // The last octet of a word is its most significant one, so leading zeros of a difference are common octets.
    let differs = |x: u64, y: u64| if x == y { 0 } else { lower8(x) ^ lower8(y) };
    let mut common = 0;
    while let (Some(x), Some(y)) = (word_before(a, common), word_before(b, common)) {
        let difference = differs(x, y);
        if difference != 0 {
            return common + difference.leading_zeros() as usize / 8;
        }
        common += 8;
    }
    let left = most - common;
    match (a.first_chunk(), b.first_chunk()) {
        // The remaining octets are the low ones of the first word.
        (Some(x), Some(y)) if left > 0 => {
            let difference = differs(u64::from_le_bytes(*x), u64::from_le_bytes(*y));
            let difference = difference << (64 - 8 * left);
            common + (difference.leading_zeros() as usize / 8).min(left)
        }
        _ => {
            let rest = a[..left].iter().rev().zip(b[..left].iter().rev());
            common + rest.take_while(|(x, y)| x.eq_ignore_ascii_case(y)).count()
        }
    }
}

/// Returns the eight octets that end `skip` octets before the end.
#[inline]
fn word_before(bytes: &[u8], skip: usize) -> Option<u64> {
    bytes[..bytes.len() - skip]
        .last_chunk()
        .map(|chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn lower_case_of_a_word_is_exact(bytes in proptest::prelude::any::<[u8; 8]>()) {
            let lower = lower8(u64::from_le_bytes(bytes)).to_le_bytes();
            proptest::prop_assert_eq!(&lower[..], &bytes.to_ascii_lowercase()[..]);
        }

        #[test]
        fn common_tails_and_equality_are_those_of_single_octets(
            a in proptest::collection::vec(0x3eu8..0x7c, 1..40),
            b in proptest::collection::vec(0x3eu8..0x7c, 1..40),
            tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
        ) {
            let (a, b) = ([&a[..], &tail].concat(), [&b[..], &tail.to_ascii_uppercase()].concat());
            let pairs = a.iter().rev().zip(b.iter().rev());
            let expected = pairs.take_while(|(x, y)| x.eq_ignore_ascii_case(y)).count();
            proptest::prop_assert_eq!(common_tail(&a, &b), expected);
            proptest::prop_assert_eq!(same_octets(&a, &b), a == b);
            proptest::prop_assert!(same_octets(&a, &a.clone()));
            for at in 0..a.len() {
                let mut other = a.clone();
                other[at] ^= 1;
                proptest::prop_assert!(!same_octets(&a, &other));
            }
        }
    }
}
