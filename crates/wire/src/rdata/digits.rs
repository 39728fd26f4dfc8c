//! Numbers and addresses in text, parsed from bytes without a detour through `str`.

/// Parses a decimal number up to `max`: digits only.
#[inline]
pub(super) fn decimal(text: &[u8], max: u64) -> Option<u64> {
    // 20 digits could overflow; longer input could only have pointless leading zeros.
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (value <= max).then_some(value)
}

/// Parses a dotted quad. A leading zero is an error: some parsers interpret it as octal.
#[inline]
pub(crate) fn ipv4(text: &[u8]) -> Option<[u8; 4]> {
    let mut address = [0u8; 4];
    let (mut part, mut value, mut digits) = (0, 0u32, 0);
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            if digits > 0 && value == 0 {
                return None;
            }
            value = value * 10 + u32::from(digit);
            digits += 1;
            if value > 255 {
                return None;
            }
        } else if byte == b'.' && digits > 0 && part < 3 {
            address[part] = value as u8;
            part += 1;
            (value, digits) = (0, 0);
        } else {
            return None;
        }
    }
    if part != 3 || digits == 0 {
        return None;
    }
    address[3] = value as u8;
    Some(address)
}

/// Parses an IPv6 address (RFC 4291 section 2.2), without a scope zone.
pub(crate) fn ipv6(text: &[u8]) -> Option<[u8; 16]> {
    let mut address = [0u8; 16];
    // `filled` octets are set; the `::` is at octet `gap`.
    let (mut filled, mut gap, mut at) = (0usize, None, 0usize);
    if text.starts_with(b"::") {
        gap = Some(0);
        at = 2;
    }
    while at < text.len() {
        let start = at;
        let mut value = 0u32;
        while let Some(digit) = text.get(at).and_then(|&byte| hex_digit(byte)) {
            value = value << 4 | u32::from(digit);
            at += 1;
            if at - start > 4 {
                return None;
            }
        }
        if text.get(at) == Some(&b'.') {
            let quad = ipv4(&text[start..])?;
            address.get_mut(filled..filled + 4)?.copy_from_slice(&quad);
            filled += 4;
            break;
        }
        if at == start {
            return None;
        }
        address
            .get_mut(filled..filled + 2)?
            .copy_from_slice(&(value as u16).to_be_bytes());
        filled += 2;
        match text.get(at) {
            None => break,
            Some(b':') => at += 1,
            Some(_) => return None,
        }
        match text.get(at) {
            Some(b':') if gap.is_none() => {
                gap = Some(filled);
                at += 1;
            }
            // A single colon at the end.
            None => return None,
            _ => {}
        }
    }
    match gap {
        None => (filled == 16).then_some(address),
        // `::` replaces at least one group.
        Some(gap) if filled < 16 => {
            address.copy_within(gap..filled, 16 - (filled - gap));
            address[gap..16 - (filled - gap)].fill(0);
            Some(address)
        }
        Some(_) => None,
    }
}

/// Returns the value of a hexadecimal digit.
#[inline]
pub(super) const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    #[test]
    fn decimal_numbers_have_a_limit() {
        assert_eq!(decimal(b"65535", 65535), Some(65535));
        assert_eq!(decimal(b"65536", 65535), None);
        assert_eq!(decimal(b"", 10), None);
        assert_eq!(decimal(b"+1", 10), None);
        assert_eq!(decimal(b"18446744073709551615", u64::MAX), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616", u64::MAX), None);
    }

    fn agrees(text: &str) {
        let ours = ipv4(text.as_bytes());
        assert_eq!(
            ours,
            text.parse().ok().map(|a: Ipv4Addr| a.octets()),
            "{text}"
        );
        let ours = ipv6(text.as_bytes());
        assert_eq!(
            ours,
            text.parse().ok().map(|a: Ipv6Addr| a.octets()),
            "{text}"
        );
    }

    #[test]
    fn odd_addresses_are_read_as_the_standard_library_does() {
        for text in [
            "",
            "1",
            "1.2.3",
            "1.2.3.4",
            "1.2.3.4.",
            ".1.2.3.4",
            "1..2.3",
            "01.2.3.4",
            "0.0.0.0",
            "256.1.1.1",
            "1.2.3.4.5",
            "::",
            ":",
            ":::",
            "::1",
            "1::",
            "1::2::3",
            "1:2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7:8:9",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "1::2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7:8::",
            "::ffff:1.2.3.4",
            "1.2.3.4::",
            "::1.2.3",
            "1:2:3:4:5:6:1.2.3.4",
            "1:2:3:4:5:6:7:1.2.3.4",
            "12345::",
            "::g",
            "1:",
            ":1",
            "1:2:",
            "::1:",
            "1:::2",
            "::1.2.3.4:5",
            "fe80::1%eth0",
        ] {
            agrees(text);
        }
    }

    proptest! {
        #[test]
        fn addresses_are_read_as_the_standard_library_does(text in "[0-9a-fA-F:.]{0,40}", octets: [u8; 16], quad: [u8; 4]) {
            agrees(&text);
            agrees(&Ipv6Addr::from(octets).to_string());
            agrees(&Ipv4Addr::from(quad).to_string());
        }
    }
}
