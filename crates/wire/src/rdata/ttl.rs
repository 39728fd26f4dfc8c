//! Periods in text: seconds, or numbers with units as in `1h30m`.

/// Parses a TTL or another period: `3600`, `1h`, `1w2d3h4m5s`, case-insensitively.
///
/// Each unit may appear once, in any order, as in other servers; a bare number after a unit is an error. Values above
/// 2^32 - 1 are errors.
#[inline]
pub fn parse_ttl(text: &[u8]) -> Option<u32> {
    let (mut total, mut number, mut digits) = (0u64, 0u64, 0u32);
    let mut units = false;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            number = number * 10 + u64::from(digit);
            digits += 1;
            if number > u64::from(u32::MAX) {
                return None;
            }
            continue;
        }
        let unit = match byte | 0x20 {
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        if digits == 0 {
            return None;
        }
        total += number * unit;
        if total > u64::from(u32::MAX) {
            return None;
        }
        (number, digits, units) = (0, 0, true);
    }
    match (units, digits) {
        (false, 0) => None,
        (false, _) => Some(number as u32),
        (true, 0) => Some(total as u32),
        (true, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read_with_and_without_units() {
        assert_eq!(parse_ttl(b"0"), Some(0));
        assert_eq!(parse_ttl(b"3600"), Some(3600));
        assert_eq!(parse_ttl(b"1h30m"), Some(5400));
        assert_eq!(
            parse_ttl(b"1W2d3H4m5S"),
            Some(604_800 + 2 * 86_400 + 3 * 3_600 + 4 * 60 + 5)
        );
        assert_eq!(parse_ttl(b"4294967295"), Some(u32::MAX));
    }

    #[test]
    fn invalid_periods_are_refused() {
        for text in [
            "",
            "h",
            "1h30",
            "1x",
            "-1",
            "4294967296",
            "99999999999999999999999",
            "9999w",
            "1 h",
            "1h.",
            "1\x13",
        ] {
            assert_eq!(parse_ttl(text.as_bytes()), None, "{text}");
        }
    }
}
