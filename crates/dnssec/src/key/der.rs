//! The subset of DER (X.690) used by private keys.

use nameward_base::secret::Secret;

// Tags of elements.
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;

/// Encodes an element with a tag and contents.
pub(super) fn element(tag: u8, contents: &[u8]) -> Secret<Vec<u8>> {
    let mut out = Vec::with_capacity(contents.len() + 4);
    out.push(tag);
    match contents.len() {
        len @ 0..0x80 => out.push(len as u8),
        len @ 0x80..0x100 => out.extend_from_slice(&[0x81, len as u8]),
        // No key is longer than two octets can express.
        len => out.extend_from_slice(&[0x82, (len >> 8) as u8, len as u8]),
    }
    out.extend_from_slice(contents);
    Secret::new(out)
}

/// Encodes a non-negative number.
pub(super) fn integer(number: &[u8]) -> Secret<Vec<u8>> {
    let has_sign = number.first().is_none_or(|&octet| octet >= 0x80);
    let sign: &[u8] = if has_sign { &[0] } else { &[] };
    element(INTEGER, Secret::new([sign, number].concat()).reveal())
}

pub(super) fn joined(elements: &[Secret<Vec<u8>>]) -> Secret<Vec<u8>> {
    let octets = elements.iter().map(|element| element.reveal().len()).sum();
    let mut out = Vec::with_capacity(octets);
    for element in elements {
        out.extend_from_slice(element.reveal());
    }
    Secret::new(out)
}

/// Reads consecutive elements.
pub(super) struct DerReader<'d>(pub(super) &'d [u8]);

impl<'d> DerReader<'d> {
    /// Returns the contents of the next element, if it has this tag.
    pub(super) fn element(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (&[found, first], rest) = self.0.split_first_chunk()?;
        if found != tag {
            return None;
        }
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81 => rest.split_first().map(|(&len, rest)| (len.into(), rest))?,
            0x82 => {
                let (len, rest) = rest.split_first_chunk()?;
                (usize::from(u16::from_be_bytes(*len)), rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(contents)
    }

    /// Returns the next number without leading zeros.
    pub(super) fn integer(&mut self) -> Option<Vec<u8>> {
        Some(trimmed(self.element(INTEGER)?).to_vec())
    }
}

/// Strips leading zeros from a number.
pub(super) fn trimmed(number: &[u8]) -> &[u8] {
    let start = number.iter().position(|&octet| octet != 0);
    &number[start.unwrap_or(number.len())..]
}
