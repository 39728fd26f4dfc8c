//! Signature times: `YYYYMMDDHHmmSS` and seconds since 1970 (RFC 4034 section 3.2).

use super::digits::decimal;
use nameward_base::calendar::UtcTime;

/// Parses both forms; 14 digits are a date, up to ten are seconds.
pub(super) fn from_text(text: &[u8]) -> Option<u32> {
    if text.len() != 14 {
        return if text.len() <= 10 {
            decimal(text, u64::from(u32::MAX)).map(|seconds| seconds as u32)
        } else {
            None
        };
    }
    u32::try_from(UtcTime::from_digits(text)?.to_unix()?).ok()
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
            let time = UtcTime::from_unix(u64::from(seconds));
            let (hour, minute, second) = (time.hour, time.minute, time.second);
            let text = format!("{:08}{hour:02}{minute:02}{second:02}", time.date_number());
            assert_eq!(from_text(text.as_bytes()), Some(seconds), "{text}");
        }
    }
}
