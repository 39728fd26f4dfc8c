//! One consistent snapshot of everything, taken for one reader.

use crate::counter::{Counter, Gauge, IpVersion, Latency, Protocol, Traffic, Transport};
use crate::proc::HostReadings;
use crate::rates::Rates;
use crate::ring::{Ring, RingView};
use crate::tally::{LATENCY_BOUNDS_NS, RCODE_SLOTS, SIZE_BOUNDS, Tally, slot_type};

/// Everything that the page, /metrics and the API show. Each worker's part is consistent in itself, and sums are
/// derived from it, so every relation between numbers holds within one snapshot.
pub struct Snapshot {
    pub(crate) tally: Tally,
    pub(crate) gauges: [u64; Gauge::COUNT],
    pub(crate) latencies_us: [f64; Latency::COUNT],
    pub(crate) rings: [RingView; Ring::COUNT],
    /// Rates and their history.
    pub rates: Rates,
    /// Readings from /proc.
    pub host: HostReadings,
    /// Seconds since the start.
    pub uptime_seconds: u64,
}

/// A histogram in Prometheus form: counts are cumulative.
pub struct Histogram {
    /// Upper bound (inclusive) and the number of samples up to it.
    pub buckets: Vec<(u64, u64)>,
    /// Number of all samples.
    pub count: u64,
    /// Sum of all samples, in the unit of the bounds.
    pub sum: u64,
}

impl Snapshot {
    /// Returns the value of a counter over all workers.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.tally.counter(counter)
    }

    /// Returns the value of a gauge.
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        self.gauges[gauge as usize]
    }

    /// Returns a moving average in whole microseconds.
    pub fn latency_us(&self, latency: Latency) -> u64 {
        self.latencies_us[latency as usize].round() as u64
    }

    /// Returns a ring.
    pub fn ring(&self, ring: Ring) -> &RingView {
        &self.rings[ring as usize]
    }

    /// Returns the queries received over a transport.
    pub fn queries(&self, transport: Transport) -> u64 {
        self.traffic(transport.protocol, Some(transport.ip), Traffic::Queries)
    }

    /// Returns the messages carried by a protocol, over one IP version or both.
    pub fn traffic(&self, protocol: Protocol, ip: Option<IpVersion>, traffic: Traffic) -> u64 {
        self.tally.traffic(protocol, ip, traffic)
    }

    /// Returns answers sent by RCODE, only those that occurred. RCODEs above 22 share the last.
    pub fn answers_by_rcode(&self) -> impl Iterator<Item = (u8, u64)> {
        let rcodes = self.tally.rcodes.iter().enumerate();
        rcodes
            .filter(|(_, count)| **count > 0)
            .map(|(rcode, count)| (rcode.min(RCODE_SLOTS) as u8, *count))
    }

    /// Returns answers sent by query type, only those that occurred; `None` is the sum of all other types.
    pub fn answers_by_type(&self) -> impl Iterator<Item = (Option<u16>, u64)> {
        let types = self.tally.types.iter().enumerate();
        types
            .filter(|(_, count)| **count > 0)
            .map(|(slot, count)| (slot_type(slot), *count))
    }

    /// Returns the sizes of answers in bytes.
    pub fn answer_sizes(&self) -> Histogram {
        let bounds = SIZE_BOUNDS.iter().map(|bound| u64::from(*bound));
        let bytes = |protocol| self.traffic(protocol, None, Traffic::AnswerBytes);
        let sum = Protocol::ALL.into_iter().map(bytes).sum();
        histogram(bounds, &self.tally.sizes, sum)
    }

    /// Returns the response times, in nanoseconds.
    pub fn answer_latencies(&self) -> Histogram {
        let sum = self.tally.sample_ns[Latency::Answer as usize];
        histogram(
            LATENCY_BOUNDS_NS.iter().copied(),
            &self.tally.latencies,
            sum,
        )
    }
}

fn histogram(bounds: impl Iterator<Item = u64>, slots: &[u64], sum: u64) -> Histogram {
    let mut upto = 0;
    let buckets = bounds
        .zip(slots)
        .map(|(bound, count)| {
            upto += count;
            (bound, upto)
        })
        .collect();
    Histogram {
        buckets,
        count: slots.iter().sum(),
        sum,
    }
}
