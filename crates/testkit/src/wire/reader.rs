//! Reads numbers and names of a message.

use super::Name;
use crate::TestFailure;

/// A position in a message.
pub struct Reader<'a> {
    octets: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first octet.
    pub fn new(octets: &'a [u8]) -> Reader<'a> {
        Reader {
            octets,
            position: 0,
        }
    }

    /// Returns the number of octets read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of octets that are not read yet.
    pub fn left(&self) -> usize {
        self.octets.len() - self.position
    }

    /// Returns the next octet, without advancing.
    pub fn peek(&self) -> Result<u8, TestFailure> {
        self.octets
            .get(self.position)
            .copied()
            .ok_or_else(|| "message ends early".into())
    }

    /// Returns the next `length` octets.
    pub fn octets(&mut self, length: usize) -> Result<&'a [u8], TestFailure> {
        let end = self.position + length;
        let part = self
            .octets
            .get(self.position..end)
            .ok_or("message ends early")?;
        self.position = end;
        Ok(part)
    }

    /// Reads a 16-bit number.
    pub fn u16(&mut self) -> Result<u16, TestFailure> {
        let part = self.octets(2)?;
        Ok(u16::from_be_bytes([part[0], part[1]]))
    }

    /// Reads a 32-bit number.
    pub fn u32(&mut self) -> Result<u32, TestFailure> {
        let part = self.octets(4)?;
        Ok(u32::from_be_bytes([part[0], part[1], part[2], part[3]]))
    }

    /// Reads a name; pointers must lead strictly backwards, which also prevents loops.
    pub fn name(&mut self) -> Result<Name, TestFailure> {
        let mut wire = Vec::new();
        let mut at = self.position;
        let mut bound = at;
        let mut end = None;
        loop {
            let length = *self.octets.get(at).ok_or("name runs past the message")? as usize;
            if length >= 0xc0 {
                let low = *self
                    .octets
                    .get(at + 1)
                    .ok_or("pointer runs past the message")? as usize;
                let target = (length & 0x3f) << 8 | low;
                end.get_or_insert(at + 2);
                if target >= bound {
                    return Err(format!("pointer to {target}, not before {bound}").into());
                }
                (at, bound) = (target, target);
                continue;
            }
            if length > 63 {
                return Err(format!("label type {length:#x}").into());
            }
            let label = self
                .octets
                .get(at..at + 1 + length)
                .ok_or("label runs past the message")?;
            wire.extend_from_slice(label);
            if wire.len() > 255 {
                return Err("name over 255 octets".into());
            }
            at += 1 + length;
            if length == 0 {
                break;
            }
        }
        self.position = end.unwrap_or(at);
        Ok(Name(wire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_loops_and_forward_pointers_are_errors() {
        assert!(Reader::new(&[0xc0, 0x00]).name().is_err());
        assert!(Reader::new(&[0xc0, 0x02, 0x00]).name().is_err());
    }
}
