//! Octets from text in one of their encodings: hexadecimal, base64, base32hex, groups of digits.

use super::check::parse_checked;
use super::digits::hex_digit;
use super::encoding::{Base64Reader, HexReader, base32hex, unescaped};
use super::field::Field;
use super::words::{MALFORMED, RdataTarget, STRING, Words, number, string};
use crate::text::TextError;

/// Parses a field of octets in one of the encodings.
pub(super) fn parse_octets(
    field: &Field,
    words: &mut Words<'_, '_>,
    target: &mut RdataTarget<'_>,
) -> Result<(), TextError> {
    match field {
        Field::Tag => {
            let word = words.expect("a tag of letters and digits")?;
            let plain = word.text.iter().all(u8::is_ascii_alphanumeric);
            if !plain || !(1..=255).contains(&word.text.len()) {
                return Err(word.error("a tag of letters and digits"));
            }
            string(&word, target.out)?;
        }
        Field::Text { min } => {
            let word = words.expect("a quoted string")?;
            let at = target.out.len();
            unescaped(word.text, target.out).ok_or_else(|| word.error(STRING))?;
            if target.out.len() - at < *min {
                return Err(word.error("a string that is not empty"));
            }
        }
        Field::Hex { .. } | Field::Digest { .. } => {
            return encoded(field, words, target, hex_words);
        }
        Field::Base64 { .. } => return encoded(field, words, target, base64_words),
        Field::Base64OrDash => {
            let word = words.expect("base64, or - for nothing")?;
            if word.text != b"-" {
                words.hold(word);
                base64_words(words, target.out)?;
            }
        }
        Field::Salt => {
            let what = "up to 255 octets in hexadecimal, or - for none";
            let word = words.expect(what)?;
            let text = if word.text == b"-" { b"" } else { word.text };
            let mut reader = HexReader::default();
            let read = counted(target.out, |out| reader.feed(text, out));
            // Only `-` means empty.
            let nothing = word.text.is_empty();
            if read.is_none() || !reader.is_complete() || nothing {
                return Err(word.error(what));
            }
        }
        Field::HashedName => {
            let what = "a hash of 1 to 255 octets in base32hex";
            let word = words.expect(what)?;
            counted(target.out, |out| base32hex(word.text, out))
                .filter(|len| *len > 0)
                .ok_or_else(|| word.error(what))?;
        }
        Field::Eui(octets) => {
            let what = "hexadecimal pairs with dashes, like 00-00-5e-00-53-2a";
            let word = words.expect(what)?;
            grouped(word.text, *octets, 2, b'-', target.out).ok_or_else(|| word.error(what))?;
        }
        Field::Locator64 => {
            let what = "four groups of hexadecimal digits with colons";
            let word = words.expect(what)?;
            locator(word.text, target.out).ok_or_else(|| word.error(what))?;
        }
        Field::Nsap => nsap(words, target.out)?,
        _ => {
            let what = "\\#, as this type has no other text form";
            return Err(words.expect(what)?.error(what));
        }
    }
    Ok(())
}

/// Reads encoded words up to the end, and checks their total length.
fn encoded(
    field: &Field,
    words: &mut Words<'_, '_>,
    target: &mut RdataTarget<'_>,
    read: impl FnOnce(&mut Words<'_, '_>, &mut Vec<u8>) -> Result<(), TextError>,
) -> Result<(), TextError> {
    let first = match field {
        Field::Base64 { min: 0 } => words.next()?,
        Field::Base64 { .. } => Some(words.expect("base64")?),
        _ => Some(words.expect("hexadecimal digits")?),
    };
    words.held = first;
    parse_checked(field, words, target, read).map_err(|error| match first {
        // The first word is more helpful than the end of the entry.
        Some(word) if error.message.starts_with(MALFORMED) => TextError {
            line: word.line,
            column: word.column,
            ..error
        },
        _ => error,
    })
}

fn base64_words(words: &mut Words<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let mut reader = Base64Reader::default();
    let mut last = None;
    while let Some(word) = words.next()? {
        reader
            .feed(word.text, out)
            .ok_or_else(|| word.error("base64"))?;
        last = Some(word);
    }
    match (reader.finish(out), last) {
        (None, Some(word)) => Err(word.error("base64 with its padding")),
        _ => Ok(()),
    }
}

/// Appends a length octet and the octets appended by `read`; returns their length.
fn counted(out: &mut Vec<u8>, read: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<usize> {
    let at = out.len();
    out.push(0);
    read(out)?;
    let len = out.len() - at - 1;
    out[at] = u8::try_from(len).ok()?;
    Some(len)
}

/// Appends `octets` octets written as groups of exactly `digits` digits with a separator.
fn grouped(
    text: &[u8],
    octets: usize,
    digits: usize,
    separator: u8,
    out: &mut Vec<u8>,
) -> Option<()> {
    let groups = octets * 2 / digits;
    if text.len() != groups * (digits + 1) - 1 {
        return None;
    }
    let mut reader = HexReader::default();
    for group in text.chunks(digits + 1) {
        reader.feed(&group[..digits], out)?;
        if group.get(digits).is_some_and(|byte| *byte != separator) {
            return None;
        }
    }
    Some(())
}

/// Parses a locator; groups may omit leading zeros as in IPv6 (RFC 6742 section 2.1.2).
fn locator(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut groups = 0;
    for group in text.split(|&byte| byte == b':') {
        if !(1..=4).contains(&group.len()) || groups == 4 {
            return None;
        }
        let mut value = 0u16;
        for &byte in group {
            value = value << 4 | u16::from(hex_digit(byte)?);
        }
        out.extend_from_slice(&value.to_be_bytes());
        groups += 1;
    }
    (groups == 4).then_some(())
}

/// Parses `0x` and digits, with dots anywhere for readability (RFC 1706 section 7).
fn nsap(words: &mut Words<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let what = "0x and hexadecimal digits";
    let word = words.expect(what)?;
    let mut reader = HexReader::default();
    let [b'0', b'x' | b'X', digits @ ..] = word.text else {
        return Err(word.error(what));
    };
    let at = out.len();
    for part in digits.split(|&byte| byte == b'.') {
        reader.feed(part, out).ok_or_else(|| word.error(what))?;
    }
    if !reader.is_complete() || out.len() == at {
        return Err(word.error("an even number of hexadecimal digits"));
    }
    Ok(())
}

/// Parses hexadecimal words up to the end.
pub(super) fn hex_words(words: &mut Words<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let mut reader = HexReader::default();
    let mut last = None;
    while let Some(word) = words.next()? {
        reader
            .feed(word.text, out)
            .ok_or_else(|| word.error("hexadecimal digits"))?;
        last = Some(word);
    }
    match last {
        Some(word) if !reader.is_complete() => {
            Err(word.error("an even number of hexadecimal digits"))
        }
        _ => Ok(()),
    }
}

/// Parses algorithm, tag in hexadecimal and key in base64, one word each (RFC 8005 section 6).
pub(super) fn hip_key(words: &mut Words<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let algorithm = number(words, 255, "an algorithm up to 255")? as u8;
    let head = out.len();
    out.extend_from_slice(&[0, algorithm, 0, 0]);
    let what = "a host identity tag of 1 to 255 octets in hexadecimal";
    let word = words.expect(what)?;
    let mut reader = HexReader::default();
    reader
        .feed(word.text, out)
        .ok_or_else(|| word.error(what))?;
    let tag = out.len() - head - 4;
    if !reader.is_complete() || !(1..=255).contains(&tag) {
        return Err(word.error(what));
    }
    let what = "a public key in base64";
    let word = words.expect(what)?;
    let mut reader = Base64Reader::default();
    reader
        .feed(word.text, out)
        .and_then(|()| reader.finish(out))
        .ok_or_else(|| word.error(what))?;
    let key = out.len() - head - 4 - tag;
    let Some(key) = u16::try_from(key).ok().filter(|key| *key > 0) else {
        return Err(word.error(what));
    };
    out[head] = tag as u8;
    out[head + 2..head + 4].copy_from_slice(&key.to_be_bytes());
    Ok(())
}
