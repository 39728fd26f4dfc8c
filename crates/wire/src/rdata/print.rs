//! Record data as text: absolute names, one line.

use super::field::{Codes, Field};
use super::quoted::quoted;
use super::{apl, bitmap, check, describe, loc, svcb, validate, wks};
use crate::name::Name;
use crate::rtype::Type;
use core::fmt;
use core::net::Ipv6Addr;
use data_encoding::{BASE32HEX_NOPAD, BASE64, Encoding, HEXLOWER, HEXUPPER};
use nameward_base::calendar::UtcTime;

/// Writes uncompressed wire data as text that [`super::parse_text`] reads back. Opaque or malformed
/// data is written as `\#` (RFC 3597 section 5).
pub fn write_text(rtype: Type, rdata: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    let out: &mut dyn fmt::Write = out;
    let fields = match describe(rtype) {
        Some(info) if validate(rtype, rdata).is_ok() => info.fields,
        _ => return generic(rdata, out),
    };
    let (mut at, mut printed) = (0, false);
    for field in fields {
        let end = check::field_end(field, rdata, at).map_err(|_| fmt::Error)?;
        let data = rdata.get(at..end).ok_or(fmt::Error)?;
        at = end;
        if data.is_empty() && !field.shows_emptiness() {
            continue;
        }
        if printed {
            out.write_char(' ')?;
        }
        printed = true;
        match field {
            Field::Gateway { .. } => gateway(field, rdata, data, out)?,
            _ => print_field(field, data, out)?,
        }
    }
    Ok(())
}

impl Field {
    /// Checks whether a field without octets is still represented by a word in text.
    fn shows_emptiness(&self) -> bool {
        matches!(
            self,
            Field::Gateway { .. } | Field::Base64OrDash | Field::Text { .. } | Field::Opaque
        )
    }
}

fn generic(rdata: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    write!(out, "\\# {}", rdata.len())?;
    if !rdata.is_empty() {
        out.write_char(' ')?;
        encoded(&HEXUPPER, rdata, out)?;
    }
    Ok(())
}

fn print_field(field: &Field, data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    match field {
        Field::Name(_) => write!(out, "{}", Name::from_valid_wire(data).verbatim()),
        Field::Names(_) => names(data, out),
        Field::U8 | Field::U16 | Field::U32 | Field::U64 | Field::Period => {
            write!(out, "{}", number(data))
        }
        Field::Time => {
            write!(out, "{}", UtcTime::from_unix(number(data)).digits())
        }
        Field::RrType => write!(out, "{}", Type(number(data) as u16)),
        Field::Code8(codes) | Field::Code16(codes) => code(codes, number(data) as u16, out),
        Field::Ipv4 => ipv4(array(data)?, out),
        Field::Ipv6 => write!(out, "{}", Ipv6Addr::from(array::<16>(data)?)),
        Field::String | Field::OptionalString | Field::Strings => strings(data, out),
        Field::Tag => data[1..]
            .iter()
            .try_for_each(|&byte| out.write_char(byte.into())),
        Field::Text { .. } => quoted(data, out),
        Field::Hex { .. } | Field::Digest { .. } => encoded(&HEXUPPER, data, out),
        Field::Base64OrDash if data.is_empty() => out.write_char('-'),
        Field::Base64 { .. } | Field::Base64OrDash => encoded(&BASE64, data, out),
        Field::Salt if data.len() == 1 => out.write_char('-'),
        Field::Salt => encoded(&HEXUPPER, &data[1..], out),
        Field::HashedName => encoded(&BASE32HEX_NOPAD, &data[1..], out),
        Field::Bitmap { .. } => types(bitmap::types(data), out),
        Field::NxtBitmap => types(bitmap::types_of(data).map(Type), out),
        Field::Eui(_) => grouped(data, 1, "-", out),
        Field::Locator64 => grouped(data, 2, ":", out),
        Field::Nsap => {
            out.write_str("0x")?;
            encoded(&HEXLOWER, data, out)
        }
        Field::Loc => loc::print(data, out),
        Field::Apl => apl::print(data, out),
        Field::Wks => wks::print(data, out),
        Field::SvcParams => svcb::print(data, out),
        Field::RelayType => {
            let octet = number(data);
            write!(out, "{} {}", octet >> 7, octet & 0x7f)
        }
        Field::HipKey => hip_key(data, out),
        Field::Gateway { .. } => Err(fmt::Error),
        Field::Opaque => generic(data, out),
    }
}

/// Reads up to eight octets as a number.
fn number(data: &[u8]) -> u64 {
    data.iter()
        .fold(0, |value, octet| value << 8 | u64::from(*octet))
}

fn array<const N: usize>(data: &[u8]) -> Result<[u8; N], fmt::Error> {
    data.try_into().map_err(|_| fmt::Error)
}

fn encoded(encoding: &Encoding, data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    write!(out, "{}", encoding.encode_display(data))
}

fn names(mut data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let mut separator = "";
    while !data.is_empty() {
        let (name, rest) = Name::split_from(data).map_err(|_| fmt::Error)?;
        write!(out, "{separator}{}", name.verbatim())?;
        separator = " ";
        data = rest;
    }
    Ok(())
}

fn code(codes: &Codes, value: u16, out: &mut dyn fmt::Write) -> fmt::Result {
    let name = codes.names.iter().find(|(known, _)| *known == value);
    match name {
        Some((_, name)) if codes.printed => out.write_str(name),
        _ => write!(out, "{value}"),
    }
}

/// Writes character strings up to the end.
fn strings(mut data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let mut separator = "";
    while let [len, rest @ ..] = data {
        let (string, rest) = rest.split_at_checked(*len as usize).ok_or(fmt::Error)?;
        out.write_str(separator)?;
        quoted(string, out)?;
        separator = " ";
        data = rest;
    }
    Ok(())
}

fn types(types: impl Iterator<Item = Type>, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut separator = "";
    for rtype in types {
        write!(out, "{separator}{rtype}")?;
        separator = " ";
    }
    Ok(())
}

/// Writes groups of `octets` octets in hexadecimal.
fn grouped(data: &[u8], octets: usize, between: &str, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut separator = "";
    for group in data.chunks(octets) {
        out.write_str(separator)?;
        separator = between;
        for octet in group {
            write!(out, "{octet:02x}")?;
        }
    }
    Ok(())
}

fn gateway(field: &Field, rdata: &[u8], data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let Field::Gateway { mask } = field else {
        return Err(fmt::Error);
    };
    match check::gateway_type(rdata, *mask) {
        Some(0) => out.write_char('.'),
        Some(1) => ipv4(array(data)?, out),
        Some(2) => write!(out, "{}", Ipv6Addr::from(array::<16>(data)?)),
        _ => names(data, out),
    }
}

/// Writes an IPv4 address. Most records of most zones are addresses, and this takes a fifth of the time of `Display`.
fn ipv4(octets: [u8; 4], out: &mut dyn fmt::Write) -> fmt::Result {
    let (mut text, mut len) = ([0; 15], 0);
    for (i, octet) in octets.into_iter().enumerate() {
        if i > 0 {
            text[len] = b'.';
            len += 1;
        }
        for (unit, digit) in [(100, octet / 100), (10, octet / 10 % 10), (1, octet % 10)] {
            if octet >= unit || unit == 1 {
                text[len] = b'0' + digit;
                len += 1;
            }
        }
    }
    out.write_str(str::from_utf8(&text[..len]).map_err(|_| fmt::Error)?)
}

fn hip_key(data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let [tag, algorithm, _, _, rest @ ..] = data else {
        return Err(fmt::Error);
    };
    let (tag, key) = rest.split_at_checked(*tag as usize).ok_or(fmt::Error)?;
    write!(out, "{algorithm} ")?;
    encoded(&HEXUPPER, tag, out)?;
    out.write_char(' ')?;
    encoded(&BASE64, key, out)
}
