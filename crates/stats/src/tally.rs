//! One worker's plain counts, and the labelled families in addition to the named counters.
//!
//! A tally only grows. Its owner keeps it without atomics and copies it as a whole into the shared block at the end of
//! a batch, so a reader sees all of a batch or nothing of it.

use crate::counter::{Counter, IpVersion, Latency, Protocol, Traffic, Transport};

/// Slots of the answers-by-type family: types below 128 have their own, then the few above, then all others.
pub(crate) const TYPE_SLOTS: usize = 128 + HIGH_TYPES.len() + 1;
const HIGH_TYPES: [u16; 10] = [249, 250, 251, 252, 253, 254, 255, 256, 257, 32769];
/// Slots for RCODEs; those above 22 share the last slot.
pub(crate) const RCODE_SLOTS: usize = 24;
/// Upper bounds of the answer size histogram, in bytes.
pub const SIZE_BOUNDS: [u32; 11] = [
    64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536,
];
/// Upper bounds of the latency histogram, in nanoseconds: 1 us to about 1 s, by factors of four.
pub const LATENCY_BOUNDS_NS: [u64; 11] = [
    1_000,
    4_000,
    16_000,
    64_000,
    256_000,
    1_024_000,
    4_096_000,
    16_384_000,
    65_536_000,
    262_144_000,
    1_048_576_000,
];

/// Plain counts of one worker, or the sum over all of them.
#[derive(Clone, Copy)]
pub(crate) struct Tally {
    /// By protocol, IP version and kind of count.
    traffic: [[[u64; Traffic::COUNT]; IpVersion::COUNT]; Protocol::COUNT],
    pub(crate) counters: [u64; Counter::COUNT],
    pub(crate) rcodes: [u64; RCODE_SLOTS],
    pub(crate) types: [u64; TYPE_SLOTS],
    /// One slot per bound and one above the last.
    pub(crate) sizes: [u64; SIZE_BOUNDS.len() + 1],
    pub(crate) latencies: [u64; LATENCY_BOUNDS_NS.len() + 1],
    /// Samples and their sum in nanoseconds, for each moving average.
    pub(crate) samples: [u64; Latency::COUNT],
    pub(crate) sample_ns: [u64; Latency::COUNT],
}

impl Tally {
    pub(crate) const fn new() -> Self {
        Tally {
            traffic: [[[0; Traffic::COUNT]; IpVersion::COUNT]; Protocol::COUNT],
            counters: [0; Counter::COUNT],
            rcodes: [0; RCODE_SLOTS],
            types: [0; TYPE_SLOTS],
            sizes: [0; SIZE_BOUNDS.len() + 1],
            latencies: [0; LATENCY_BOUNDS_NS.len() + 1],
            samples: [0; Latency::COUNT],
            sample_ns: [0; Latency::COUNT],
        }
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        fn sum<const N: usize>(into: &mut [u64; N], from: &[u64; N]) {
            for (a, b) in into.iter_mut().zip(from) {
                *a += b;
            }
        }
        let versions = self.traffic.iter_mut().flatten();
        for (own, others) in versions.zip(other.traffic.iter().flatten()) {
            sum(own, others);
        }
        sum(&mut self.counters, &other.counters);
        sum(&mut self.rcodes, &other.rcodes);
        sum(&mut self.types, &other.types);
        sum(&mut self.sizes, &other.sizes);
        sum(&mut self.latencies, &other.latencies);
        sum(&mut self.samples, &other.samples);
        sum(&mut self.sample_ns, &other.sample_ns);
    }

    /// Returns the counters of a transport.
    #[inline]
    pub(crate) fn transport(&mut self, transport: Transport) -> &mut [u64; Traffic::COUNT] {
        &mut self.traffic[transport.protocol as usize][transport.ip as usize]
    }

    /// Returns the messages carried by a protocol, over one IP version or both.
    pub(crate) fn traffic(
        &self,
        protocol: Protocol,
        ip: Option<IpVersion>,
        traffic: Traffic,
    ) -> u64 {
        let versions = &self.traffic[protocol as usize];
        match ip {
            Some(ip) => versions[ip as usize][traffic as usize],
            None => versions.iter().map(|counts| counts[traffic as usize]).sum(),
        }
    }

    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }
}

/// Returns the slot of a query type. Types below 128 cost one comparison.
#[inline]
pub(crate) fn type_slot(qtype: u16) -> usize {
    if qtype < 128 {
        return qtype as usize;
    }
    let high = HIGH_TYPES.iter().position(|t| *t == qtype);
    128 + high.unwrap_or(HIGH_TYPES.len())
}

/// Returns the type of a slot; `None` for the slot that all other types share.
pub(crate) fn slot_type(slot: usize) -> Option<u16> {
    if slot < 128 {
        return Some(slot as u16);
    }
    HIGH_TYPES.get(slot - 128).copied()
}

/// Returns the slot of an answer with this many bytes: one for each power of two from 64.
#[inline]
pub(crate) fn size_slot(bytes: u32) -> usize {
    let log2 = 32 - bytes.saturating_sub(1).leading_zeros() as usize;
    log2.saturating_sub(6).min(SIZE_BOUNDS.len())
}

pub(crate) fn latency_slot(ns: u64) -> usize {
    LATENCY_BOUNDS_NS.partition_point(|bound| *bound < ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_falls_into_the_first_bound_that_holds_it() {
        for bytes in 0..70_000u32 {
            let slot = size_slot(bytes);
            let expected = SIZE_BOUNDS
                .iter()
                .position(|b| bytes <= *b)
                .unwrap_or(SIZE_BOUNDS.len());
            assert_eq!(slot, expected, "{bytes} bytes");
        }
    }

    #[test]
    fn a_type_slot_gives_its_type_back_and_unknown_types_share_one() {
        for qtype in 0..=u16::MAX {
            match slot_type(type_slot(qtype)) {
                Some(back) => assert_eq!(back, qtype),
                None => assert_eq!(type_slot(qtype), TYPE_SLOTS - 1),
            }
        }
        assert_eq!(slot_type(type_slot(255)), Some(255));
        assert_eq!(type_slot(60_000), TYPE_SLOTS - 1);
    }

    #[test]
    fn latency_bounds_are_inclusive() {
        assert_eq!(latency_slot(0), 0);
        assert_eq!(latency_slot(1_000), 0);
        assert_eq!(latency_slot(1_001), 1);
        assert_eq!(latency_slot(u64::MAX), LATENCY_BOUNDS_NS.len());
    }
}
