//! Counts and lists as people write them.

use crate::calendar::UtcTime;
use std::fmt::Display;

/// Returns the name of a zone without its final dot, as people write it.
pub fn zone_text(name: &str) -> &str {
    match name.strip_suffix('.') {
        None | Some("") => name,
        Some(rest) => rest,
    }
}

/// Formats a time in seconds since 1970 as RFC 3339, in UTC.
pub fn utc_text(seconds: u64) -> String {
    UtcTime::from_unix(seconds).to_string()
}

/// Formats a duration as "2d 3h 4m 5s", without leading zero units.
pub fn duration_text(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(number, _)| *number > 0);
    let shown = &parts[first.unwrap_or(parts.len() - 1)..];
    let words = shown.iter().map(|(number, unit)| format!("{number}{unit}"));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns "1 zone" or "2 zones".
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns "a", "a and b" or "a, b and c".
pub fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.pop() {
        Some(last) if items.is_empty() => last,
        Some(last) => format!("{} and {last}", items.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_leave_out_leading_zero_units() {
        for (seconds, expected) in [
            (0, "0s"),
            (61, "1m 1s"),
            (3600, "1h 0m 0s"),
            (90_061, "1d 1h 1m 1s"),
        ] {
            assert_eq!(duration_text(seconds), expected);
        }
    }

    #[test]
    fn nouns_agree_with_their_number() {
        assert_eq!(counted(0, "zone"), "0 zones");
        assert_eq!(counted(1, "zone"), "1 zone");
        assert_eq!(counted(2, "zone"), "2 zones");
    }

    #[test]
    fn the_last_item_of_a_list_follows_and() {
        assert_eq!(listed([] as [&str; 0]), "");
        assert_eq!(listed(["a"]), "a");
        assert_eq!(listed(["a", "b"]), "a and b");
        assert_eq!(listed([1, 2, 3]), "1, 2 and 3");
    }
}
