//! When signatures begin and end.
//!
//! As with PowerDNS a signature is good for three weeks and made anew every week, on Thursdays at 0:00 UTC, so that all
//! servers of a zone give the same times and a cached signature serves for a week. Here each zone does so a little
//! earlier, by up to a day that follows from its name: a server of many zones does not sign them all at one moment,
//! and the serial of SOA-EDIT, which moves on Thursday, still comes after the new signatures.

use aws_lc_rs::digest::{SHA256, digest};
use nameward_wire::Name;

pub(crate) const DAY: u32 = 86_400;
pub(crate) const WEEK: u32 = 7 * DAY;

/// The start of the week of a time: Thursday, as 1 January 1970 was.
pub(crate) fn week_of(now: u32) -> u32 {
    now - now % WEEK
}

/// When signatures made at `now` begin and end, for a zone that is `early` by so many seconds.
pub(crate) fn validity(now: u32, early: u32) -> (u32, u32) {
    let (now, early, week) = (u64::from(now), u64::from(early), u64::from(WEEK));
    let start = (now + early) / week * week;
    // RFC 4034 section 3.1.5: times wrap around like serials.
    let at = |time: u64| time.saturating_sub(early) as u32;
    (at(start.saturating_sub(week)), at(start + 2 * week))
}

/// A week of signatures of a zone without a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureWeek {
    /// Its number.
    pub number: u64,
    /// When it ends, and all signatures are renewed.
    pub ends_at: u64,
}

/// Returns the week of signatures that a zone is in.
pub fn signature_week(apex: Name<'_>, now: u64) -> SignatureWeek {
    let (early, week) = (u64::from(early_of(apex)), u64::from(WEEK));
    let number = (now + early) / week;
    SignatureWeek {
        number,
        ends_at: ((number + 1) * week).saturating_sub(early),
    }
}

/// The seconds by which the signatures of a zone are renewed before others.
pub(crate) fn early_of(apex: Name<'_>) -> u32 {
    let hash = digest(&SHA256, &apex.as_wire().to_ascii_lowercase());
    let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
    u32::from_be_bytes(first) % DAY
}

/// When the signatures of a zone with a policy begin, end and are renewed, in seconds.
///
/// Time is cut into periods of equal length, the same for all servers of a zone. Each RRset has its signature renewed a
/// little before a period begins, by up to `jitter`, which follows from the RRset: not all are signed at one moment, none
/// end at one moment, and when a period begins (and the serial moves) all are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignatureTimes {
    /// The time from the renewal to the end of a signature.
    pub validity: u32,
    /// The least time that a signature which is given out has left.
    pub refresh: u32,
    /// The time by which a signature begins before it is made, for validators whose clocks are behind.
    pub inception_offset: u32,
    /// The time by which signatures are renewed before the period begins, at the most.
    pub jitter: u32,
}

impl SignatureTimes {
    /// Returns the length of a period.
    pub fn interval(&self) -> u64 {
        u64::from(self.validity.saturating_sub(self.refresh).max(1))
    }

    /// Returns the number of the period of a time.
    pub fn period(&self, now: u64) -> u64 {
        now / self.interval()
    }

    /// Returns the time at which the next period begins.
    pub fn next_period_at(&self, now: u64) -> u64 {
        (self.period(now) + 1).saturating_mul(self.interval())
    }

    /// Returns the time at which the first signature ends that is given out now.
    pub fn earliest_end(&self, now: u64) -> u64 {
        let early = u64::from(self.jitter).min(self.next_period_at(now) - now);
        let begun = self.period(now) * self.interval();
        (begun + u64::from(self.validity)).saturating_sub(early)
    }

    /// Returns when a signature made at `now` begins and ends, for an RRset that is `early` by so many seconds.
    pub(crate) fn bounds(&self, now: u32, early: u32) -> (u32, u32) {
        let (now, early, interval) = (u64::from(now), u64::from(early), self.interval());
        let renewed = ((now + early) / interval * interval).saturating_sub(early);
        // RFC 4034 section 3.1.5: times wrap around like serials.
        let begins = renewed.saturating_sub(u64::from(self.inception_offset)) as u32;
        (begins, (renewed + u64::from(self.validity)) as u32)
    }

    /// Returns the time by which an RRset in canonical form is renewed before the period begins.
    pub(crate) fn early(&self, canonical: &[u8]) -> u32 {
        // FNV-1a over the owner and what follows it: it has to spread, nothing more.
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
        // Seen on 15 November 2026: 20261105000000 to 20261126000000.
        assert_eq!(validity(1_794_722_400, 0), (1_793_836_800, 1_795_651_200));
    }

    proptest! {
        #[test]
        fn a_signature_that_is_given_out_has_the_refresh_time_left(
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
            // A secondary that fetches all when a period begins has good signatures until the next one does.
            let period = times.next_period_at(now.into()) as u32;
            let (_, ends) = times.bounds(period, early);
            prop_assert!(u64::from(ends - period) > times.interval());
        }

        #[test]
        fn a_signature_is_good_for_a_week_before_and_after_it_is_made(now in WEEK * 2..u32::MAX - 4 * WEEK, early in 0..DAY) {
            let (begins, ends) = validity(now, early);
            prop_assert!(now - begins >= WEEK && now - begins <= 2 * WEEK);
            prop_assert!(ends - now >= WEEK && ends - now <= 2 * WEEK);
            prop_assert_eq!(ends - begins, 3 * WEEK);
            let (_, after_thursday) = validity(week_of(now), early);
            prop_assert!(after_thursday - week_of(now) >= 2 * WEEK - DAY);
        }
    }
}
