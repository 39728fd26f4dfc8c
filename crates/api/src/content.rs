//! Owns the text form of record data at the API: what is accepted and what is shown.
//!
//! PowerDNS accepts data only in the form in which it shows it, so that a client reads back what it sent. The same rule holds here;
//! letter case does not count, and neither does the form of addresses.

use nameward_store::sql::write::powerdns_text;
use nameward_wire::rdata::{parse_text, write_text};
use nameward_wire::text::Fields;
use nameward_wire::{Name, Type};

use crate::response::{ApiError, ApiResult};

const SPF: Type = Type(99);
/// Octets of one character string (RFC 1035 section 3.3).
const STRING_MAX: usize = 255;

/// Shows data of the operations in the form of PowerDNS.
pub fn shown(rtype: &str, content: &str) -> String {
    match Type::from_text(rtype.as_bytes()) {
        Some(rtype) => powerdns_text(rtype, content),
        None => content.to_owned(),
    }
}

/// Checks data that a client sent, and returns it as the operations take it.
pub fn accepted(owner: &str, rtype: Type, content: &str) -> ApiResult<String> {
    let refused =
        |reason: &str| ApiError::invalid(format!("Record {owner}/{rtype} '{content}': {reason}"));
    let split;
    let text = match matches!(rtype, Type::TXT | SPF) {
        true => {
            split = split_strings(content);
            &split
        }
        false => content,
    };
    if text.contains(['\n', '\r', '\0']) {
        return Err(refused("Not in expected format: it has more than one line"));
    }
    let mut rdata = Vec::new();
    parse_text(
        rtype,
        &mut Fields::new(text.as_bytes()),
        Name::ROOT,
        &mut rdata,
    )
    .map_err(|error| refused(&error.message.to_string()))?;
    let mut parsed = String::new();
    write_text(rtype, &rdata, &mut parsed).map_err(|error| refused(&error.to_string()))?;
    let parsed = powerdns_text(rtype, &parsed);
    let is_expected = match rtype {
        Type::AAAA => true,
        Type::TXT | SPF => text.starts_with('"') && text.ends_with('"'),
        _ => parsed.eq_ignore_ascii_case(text),
    };
    match is_expected {
        true => Ok(text.to_owned()),
        false => Err(refused(&format!(
            "Not in expected format (parsed as '{parsed}')"
        ))),
    }
}

/// Splits quoted strings of more than 255 octets, which PowerDNS takes, into several.
fn split_strings(content: &str) -> String {
    let mut out = String::with_capacity(content.len());
    let (mut is_quoted, mut octets) = (false, 0);
    let mut rest = content;
    while let Some(first) = rest.chars().next() {
        // An escape is one octet: \DDD or a backslash and a character.
        let length = match (first, rest.as_bytes()) {
            ('\\', [_, a, b, c, ..])
                if a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit() =>
            {
                4
            }
            ('\\', [_, _, ..]) => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => first.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        if piece == "\"" {
            (is_quoted, octets) = (!is_quoted, 0);
        } else if is_quoted {
            let size = match first {
                '\\' => 1,
                other => other.len_utf8(),
            };
            if octets + size > STRING_MAX {
                out.push_str("\" \"");
                octets = 0;
            }
            octets += size;
        }
        out.push_str(piece);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rtype: &str, content: &str) -> ApiResult<String> {
        let rtype = Type::from_text(rtype.as_bytes()).unwrap();
        accepted("x.test.", rtype, content)
    }

    #[test]
    fn data_is_accepted_in_the_form_of_powerdns_only() {
        for (rtype, content) in [
            ("A", "192.0.2.1"),
            ("AAAA", "2001:DB8:0::1"),
            ("MX", "10 Mail.example.org."),
            ("TXT", "\"v=spf1 -all\""),
            ("TXT", "\"a\" \"b\""),
            ("TXT", "\"semi;colon \\\"quoted\\\"\""),
            ("HTTPS", "1 . alpn=h2 ipv4hint=192.0.2.1"),
            ("CAA", "0 issue \"ca.example\""),
            ("SRV", "1 2 443 a.example."),
            (
                "DS",
                "12345 13 2 000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
            ),
            ("TYPE65534", "\\# 2 ABCD"),
        ] {
            assert!(
                check(rtype, content).is_ok(),
                "{rtype} {content}: {:?}",
                check(rtype, content)
            );
        }
        for (rtype, content, reason) in [
            ("A", "1.2.3", "x.test./A"),
            ("MX", "10 mail.x", "parsed as '10 mail.x.'"),
            ("MX", "10  mail.x.", "parsed as '10 mail.x.'"),
            ("TXT", "abc", "Not in expected format"),
            ("HTTPS", "1 . alpn=\"h2\"", "parsed as '1 . alpn=h2'"),
            ("A", "192.0.2.1\n192.0.2.2", "more than one line"),
        ] {
            let error = format!("{:?}", check(rtype, content).unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn long_strings_are_split() {
        let long = format!("\"{}\"", "x".repeat(300));
        let text = check("TXT", &long).unwrap();
        assert_eq!(
            text,
            format!("\"{}\" \"{}\"", "x".repeat(255), "x".repeat(45))
        );
        let escaped = format!("\"{}\"", "\\065".repeat(256));
        assert!(check("TXT", &escaped).is_ok());
        let whole = format!("\"{}\"", "y".repeat(255));
        assert_eq!(check("TXT", &whole).unwrap(), whole);
    }
}
