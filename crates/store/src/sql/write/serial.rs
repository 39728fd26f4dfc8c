//! The next serial number of a zone (RFC 1982).
//!
//! A serial that reads as a date and two digits (`2024053101`) stays one: the next is of today, or one more if that is
//! larger. Any other serial is raised by one.

use std::time::{SystemTime, UNIX_EPOCH};

/// The serial that follows `serial` at `now`. Never 0, which some secondaries take for "none".
pub fn next_serial(serial: u32, now: SystemTime) -> u32 {
    let next = match serial.wrapping_add(1) {
        0 => 1,
        next => next,
    };
    if !is_dated(serial) {
        return next;
    }
    match today(now).checked_mul(100).and_then(|n| n.checked_add(1)) {
        Some(first) if first > next => first,
        _ => next,
    }
}

/// The first serial of a new zone: today's date and 01.
pub fn first_serial(now: SystemTime) -> u32 {
    today(now).saturating_mul(100).saturating_add(1)
}

/// Whether a serial has the form YYYYMMDDnn.
fn is_dated(serial: u32) -> bool {
    let (year, month, day) = (
        serial / 1_000_000,
        serial / 10_000 % 100,
        serial / 100 % 100,
    );
    (1980..=2105).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day)
}

/// The date in UTC as YYYYMMDD.
fn today(now: SystemTime) -> u32 {
    let seconds = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    // Days are counted from 1 March of year 0, so that leap days end a year; 400 years have 146,097 days.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let (month, carry) = match from_march {
        0..=9 => (from_march + 3, 0),
        _ => (from_march - 9, 1),
    };
    let year = era * 400 + year_of_era + carry;
    u32::try_from(year * 10_000 + month * 100 + day).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// 29 February 2024.
    const LEAP_DAY: u64 = 1_709_164_800;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, 19_700_101),
            (LEAP_DAY, 20_240_229),
            (LEAP_DAY + 86_399, 20_240_229),
            (LEAP_DAY + 86_400, 20_240_301),
            (4_102_444_799, 20_991_231),
            (951_782_400, 20_000_229),
        ] {
            assert_eq!(today(at(seconds)), date);
        }
    }

    #[test]
    fn dated_serials_stay_dated_and_others_are_counted() {
        let now = at(LEAP_DAY);
        for (old, new) in [
            (1, 2),
            (0, 1),
            (u32::MAX, 1),
            (2_024_010_101, 2_024_022_901),
            (2_024_022_900, 2_024_022_901),
            (2_024_022_901, 2_024_022_902),
            (2_024_022_999, 2_024_023_000),
            // Of the future: still raised.
            (2_030_010_100, 2_030_010_101),
            // No month 13.
            (2_024_130_100, 2_024_130_101),
            (1_709_164_800, 1_709_164_801),
        ] {
            assert_eq!(next_serial(old, now), new, "{old}");
        }
        assert_eq!(first_serial(now), 2_024_022_901);
    }
}
