//! A fixed table of token buckets that all threads share.
//!
//! One table for all workers: with SO_REUSEPORT the queries of a prefix reach several workers, and a table per worker
//! would multiply its rate by an unknown factor. A bucket is one atomic word, so taking a token is one compare and
//! swap and never waits. Two workers contend for a word only while one prefix sends to both at once: during a flood,
//! when losing a token to the race does not matter.
//!
//! A word holds a 24-bit tag of the key and the time until which its tokens are spent (GCRA): a bucket is full if that
//! time has passed, empty if it is a second ahead, and in debt if it is further ahead. Buckets of one key are in one
//! cache line of eight. A new key replaces the bucket with the least debt: a flood of new keys cannot release a prefix
//! that is being limited, and the table never grows.

use std::sync::atomic::{AtomicU64, Ordering};

use nameward_zone::prefetch;

/// Clock ticks in a second.
pub(super) const SECOND: u64 = 1 << 20;

/// Bits of a word that hold the time; the rest is the tag. The time wraps after twelve days, which [`ahead`] detects.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const TAG_BITS: u32 = u64::BITS - TIME_BITS;
/// Buckets in a cache line.
const LINE: usize = 8;
/// Attempts to update a contended bucket. After that the answer is sent uncharged.
const ATTEMPTS: usize = 4;

#[repr(align(64))]
#[derive(Default)]
struct BucketLine([AtomicU64; LINE]);

/// The table.
pub(super) struct Buckets {
    /// The number of lines is a power of two.
    lines: Box<[BucketLine]>,
    /// The largest debt, in ticks.
    window: u64,
}

impl Buckets {
    /// Creates a table of at least `size` buckets. A bucket pays off the debt of a flood within `window_seconds`.
    pub(super) fn new(size: usize, window_seconds: u32) -> Self {
        let lines = size.div_ceil(LINE).next_power_of_two();
        Buckets {
            lines: (0..lines).map(|_| BucketLine::default()).collect(),
            window: u64::from(window_seconds.max(1)) * SECOND,
        }
    }

    /// Prefetches the bucket of a key.
    #[inline]
    pub(super) fn prefetch(&self, key: u64) {
        prefetch(self.line(key));
    }

    #[inline]
    fn line(&self, key: u64) -> &[AtomicU64; LINE] {
        &self.lines[(key >> TAG_BITS) as usize & (self.lines.len() - 1)].0
    }

    /// Takes a token from the bucket of a key, at `rate` tokens per second (at least 1); false if there is none.
    #[inline]
    pub(super) fn take(&self, key: u64, rate: u32, now: u64) -> bool {
        let line = self.line(key);
        // Never 0, which marks an unused bucket.
        let tag = key & ((1 << TAG_BITS) - 1) | 1;
        let cost = SECOND / u64::from(rate.max(1));
        let (mut least, mut victim) = (u64::MAX, 0);
        for (i, bucket) in line.iter().enumerate() {
            let word = bucket.load(Ordering::Relaxed);
            if word >> TIME_BITS == tag {
                return self.charge(bucket, word, cost, now);
            }
            let ahead = ahead(word, now, self.window);
            if ahead < least {
                (least, victim) = (ahead, i);
            }
        }
        line[victim].store(pack(tag, now + cost), Ordering::Relaxed);
        true
    }

    #[inline]
    fn charge(&self, bucket: &AtomicU64, mut word: u64, cost: u64, now: u64) -> bool {
        let tag = word >> TIME_BITS;
        let mut is_within = true;
        for _ in 0..ATTEMPTS {
            let spent = ahead(word, now, self.window) + cost;
            is_within = spent <= SECOND;
            // Answers over the limit count as debt, unless the window is too short for any.
            let next = if !is_within && self.window == SECOND {
                spent - cost
            } else {
                spent.min(self.window)
            };
            let next = pack(tag, now + next);
            match bucket.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return is_within,
                Err(other) if other >> TIME_BITS != tag => return is_within,
                Err(other) => word = other,
            }
        }
        is_within
    }

    /// Returns the octets of the table.
    #[cfg(test)]
    pub(super) fn octets(&self) -> usize {
        self.lines.len() * size_of::<BucketLine>()
    }
}

#[inline]
fn pack(tag: u64, time: u64) -> u64 {
    tag << TIME_BITS | time & TIME_MASK
}

/// Returns how far the time in a word is ahead of now. No bucket is further ahead than the window: one that seems to
/// be was written before the time wrapped, and has long been full again.
#[inline]
fn ahead(word: u64, now: u64, window: u64) -> u64 {
    let ahead = word.wrapping_sub(now) & TIME_MASK;
    if ahead > window { 0 } else { ahead }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u64 = 0x1234_5678_9abc_def0;

    fn taken(buckets: &Buckets, rate: u32, now: u64, tries: usize) -> usize {
        (0..tries).filter(|_| buckets.take(KEY, rate, now)).count()
    }

    #[test]
    fn a_bucket_holds_the_tokens_of_one_second() {
        let buckets = Buckets::new(1024, 1);
        assert_eq!(taken(&buckets, 5, SECOND, 100), 5);
        assert_eq!(taken(&buckets, 5, SECOND + SECOND / 5, 100), 1);
        assert_eq!(taken(&buckets, 5, 10 * SECOND, 100), 5);
    }

    #[test]
    fn a_flood_is_limited_until_its_debt_is_paid_off() {
        let buckets = Buckets::new(1024, 15);
        assert_eq!(taken(&buckets, 5, SECOND, 1000), 5);
        // 15 seconds of debt: one of them is the second's worth that a full bucket holds.
        assert_eq!(taken(&buckets, 5, 14 * SECOND, 1), 0);
        assert_eq!(taken(&buckets, 5, 32 * SECOND, 1), 1);
    }

    #[test]
    fn every_rate_up_to_a_token_per_tick_is_exact_within_a_percent() {
        for rate in [1, 2, 7, 100, 9_999] {
            let buckets = Buckets::new(8, 1);
            let passed = (0..10 * SECOND)
                .step_by(64)
                .filter(|now| buckets.take(KEY, rate, SECOND + now));
            let passed = passed.count() as f64;
            // Ten seconds, and the full bucket at the start.
            let expected = f64::from(rate) * 11.0;
            assert!(
                (passed - expected).abs() <= expected / 100.0 + 1.0,
                "{rate}: {passed}"
            );
        }
    }

    #[test]
    fn new_keys_replace_full_buckets_and_not_those_in_debt() {
        let buckets = Buckets::new(8, 15);
        assert_eq!(taken(&buckets, 5, SECOND, 100), 5);
        let size = buckets.octets();
        for n in 0..1_000_000u64 {
            buckets.take(
                n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !0xff_ffff | (2 * n) & 0xff_fffe,
                5,
                SECOND,
            );
        }
        assert_eq!(taken(&buckets, 5, SECOND, 100), 0, "the debt was forgotten");
        assert_eq!(buckets.octets(), size);
    }

    #[test]
    fn time_wraps() {
        let buckets = Buckets::new(8, 15);
        assert_eq!(taken(&buckets, 5, TIME_MASK - 10, 100), 5);
        assert_eq!(taken(&buckets, 5, TIME_MASK + 20 * SECOND, 100), 5);
        // A bucket from long ago is full, whatever its time looks like.
        assert_eq!(taken(&buckets, 5, 3 * TIME_MASK / 2, 100), 5);
    }

    #[test]
    fn threads_share_one_rate() {
        let buckets = Buckets::new(1024, 1);
        let passed: usize = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| taken(&buckets, 1000, SECOND, 10_000)))
                .collect();
            runs.into_iter().map(|run| run.join().unwrap()).sum()
        });
        // A lost race may send an answer uncharged, which is rare.
        assert!((1000..=1100).contains(&passed), "{passed}");
    }
}
