//! Calendar conversion: seconds since 1970 to a UTC date and time of day, and back.
//!
//! Days are counted in eras of 400 years that start on 1 March, so that the leap day is the last day of a year.

use core::fmt;

/// Days from 1 March of year 0 to 1 January 1970.
const DAYS_BEFORE_1970: u64 = 719_468;
const DAYS_OF_ERA: u64 = 146_097;
const SECONDS_OF_DAY: u64 = 86_400;

/// A date and time of day in UTC, not before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime {
    /// The year, four digits in practice.
    pub year: u64,
    /// From 1 to 12.
    pub month: u64,
    /// From 1 to 31.
    pub day: u64,
    /// From 0 to 23.
    pub hour: u64,
    /// From 0 to 59.
    pub minute: u64,
    /// From 0 to 59, or 60 in a leap second.
    pub second: u64,
}

impl UtcTime {
    /// Converts seconds since 1970 to a date and time.
    pub fn from_unix(seconds: u64) -> Self {
        let (days, of_day) = (seconds / SECONDS_OF_DAY, seconds % SECONDS_OF_DAY);
        let days = days + DAYS_BEFORE_1970;
        let (era, of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let (month, new_year) = match from_march {
            0..=9 => (from_march + 3, 0),
            _ => (from_march - 9, 1),
        };
        UtcTime {
            year: era * 400 + year_of_era + new_year,
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }

    /// Reads `YYYYMMDDHHmmSS`; `None` unless it is 14 digits. [`Self::to_unix`] checks whether the date exists.
    pub fn from_digits(text: &[u8]) -> Option<Self> {
        if text.len() != 14 || !text.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let digit = |number: u64, digit: &u8| number * 10 + u64::from(digit - b'0');
        let part = |from: usize, to: usize| text[from..to].iter().fold(0, digit);
        Some(UtcTime {
            year: part(0, 4),
            month: part(4, 6),
            day: part(6, 8),
            hour: part(8, 10),
            minute: part(10, 12),
            second: part(12, 14),
        })
    }

    /// Reads a date, or a date and a time of day in UTC, as RFC 3339 has them: `2026-11-15`, `2026-11-15T23:20:00Z`.
    /// [`Self::to_unix`] checks whether the date exists.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let (date, time) = match text.split_once(['T', 't']) {
            Some((date, time)) => (date, time.strip_suffix(['Z', 'z'])?),
            None => (text, "00:00:00"),
        };
        let has_form = |text: &str, form: &str| {
            let is_like = |(c, f): (u8, u8)| (f == b'0' && c.is_ascii_digit()) || c == f;
            text.len() == form.len() && text.bytes().zip(form.bytes()).all(is_like)
        };
        if !has_form(date, "0000-00-00") || !has_form(time, "00:00:00") {
            return None;
        }
        let octets = date.bytes().chain(time.bytes());
        let digits: Vec<u8> = octets.filter(u8::is_ascii_digit).collect();
        UtcTime::from_digits(&digits)
    }

    /// Formats as `YYYYMMDDHHmmSS`, the form used in signatures and key files.
    pub fn digits(self) -> impl fmt::Display {
        let (hour, minute, second) = (self.hour, self.minute, self.second);
        fmt::from_fn(move |f| {
            let date = self.date_number();
            write!(f, "{date:08}{hour:02}{minute:02}{second:02}")
        })
    }

    /// Returns the seconds since 1970; `None` for a date that does not exist or is earlier. A leap second is counted as
    /// the second after it.
    pub fn to_unix(self) -> Option<u64> {
        let exists = self.year >= 1970
            && (1..=12).contains(&self.month)
            && (1..=days_of_month(self.year, self.month)).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second <= 60;
        if !exists {
            return None;
        }
        let (year, from_march) = match self.month {
            1 | 2 => (self.year - 1, self.month + 9),
            _ => (self.year, self.month - 3),
        };
        let (era, of_era) = (year / 400, year % 400);
        let of_year = (153 * from_march + 2) / 5 + self.day - 1;
        let days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        let days = (era.checked_mul(DAYS_OF_ERA)? + days).checked_sub(DAYS_BEFORE_1970)?;
        let of_day = self.hour * 3600 + self.minute * 60 + self.second;
        days.checked_mul(SECONDS_OF_DAY)?.checked_add(of_day)
    }

    /// Returns the date as the number YYYYMMDD, as used in the serials of many zones.
    pub fn date_number(self) -> u64 {
        self.year * 10_000 + self.month * 100 + self.day
    }
}

/// RFC 3339 format: `2026-11-15T23:20:00Z`.
impl core::fmt::Display for UtcTime {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let UtcTime {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// Returns the day of the week, 0 for Sunday, from seconds since 1970, which started on a Thursday.
pub fn weekday(seconds: u64) -> usize {
    ((seconds / SECONDS_OF_DAY + 4) % 7) as usize
}

fn days_of_month(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_3339_times_round_trip() {
        let read = |text: &str| UtcTime::from_rfc3339(text).and_then(UtcTime::to_unix);
        for seconds in [0, 86_401, 4_102_444_800] {
            assert_eq!(
                read(&UtcTime::from_unix(seconds).to_string()),
                Some(seconds)
            );
        }
        assert_eq!(read("1970-01-02"), Some(86_400));
        for wrong in ["", "1970-01-02T00:00:01", "1970-13-01", "1970-1-1", "T"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn seconds_and_dates_are_those_of_the_calendar() {
        for (seconds, date, day) in [
            (0, 19_700_101, 4),
            (784_111_777, 19_941_106, 0),
            (951_782_400, 20_000_229, 2),
            (1_709_164_800, 20_240_229, 4),
            (1_709_251_199, 20_240_229, 4),
            (1_709_251_200, 20_240_301, 5),
            (1_794_722_400, 20_261_115, 0),
            (4_102_444_799, 20_991_231, 4),
            (4_107_542_399, 21_000_228, 0),
            (4_107_542_400, 21_000_301, 1),
            (4_294_967_295, 21_060_207, 0),
            (253_402_300_799, 99_991_231, 5),
        ] {
            assert_eq!(UtcTime::from_unix(seconds).date_number(), date);
            assert_eq!(weekday(seconds), day, "{date}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before_and_leads_back() {
        let mut before = UtcTime::from_unix(0);
        for day in 1..DAYS_OF_ERA {
            let seconds = day * SECONDS_OF_DAY + 45_296;
            let now = UtcTime::from_unix(seconds);
            let is_next = match now.day {
                1 => before.day == days_of_month(before.year, before.month),
                _ => now.day == before.day + 1 && now.month == before.month,
            };
            assert!(is_next, "{now:?}");
            assert_eq!((now.hour, now.minute, now.second), (12, 34, 56));
            assert_eq!(now.to_unix(), Some(seconds));
            before = now;
        }
    }

    #[test]
    fn dates_that_do_not_exist_have_no_seconds() {
        let date = |year, month, day, hour, second| UtcTime {
            year,
            month,
            day,
            hour,
            minute: 0,
            second,
        };
        for wrong in [
            date(1969, 12, 31, 23, 59),
            date(2023, 2, 29, 0, 0),
            date(2100, 2, 29, 0, 0),
            date(2023, 4, 31, 0, 0),
            date(2023, 0, 1, 0, 0),
            date(2023, 13, 1, 0, 0),
            date(2023, 1, 0, 0, 0),
            date(2023, 1, 1, 24, 0),
            date(2023, 1, 1, 0, 61),
            date(u64::MAX, 1, 1, 0, 0),
        ] {
            assert_eq!(wrong.to_unix(), None, "{wrong:?}");
        }
        assert_eq!(date(2024, 2, 29, 0, 0).to_unix(), Some(1_709_164_800));
        assert_eq!(date(1970, 1, 1, 0, 60).to_unix(), Some(60));
        assert_eq!(date(2024, 2, 29, 7, 5).to_string(), "2024-02-29T07:00:05Z");
    }
}
