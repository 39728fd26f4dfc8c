//! Validity periods of signatures.
//!
//! As in PowerDNS, a signature is valid for three weeks and renewed every week, on Thursdays at 0:00 UTC, so that all
//! servers of a zone use the same times and a cached signature can be used for a week. Here each zone does so slightly
//! earlier, by up to a day derived from its name: a server with many zones does not sign them all at once, and the
//! SOA-EDIT serial, which changes on Thursday, still follows the new signatures.

use aws_lc_rs::digest::{SHA256, digest};
use nameward_wire::Name;

pub(crate) const DAY: u32 = 86_400;
pub(crate) const WEEK: u32 = 7 * DAY;

/// Returns the start of the week: Thursday, like 1 January 1970.
pub(crate) fn week_of(now: u32) -> u32 {
    now - now % WEEK
}

/// Returns inception and expiration of signatures made at `now`, for a zone that is `early` by this many seconds.
pub(crate) fn validity(now: u32, early: u32) -> (u32, u32) {
    let (now, early, week) = (u64::from(now), u64::from(early), u64::from(WEEK));
    let start = (now + early) / week * week;
    // RFC 4034 section 3.1.5: times wrap around like serials.
    let at = |time: u64| time.saturating_sub(early) as u32;
    (at(start.saturating_sub(week)), at(start + 2 * week))
}

/// Returns when the signatures of a zone that is `early` by this many seconds are renewed next.
pub(crate) fn renewed_at(now: u32, early: u32) -> u64 {
    next_at(now, early, u64::from(WEEK))
}

/// Returns when the interval after that of `now` starts, `early` by this many seconds.
fn next_at(now: u32, early: u32, interval: u64) -> u64 {
    let early = u64::from(early);
    (((u64::from(now) + early) / interval + 1) * interval).saturating_sub(early)
}

/// A signature week of a zone without a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureWeek {
    /// The week number.
    pub number: u64,
    /// When it ends, and all signatures are renewed.
    pub ends_at: u64,
}

/// Returns the current signature week of a zone.
pub fn signature_week(apex: Name<'_>, now: u64) -> SignatureWeek {
    let (early, week) = (u64::from(early_of(apex)), u64::from(WEEK));
    let number = (now + early) / week;
    SignatureWeek {
        number,
        ends_at: ((number + 1) * week).saturating_sub(early),
    }
}

/// Returns the seconds by which the signatures of a zone are renewed early.
pub(crate) fn early_of(apex: Name<'_>) -> u32 {
    let hash = digest(&SHA256, &apex.as_wire().to_ascii_lowercase());
    let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
    u32::from_be_bytes(first) % DAY
}

/// Validity and renewal of signatures in a zone with a policy, in seconds.
///
/// Time is divided into periods of equal length, the same on all servers of a zone. The signature of each RRset is
/// renewed slightly before a period starts, by up to `jitter`, derived from the RRset: not all are signed at once, not
/// all expire at once, and when a period starts (and the serial changes) all are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignatureTimes {
    /// Time from the renewal to the expiration of a signature.
    pub validity: u32,
    /// Minimum remaining validity of a signature in an answer.
    pub refresh: u32,
    /// How far the inception is before the renewal, for validators whose clocks are slow.
    pub inception_offset: u32,
    /// Maximum time by which signatures are renewed before the period starts.
    pub jitter: u32,
}

impl SignatureTimes {
    /// Returns the length of a period.
    pub fn interval(&self) -> u64 {
        u64::from(self.validity.saturating_sub(self.refresh).max(1))
    }

    /// Returns the number of the period that contains a time.
    pub fn period(&self, now: u64) -> u64 {
        now / self.interval()
    }

    /// Returns the time at which the next period starts.
    pub fn next_period_at(&self, now: u64) -> u64 {
        (self.period(now) + 1).saturating_mul(self.interval())
    }

    /// Returns the time at which the first of the signatures served now expires.
    pub fn earliest_end(&self, now: u64) -> u64 {
        let early = u64::from(self.jitter).min(self.next_period_at(now) - now);
        let started = self.period(now) * self.interval();
        (started + u64::from(self.validity)).saturating_sub(early)
    }

    /// Returns inception and expiration of a signature made at `now`, for an RRset that is `early` by this many
    /// seconds.
    pub(crate) fn bounds(&self, now: u32, early: u32) -> (u32, u32) {
        let (now, early, interval) = (u64::from(now), u64::from(early), self.interval());
        let renewed = ((now + early) / interval * interval).saturating_sub(early);
        // RFC 4034 section 3.1.5: times wrap around like serials.
        let begins = renewed.saturating_sub(u64::from(self.inception_offset)) as u32;
        (begins, (renewed + u64::from(self.validity)) as u32)
    }

    /// Returns when the signature of an RRset that is `early` by this many seconds is renewed next.
    pub(crate) fn renewed_at(&self, now: u32, early: u32) -> u64 {
        next_at(now, early, self.interval())
    }

    /// Returns the time by which an RRset in canonical form is renewed before the period starts.
    pub(crate) fn early(&self, canonical: &[u8]) -> u32 {
        // FNV-1a over the owner and the data after it: it only has to distribute well.
        const OCTETS: usize = 64;
        let head = canonical.get(..OCTETS).unwrap_or(canonical);
        let hash = head
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &octet| {
                (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
            });
        ((hash >> 32) as u32) % self.jitter.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_an_offset_the_times_are_those_of_powerdns() {
        // Observed on 15 November 2026: 20261105000000 to 20261126000000.
        assert_eq!(validity(1_794_722_400, 0), (1_793_836_800, 1_795_651_200));
    }

    proptest! {
        #[test]
        fn a_served_signature_is_valid_for_at_least_the_refresh_time(
            now in WEEK * 2..u32::MAX - 20 * WEEK,
            refresh in 2..8 * WEEK,
            more in 1..8 * WEEK,
            share in 0..100u32,
            records in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let times = SignatureTimes {
                validity: refresh + more,
                refresh,
                inception_offset: 3600,
                jitter: refresh / 100 * share,
            };
            let early = times.early(&records);
            prop_assert!(early < times.jitter.max(1));
            let (begins, ends) = times.bounds(now, early);
            prop_assert!(begins <= now - 3600 && ends - now >= refresh);
            prop_assert!(u64::from(ends) >= times.earliest_end(now.into()));
            // A secondary that transfers everything when a period starts has valid signatures until the next one
            // starts.
            let period = times.next_period_at(now.into()) as u32;
            let (_, ends) = times.bounds(period, early);
            prop_assert!(u64::from(ends - period) > times.interval());
        }

        #[test]
        fn signatures_stay_the_same_until_they_are_renewed(
            now in WEEK * 2..u32::MAX - 20 * WEEK,
            early in 0..DAY,
            interval in 1..4 * WEEK,
        ) {
            let times = SignatureTimes {
                validity: WEEK + interval,
                refresh: WEEK,
                inception_offset: 3600,
                jitter: DAY,
            };
            let at = times.renewed_at(now, early) as u32;
            prop_assert_eq!(times.bounds(now, early), times.bounds(at - 1, early));
            prop_assert!(at > now && times.bounds(now, early) != times.bounds(at, early));
            let at = renewed_at(now, early) as u32;
            prop_assert_eq!(validity(now, early), validity(at - 1, early));
            prop_assert!(at > now && validity(now, early) != validity(at, early));
        }

        #[test]
        fn a_signature_is_valid_for_a_week_before_and_after_its_creation(now in WEEK * 2..u32::MAX - 4 * WEEK, early in 0..DAY) {
            let (begins, ends) = validity(now, early);
            prop_assert!(now - begins >= WEEK && now - begins <= 2 * WEEK);
            prop_assert!(ends - now >= WEEK && ends - now <= 2 * WEEK);
            prop_assert_eq!(ends - begins, 3 * WEEK);
            let (_, after_thursday) = validity(week_of(now), early);
            prop_assert!(after_thursday - week_of(now) >= 2 * WEEK - DAY);
        }
    }
}
