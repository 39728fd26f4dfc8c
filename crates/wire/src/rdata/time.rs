//! Signature times: `YYYYMMDDHHmmSS` and seconds since 1970 (RFC 4034 section 3.2).

use super::digits::decimal;

/// Reads both forms; 14 digits are a date, up to ten are seconds.
pub(super) fn from_text(text: &[u8]) -> Option<u32> {
    if text.len() != 14 {
        return if text.len() <= 10 {
            decimal(text, u64::from(u32::MAX)).map(|seconds| seconds as u32)
        } else {
            None
        };
    }
    let part = |from: usize, to: usize, max: u64| decimal(&text[from..to], max);
    let year = part(0, 4, 9999)?;
    let month = part(4, 6, 12)?;
    let day = part(6, 8, 31)?;
    let (hour, minute, second) = (part(8, 10, 23)?, part(10, 12, 59)?, part(12, 14, 60)?);
    if year < 1970 || month == 0 || day == 0 || day > days_in(year, month) {
        return None;
    }
    let days = days_before(year, month) + day - 1;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    u32::try_from(seconds).ok()
}

/// Year, month, day, hour, minute and second of a moment between 1970 and 2106.
pub(super) fn to_date(seconds: u32) -> [u32; 6] {
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    // At most 136 years: every step is bounded.
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let mut month = 1;
    while u64::from(days) >= days_in(u64::from(year), month) {
        days -= days_in(u64::from(year), month) as u32;
        month += 1;
    }
    [
        year,
        month as u32,
        days + 1,
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60,
    ]
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u32) -> u32 {
    365 + u32::from(is_leap(u64::from(year)))
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1 January 1970 to the first of `month` of `year`.
fn days_before(year: u64, month: u64) -> u64 {
    let leaps = |y: u64| y / 4 - y / 100 + y / 400;
    let years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    years + (1..month).map(|month| days_in(year, month)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_seconds_agree() {
        assert_eq!(from_text(b"20040509183619"), Some(1_084_127_779));
        assert_eq!(from_text(b"1084127779"), Some(1_084_127_779));
        assert_eq!(from_text(b"19700101000000"), Some(0));
        assert_eq!(from_text(b"21060207062815"), Some(u32::MAX));
        assert_eq!(from_text(b"21060207062816"), None);
        assert_eq!(from_text(b"20240229000000"), Some(1_709_164_800));
        for bad in [
            "20230229000000",
            "20231301000000",
            "20230001000000",
            "20230132000000",
            "20230101240000",
            "4294967296",
            "",
            "2023010100000",
            "19691231235959",
            "2023010100000x",
        ] {
            assert_eq!(from_text(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn every_date_survives_text_and_back() {
        for seconds in (0..=u32::MAX).step_by(86_399 * 7) {
            let [y, mo, d, h, mi, s] = to_date(seconds);
            let text = format!("{y:04}{mo:02}{d:02}{h:02}{mi:02}{s:02}");
            assert_eq!(from_text(text.as_bytes()), Some(seconds), "{text}");
        }
    }
}
