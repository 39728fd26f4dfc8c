//! A histogram of durations: exact to 1.6 percent, of fixed size.

use std::time::Duration;

/// Buckets for each power of two.
const STEPS: u64 = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Counts of durations in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = (65 - STEP_BITS as usize) * STEPS as usize;
        Self {
            counts: vec![0; buckets],
            total: 0,
        }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
    }

    /// The duration that `share` (0 to 1) of all do not exceed; zero when nothing was counted.
    pub fn percentile(&self, share: f64) -> Duration {
        let wanted = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(upper_end(index));
            }
        }
        Duration::ZERO
    }
}

/// Values below `STEPS` have their own bucket; above, the leading bits choose it.
fn bucket(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let shift = 63 - nanos.leading_zeros() - STEP_BITS;
    (u64::from(shift + 1) * STEPS + (nanos >> shift) - STEPS) as usize
}

/// The largest value of a bucket.
fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let low = (bucket % STEPS + STEPS) << shift;
    low + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_within_two_percent_of_its_values() {
        for nanos in [0, 1, 63, 64, 65, 127, 128, 1_000, 123_456_789, u64::MAX / 3] {
            let end = upper_end(bucket(nanos));
            assert!(end >= nanos && end - nanos <= nanos / 50, "{nanos} {end}");
        }
        assert!(bucket(u64::MAX) < Histogram::default().counts.len());
    }

    #[test]
    fn percentiles_are_of_the_recorded_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(0.5), Duration::ZERO);
        (1..=100).for_each(|n| histogram.record(Duration::from_nanos(n)));
        assert_eq!(histogram.percentile(0.5), Duration::from_nanos(50));
        assert_eq!(histogram.percentile(0.0), Duration::from_nanos(1));
        assert!(histogram.percentile(0.99) >= Duration::from_nanos(99));
    }
}
