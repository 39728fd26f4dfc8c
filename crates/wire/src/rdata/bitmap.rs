//! Type bitmaps of NSEC, NSEC3 and CSYNC (RFC 4034 section 4.1.2) and of NXT (RFC 2535).

use super::RdataError;
use crate::rtype::Type;

/// Checks windows up to the end: in ascending order, 1 to 32 octets each, none ending in zero.
pub(super) fn check(mut windows: &[u8], empty: bool) -> Result<(), RdataError> {
    if windows.is_empty() && !empty {
        return Err(RdataError::Value("a type bitmap without any type"));
    }
    let mut previous = None;
    while let [window, len, rest @ ..] = windows {
        if previous.is_some_and(|previous| *window <= previous) {
            return Err(RdataError::Value("bitmap windows out of order"));
        }
        previous = Some(*window);
        if !(1..=32).contains(len) {
            return Err(RdataError::Value("a bitmap window not of 1 to 32 octets"));
        }
        let (bits, rest) = rest
            .split_at_checked(*len as usize)
            .ok_or(RdataError::Short)?;
        if bits.last() == Some(&0) {
            return Err(RdataError::Value("a bitmap window that ends in zero"));
        }
        windows = rest;
    }
    if windows.is_empty() {
        Ok(())
    } else {
        Err(RdataError::Short)
    }
}

/// Returns the types in a well-formed bitmap, in ascending order.
pub fn types(mut windows: &[u8]) -> impl Iterator<Item = Type> + '_ {
    core::iter::from_fn(move || {
        let [window, len, rest @ ..] = windows else {
            return None;
        };
        let (bits, rest) = rest.split_at_checked(*len as usize)?;
        windows = rest;
        Some(types_of(bits).map(move |low| Type(u16::from(*window) << 8 | low)))
    })
    .flatten()
}

/// Returns the bits set in up to 32 octets, the most significant bit of the first octet being 0.
pub(super) fn types_of(bits: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bits.iter().zip(0u16..).flat_map(|(&octet, i)| {
        (0..8u16)
            .filter(move |bit| octet & (0x80 >> bit) != 0)
            .map(move |bit| i * 8 + bit)
    })
}

/// Collects types and writes their bitmap. Types below 512 need no allocation.
#[derive(Default)]
pub struct Builder {
    low: [[u8; 32]; 2],
    high: Vec<u16>,
}

impl Builder {
    /// Adds a type; duplicates have no effect.
    pub fn add(&mut self, rtype: Type) {
        let [window, low] = rtype.0.to_be_bytes();
        match self.low.get_mut(window as usize) {
            Some(bits) => set(bits, low),
            None => self.high.push(rtype.0),
        }
    }

    /// Appends the bitmap windows to `out`.
    pub fn write(mut self, out: &mut Vec<u8>) {
        for (window, bits) in (0u8..).zip(&self.low) {
            write_window(window, bits, out);
        }
        self.high.sort_unstable();
        for types in self.high.chunk_by(|a, b| a >> 8 == b >> 8) {
            let mut bits = [0; 32];
            for rtype in types {
                set(&mut bits, *rtype as u8);
            }
            write_window((types[0] >> 8) as u8, &bits, out);
        }
    }
}

fn set(bits: &mut [u8; 32], low: u8) {
    bits[low as usize / 8] |= 0x80 >> (low % 8);
}

fn write_window(window: u8, bits: &[u8; 32], out: &mut Vec<u8>) {
    if let Some(last) = bits.iter().rposition(|&octet| octet != 0) {
        out.extend_from_slice(&[window, last as u8 + 1]);
        out.extend_from_slice(&bits[..=last]);
    }
}

/// Checks an NXT bitmap: up to 16 octets for types 1 to 127, not ending in zero.
pub(super) fn check_nxt(bits: &[u8]) -> Result<(), RdataError> {
    match bits {
        [.., 0] => Err(RdataError::Value("an NXT bitmap that ends in zero")),
        [0x80..=0xff, ..] => Err(RdataError::Value("an NXT bitmap of unknown form")),
        _ if bits.len() > 16 => Err(RdataError::Value("an NXT bitmap of more than 16 octets")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_must_be_in_order_and_trimmed() {
        let ok = |wire: &[u8]| check(wire, false).is_ok();
        assert!(ok(b"\0\x01\x40"));
        assert!(ok(b"\0\x01\x40\x01\x01\x40"));
        assert!(!ok(b""));
        assert!(check(b"", true).is_ok());
        assert!(!ok(b"\0"), "a window without a length");
        assert!(!ok(b"\0\0"), "an empty window");
        assert!(!ok(b"\0\x02\x40"), "a window cut short");
        assert!(!ok(b"\0\x02\x40\0"), "a trailing zero");
        assert!(!ok(b"\x01\x01\x40\0\x01\x40"), "descending");
        assert!(!ok(b"\0\x01\x40\0\x01\x40"), "twice");
        let mut long = vec![0, 33];
        long.extend([1; 33]);
        assert!(!ok(&long));
    }

    #[test]
    fn the_example_of_rfc_4034_section_4_3() {
        let mut builder = Builder::default();
        for rtype in [1, 15, 46, 47, 1234] {
            builder.add(Type(rtype));
        }
        let mut wire = Vec::new();
        builder.write(&mut wire);
        let mut expected = vec![0, 6, 0x40, 0x01, 0, 0, 0, 0x03, 0x04, 0x1b];
        expected.extend([0; 26]);
        expected.push(0x20);
        assert_eq!(wire, expected);
        assert!(check(&wire, false).is_ok());
        assert_eq!(
            types(&wire).map(|t| t.0).collect::<Vec<_>>(),
            [1, 15, 46, 47, 1234]
        );
    }
}
