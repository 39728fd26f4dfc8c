//! Fast parsing of names without escapes, eight octets at a time.
//!
//! Without escapes, the wire form of a name is its text shifted by one octet with lengths in place of dots, so the text
//! is copied as a whole and the lengths are filled in. Names are short, so copying avoids calls into the C library.

use crate::name::{MAX_LABEL, MAX_NAME, Name, NameBuf, NameError};

/// Room for a name, and for reading and writing eight octets at any offset in it.
const ROOM: usize = MAX_NAME + 9;

/// A reusable name buffer in wire form.
#[derive(Clone, Copy)]
pub(crate) struct ShortName {
    octets: [u8; ROOM],
    len: usize,
}

impl Default for ShortName {
    fn default() -> Self {
        ShortName {
            octets: [0; ROOM],
            len: 1,
        }
    }
}

impl ShortName {
    /// Returns the name in wire form.
    #[inline]
    pub(crate) fn as_wire(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    fn set(&mut self, name: Name<'_>) {
        copy_short(name.as_wire(), &mut self.octets);
        self.len = name.as_wire().len();
    }

    /// Sets the name from `text`; relative names are completed with `origin`.
    #[inline]
    pub(crate) fn set_text(&mut self, text: &[u8], origin: Name<'_>) -> Result<(), NameError> {
        if memchr::memchr(b'\\', text).is_some() {
            self.set(NameBuf::from_text(text, origin)?.as_name());
            return Ok(());
        }
        self.set_plain(text, origin)
    }

    /// Like [`ShortName::set_text`], for text without backslashes. After an error the contents are undefined.
    #[inline]
    pub(crate) fn set_plain(&mut self, text: &[u8], origin: Name<'_>) -> Result<(), NameError> {
        let end = 1 + text.len();
        match text {
            b"@" => {
                self.set(origin);
                return Ok(());
            }
            b"." => {
                self.set(Name::ROOT);
                return Ok(());
            }
            b"" => return Err(NameError::EmptyLabel),
            // A final dot needs no octet beyond those of the labels.
            _ if end > MAX_NAME => return Err(too_long(text)),
            _ => {}
        }
        copy_short(text, &mut self.octets[1..]);
        let label = self.fill_lengths(end)?;
        if label == end - 1 {
            // The text ended with a dot: absolute.
            self.octets[label] = 0;
            self.len = end;
            return Ok(());
        }
        self.octets[label] = label_length(end - label - 1)?;
        let origin = origin.as_wire();
        if end + origin.len() > MAX_NAME {
            return Err(NameError::LongName);
        }
        copy_short(origin, &mut self.octets[end..]);
        self.len = end + origin.len();
        Ok(())
    }

    /// Writes the lengths of all labels before `end` except the last; returns the start of the last one.
    #[inline]
    fn fill_lengths(&mut self, end: usize) -> Result<usize, NameError> {
        let (mut label, mut at) = (0, 1);
        while at < end {
            let Some(chunk) = self.octets[at..].first_chunk() else {
                break;
            };
            let mut dots = dots_in(u64::from_le_bytes(*chunk));
            if end - at < 8 {
                // The octets after the text belong to a previous name.
                dots &= (1 << (8 * (end - at))) - 1;
            }
            while dots != 0 {
                let dot = at + dots.trailing_zeros() as usize / 8;
                self.octets[label] = label_length(dot - label - 1)?;
                label = dot;
                dots &= dots - 1;
            }
            at += 8;
        }
        Ok(label)
    }
}

/// Returns the error for a text that does not fit: the first label that is too long or empty, or else the whole name.
#[cold]
fn too_long(text: &[u8]) -> NameError {
    match NameBuf::from_text(text, Name::ROOT) {
        Err(error) => error,
        Ok(_) => NameError::LongName,
    }
}

#[inline]
fn label_length(len: usize) -> Result<u8, NameError> {
    match len {
        0 => Err(NameError::EmptyLabel),
        1..=MAX_LABEL => Ok(len as u8),
        _ => Err(NameError::LongLabel),
    }
}

/// Copies a few octets to the front of `to`, which must have room for them.
#[inline]
fn copy_short(from: &[u8], to: &mut [u8]) {
    let len = from.len();
    let to = &mut to[..len];
    let mut copy8 = |at: usize| to[at..at + 8].copy_from_slice(&from[at..at + 8]);
    if len >= 8 {
        let mut at = 0;
        while at + 8 < len {
            copy8(at);
            at += 8;
        }
        // The last eight may overlap the previous ones.
        copy8(len - 8);
    } else if len >= 4 {
        let mut copy4 = |at: usize| to[at..at + 4].copy_from_slice(&from[at..at + 4]);
        copy4(0);
        copy4(len - 4);
    } else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

/// Sets the high bit of each octet of `word` that is a dot.
#[inline]
fn dots_in(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOW: u64 = 0x7f * ONES;
    let x = word ^ (b'.' as u64 * ONES);
    // No sum carries into the next octet, because both summands are below 0x80.
    !(((x & LOW) + LOW) | x) & !LOW
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_plain_name_is_read_as_a_name_buffer_reads_it(
            texts in proptest::collection::vec("([a-c@*]{0,20}\\.?){0,5}|([a-z]{1,70}\\.?){0,6}|([a-z]\\.){100,140}", 1..4)
        ) {
            let origin: NameBuf = "example.org.".parse().unwrap();
            // The same buffer is reused: nothing of the previous name may remain.
            let mut name = ShortName::default();
            for text in texts {
                let ours = name.set_plain(text.as_bytes(), origin.as_name());
                let theirs = NameBuf::from_text(text.as_bytes(), origin.as_name());
                prop_assert_eq!(ours.err(), theirs.err(), "{}", text);
                if let Ok(theirs) = theirs {
                    prop_assert_eq!(name.as_wire(), theirs.as_name().as_wire());
                }
            }
        }
    }
}
