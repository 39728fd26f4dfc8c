//! APL: lists of address prefixes (RFC 3123).

use super::RdataError;
use super::digits::{decimal, ipv4, ipv6};
use super::words::Words;
use crate::text::{TextError, Token};
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

const IPV4: u16 = 1;
const IPV6: u16 = 2;
const NEGATED: u8 = 0x80;

/// One prefix: family, prefix length, negation and the address without trailing zero octets.
struct Item<'a> {
    family: u16,
    prefix: u8,
    negated: bool,
    address: &'a [u8],
}

fn split_item(data: &[u8]) -> Result<(Item<'_>, &[u8]), RdataError> {
    let [high, low, prefix, flags, rest @ ..] = data else {
        return Err(RdataError::Short);
    };
    let len = (flags & !NEGATED) as usize;
    let (address, rest) = rest.split_at_checked(len).ok_or(RdataError::Short)?;
    let item = Item {
        family: u16::from_be_bytes([*high, *low]),
        prefix: *prefix,
        negated: flags & NEGATED != 0,
        address,
    };
    Ok((item, rest))
}

/// Checks items up to the end.
pub(super) fn check(mut data: &[u8]) -> Result<(), RdataError> {
    while !data.is_empty() {
        let (item, rest) = split_item(data)?;
        let octets = match item.family {
            IPV4 => 4,
            IPV6 => 16,
            _ => return Err(RdataError::Value("an unknown address family")),
        };
        if item.address.len() > octets || item.prefix as usize > octets * 8 {
            return Err(RdataError::Value(
                "an address prefix too long for its family",
            ));
        }
        // RFC 3123 section 4: trailing zero octets must not be present.
        if item.address.last() == Some(&0) {
            return Err(RdataError::Value(
                "an address prefix that ends in a zero octet",
            ));
        }
        data = rest;
    }
    Ok(())
}

/// Reads `[!]family:address/prefix` words up to the end.
pub(super) fn parse(words: &mut Words<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    while let Some(word) = words.next()? {
        append_item(&word, out)
            .ok_or_else(|| word.error("[!]1:IPv4/prefix or [!]2:IPv6/prefix"))?;
    }
    Ok(())
}

fn append_item(word: &Token<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (negated, text) = match word.text {
        [b'!', text @ ..] => (NEGATED, text),
        text => (0, text),
    };
    let colon = text.iter().position(|&byte| byte == b':')?;
    let slash = text.iter().rposition(|&byte| byte == b'/')?;
    let address = text.get(colon + 1..slash)?;
    let prefix = &text[slash + 1..];
    let mut append = |family: u16, octets: &[u8]| {
        let prefix = decimal(prefix, octets.len() as u64 * 8)?;
        let len = octets
            .iter()
            .rposition(|&octet| octet != 0)
            .map_or(0, |last| last + 1);
        out.extend_from_slice(&family.to_be_bytes());
        out.extend_from_slice(&[prefix as u8, negated | len as u8]);
        out.extend_from_slice(&octets[..len]);
        Some(())
    };
    match &text[..colon] {
        b"1" => append(IPV4, &ipv4(address)?),
        b"2" => append(IPV6, &ipv6(address)?),
        _ => None,
    }
}

/// Writes the items of validated data.
pub(super) fn print(mut data: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
    let mut separator = "";
    while !data.is_empty() {
        let (item, rest) = split_item(data).map_err(|_| fmt::Error)?;
        let sign = if item.negated { "!" } else { "" };
        write!(out, "{separator}{sign}{}:", item.family)?;
        if item.family == IPV4 {
            write!(out, "{}", Ipv4Addr::from(padded::<4>(item.address)?))?;
        } else {
            write!(out, "{}", Ipv6Addr::from(padded::<16>(item.address)?))?;
        }
        write!(out, "/{}", item.prefix)?;
        separator = " ";
        data = rest;
    }
    Ok(())
}

fn padded<const N: usize>(address: &[u8]) -> Result<[u8; N], fmt::Error> {
    let mut octets = [0; N];
    octets
        .get_mut(..address.len())
        .ok_or(fmt::Error)?
        .copy_from_slice(address);
    Ok(octets)
}
