//! When signatures begin and end.
//!
//! As with PowerDNS a signature is good for three weeks and made anew every week, on Thursdays at 0:00 UTC, so that all
//! servers of a zone give the same times and a cached signature serves for a week. Here each zone does so a little
//! earlier, by up to a day that follows from its name: a server of many zones does not sign them all at one moment,
//! and the serial of SOA-EDIT, which moves on Thursday, still comes after the new signatures.

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
