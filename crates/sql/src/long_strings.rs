//! Owns strings of more than 255 octets in stored text: PowerDNS accepts and stores them in one piece, and sends them as several
//! strings (RFC 1035 section 3.3 limits one to 255 octets).

use std::borrow::Cow;

/// Octets of one character string.
const STRING_MAX: usize = 255;

/// Splits quoted strings of more than 255 octets into several.
pub fn split_long_strings(content: &[u8]) -> Cow<'_, [u8]> {
    if content.len() <= STRING_MAX + 2 {
        return Cow::Borrowed(content);
    }
    let mut out = Vec::with_capacity(content.len() + 16);
    let (mut is_quoted, mut octets) = (false, 0);
    let mut rest = content;
    while let [first, tail @ ..] = rest {
        // An escape is one octet: \DDD, or a backslash and an octet.
        let length = match (first, tail) {
            (b'\\', [a, b, c, ..])
                if a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit() =>
            {
                4
            }
            (b'\\', [_, ..]) => 2,
            _ => 1,
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        if piece == b"\"" {
            (is_quoted, octets) = (!is_quoted, 0);
        } else if is_quoted {
            if octets == STRING_MAX {
                out.extend_from_slice(b"\" \"");
                octets = 0;
            }
            octets += 1;
        }
        out.extend_from_slice(piece);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> String {
        String::from_utf8(split_long_strings(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn long_strings_are_split_and_others_stay() {
        let long = format!("\"{}\"", "x".repeat(300));
        let expected = format!("\"{}\" \"{}\"", "x".repeat(255), "x".repeat(45));
        assert_eq!(split(&long), expected);
        assert_eq!(split(&expected), expected);
        let whole = format!("\"{}\"", "y".repeat(255));
        assert_eq!(split(&whole), whole);
        let escaped = format!("\"{}\"", "\\065".repeat(256));
        let expected = format!("\"{}\" \"\\065\"", "\\065".repeat(255));
        assert_eq!(split(&escaped), expected);
        let quotes = format!("\"{}\"", "\\\"".repeat(255));
        assert_eq!(split(&quotes), quotes);
    }
}
