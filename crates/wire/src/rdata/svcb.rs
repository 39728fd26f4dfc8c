//! Service parameters of SVCB and HTTPS (RFC 9460).
//!
//! `ipv4hint=auto` and `ipv6hint=auto`, as in PowerDNS, are hints that a server fills in from the addresses of the target
//! when it answers ([`fill_hints`]). Their value is empty here, which no client or other server ever gets.

use super::RdataError;
use super::digits::{decimal, ipv4, ipv6};
use super::encoding::{Base64Reader, unescaped};
use super::quoted::{quoted, quoted_byte};
use super::words::Words;
use crate::text::{TextError, Token};
use crate::{Name, Type};
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use data_encoding::BASE64;

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const IPV4_HINT: u16 = 4;
const IPV6_HINT: u16 = 6;
const INVALID: u16 = 65_535;
/// The value of a hint that is filled in when the record is sent.
const AUTO: &[u8] = b"auto";

/// The value format of a service parameter key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ParamValue {
    Keys,
    Ids,
    Nothing,
    Port,
    Ipv4s,
    Base64,
    Ipv6s,
    Text,
    Numbers,
    /// A key without a registered name: octets verbatim.
    Any,
}

/// IANA, Service Parameter Keys; a key's number is its index.
const KEYS: [(&str, ParamValue); 10] = [
    ("mandatory", ParamValue::Keys),
    ("alpn", ParamValue::Ids),
    ("no-default-alpn", ParamValue::Nothing),
    ("port", ParamValue::Port),
    ("ipv4hint", ParamValue::Ipv4s),
    ("ech", ParamValue::Base64),
    ("ipv6hint", ParamValue::Ipv6s),
    ("dohpath", ParamValue::Text),
    ("ohttp", ParamValue::Nothing),
    ("tls-supported-groups", ParamValue::Numbers),
];

fn value_of(key: u16) -> ParamValue {
    KEYS.get(key as usize)
        .map_or(ParamValue::Any, |(_, value)| *value)
}

/// Splits key and value off the front.
fn split_param(data: &[u8]) -> Result<(u16, &[u8], &[u8]), RdataError> {
    let [k0, k1, l0, l1, rest @ ..] = data else {
        return Err(RdataError::Short);
    };
    let len = u16::from_be_bytes([*l0, *l1]) as usize;
    let (value, rest) = rest.split_at_checked(len).ok_or(RdataError::Short)?;
    Ok((u16::from_be_bytes([*k0, *k1]), value, rest))
}

/// Checks parameters up to the end: ascending keys, each value by its key's rules, and that mandatory keys are present.
pub(super) fn check(data: &[u8]) -> Result<(), RdataError> {
    let (mut rest, mut previous) = (data, None);
    let mut mandatory = &[][..];
    while !rest.is_empty() {
        let (key, value, behind) = split_param(rest)?;
        if previous.is_some_and(|previous| key <= previous) {
            return Err(RdataError::Value(
                "service parameter keys not in ascending order",
            ));
        }
        previous = Some(key);
        check_value(key, value)?;
        if key == MANDATORY {
            mandatory = value;
        }
        rest = behind;
    }
    // Both lists are in ascending order, so one pass finds each mandatory key.
    let mut missing = mandatory.chunks_exact(2).peekable();
    rest = data;
    while !rest.is_empty() {
        let (key, _, behind) = split_param(rest)?;
        missing.next_if(|missing| **missing == key.to_be_bytes());
        rest = behind;
    }
    match missing.next() {
        None => Ok(()),
        Some(_) => Err(RdataError::Value("a mandatory key that is not there")),
    }
}

/// Checks whether validated parameters have `no-default-alpn` without `alpn`. Such a record is not self-consistent (RFC
/// 9460 section 7.1.2), and clients ignore it (section 2.4.3). It is still accepted, as in other servers.
pub(super) fn lacks_alpn(data: &[u8]) -> bool {
    let mut rest = data;
    let (mut alpn, mut no_default) = (false, false);
    while let Ok((key, _, behind)) = split_param(rest) {
        alpn |= key == ALPN;
        no_default |= key == NO_DEFAULT_ALPN;
        rest = behind;
    }
    no_default && !alpn
}

/// Splits SVCB or HTTPS data into priority and target, and parameters.
fn split_data(rdata: &[u8]) -> Option<(&[u8], &[u8])> {
    let (target, _) = Name::split_from(rdata.get(2..)?).ok()?;
    rdata.split_at_checked(2 + target.as_wire().len())
}

/// Iterates over the parameters of validated data: key and value.
fn params(mut data: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let (key, value, rest) = split_param(data).ok()?;
        data = rest;
        Some((key, value))
    })
}

fn is_auto(key: u16, value: &[u8]) -> bool {
    matches!(key, IPV4_HINT | IPV6_HINT) && value.is_empty()
}

/// Checks whether SVCB or HTTPS data has hints that are filled in when the record is sent.
pub fn has_auto_hints(rdata: &[u8]) -> bool {
    split_data(rdata).is_some_and(|(_, data)| params(data).any(|(key, value)| is_auto(key, value)))
}

/// Returns validated SVCB or HTTPS data with its automatic hints filled in; `addresses` returns the addresses of the target
/// of type A or AAAA, one after the other. A hint without an address is left out, also of the list of mandatory keys.
pub fn fill_hints(rdata: &[u8], addresses: impl Fn(Type) -> Vec<u8>) -> Vec<u8> {
    let Some((head, data)) = split_data(rdata) else {
        return rdata.to_vec();
    };
    let hints = [(IPV4_HINT, Type::A), (IPV6_HINT, Type::AAAA)].map(|(hint, rtype)| {
        let is_wanted = params(data).any(|(key, value)| key == hint && value.is_empty());
        (hint, is_wanted.then(|| addresses(rtype)))
    });
    let filled = |wanted: u16| {
        let hint = hints.iter().find(|(hint, _)| *hint == wanted);
        hint.and_then(|(_, value)| value.as_deref())
    };
    let is_left_out = |key: u16| filled(key).is_some_and(<[u8]>::is_empty);
    let mut out = head.to_vec();
    for (key, value) in params(data) {
        let mut value = filled(key).unwrap_or(value).to_vec();
        if key == MANDATORY {
            let keys = value.chunks_exact(2);
            let kept = keys.filter(|key| !is_left_out(u16::from_be_bytes([key[0], key[1]])));
            value = kept.flatten().copied().collect();
        }
        if is_left_out(key) || key == MANDATORY && value.is_empty() {
            continue;
        }
        out.extend_from_slice(&key.to_be_bytes());
        // The caller limits the number of addresses.
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&value);
    }
    out
}

fn check_value(key: u16, value: &[u8]) -> Result<(), RdataError> {
    let multiple = |of: usize| !value.is_empty() && value.len().is_multiple_of(of);
    let good = match value_of(key) {
        ParamValue::Keys => {
            let keys = value.chunks_exact(2);
            let ascending = keys.clone().zip(keys.skip(1)).all(|(a, b)| a < b);
            multiple(2) && ascending && !value.starts_with(&[0, 0])
        }
        ParamValue::Ids => {
            !value.is_empty() && ids(value).all(|id| id.is_some_and(|id| !id.is_empty()))
        }
        ParamValue::Nothing => value.is_empty(),
        ParamValue::Port => value.len() == 2,
        // Without an address it is one that is filled in.
        ParamValue::Ipv4s => value.len().is_multiple_of(4),
        ParamValue::Ipv6s => value.len().is_multiple_of(16),
        ParamValue::Numbers => multiple(2),
        ParamValue::Base64 | ParamValue::Text => !value.is_empty(),
        ParamValue::Any => key != INVALID,
    };
    if good {
        return Ok(());
    }
    Err(RdataError::Value(match key {
        MANDATORY => "a mandatory list that is empty, out of order or names itself",
        ALPN => "an alpn list that is empty or has an empty id",
        INVALID => "the service parameter key 65535, which is reserved",
        _ => "a service parameter value not of its key's form",
    }))
}

/// Iterates over the protocol IDs in an alpn value; yields `None` for a truncated one.
fn ids(mut value: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    core::iter::from_fn(move || {
        let (len, rest) = value.split_first()?;
        match rest.split_at_checked(*len as usize) {
            Some((id, rest)) => {
                value = rest;
                Some(Some(id))
            }
            None => {
                value = &[];
                Some(None)
            }
        }
    })
}

/// Reads `key`, `key=value` and `key="value"` words up to the end, in any order.
pub(super) fn parse(words: &mut Words<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let mut encoded = Vec::new();
    let mut params: Vec<(u16, core::ops::Range<usize>)> = Vec::new();
    while let Some(word) = words.next()? {
        let (name, value, value_word) = split_word(word, words)?;
        let key = key_of(name)
            .filter(|_| !word.quoted)
            .ok_or_else(|| word.error("a service parameter key"))?;
        let start = encoded.len();
        encode(name, key, value, &mut encoded).map_err(|what| value_word.error(what))?;
        params.push((key, start..encoded.len()));
    }
    params.sort_by_key(|(key, _)| *key);
    for (key, range) in params {
        let value = &encoded[range];
        // An overlong value makes the record too long, which is detected later.
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&key.to_be_bytes());
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(value);
    }
    Ok(())
}

type SplitWord<'a> = (&'a [u8], Option<&'a [u8]>, Token<'a>);

/// Splits a word at `=`. A quoted value is the word that follows immediately.
fn split_word<'a>(word: Token<'a>, words: &mut Words<'_, 'a>) -> Result<SplitWord<'a>, TextError> {
    let Some(equals) = word.text.iter().position(|&byte| byte == b'=') else {
        return Ok((word.text, None, word));
    };
    let (name, value) = (&word.text[..equals], &word.text[equals + 1..]);
    if value.is_empty()
        && let Some(next) = words.next()?
    {
        let behind = word.column as usize + word.text.len();
        if next.quoted && next.line == word.line && next.column as usize == behind {
            return Ok((name, Some(next.text), next));
        }
        words.hold(next);
    }
    Ok((name, Some(value), word))
}

/// Returns the number of a key, given its name or `keyNNNNN` without leading zeros.
fn key_of(name: &[u8]) -> Option<u16> {
    if let Some(place) = KEYS.iter().position(|(known, _)| known.as_bytes() == name) {
        return Some(place as u16);
    }
    let digits = name.strip_prefix(b"key")?;
    if digits.len() > 1 && digits[0] == b'0' {
        return None;
    }
    decimal(digits, 65_534).map(|key| key as u16)
}

/// Appends the wire form of a value; the error describes the expected value.
fn encode(
    name: &[u8],
    key: u16,
    value: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let text = value.unwrap_or_default();
    // `keyNNNNN` carries the wire form, for known keys too (RFC 9460 section 2.1).
    let kind = if name.starts_with(b"key") {
        ParamValue::Any
    } else {
        value_of(key)
    };
    let mut raw = Vec::new();
    if kind != ParamValue::Any && kind != ParamValue::Text {
        unescaped(text, &mut raw).ok_or(ESCAPES)?;
    }
    match kind {
        ParamValue::Any | ParamValue::Text => unescaped(text, out).ok_or(ESCAPES),
        ParamValue::Nothing if text.is_empty() => Ok(()),
        ParamValue::Nothing => Err("a key without a value"),
        ParamValue::Port => {
            let port = decimal(&raw, 65_535).ok_or("a port up to 65535")?;
            out.extend_from_slice(&(port as u16).to_be_bytes());
            Ok(())
        }
        ParamValue::Base64 => {
            let mut reader = Base64Reader::default();
            let read = reader.feed(&raw, out).and_then(|()| reader.finish(out));
            read.ok_or("base64")
        }
        ParamValue::Ids => encode_ids(&raw, out),
        ParamValue::Keys => {
            let mut keys = Vec::new();
            for item in items(&raw) {
                keys.push(key_of(item).ok_or("a list of service parameter keys")?);
            }
            keys.sort_unstable();
            out.extend(keys.into_iter().flat_map(u16::to_be_bytes));
            Ok(())
        }
        ParamValue::Ipv4s | ParamValue::Ipv6s if raw == AUTO => Ok(()),
        ParamValue::Ipv4s if raw.is_empty() => Err(IPV4S),
        ParamValue::Ipv6s if raw.is_empty() => Err(IPV6S),
        ParamValue::Ipv4s => each(&raw, out, ipv4, IPV4S),
        ParamValue::Ipv6s => each(&raw, out, ipv6, IPV6S),
        ParamValue::Numbers => each(
            &raw,
            out,
            |item| decimal(item, 65_535).map(|number| (number as u16).to_be_bytes()),
            "a list of numbers up to 65535",
        ),
    }
}

const IPV4S: &str = "a list of IPv4 addresses, or auto";
const IPV6S: &str = "a list of IPv6 addresses, or auto";
const ESCAPES: &str = "escapes as \\DDD up to 255 or \\ and one character";

/// Splits a comma-separated list; an empty list has no items.
fn items(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',')
        .take(if list.is_empty() { 0 } else { usize::MAX })
}

fn each<const N: usize>(
    list: &[u8],
    out: &mut Vec<u8>,
    read: impl Fn(&[u8]) -> Option<[u8; N]>,
    what: &'static str,
) -> Result<(), &'static str> {
    for item in items(list) {
        out.extend_from_slice(&read(item).ok_or(what)?);
    }
    Ok(())
}

/// Encodes protocol IDs. Inside an ID, a comma is written `\,` and a backslash `\\`, below the escapes of the character
/// string (RFC 9460 appendix A.1).
fn encode_ids(list: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    let what = "a list of protocol ids of 1 to 255 octets";
    if list.is_empty() {
        return Ok(());
    }
    let close = |out: &mut Vec<u8>, start: usize| {
        out[start] = u8::try_from(out.len() - start - 1).map_err(|_| what)?;
        if out[start] == 0 { Err(what) } else { Ok(()) }
    };
    let mut start = out.len();
    out.push(0);
    let mut bytes = list.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b',' => {
                close(out, start)?;
                start = out.len();
                out.push(0);
            }
            b'\\' => match bytes.next() {
                Some(escaped @ (b',' | b'\\')) => out.push(*escaped),
                _ => return Err(what),
            },
            _ => out.push(byte),
        }
    }
    close(out, start)
}

/// Writes validated parameters.
pub(super) fn print(mut data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let mut separator = "";
    while !data.is_empty() {
        let (key, value, rest) = split_param(data).map_err(|_| fmt::Error)?;
        out.write_str(separator)?;
        print_key(key, out)?;
        if !value.is_empty() {
            out.write_char('=')?;
            print_value(value_of(key), value, out)?;
        } else if matches!(key, IPV4_HINT | IPV6_HINT) {
            out.write_str("=auto")?;
        }
        separator = " ";
        data = rest;
    }
    Ok(())
}

fn print_key(key: u16, out: &mut dyn fmt::Write) -> fmt::Result {
    match KEYS.get(key as usize) {
        Some((name, _)) => out.write_str(name),
        None => write!(out, "key{key}"),
    }
}

fn print_value(kind: ParamValue, value: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let number = |item: &[u8]| u16::from_be_bytes([item[0], item[1]]);
    match kind {
        ParamValue::Keys => list(value, 2, out, |item, out| print_key(number(item), out)),
        ParamValue::Port | ParamValue::Numbers => {
            list(value, 2, out, |item, out| write!(out, "{}", number(item)))
        }
        ParamValue::Ipv4s => list(value, 4, out, |item, out| {
            let octets: [u8; 4] = item.try_into().map_err(|_| fmt::Error)?;
            write!(out, "{}", Ipv4Addr::from(octets))
        }),
        ParamValue::Ipv6s => list(value, 16, out, |item, out| {
            let octets: [u8; 16] = item.try_into().map_err(|_| fmt::Error)?;
            write!(out, "{}", Ipv6Addr::from(octets))
        }),
        ParamValue::Base64 => write!(out, "{}", BASE64.encode_display(value)),
        ParamValue::Ids => print_ids(value, out),
        ParamValue::Nothing | ParamValue::Text | ParamValue::Any => quoted(value, out),
    }
}

fn list(
    value: &[u8],
    octets: usize,
    out: &mut dyn fmt::Write,
    print: impl Fn(&[u8], &mut dyn fmt::Write) -> fmt::Result,
) -> fmt::Result {
    let mut separator = "";
    for item in value.chunks_exact(octets) {
        out.write_str(separator)?;
        print(item, out)?;
        separator = ",";
    }
    Ok(())
}

fn print_ids(value: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_char('"')?;
    let mut separator = "";
    for id in ids(value) {
        out.write_str(separator)?;
        for &byte in id.ok_or(fmt::Error)? {
            if matches!(byte, b',' | b'\\') {
                quoted_byte(b'\\', out)?;
            }
            quoted_byte(byte, out)?;
        }
        separator = ",";
    }
    out.write_char('"')
}
