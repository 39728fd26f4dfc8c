//! Record data: conversion between wire and presentation format for every type.
//!
//! `table` describes each type once, as a list of [`Field`]s. Three interpreters of that list do
//! the rest: `check` finds the end of each field in wire data and checks whether it is well formed,
//! `parse` reads fields from zone file words, `print` writes them. Compression (RFC 3597 section
//! 4), canonical form (RFC 4034 section 6.2, RFC 6840 section 5.1) and additional section
//! processing follow from the attributes of name fields.
//!
//! Data of a type without a description, or without a text form, is opaque: `\#` (RFC 3597 section
//! 5).

mod apl;
mod bitmap;
mod check;
mod digits;
mod encoding;
mod field;
mod loc;
mod names;
mod octets;
mod parse;
mod print;
mod quoted;
mod short_name;
mod svcb;
mod table;
mod time;
mod ttl;
mod wks;
mod words;

pub use bitmap::{Builder as BitmapBuilder, types as bitmap_types};
pub use field::{Codes, Field, NameUse, TypeInfo};
pub use names::{Names, append_name, canonicalise, names};
pub use parse::parse_text;
pub use print::write_text;
pub use svcb::{fill_hints, has_auto_hints};
pub use table::{describe, types};
pub use ttl::parse_ttl;
pub use words::Notes;

pub(crate) use digits::{ipv4, ipv6};
pub(crate) use short_name::ShortName;

use crate::name::{Name, NameBuf, NameError};
use crate::rtype::Type;

/// The longest record data: RDLENGTH has 16 bits.
pub const MAX_RDATA: usize = 65_535;

/// The reason why octets are not well-formed data of their type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RdataError {
    /// The data ends inside a field.
    #[error("the record data is truncated")]
    Short,
    /// Octets follow the last field.
    #[error("trailing octets after the record data")]
    Trailing,
    /// More than 65535 octets.
    #[error("record data longer than 65535 octets")]
    Long,
    /// A name in the data is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A field has a value that its type forbids.
    #[error("{0}")]
    Value(&'static str),
}

/// Checks that uncompressed wire data is well formed for its type. Data of an unknown type is
/// always accepted.
pub fn validate(rtype: Type, rdata: &[u8]) -> Result<(), RdataError> {
    if rdata.len() > MAX_RDATA {
        return Err(RdataError::Long);
    }
    let Some(info) = describe(rtype) else {
        return Ok(());
    };
    let mut at = 0;
    for field in info.fields {
        at = check::field_end(field, rdata, at)?;
    }
    if at == rdata.len() {
        Ok(())
    } else {
        Err(RdataError::Trailing)
    }
}

/// Appends the data at `at..at + rdlength` of a message to `out`, with names decompressed.
///
/// Only the types of RFC 3597 section 4 may be compressed on receipt; for others a pointer is an
/// error. Pointers only go backwards and the octets after the record are not visible, so nothing
/// past its end is read; a field list has at most two compressed names, which bounds the growth to
/// 510 octets. On error `out` is unchanged.
pub fn from_message(
    rtype: Type,
    message: &[u8],
    at: usize,
    rdlength: usize,
    out: &mut Vec<u8>,
) -> Result<(), RdataError> {
    let start = out.len();
    let result = expand(rtype, message, at, rdlength, out);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn expand(
    rtype: Type,
    message: &[u8],
    at: usize,
    rdlength: usize,
    out: &mut Vec<u8>,
) -> Result<(), RdataError> {
    let end = at.checked_add(rdlength).ok_or(RdataError::Short)?;
    let message = message.get(..end).ok_or(RdataError::Short)?;
    let rdata = message.get(at..).ok_or(RdataError::Short)?;
    let Some(info) = describe(rtype) else {
        out.extend_from_slice(rdata);
        return Ok(());
    };
    let start = out.len();
    let mut read = 0;
    for field in info.fields {
        if let Field::Name(NameUse {
            decompress: true, ..
        }) = field
        {
            let (name, behind) = NameBuf::from_message(message, at + read)?;
            out.extend_from_slice(name.as_name().as_wire());
            read = behind - at;
        } else {
            let field_end = check::field_end(field, rdata, read)?;
            out.extend_from_slice(&rdata[read..field_end]);
            read = field_end;
        }
    }
    if read != rdata.len() {
        return Err(RdataError::Trailing);
    }
    if out.len() - start > MAX_RDATA {
        return Err(RdataError::Long);
    }
    Ok(())
}

/// Returns the name at offset `at` of uncompressed data.
fn name_at(rdata: &[u8], at: usize) -> Result<Name<'_>, RdataError> {
    let rest = rdata.get(at..).ok_or(RdataError::Short)?;
    Ok(Name::split_from(rest)?.0)
}
