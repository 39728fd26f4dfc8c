//! Times in requests and replies: RFC 3339 in UTC.

use nameward_base::calendar::UtcTime;

/// Formats seconds since 1970, as `2027-01-31T12:00:00Z`.
pub fn rfc3339(seconds: u64) -> String {
    UtcTime::from_unix(seconds).to_string()
}

/// Reads a date or a date with a time of day in UTC; `None` if it is neither.
pub fn parse_date(text: &str) -> Option<u64> {
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
    let digits: Vec<u8> = [date, time].concat().into_bytes();
    let digits: Vec<u8> = digits.into_iter().filter(u8::is_ascii_digit).collect();
    UtcTime::from_digits(&digits)?.to_unix()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for seconds in [0, 86_401, 4_102_444_800] {
            assert_eq!(parse_date(&rfc3339(seconds)), Some(seconds));
        }
        assert_eq!(parse_date("1970-01-02"), Some(86_400));
        for wrong in ["", "1970-01-02T00:00:01", "1970-13-01", "1970-1-1", "T"] {
            assert_eq!(parse_date(wrong), None, "{wrong}");
        }
    }
}
