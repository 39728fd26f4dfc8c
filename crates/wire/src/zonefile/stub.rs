//! Record data until the table of types is here.
use crate::name::{Name, NameBuf};
use crate::rtype::{Class, Type};
use crate::text::{Fields, TextError, Token};

pub(super) fn class_from_text(text: &[u8]) -> Option<Class> {
    if text.eq_ignore_ascii_case(b"IN") {
        return Some(Class::IN);
    }
    if text.eq_ignore_ascii_case(b"CH") {
        return Some(Class::CH);
    }
    if text.eq_ignore_ascii_case(b"HS") {
        return Some(Class(4));
    }
    let (head, digits) = text.split_at_checked(5)?;
    if !head.eq_ignore_ascii_case(b"CLASS") || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(digits).ok()?.parse().ok().map(Class)
}

pub(super) fn type_from_text(text: &[u8]) -> Option<Type> {
    match text.to_ascii_uppercase().as_slice() {
        b"A" => Some(Type::A),
        b"NS" => Some(Type::NS),
        b"SOA" => Some(Type::SOA),
        b"TXT" => Some(Type::TXT),
        b"MX" => Some(Type::MX),
        b"ANY" => Some(Type::ANY),
        _ => None,
    }
}

pub(super) fn parse_ttl(word: &Token<'_>) -> Result<u32, TextError> {
    const EXPECTED: &str = "a TTL of at most 2147483647 seconds such as 3600 or 1h30m";
    let (mut total, mut value, mut digits, mut units) = (0u64, 0u64, false, false);
    for &byte in word.text {
        if byte.is_ascii_digit() {
            value = value * 10 + u64::from(byte - b'0');
            digits = true;
        } else {
            let unit = match byte.to_ascii_lowercase() {
                b's' => 1,
                b'm' => 60,
                b'h' => 3600,
                b'd' => 86_400,
                b'w' => 604_800,
                _ => return Err(word.error(EXPECTED)),
            };
            if !digits {
                return Err(word.error(EXPECTED));
            }
            total += value * unit;
            (value, digits, units) = (0, false, true);
        }
        if total + value > i32::MAX as u64 {
            return Err(word.error(EXPECTED));
        }
    }
    if units && digits || word.text.is_empty() {
        return Err(word.error(EXPECTED));
    }
    Ok((total + value) as u32)
}

pub(super) fn parse_text(
    rtype: Type,
    fields: &mut Fields<'_>,
    origin: Name<'_>,
    out: &mut Vec<u8>,
) -> Result<(), TextError> {
    let name = |f: &mut Fields<'_>, out: &mut Vec<u8>| {
        let t = f.expect("a name")?;
        let n = NameBuf::from_text(t.text, origin).map_err(|_| t.error("a name"))?;
        out.extend_from_slice(n.as_name().as_wire());
        Ok::<(), TextError>(())
    };
    match rtype {
        Type::A => {
            let t = fields.expect("an IPv4 address")?;
            let a: core::net::Ipv4Addr = core::str::from_utf8(t.text)
                .ok()
                .and_then(|s| s.parse().ok())
                .ok_or_else(|| t.error("an IPv4 address"))?;
            out.extend(a.octets());
        }
        Type::NS => name(fields, out)?,
        Type::SOA => {
            name(fields, out)?;
            name(fields, out)?;
            let t = fields.expect("a serial")?;
            let n: u32 = core::str::from_utf8(t.text)
                .ok()
                .and_then(|s| s.parse().ok())
                .ok_or_else(|| t.error("a serial"))?;
            out.extend(n.to_be_bytes());
            for _ in 0..4 {
                out.extend(parse_ttl(&fields.expect("a time")?)?.to_be_bytes());
            }
        }
        Type::MX => {
            let t = fields.expect("a preference")?;
            let n: u16 = core::str::from_utf8(t.text)
                .ok()
                .and_then(|s| s.parse().ok())
                .ok_or_else(|| t.error("a preference"))?;
            out.extend(n.to_be_bytes());
            name(fields, out)?;
        }
        _ => {
            while let Some(t) = fields.next()? {
                out.push(t.text.len().min(255) as u8);
                out.extend_from_slice(&t.text[..t.text.len().min(255)]);
            }
        }
    }
    Ok(())
}
