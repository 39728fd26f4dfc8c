//! Parsing of record data from zone file words.

use super::check::{self, parse_checked};
use super::digits::{decimal, ipv4, ipv6};
use super::encoding::unescaped;
use super::field::{Codes, Field};
use super::names::append_name;
use super::octets::{hex_words, hip_key, parse_octets};
use super::words::{Notes, RdataTarget, STRING, Words, number, string};
use super::{MAX_RDATA, apl, bitmap, describe, loc, parse_ttl, svcb, time, validate, wks};
use crate::name::Name;
use crate::rtype::Type;
use crate::text::{Fields, TextError, Token};
use memchr::memchr;

/// Parses the data of one record from the remaining words of its entry and appends it in
/// uncompressed wire form. `\#` is accepted for every type and validated for known ones (RFC 3597
/// section 5). On error `out` is unchanged.
pub fn parse_text(
    rtype: Type,
    fields: &mut Fields<'_>,
    origin: Name<'_>,
    out: &mut Vec<u8>,
) -> Result<Notes, TextError> {
    let start = out.len();
    let mut target = RdataTarget {
        origin,
        out,
        start,
        notes: Notes::default(),
    };
    let result = parse_entry(rtype, fields, &mut target);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn parse_entry(
    rtype: Type,
    fields: &mut Fields<'_>,
    target: &mut RdataTarget<'_>,
) -> Result<Notes, TextError> {
    let first = fields.next()?;
    let mut words = Words {
        fields,
        held: first,
    };
    if let Some(word) = first
        && word.text == b"\\#"
        && !word.quoted
    {
        words.held = None;
        generic(rtype, word, &mut words, target)?;
        return Ok(target.notes);
    }
    let Some(info) = describe(rtype) else {
        return Err(words.expect("\\#")?.error("\\# for a type without a name"));
    };
    for field in info.fields {
        parse_field(field, &mut words, target)?;
    }
    if let Some(extra) = words.next()? {
        return Err(extra.error("the end of the record"));
    }
    if target.out.len() - target.start > MAX_RDATA {
        return Err(too_long(first));
    }
    Ok(target.notes)
}

#[cold]
fn too_long(first: Option<Token<'_>>) -> TextError {
    let (line, column) = first.map_or((0, 0), |word| (word.line, word.column));
    TextError {
        line,
        column,
        message: "expected at most 65535 octets of record data".into(),
    }
}

/// Parses `\#`, the length and hexadecimal words.
fn generic<'a>(
    rtype: Type,
    first: Token<'a>,
    words: &mut Words<'_, 'a>,
    target: &mut RdataTarget<'_>,
) -> Result<(), TextError> {
    let what = "the length of the data, up to 65535";
    let word = words.expect(what)?;
    let len = decimal(word.text, MAX_RDATA as u64).ok_or_else(|| word.error(what))?;
    hex_words(words, target.out)?;
    if target.out.len() - target.start != len as usize {
        let found = target.out.len() - target.start;
        return Err(word.error(&format!("the length {found} of the data that follows")));
    }
    validate(rtype, &target.out[target.start..])
        .map_err(|why| first.error(&format!("well-formed data of type {rtype} ({why})")))
}

#[inline]
fn parse_field(
    field: &Field,
    words: &mut Words<'_, '_>,
    target: &mut RdataTarget<'_>,
) -> Result<(), TextError> {
    match field {
        Field::Ipv4 => {
            let word = words.expect("an IPv4 address")?;
            let address = ipv4(word.text).ok_or_else(|| word.error("an IPv4 address"))?;
            target.out.extend_from_slice(&address);
        }
        Field::Ipv6 => {
            let word = words.expect("an IPv6 address")?;
            let address = ipv6(word.text).ok_or_else(|| word.error("an IPv6 address"))?;
            target.out.extend_from_slice(&address);
        }
        Field::Name(_) => {
            let word = words.expect("a domain name")?;
            name(&word, target)?;
        }
        Field::U8 => {
            let value = number(words, 255, "a number up to 255")?;
            target.out.push(value as u8);
        }
        Field::U16 => {
            let value = number(words, 65_535, "a number up to 65535")?;
            target.out.extend_from_slice(&(value as u16).to_be_bytes());
        }
        Field::U32 => {
            let value = number(words, u64::from(u32::MAX), "a number up to 4294967295")?;
            target.out.extend_from_slice(&(value as u32).to_be_bytes());
        }
        Field::Period => {
            let what = "a number of seconds or a period like 1h30m";
            let word = words.expect(what)?;
            let value = parse_ttl(word.text).ok_or_else(|| word.error(what))?;
            target.out.extend_from_slice(&value.to_be_bytes());
        }
        Field::Strings => {
            let mut word = words.expect("a character string")?;
            loop {
                strings(&word, target)?;
                match words.next()? {
                    Some(next) => word = next,
                    None => break,
                }
            }
        }
        _ => return parse_other(field, words, target),
    }
    Ok(())
}

#[inline]
fn name(word: &Token<'_>, target: &mut RdataTarget<'_>) -> Result<(), TextError> {
    append_name(word.text, target.origin, target.out)
        .map_err(|why| word.error(&format!("a domain name ({why})")))
}

/// Writes one or more character strings for one word: text longer than 255 octets is split.
fn strings(word: &Token<'_>, target: &mut RdataTarget<'_>) -> Result<(), TextError> {
    let out = &mut *target.out;
    if word.text.len() <= 255 && memchr(b'\\', word.text).is_none() {
        out.push(word.text.len() as u8);
        out.extend_from_slice(word.text);
        return Ok(());
    }
    let at = out.len();
    out.push(0);
    unescaped(word.text, out).ok_or_else(|| word.error(STRING))?;
    let len = out.len() - at - 1;
    if len <= 255 {
        out[at] = len as u8;
        return Ok(());
    }
    if len > MAX_RDATA {
        return Err(too_long(Some(*word)));
    }
    target.notes.txt_split = true;
    let whole = out.split_off(at + 1);
    out.truncate(at);
    for part in whole.chunks(255) {
        out.push(part.len() as u8);
        out.extend_from_slice(part);
    }
    Ok(())
}

fn parse_other(
    field: &Field,
    words: &mut Words<'_, '_>,
    target: &mut RdataTarget<'_>,
) -> Result<(), TextError> {
    match field {
        Field::U64 => {
            let value = number(words, u64::MAX, "a number up to 18446744073709551615")?;
            target.out.extend_from_slice(&value.to_be_bytes());
        }
        Field::Names(_) => {
            while let Some(word) = words.next()? {
                name(&word, target)?;
            }
        }
        Field::Time => {
            let what = "a time as YYYYMMDDHHmmSS or seconds since 1970";
            let word = words.expect(what)?;
            let value = time::from_text(word.text).ok_or_else(|| word.error(what))?;
            target.out.extend_from_slice(&value.to_be_bytes());
        }
        Field::RrType => {
            let word = words.expect("a record type")?;
            let rtype = Type::from_text(word.text).ok_or_else(|| word.error("a record type"))?;
            target.out.extend_from_slice(&rtype.0.to_be_bytes());
        }
        Field::Code8(codes) => {
            let value = code(words, codes, 255)?;
            target.out.push(value as u8);
        }
        Field::Code16(codes) => {
            let value = code(words, codes, u16::MAX)?;
            target.out.extend_from_slice(&value.to_be_bytes());
        }
        Field::String => string(&words.expect("a character string")?, target.out)?,
        Field::OptionalString => {
            if let Some(word) = words.next()? {
                string(&word, target.out)?;
            }
        }
        Field::RelayType => {
            let discovery = number(words, 1, "0 or 1 for discovery")?;
            let kind = number(words, 3, "a relay type from 0 to 3")?;
            target.out.push((discovery << 7 | kind) as u8);
        }
        Field::Gateway { mask } => gateway(words, *mask, target)?,
        Field::HipKey => hip_key(words, target.out)?,
        Field::Bitmap { .. } => {
            let mut builder = bitmap::Builder::default();
            while let Some(word) = words.next()? {
                let rtype = Type::from_text(word.text);
                builder.add(rtype.ok_or_else(|| word.error("a record type"))?);
            }
            return parse_checked(field, words, target, |_, out| {
                builder.write(out);
                Ok(())
            });
        }
        Field::NxtBitmap => return parse_checked(field, words, target, nxt_bitmap),
        Field::Loc => loc::parse(words, target.out)?,
        Field::Apl => apl::parse(words, target.out)?,
        Field::Wks => wks::parse(words, target.out)?,
        Field::SvcParams => {
            let at = target.out.len();
            parse_checked(field, words, target, svcb::parse)?;
            target.notes.no_alpn |= svcb::lacks_alpn(&target.out[at..]);
            return Ok(());
        }
        _ => return parse_octets(field, words, target),
    }
    Ok(())
}

fn code(words: &mut Words<'_, '_>, codes: &Codes, max: u16) -> Result<u16, TextError> {
    let word = words.expect(codes.what)?;
    if let Some(value) = decimal(word.text, u64::from(max)) {
        return Ok(value as u16);
    }
    codes
        .names
        .iter()
        .find(|(_, name)| word.text.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(value, _)| *value)
        .ok_or_else(|| word.error(codes.what))
}

fn nxt_bitmap(words: &mut Words<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let at = out.len();
    while let Some(word) = words.next()? {
        let rtype = Type::from_text(word.text)
            .filter(|rtype| (1..128).contains(&rtype.0))
            .ok_or_else(|| word.error("a record type from 1 to 127"))?;
        let octet = at + rtype.0 as usize / 8;
        if out.len() <= octet {
            out.resize(octet + 1, 0);
        }
        out[octet] |= 0x80 >> (rtype.0 % 8);
    }
    Ok(())
}

fn gateway(
    words: &mut Words<'_, '_>,
    mask: u8,
    target: &mut RdataTarget<'_>,
) -> Result<(), TextError> {
    let kind = check::gateway_type(&target.out[target.start..], mask);
    let what = match kind {
        Some(0) => "'.' for no gateway",
        Some(1) => "an IPv4 address",
        Some(2) => "an IPv6 address",
        _ => "a domain name",
    };
    let word = words.expect(what)?;
    let done = match kind {
        Some(0) => (word.text == b".").then_some(()),
        Some(1) => ipv4(word.text).map(|address| target.out.extend_from_slice(&address)),
        Some(2) => ipv6(word.text).map(|address| target.out.extend_from_slice(&address)),
        Some(3) => return name(&word, target),
        _ => return Err(word.error("a gateway type from 0 to 3 before")),
    };
    done.ok_or_else(|| word.error(what))
}
