//! Random choices among values. Answers are public, so these need an even distribution, not secrecy.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
}

/// Makes the choices of this thread repeatable, for tests.
#[cfg(test)]
pub(crate) fn seed(value: u64) {
    STATE.set(value);
}

/// Returns the next number (SplitMix64).
fn next() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns a number below `bound`; 0 if that is 0. The bias is below 2^-32 for bounds below 2^32.
pub(crate) fn random_below(bound: u64) -> u64 {
    ((u128::from(next()) * u128::from(bound)) >> 64) as u64
}

/// Puts a random sample in front.
pub(crate) fn shuffle_first<T>(values: &mut [T], count: usize) {
    for at in 0..count.min(values.len()) {
        let other = at + random_below((values.len() - at) as u64) as usize;
        values.swap(at, other);
    }
}
