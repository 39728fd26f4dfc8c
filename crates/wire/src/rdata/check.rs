//! Field boundaries in wire data, and validation of each field: on receipt, and after a field was parsed from text.

use super::field::Field;
use super::words::{MALFORMED, RdataTarget, Words};
use super::{RdataError, apl, bitmap, loc, name_at, svcb, wks};
use crate::text::TextError;

/// Returns the offset after `field`, which starts at offset `at` of `rdata` (at most its length).
#[inline]
pub(super) fn field_end(field: &Field, rdata: &[u8], at: usize) -> Result<usize, RdataError> {
    let rest = rdata.get(at..).ok_or(RdataError::Short)?;
    let len = match field {
        Field::Name(_) => name_at(rdata, at)?.as_wire().len(),
        Field::U8 | Field::Code8(_) => fixed(rest, 1)?,
        Field::U16 | Field::Code16(_) | Field::RrType => fixed(rest, 2)?,
        Field::U32 | Field::Period | Field::Time | Field::Ipv4 => fixed(rest, 4)?,
        Field::U64 | Field::Locator64 => fixed(rest, 8)?,
        Field::Ipv6 => fixed(rest, 16)?,
        Field::Eui(len) => fixed(rest, *len)?,
        Field::String | Field::Salt => counted(rest)?,
        Field::OptionalString if rest.is_empty() => 0,
        Field::OptionalString => counted(rest)?,
        Field::Strings => strings(rest)?,
        _ => other_end(field, rdata, rest, at)?,
    };
    Ok(at + len)
}

fn other_end(field: &Field, rdata: &[u8], rest: &[u8], at: usize) -> Result<usize, RdataError> {
    match field {
        Field::Names(_) => {
            let mut next = at;
            while next < rdata.len() {
                next += name_at(rdata, next)?.as_wire().len();
            }
            return Ok(rest.len());
        }
        Field::Tag => {
            let len = counted(rest)?;
            if len < 2 || !rest[1..len].iter().all(u8::is_ascii_alphanumeric) {
                return Err(RdataError::Value("a tag not of ASCII letters and digits"));
            }
            return Ok(len);
        }
        Field::HashedName => {
            let len = counted(rest)?;
            if len < 2 {
                return Err(RdataError::Value("an empty hash"));
            }
            return Ok(len);
        }
        Field::RelayType => {
            return match rest.first() {
                None => Err(RdataError::Short),
                Some(octet) if octet & 0x7f > 3 => Err(RdataError::Value("an unknown relay type")),
                Some(_) => Ok(1),
            };
        }
        Field::Gateway { mask } => return gateway(rdata, rest, at, *mask),
        Field::HipKey => return hip_key(rest),
        Field::Text { min } | Field::Hex { min } | Field::Base64 { min } if rest.len() < *min => {
            return Err(RdataError::Short);
        }
        Field::Nsap if rest.is_empty() => return Err(RdataError::Short),
        Field::Digest { lengths, min } => digest(rdata[..at].last(), rest, lengths, *min)?,
        Field::Bitmap { empty } => bitmap::check(rest, *empty)?,
        Field::NxtBitmap => bitmap::check_nxt(rest)?,
        Field::Loc => loc::check(rest)?,
        Field::Apl => apl::check(rest)?,
        Field::Wks => wks::check(rest)?,
        Field::SvcParams => svcb::check(rest)?,
        _ => {}
    }
    Ok(rest.len())
}

fn fixed(rest: &[u8], len: usize) -> Result<usize, RdataError> {
    if rest.len() < len {
        return Err(RdataError::Short);
    }
    Ok(len)
}

fn counted(rest: &[u8]) -> Result<usize, RdataError> {
    match rest.first() {
        Some(&len) => fixed(rest, 1 + len as usize),
        None => Err(RdataError::Short),
    }
}

fn strings(rest: &[u8]) -> Result<usize, RdataError> {
    let mut at = counted(rest)?;
    while at < rest.len() {
        at += counted(&rest[at..])?;
    }
    Ok(at)
}

fn digest(
    kind: Option<&u8>,
    rest: &[u8],
    lengths: &[(u8, usize)],
    min: usize,
) -> Result<(), RdataError> {
    let wanted = lengths.iter().find(|(known, _)| Some(known) == kind);
    match wanted {
        Some(&(_, len)) if rest.len() != len => {
            Err(RdataError::Value("a digest not of its algorithm's length"))
        }
        None if rest.len() < min => Err(RdataError::Short),
        _ => Ok(()),
    }
}

/// Returns the gateway type given in the second octet.
pub(super) fn gateway_type(rdata: &[u8], mask: u8) -> Option<u8> {
    rdata.get(1).map(|octet| octet & mask)
}

fn gateway(rdata: &[u8], rest: &[u8], at: usize, mask: u8) -> Result<usize, RdataError> {
    match gateway_type(rdata, mask).ok_or(RdataError::Short)? {
        0 => Ok(0),
        1 => fixed(rest, 4),
        2 => fixed(rest, 16),
        3 => Ok(name_at(rdata, at)?.as_wire().len()),
        _ => Err(RdataError::Value("an unknown gateway type")),
    }
}

/// Returns the length of a HIP key: tag length, algorithm, key length, then tag and key (RFC 8005
/// section 5).
fn hip_key(rest: &[u8]) -> Result<usize, RdataError> {
    let [tag, _, high, low, ..] = rest else {
        return Err(RdataError::Short);
    };
    let (tag, key) = (*tag as usize, u16::from_be_bytes([*high, *low]) as usize);
    if tag == 0 || key == 0 {
        return Err(RdataError::Value("an empty host identity tag or key"));
    }
    fixed(rest, 4 + tag + key)
}

/// Parses a field whose remaining rules are easier to check on the wire form.
pub(super) fn parse_checked(
    field: &Field,
    words: &mut Words<'_, '_>,
    target: &mut RdataTarget<'_>,
    read: impl FnOnce(&mut Words<'_, '_>, &mut Vec<u8>) -> Result<(), TextError>,
) -> Result<(), TextError> {
    let at = target.out.len() - target.start;
    read(words, target.out)?;
    match field_end(field, &target.out[target.start..], at) {
        Ok(_) => Ok(()),
        // All words are consumed, so the error is located at the end of the entry.
        Err(why) => match words.expect("") {
            Err(end) => Err(TextError {
                message: format!("{MALFORMED}, found {why}"),
                ..end
            }),
            Ok(word) => Err(word.error(&format!("well-formed record data ({why})"))),
        },
    }
}
