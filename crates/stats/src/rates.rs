//! Rates: moving averages over 1, 5 and 10 minutes, the highest second, and the last ten minutes for charts.
//!
//! Each second, `rate = difference / elapsed` and `average += (rate - average) * elapsed / window`, from 0.

use std::collections::VecDeque;

use crate::Stamp;
use crate::counter::{Counter, Latency, Protocol, Traffic};
use crate::tally::Tally;

/// The windows of the averages, in seconds.
pub const WINDOWS: [f64; 3] = [60.0, 300.0, 600.0];
/// Seconds of history kept for charts.
pub const HISTORY: u64 = 600;
/// Seconds per chart point. Points are aligned to multiples of it, so that a point does not change once drawn.
pub const CHART_STEP: u64 = 4;

/// The response codes with their own line in a chart; all others share the last.
pub const CHARTED_RCODES: [&str; 4] = ["NOERROR", "NXDOMAIN", "SERVFAIL", "others"];

/// A rate per second: averages over 1, 5 and 10 minutes and the highest second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Averages over 1, 5 and 10 minutes.
    pub averages: [f64; 3],
    /// The highest one-second rate since the start.
    pub max: f64,
    last: u64,
}

impl Rate {
    /// Follows a total, and returns its rate; 0 without an elapsed time.
    fn tick(&mut self, total: u64, elapsed: Option<f64>) -> f64 {
        let last = std::mem::replace(&mut self.last, total);
        let Some(elapsed) = elapsed else {
            return 0.0;
        };
        let rate = total.saturating_sub(last) as f64 / elapsed;
        self.max = self.max.max(rate);
        for (average, window) in self.averages.iter_mut().zip(WINDOWS) {
            *average += (rate - *average) * (elapsed / window).min(1.0);
        }
        rate
    }
}

/// One second of the history.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// The second, on the clock of [`Stamp`], in which it ended.
    pub at: u64,
    /// UDP queries per second.
    pub udp_queries: f32,
    /// TCP queries per second.
    pub tcp_queries: f32,
    /// Queries per second over TLS, HTTPS and QUIC.
    pub encrypted_queries: f32,
    /// Packet cache hits per second.
    pub hits: f32,
    /// Packet cache misses per second.
    pub misses: f32,
    /// Answers per second by response code, in the order of [`CHARTED_RCODES`].
    pub rcodes: [f32; CHARTED_RCODES.len()],
    /// Queries per second with a known response time.
    pub timed: f32,
    /// Sum of these times, in microseconds per second.
    pub timed_us: f32,
}

/// All rates, and the history.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// `udp-queries`.
    pub udp_queries: Rate,
    /// `tcp-queries`.
    pub tcp_queries: Rate,
    /// `tls-queries`, `https-queries` and `quic-queries`.
    pub encrypted_queries: Rate,
    /// `backend-queries`.
    pub backend_queries: Rate,
    /// `packetcache-hit` and `packetcache-miss`.
    pub packetcache: [Rate; 2],
    /// `query-cache-hit` and `query-cache-miss`.
    pub query_cache: [Rate; 2],
    /// Answers by response code.
    rcodes: [Rate; CHARTED_RCODES.len()],
    /// Queries with a known response time, and the sum of these times in nanoseconds.
    timed: [Rate; 2],
    /// The last ten minutes, oldest first.
    pub history: VecDeque<Second>,
    last: Option<Stamp>,
}

impl Second {
    /// Returns the queries per second over all transports.
    pub fn queries(&self) -> f64 {
        let all = [self.udp_queries, self.tcp_queries, self.encrypted_queries];
        all.into_iter().map(f64::from).sum()
    }
}

impl Rates {
    /// Computes the rates since the last tick; the first one only sets the base values, because counts from before it
    /// have no known duration. A tick within less than a quarter of a second is ignored: the interval is too short for a
    /// meaningful rate.
    pub(crate) fn tick(&mut self, now: Stamp, totals: &Tally) {
        let last = self.last;
        let elapsed = last.map(|last| now.0.saturating_sub(last.0) as f64 / 1e9);
        if elapsed.is_some_and(|elapsed| elapsed < 0.25) {
            return;
        }
        self.last = Some(now);
        let of = |counter| totals.counter(counter);
        let queries = |protocol| totals.traffic(protocol, None, Traffic::Queries);
        let encrypted = [Protocol::Tls, Protocol::Https, Protocol::Quic].map(queries);
        let rcodes = charted_rcodes(totals);
        let mut answers = [0.0; CHARTED_RCODES.len()];
        for ((answers, rate), total) in answers.iter_mut().zip(&mut self.rcodes).zip(rcodes) {
            *answers = rate.tick(total, elapsed) as f32;
        }
        let [samples, sample_ns] = timed(totals);
        let second = Second {
            at: now.0 / 1_000_000_000,
            udp_queries: self.udp_queries.tick(queries(Protocol::Udp), elapsed) as f32,
            tcp_queries: self.tcp_queries.tick(queries(Protocol::Tcp), elapsed) as f32,
            encrypted_queries: self.encrypted_queries.tick(encrypted.iter().sum(), elapsed) as f32,
            hits: self.packetcache[0].tick(of(Counter::PacketcacheHit), elapsed) as f32,
            misses: self.packetcache[1].tick(of(Counter::PacketcacheMiss), elapsed) as f32,
            rcodes: answers,
            timed: self.timed[0].tick(samples, elapsed) as f32,
            timed_us: (self.timed[1].tick(sample_ns, elapsed) / 1000.0) as f32,
        };
        self.backend_queries
            .tick(of(Counter::BackendQueries), elapsed);
        self.query_cache[0].tick(of(Counter::QueryCacheHit), elapsed);
        self.query_cache[1].tick(of(Counter::QueryCacheMiss), elapsed);
        if elapsed.is_none() {
            return;
        }
        self.history.push_back(second);
        let first = first_of_chart(second.at);
        while self.history.front().is_some_and(|old| old.at < first) {
            self.history.pop_front();
        }
    }

    /// Returns the averages of queries per second over all transports.
    pub fn queries(&self) -> [f64; 3] {
        let all = [
            &self.udp_queries,
            &self.tcp_queries,
            &self.encrypted_queries,
        ];
        std::array::from_fn(|window| all.iter().map(|rate| rate.averages[window]).sum())
    }

    /// Returns packet cache hit rates in percent; 0 while there were no lookups.
    pub fn packetcache_hitrates(&self) -> [f64; 3] {
        hitrates(&self.packetcache)
    }

    /// Returns query cache hit rates in percent; 0 while there were no lookups.
    pub fn query_cache_hitrates(&self) -> [f64; 3] {
        hitrates(&self.query_cache)
    }
}

/// Returns the first second of the chart that ends with this one. The oldest step is removed as a whole when a new one
/// starts.
pub fn first_of_chart(last: u64) -> u64 {
    let end = (last / CHART_STEP + 1) * CHART_STEP;
    end.saturating_sub(HISTORY)
}

fn charted_rcodes(totals: &Tally) -> [u64; CHARTED_RCODES.len()] {
    let all: u64 = totals.rcodes.iter().sum();
    let [noerror, nxdomain, servfail] = [0, 3, 2].map(|code: usize| totals.rcodes[code]);
    let others = all - noerror - nxdomain - servfail;
    [noerror, nxdomain, servfail, others]
}

fn timed(totals: &Tally) -> [u64; 2] {
    let answer = Latency::Answer as usize;
    [totals.samples[answer], totals.sample_ns[answer]]
}

fn hitrates([hits, misses]: &[Rate; 2]) -> [f64; 3] {
    std::array::from_fn(|window| {
        let lookups = hits.averages[window] + misses.averages[window];
        if lookups > 0.0 {
            100.0 * hits.averages[window] / lookups
        } else {
            0.0
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::Transport;

    fn second(n: u64) -> Stamp {
        Stamp(n * 1_000_000_000)
    }

    #[test]
    fn averages_follow_the_formula_and_max_is_the_highest_second() {
        let mut rates = Rates::default();
        let mut totals = Tally::new();
        rates.tick(second(0), &totals);
        let mut expected = [0.0f64; 3];
        for n in 1..=700u64 {
            let rate = if n < 100 { 600 } else { 50 };
            totals.transport(Transport::UDP4)[Traffic::Queries as usize] += rate;
            rates.tick(second(n), &totals);
            for (average, window) in expected.iter_mut().zip(WINDOWS) {
                *average += (rate as f64 - *average) / window;
            }
        }
        assert_eq!(rates.udp_queries.averages, expected);
        assert_eq!(rates.udp_queries.max, 600.0);
        // 700 is the first second of its step: the chart starts 149 steps before.
        assert_eq!(rates.history.front().map(|second| second.at), Some(104));
        assert_eq!(rates.history.len(), 597);
    }

    #[test]
    fn a_tick_that_comes_too_soon_or_backwards_changes_nothing() {
        let mut rates = Rates::default();
        let mut totals = Tally::new();
        rates.tick(second(10), &totals);
        totals.transport(Transport::UDP6)[Traffic::Queries as usize] = 1000;
        rates.tick(Stamp(10_100_000_000), &totals);
        rates.tick(second(3), &totals);
        assert_eq!(rates.udp_queries.max, 0.0);
        rates.tick(second(11), &totals);
        assert_eq!(rates.udp_queries.max, 1000.0);
    }

    #[test]
    fn hitrate_is_zero_without_a_lookup_and_a_share_with_some() {
        let mut rates = Rates::default();
        let mut totals = Tally::new();
        rates.tick(second(0), &totals);
        assert_eq!(rates.packetcache_hitrates(), [0.0; 3]);
        totals.counters[Counter::PacketcacheHit as usize] = 75;
        totals.counters[Counter::PacketcacheMiss as usize] = 25;
        rates.tick(second(1), &totals);
        for rate in rates.packetcache_hitrates() {
            assert!((rate - 75.0).abs() < 1e-9, "{rate}");
        }
    }
}
