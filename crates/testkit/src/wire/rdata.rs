//! Record data: decompression on reading, and printing.
//!
//! One table of fields per type serves both. A type that is not in the table is opaque and printed
//! in RFC 3597 format.

use super::reader::Reader;
use crate::TestFailure;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, PartialEq)]
enum Field {
    /// A name that the sender may compress (types of RFC 1035).
    Name,
    /// A name that must not be compressed (RFC 3597 section 4).
    PlainName,
    U8,
    U16,
    U32,
    V4,
    V6,
    Text,
    Texts,
    Tag,
    RestText,
    RestHex,
    SvcParams,
}

fn fields(rtype: u16) -> Option<&'static [Field]> {
    use Field::*;
    Some(match rtype {
        1 => &[V4],
        2..=5 | 7..=9 | 12 => &[Name],
        6 => &[Name, Name, U32, U32, U32, U32, U32],
        13 => &[Text, Text],
        14 => &[Name, Name],
        15 => &[U16, Name],
        16 | 99 => &[Texts],
        17 => &[PlainName, PlainName],
        18 | 21 | 36 => &[U16, PlainName],
        28 => &[V6],
        33 => &[U16, U16, U16, PlainName],
        35 => &[U16, U16, Text, Text, Text, PlainName],
        39 => &[PlainName],
        43 | 59 => &[U16, U8, U8, RestHex],
        44 => &[U8, U8, RestHex],
        52 => &[U8, U8, U8, RestHex],
        64 | 65 => &[U16, PlainName, SvcParams],
        256 => &[U16, U16, RestText],
        257 => &[U8, Tag, RestText],
        _ => return None,
    })
}

/// Reads the record data up to `end` and decompresses it.
pub(super) fn read(
    reader: &mut Reader<'_>,
    rtype: u16,
    end: usize,
) -> Result<Vec<u8>, TestFailure> {
    let Some(fields) = fields(rtype) else {
        return Ok(reader.octets(end - reader.position())?.to_vec());
    };
    let mut plain = Vec::new();
    for field in fields {
        let length = match field {
            Field::Name | Field::PlainName => {
                let start = reader.position();
                let name = reader.name()?;
                let compressed = reader.position() - start != name.0.len();
                if *field == Field::PlainName && compressed {
                    return Err(format!(
                        "name in the data of {} is compressed (RFC 3597 section 4)",
                        super::type_text(rtype)
                    )
                    .into());
                }
                plain.extend_from_slice(&name.0);
                continue;
            }
            Field::U8 => 1,
            Field::U16 => 2,
            Field::U32 | Field::V4 => 4,
            Field::V6 => 16,
            Field::Text | Field::Tag => 1 + reader.peek()? as usize,
            Field::Texts | Field::RestText | Field::RestHex | Field::SvcParams => end
                .checked_sub(reader.position())
                .ok_or("record data ends early")?,
        };
        plain.extend_from_slice(reader.octets(length)?);
    }
    if reader.position() != end {
        return Err(format!(
            "data of {} is {} octets longer or shorter than its length says",
            super::type_text(rtype),
            reader.position().abs_diff(end)
        )
        .into());
    }
    Ok(plain)
}

/// Formats plain (uncompressed) record data in presentation format.
pub fn print(rtype: u16, data: &[u8]) -> String {
    fields(rtype)
        .and_then(|fields| print_fields(fields, data))
        .unwrap_or_else(|| {
            let hex: String = data.iter().map(|octet| format!("{octet:02x}")).collect();
            format!("\\# {} {hex}", data.len()).trim_end().to_string()
        })
}

fn print_fields(fields: &[Field], data: &[u8]) -> Option<String> {
    let mut reader = Reader::new(data);
    let mut parts: Vec<String> = Vec::new();
    for field in fields {
        let rest = data.len() - reader.position();
        match field {
            Field::Name | Field::PlainName => parts.push(reader.name().ok()?.to_string()),
            Field::U8 => parts.push(reader.octets(1).ok()?[0].to_string()),
            Field::U16 => parts.push(reader.u16().ok()?.to_string()),
            Field::U32 => parts.push(reader.u32().ok()?.to_string()),
            Field::V4 => {
                let octets: [u8; 4] = reader.octets(4).ok()?.try_into().ok()?;
                parts.push(Ipv4Addr::from(octets).to_string());
            }
            Field::V6 => {
                let octets: [u8; 16] = reader.octets(16).ok()?.try_into().ok()?;
                parts.push(Ipv6Addr::from(octets).to_string());
            }
            Field::Text | Field::Tag => {
                let length = reader.octets(1).ok()?[0] as usize;
                let text = reader.octets(length).ok()?;
                parts.push(match field {
                    Field::Tag => String::from_utf8_lossy(text).into_owned(),
                    _ => quote(text),
                });
            }
            Field::Texts => {
                while reader.position() < data.len() {
                    let length = reader.octets(1).ok()?[0] as usize;
                    parts.push(quote(reader.octets(length).ok()?));
                }
            }
            Field::RestText => parts.push(quote(reader.octets(rest).ok()?)),
            Field::RestHex => parts.push(
                reader
                    .octets(rest)
                    .ok()?
                    .iter()
                    .map(|octet| format!("{octet:02X}"))
                    .collect(),
            ),
            Field::SvcParams => {
                while reader.position() < data.len() {
                    let key = reader.u16().ok()?;
                    let length = reader.u16().ok()? as usize;
                    parts.push(svc_param(key, reader.octets(length).ok()?)?);
                }
            }
        }
    }
    (reader.position() == data.len()).then(|| parts.join(" "))
}

fn svc_param(key: u16, value: &[u8]) -> Option<String> {
    let list = |parts: Vec<String>| parts.join(",");
    Some(match key {
        1 => {
            let mut protocols = Vec::new();
            let mut rest = value;
            while let Some((&length, tail)) = rest.split_first() {
                let (protocol, tail) = tail.split_at_checked(length as usize)?;
                protocols.push(String::from_utf8_lossy(protocol).into_owned());
                rest = tail;
            }
            format!("alpn={}", list(protocols))
        }
        2 => "no-default-alpn".into(),
        3 => format!("port={}", u16::from_be_bytes(value.try_into().ok()?)),
        4 => {
            let hints = value
                .chunks_exact(4)
                .map(|c| Ipv4Addr::new(c[0], c[1], c[2], c[3]));
            format!(
                "ipv4hint={}",
                list(hints.map(|hint| hint.to_string()).collect())
            )
        }
        6 => {
            let hints = value
                .chunks_exact(16)
                .filter_map(|c| <[u8; 16]>::try_from(c).ok());
            format!(
                "ipv6hint={}",
                list(hints.map(|hint| Ipv6Addr::from(hint).to_string()).collect())
            )
        }
        _ => format!("key{key}={}", quote(value)),
    })
}

fn quote(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for &octet in text {
        match octet {
            b'"' | b'\\' => {
                let _ = write!(quoted, "\\{}", octet as char);
            }
            0x20..=0x7e => quoted.push(octet as char),
            _ => {
                let _ = write!(quoted, "\\{octet:03}");
            }
        }
    }
    quoted.push('"');
    quoted
}
