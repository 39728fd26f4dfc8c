//! Conversion of a record to a `records` row: the inverse of [`super::super::row`].
//!
//! Names have no final dot, and the priority of MX and SRV is in its own column. Types that PowerDNS 4.7 does not know
//! by name are written in RFC 3597 format, which it can read. A few forms it cannot read at all: a KEY without a key,
//! an IPSECKEY without a gateway, parameters in the alias mode of SVCB.

use nameward_wire::Type;
use nameward_wire::rdata::write_text;

const LOC: Type = Type(29);
const SPF: Type = Type(99);

/// Types that PowerDNS 4.7 knows by name.
#[rustfmt::skip]
const SHARED: &[&str] = &[
    "A", "NS", "CNAME", "SOA", "MB", "MG", "MR", "PTR", "HINFO", "MINFO", "MX", "TXT", "RP", "AFSDB", "KEY", "AAAA",
    "LOC", "SRV", "NAPTR", "KX", "CERT", "DNAME", "APL", "DS", "SSHFP", "IPSECKEY", "RRSIG", "NSEC", "DNSKEY", "DHCID",
    "NSEC3", "NSEC3PARAM", "TLSA", "SMIMEA", "RKEY", "CDS", "CDNSKEY", "OPENPGPKEY", "CSYNC", "ZONEMD", "SVCB", "HTTPS",
    "SPF", "NID", "L32", "L64", "LP", "EUI48", "EUI64", "URI", "CAA", "DLV", "ALIAS", "LUA",
];

/// The columns `type`, `prio` and `content` of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) rtype: String,
    pub(crate) prio: i64,
    pub(crate) content: String,
}

/// Checks whether clients expect the data of a type back in the text form that they sent: strings may be split, escaped or plain.
pub fn keeps_text(rtype: Type) -> bool {
    matches!(rtype, Type::TXT | SPF)
}

/// Writes a record whose data is well formed.
pub(crate) fn write_content(rtype: Type, rdata: &[u8]) -> Columns {
    let mnemonic = rtype.mnemonic().filter(|name| SHARED.contains(name));
    let plain = |content| Columns {
        rtype: mnemonic.map_or_else(|| format!("TYPE{}", rtype.0), str::to_owned),
        prio: 0,
        content,
    };
    if mnemonic.is_none() {
        return plain(generic(rdata));
    }
    let mut text = String::new();
    if write_text(rtype, rdata, &mut text).is_err() {
        return plain(generic(rdata));
    }
    let mut text = without_final_dots(&text);
    text = powerdns_text(rtype, text);
    match (rtype, text.split_once(' ')) {
        (Type::MX | Type::SRV, Some((prio, rest))) => match prio.parse() {
            Ok(prio) => Columns {
                prio,
                ..plain(rest.to_owned())
            },
            // Malformed data, written in RFC 3597 format.
            Err(_) => plain(text),
        },
        _ => plain(text),
    }
}

/// Checks whether the data of a type is numbers and hexadecimal digits: DS, SSHFP, TLSA, SMIMEA, CDS, ZONEMD, DLV.
fn is_hexadecimal(rtype: Type) -> bool {
    matches!(rtype.0, 43 | 44 | 52 | 53 | 59 | 63 | 32769)
}

/// Brings record data in zone-file form into the form in which PowerDNS 4.7 writes and accepts it: parameters of SVCB and HTTPS
/// without quotes, lengths in LOC with two decimals, hexadecimal digits in lower case.
pub fn powerdns_text(rtype: Type, text: String) -> String {
    match rtype {
        Type::SVCB | Type::HTTPS => parameters(&text),
        LOC => lengths(&text),
        _ if is_hexadecimal(rtype) => text.to_ascii_lowercase(),
        _ => text,
    }
}

fn generic(rdata: &[u8]) -> String {
    use core::fmt::Write;
    let mut text = format!("\\# {}", rdata.len());
    for (i, octet) in rdata.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}{octet:02x}", if i == 0 { " " } else { "" });
    }
    text
}

/// Strips the final dot from every name. Words in quotes and parameters (`key=value`) are not names.
fn without_final_dots(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped, mut is_name, mut start) = (false, false, true, 0);
    // Whether the last dot ends a name, or is escaped.
    let mut dot_ends = false;
    for c in text.chars() {
        if c == ' ' && !quoted && !escaped {
            end_word(&mut out, start, is_name && dot_ends);
            out.push(c);
            (is_name, start, dot_ends) = (true, out.len(), false);
            continue;
        }
        dot_ends = c == '.' && !escaped;
        if c == '"' && !escaped {
            quoted = !quoted;
            is_name = false;
        } else if c == '=' {
            is_name = false;
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    end_word(&mut out, start, is_name && dot_ends);
    out
}

/// Formats parameters as PowerDNS 4.7 does: newer ones by number, known ones without quotes.
fn parameters(text: &str) -> String {
    let words = quoted_words(text);
    let written = words.iter().enumerate().map(|(i, word)| {
        let (key, value) = match word.split_once('=') {
            _ if i < 2 => return (*word).to_owned(),
            Some((key, value)) => (key, value),
            None => (*word, "\"\""),
        };
        match key {
            "no-default-alpn" => key.to_owned(),
            "mandatory" | "alpn" | "port" | "ipv4hint" | "ipv6hint" => {
                let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
                let plain = inner.filter(|v| !v.is_empty() && !v.contains([' ', '"', ';', '(']));
                format!("{key}={}", plain.unwrap_or(value))
            }
            "dohpath" => format!("key7={value}"),
            "ohttp" => format!("key8={value}"),
            "ech" if !value.starts_with('"') => format!("ech=\"{value}\""),
            _ => format!("{key}={value}"),
        }
    });
    written.collect::<Vec<_>>().join(" ")
}

/// Splits into words, where a space in quotes does not end one.
fn quoted_words(text: &str) -> Vec<&str> {
    let (mut words, mut start) = (Vec::new(), 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        if byte == b' ' && !quoted {
            words.push(&text[start..at]);
            start = at + 1;
        }
        quoted ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
    }
    words.push(&text[start..]);
    words
}

/// Formats LOC lengths with two decimals, as PowerDNS does.
fn lengths(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.strip_suffix('m') {
        Some(number) if !number.contains('.') => format!("{number}.00m"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn end_word(out: &mut String, start: usize, is_absolute_name: bool) {
    // The root is a dot and nothing else.
    if is_absolute_name && out.len() - start > 1 {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::row::read_content;
    use super::*;
    use nameward_wire::Name;
    use nameward_wire::rdata::{parse_text, types, validate};
    use nameward_wire::text::Fields;

    fn written(rtype: Type, text: &str) -> Columns {
        let mut rdata = Vec::new();
        parse_text(
            rtype,
            &mut Fields::new(text.as_bytes()),
            Name::ROOT,
            &mut rdata,
        )
        .unwrap();
        write_content(rtype, &rdata)
    }

    #[test]
    fn rows_look_as_powerdns_writes_them() {
        for (rtype, text, prio, content) in [
            ("MX", "10 mail.example.org.", 10, "mail.example.org"),
            ("MX", "0 .", 0, "."),
            (
                "SRV",
                "1 2 5060 sip.example.org.",
                1,
                "2 5060 sip.example.org",
            ),
            ("CNAME", "Mixed.Case.example.", 0, "Mixed.Case.example"),
            (
                "TXT",
                "\"ends with a dot.\" \"a \\\"quote\\\" here.\"",
                0,
                "\"ends with a dot.\" \"a \\\"quote\\\" here.\"",
            ),
            (
                "SOA",
                "ns1.a. host.a. 1 2 3 4 5",
                0,
                "ns1.a host.a 1 2 3 4 5",
            ),
            (
                "HTTPS",
                "1 svc.example. alpn=h2",
                0,
                "1 svc.example alpn=h2",
            ),
            ("PTR", r"a\..", 0, r"a\."),
        ] {
            let rtype = Type::from_text(rtype.as_bytes()).unwrap();
            let columns = written(rtype, text);
            assert_eq!((columns.prio, columns.content.as_str()), (prio, content));
        }
        let wks = written(Type(11), r"\# 6 0a0000010602");
        assert_eq!(
            (wks.rtype.as_str(), wks.content.as_str()),
            ("TYPE11", r"\# 6 0a0000010602")
        );
        let none = written(Type(65_280), r"\# 0");
        assert_eq!(
            (none.rtype.as_str(), none.content.as_str()),
            ("TYPE65280", r"\# 0")
        );
    }

    #[test]
    fn every_shared_type_is_known() {
        for name in SHARED {
            assert!(types().iter().any(|info| info.mnemonic == *name), "{name}");
        }
    }

    /// Valid data of every type: the parser's test vectors, and variants with changed octets that remain valid.
    fn samples() -> Vec<(Type, Vec<u8>)> {
        let mut samples = Vec::new();
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize % limit
        };
        let vectors = include_str!("../../../wire/tests/rdata_vectors.txt");
        for line in vectors
            .lines()
            .filter(|line| !line.starts_with(['#', '!', '~']))
        {
            let mut parts = line.split('|').map(str::trim);
            let (Some(rtype), Some(_), Some(hex)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let rtype = Type::from_text(rtype.as_bytes()).unwrap();
            let digits: String = hex.split_whitespace().collect();
            let Ok(rdata) = data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes()) else {
                continue;
            };
            for _ in 0..100 {
                let mut bent = rdata.clone();
                for _ in 0..random(4) {
                    if !bent.is_empty() {
                        let at = random(bent.len());
                        bent[at] = random(256) as u8;
                    }
                }
                if validate(rtype, &bent).is_ok() && !rtype.is_meta() {
                    samples.push((rtype, bent));
                }
            }
        }
        samples
    }

    #[test]
    fn content_of_every_type_round_trips() {
        let samples = samples();
        let covered: std::collections::HashSet<u16> =
            samples.iter().map(|(rtype, _)| rtype.0).collect();
        assert!(covered.len() > 70, "{} types", covered.len());
        for (rtype, rdata) in samples {
            let columns = write_content(rtype, &rdata);
            assert_eq!(Type::from_text(columns.rtype.as_bytes()), Some(rtype));
            assert!(
                columns
                    .content
                    .bytes()
                    .all(|byte| (b' '..=b'~').contains(&byte))
            );
            let mut back = Vec::new();
            let prio = Some(columns.prio);
            let read = read_content(rtype, prio, columns.content.as_bytes(), &mut back);
            assert_eq!(read, Ok(()), "{columns:?}");
            assert_eq!(back, rdata, "{columns:?}");
        }
    }

    #[test]
    fn malformed_data_is_written_so_that_it_is_read_back() {
        for info in types().iter().filter(|info| !info.rtype.is_meta()) {
            let columns = write_content(info.rtype, b"\xff");
            let mut back = Vec::new();
            let read = read_content(
                info.rtype,
                Some(columns.prio),
                columns.content.as_bytes(),
                &mut back,
            );
            assert!(read.is_err() || back == b"\xff", "{columns:?}");
        }
    }
}
