//! Conversion of a `records` row to a record, with the conventions of the PowerDNS schema.
//!
//! Names and targets have no final dot and are absolute. The priority of MX and SRV is in `prio`. A SOA may lack its
//! last fields. TTLs may be missing or out of range. Types can be in any case.

use super::long_strings::split_long_strings;
use nameward_wire::rdata::parse_text;
use nameward_wire::text::Fields;
use nameward_wire::{Name, NameBuf, NameError, Type};

const SPF: Type = Type(99);
/// The TTL if the column is NULL: the PowerDNS default.
const DEFAULT_TTL: u32 = 3600;
/// The highest TTL (RFC 2181 section 8).
const MAX_TTL: i64 = i32::MAX as i64;
/// Defaults for the fields that a SOA may lack at its end: serial, refresh, retry, expire, minimum.
const SOA_DEFAULTS: [&str; 5] = ["0", "10800", "3600", "604800", "3600"];

/// An unusable column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RowFault {
    #[error("invalid name '{0}': {1}")]
    Name(String, NameError),
    #[error("type {0} is not allowed in a zone")]
    MetaType(String),
    #[error("unknown record type '{0}'")]
    UnknownType(String),
    #[error("{0} record data has more than one line")]
    ManyLines(Type),
    #[error("invalid {0} record data: {1}")]
    Content(Type, String),
}

/// Access to the columns of a row, whichever driver it comes from.
pub(crate) trait Cells {
    fn int(&self, column: usize) -> Option<i64>;
    fn text(&self, column: usize) -> Option<&[u8]>;

    /// Returns a text column; octets that are not UTF-8 are replaced.
    fn string(&self, column: usize) -> Option<String> {
        let text = self.text(column)?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

/// Parses a name as stored in the database.
pub(crate) fn read_name(text: &[u8], name: &mut NameBuf) -> Result<(), RowFault> {
    let read = match text {
        // Elsewhere it is the origin; in a database it is a label.
        b"@" => name.set_from_text(b"\\@", Name::ROOT),
        _ => name.set_from_text(text, Name::ROOT),
    };
    read.map_err(|error| RowFault::Name(shown(text), error))
}

/// Parses the name of a zone in `domains`: `example.org`, or `example.org..inside` for the version with the variant `inside`,
/// as PowerDNS 5 names it.
pub(crate) fn read_zone_name(text: &[u8], name: &mut NameBuf) -> Result<(), RowFault> {
    match std::str::from_utf8(text) {
        Ok(version) if version.contains("..") => {
            let read = NameBuf::zone_from_text(version);
            *name = read.map_err(|error| RowFault::Name(shown(text), error))?;
            Ok(())
        }
        _ => read_name(text, name),
    }
}

/// Returns the name of a zone as it is in `domains`.
pub(crate) fn zone_name_text(name: Name<'_>) -> String {
    let mut text = name_text(name.zone());
    if let Some(variant) = name.variant() {
        // The root is a dot itself.
        text.push_str(if name.zone().is_root() { "." } else { ".." });
        text.push_str(variant);
    }
    text
}

/// Returns a name as PowerDNS stores it: lower case, no final dot, non-printable octets as `\DDD`.
pub(crate) fn name_text(name: Name<'_>) -> String {
    let mut text = String::new();
    append_name(name, &mut text);
    text
}

/// Appends a name in the form of [`name_text`].
pub(crate) fn append_name(name: Name<'_>, out: &mut String) {
    if name.is_root() {
        out.push('.');
        return;
    }
    for (i, label) in name.labels().enumerate() {
        if i > 0 {
            out.push('.');
        }
        write_label(label, out);
    }
}

/// Appends one label as PowerDNS stores it.
pub(crate) fn write_label(label: &[u8], out: &mut String) {
    use core::fmt::Write;
    for &byte in label {
        match byte {
            b'.' | b'\\' => {
                out.push('\\');
                out.push(byte as char);
            }
            0x21..=0x7e => out.push(byte.to_ascii_lowercase() as char),
            // Writing to a String cannot fail.
            _ => drop(write!(out, "\\{byte:03}")),
        }
    }
}

/// Converts a TTL as stored in the database.
pub(crate) fn read_ttl(ttl: Option<i64>) -> u32 {
    ttl.map_or(DEFAULT_TTL, |ttl| ttl.clamp(0, MAX_TTL) as u32)
}

pub(crate) fn read_type(text: &[u8]) -> Result<Type, RowFault> {
    match Type::from_text(text.trim_ascii()) {
        Some(rtype) if !rtype.is_meta() => Ok(rtype),
        Some(_) => Err(RowFault::MetaType(shown(text))),
        None => Err(RowFault::UnknownType(shown(text))),
    }
}

/// Appends the data of a record in wire form.
pub(crate) fn read_content(
    rtype: Type,
    prio: Option<i64>,
    content: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), RowFault> {
    match rtype {
        Type::MX if words(content) < 2 => parse_with_prio(rtype, prio, content, out),
        Type::SRV if words(content) < 4 => parse_with_prio(rtype, prio, content, out),
        Type::SOA if (2..7).contains(&words(content)) => {
            let mut whole = content.to_vec();
            for default in &SOA_DEFAULTS[words(content) - 2..] {
                whole.push(b' ');
                whole.extend_from_slice(default.as_bytes());
            }
            parse(rtype, &whole, out)
        }
        Type::TXT | SPF => parse(rtype, &split_long_strings(content), out),
        _ => parse(rtype, content, out),
    }
}

fn parse_with_prio(
    rtype: Type,
    prio: Option<i64>,
    content: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), RowFault> {
    let prio = prio.unwrap_or(0).to_string();
    parse(rtype, &[prio.as_bytes(), b" ", content].concat(), out)
}

fn parse(rtype: Type, content: &[u8], out: &mut Vec<u8>) -> Result<(), RowFault> {
    let content = content.trim_ascii_end();
    // A line end would end the entry and hide what follows it.
    if content.contains(&b'\n') {
        return Err(RowFault::ManyLines(rtype));
    }
    parse_text(rtype, &mut Fields::new(content), Name::ROOT, out)
        .map(|_| ())
        .map_err(|error| RowFault::Content(rtype, error.message))
}

fn words(content: &[u8]) -> usize {
    content
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .count()
}

/// Formats database text for a message: bounded, without control characters.
pub(crate) fn shown(text: &[u8]) -> String {
    let mut shown: String = String::from_utf8_lossy(&text[..text.len().min(80)])
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.len() > 80 {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(rtype: Type, prio: Option<i64>, text: &str) -> Result<Vec<u8>, RowFault> {
        let mut out = Vec::new();
        read_content(rtype, prio, text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn priority_comes_from_its_column_unless_the_content_has_it() {
        let expected = b"\x00\x0a\x04mail\x07example\x03org\x00".to_vec();
        assert_eq!(
            content(Type::MX, Some(10), "mail.example.org"),
            Ok(expected.clone())
        );
        assert_eq!(
            content(Type::MX, Some(0), "10 mail.example.org"),
            Ok(expected.clone())
        );
        assert_eq!(
            content(Type::MX, None, "mail.example.org").unwrap()[..2],
            [0, 0]
        );
        assert_eq!(
            content(Type::SRV, Some(1), "2 3 a.b"),
            Ok(b"\0\x01\0\x02\0\x03\x01a\x01b\0".to_vec())
        );
        assert!(content(Type::MX, Some(-1), "a.b").is_err());
        assert!(content(Type::MX, Some(65_536), "a.b").is_err());
    }

    #[test]
    fn long_strings_are_split_and_short_soas_filled() {
        let long = format!("\"{}\"", "x".repeat(300));
        let txt = content(Type::TXT, None, &long).unwrap();
        assert_eq!((txt[0], txt[256], txt.len()), (255, 45, 302));
        let soa = content(Type::SOA, None, "ns1.example hostmaster.example 7").unwrap();
        assert_eq!(soa[soa.len() - 4..], 3600u32.to_be_bytes());
        assert_eq!(soa[soa.len() - 20..soa.len() - 16], 7u32.to_be_bytes());
    }

    #[test]
    fn content_that_does_not_parse_is_an_error_with_a_reason() {
        for (rtype, text) in [
            (Type::A, "192.0.2.256"),
            (Type::A, "192.0.2.1 192.0.2.2"),
            (Type::A, ""),
            (Type::TXT, "\"open"),
            (Type::A, "192.0.2.1\n192.0.2.2"),
            (Type::CNAME, "a..b"),
        ] {
            let error = content(rtype, None, text).unwrap_err().to_string();
            assert!(error.contains("record data"), "{text}: {error}");
        }
    }

    #[test]
    fn names_are_written_as_powerdns_stores_them() {
        for (name, expected) in [
            ("WWW.Example.ORG.", "www.example.org"),
            (".", "."),
            (r"w\.x.\(sp\032ace.a\\b.", r"w\.x.(sp\032ace.a\\b"),
        ] {
            let name: NameBuf = name.parse().unwrap();
            let text = name_text(name.as_name());
            assert_eq!(text, expected);
            let mut back = NameBuf::root();
            read_name(text.as_bytes(), &mut back).unwrap();
            assert_eq!(back, name);
        }
        assert!(read_name(b"a..b", &mut NameBuf::root()).is_err());
        assert!(read_name(b"", &mut NameBuf::root()).is_err());
    }

    #[test]
    fn odd_ttls_are_brought_into_range() {
        assert_eq!(read_ttl(None), 3600);
        assert_eq!(read_ttl(Some(-5)), 0);
        assert_eq!(read_ttl(Some(1 << 40)), i32::MAX as u32);
    }
}
