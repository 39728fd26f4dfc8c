//! Hexadecimal, base64, base32hex and character strings, decoded straight into the output.

use super::digits::hex_digit;
use crate::name::unescape;
use memchr::memchr;

/// Decodes hexadecimal digits that may be spread over several words.
#[derive(Default)]
pub(super) struct HexReader {
    high: Option<u8>,
}

impl HexReader {
    /// Appends the octets of one word; `None` at any other character.
    pub(super) fn feed(&mut self, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let mut text = text;
        if let (Some(high), [first, rest @ ..]) = (self.high, text) {
            out.push(high << 4 | hex_digit(*first)?);
            self.high = None;
            text = rest;
        }
        let start = out.len();
        let pairs = text.chunks_exact(2);
        if let [digit] = pairs.remainder() {
            self.high = Some(hex_digit(*digit)?);
        }
        out.resize(start + text.len() / 2, 0);
        let mut bad = 0;
        for (pair, octet) in pairs.zip(&mut out[start..]) {
            let (high, low) = (HEX[pair[0] as usize], HEX[pair[1] as usize]);
            bad |= high | low;
            *octet = high << 4 | low;
        }
        (bad < 16).then_some(())
    }

    /// Checks whether the digits so far form whole octets.
    pub(super) fn is_complete(&self) -> bool {
        self.high.is_none()
    }
}

static HEX: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut i = 0;
    while i < 256 {
        if let Some(digit) = hex_digit(i as u8) {
            table[i] = digit;
        }
        i += 1;
    }
    table
};

/// Decodes base64 (RFC 4648 section 4) that may be spread over several words. Padding is required
/// and unused bits must be zero, so each value has a single spelling.
#[derive(Default)]
pub(super) struct Base64Reader {
    bits: u32,
    count: u8,
    padding: u8,
}

const NOT_BASE64: u8 = 0xff;

static BASE64: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [NOT_BASE64; 256];
    let mut i = 0;
    while i < 64 {
        table[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    table
};

impl Base64Reader {
    /// Appends the octets of one word; `None` if it is not a valid continuation.
    pub(super) fn feed(&mut self, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let whole = if self.count == 0 && self.padding == 0 {
            whole_groups(text, out)
        } else {
            0
        };
        for &byte in &text[whole..] {
            if byte == b'=' {
                self.padding += 1;
                // Two or three characters, then padding up to four.
                if self.count < 2 || self.count + self.padding > 4 {
                    return None;
                }
                continue;
            }
            let value = BASE64[byte as usize];
            if value == NOT_BASE64 || self.padding > 0 {
                return None;
            }
            self.bits = self.bits << 6 | u32::from(value);
            self.count += 1;
            if self.count == 4 {
                out.extend_from_slice(&self.bits.to_be_bytes()[1..]);
                (self.bits, self.count) = (0, 0);
            }
        }
        Some(())
    }

    /// Appends the last octets; `None` if padding is wrong or unused bits are set.
    pub(super) fn finish(&self, out: &mut Vec<u8>) -> Option<()> {
        match (self.count, self.padding) {
            (0, 0) => {}
            (2, 2) if self.bits & 0xf == 0 => out.push((self.bits >> 4) as u8),
            (3, 1) if self.bits & 0x3 == 0 => {
                out.extend_from_slice(&((self.bits >> 2) as u16).to_be_bytes());
            }
            _ => return None,
        }
        Some(())
    }
}

/// Decodes groups of four characters up to the first one that is not plain; returns the number of
/// characters.
fn whole_groups(text: &[u8], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + text.len() / 4 * 3, 0);
    let mut done = 0;
    for (group, octets) in text.chunks_exact(4).zip(out[start..].chunks_exact_mut(3)) {
        let value = |i: usize| u32::from(BASE64[group[i] as usize]);
        let (a, b, c, d) = (value(0), value(1), value(2), value(3));
        if a | b | c | d > 63 {
            break;
        }
        let bits = a << 18 | b << 12 | c << 6 | d;
        octets.copy_from_slice(&bits.to_be_bytes()[1..]);
        done += 4;
    }
    out.truncate(start + done / 4 * 3);
    done
}

/// Appends the octets of base32hex without padding (RFC 4648 section 7), case-insensitively.
pub(super) fn base32hex(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (mut bits, mut count) = (0u16, 0u32);
    for &byte in text {
        let value = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'v' => byte - b'a' + 10,
            b'A'..=b'V' => byte - b'A' + 10,
            _ => return None,
        };
        bits = bits << 5 | u16::from(value);
        count += 5;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    // Five or more leftover bits mean a surplus character.
    (count < 5 && bits == 0).then_some(())
}

/// Appends the octets of `text` with its escapes decoded; `None` at a bad escape.
pub(super) fn unescaped(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (byte, used) = unescape(&rest[at + 1..])?;
        out.push(byte);
        rest = &rest[at + 1 + used..];
    }
    out.extend_from_slice(rest);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::{BASE32HEX_NOPAD, BASE64 as REFERENCE};
    use proptest::prelude::*;

    fn base64(words: &[&[u8]]) -> Option<Vec<u8>> {
        let (mut reader, mut out) = (Base64Reader::default(), Vec::new());
        for word in words {
            reader.feed(word, &mut out)?;
        }
        reader.finish(&mut out)?;
        Some(out)
    }

    #[test]
    fn hex_may_be_split_but_not_odd() {
        let (mut reader, mut out) = (HexReader::default(), Vec::new());
        reader.feed(b"0aF", &mut out).unwrap();
        assert!(!reader.is_complete());
        reader.feed(b"f", &mut out).unwrap();
        assert!(reader.is_complete());
        assert_eq!(out, [0x0a, 0xff]);
        assert!(reader.feed(b"0x", &mut out).is_none());
    }

    proptest! {
        #[test]
        fn base64_agrees_with_the_reference(data: Vec<u8>, text in "[A-Za-d0-2+/=]{0,12}", cut in 0usize..12) {
            let encoded = REFERENCE.encode(&data);
            prop_assert_eq!(base64(&[encoded.as_bytes()]), Some(data));
            let text = text.as_bytes();
            let cut = cut.min(text.len());
            // The reference reads padding in the middle as several values; a record has only one.
            let middle = text.iter().position(|&b| b == b'=').is_some_and(|at| text[at..].iter().any(|&b| b != b'=') || text.len() - at > 2);
            if !middle {
                prop_assert_eq!(base64(&[&text[..cut], &text[cut..]]), REFERENCE.decode(text).ok());
            } else {
                prop_assert_eq!(base64(&[&text[..cut], &text[cut..]]), None);
            }
        }

        #[test]
        fn base32hex_agrees_with_the_reference(data: Vec<u8>, text in "[0-9A-X]{0,12}") {
            let mut out = Vec::new();
            prop_assert!(base32hex(BASE32HEX_NOPAD.encode(&data).to_lowercase().as_bytes(), &mut out).is_some());
            prop_assert_eq!(out, data);
            let mut out = Vec::new();
            let ours = base32hex(text.as_bytes(), &mut out).map(|()| out);
            prop_assert_eq!(ours, BASE32HEX_NOPAD.decode(text.as_bytes()).ok());
        }
    }
}
