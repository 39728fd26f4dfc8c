//! Names from plain text, eight octets at a time.
//!
//! Without escapes the wire form of a name is its text moved by one octet with lengths in the places of dots, so the
//! text is copied as a whole and the lengths are filled in. Names are short: no call of the C library for a copy.

use crate::name::{MAX_LABEL, MAX_NAME, Name, NameBuf, NameError};

/// Room for a name, and to read and write eight octets at any place of it.
const ROOM: usize = MAX_NAME + 9;

/// A name in wire form that is written again and again.
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
    /// The name in wire form.
    #[inline]
    pub(crate) fn as_wire(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    fn set(&mut self, name: Name<'_>) {
        copy_short(name.as_wire(), &mut self.octets);
        self.len = name.as_wire().len();
    }

    /// Becomes the name written in `text`; relative names get `origin`.
    #[inline]
    pub(crate) fn set_text(&mut self, text: &[u8], origin: Name<'_>) -> Result<(), NameError> {
        if memchr::memchr(b'\\', text).is_some() {
            self.set(NameBuf::from_text(text, origin)?.as_name());
            return Ok(());
        }
        self.set_plain(text, origin)
    }

    /// As [`ShortName::set_text`] for text without backslashes. After an error the name is not to be used.
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

    /// Writes lengths for all labels of the text in front of `end` but the last; returns where that one starts.
    #[inline]
    fn fill_lengths(&mut self, end: usize) -> Result<usize, NameError> {
        let (mut label, mut at) = (0, 1);
        while at < end {
            let Some(chunk) = self.octets[at..].first_chunk() else {
                break;
            };
            let mut dots = dots_in(u64::from_le_bytes(*chunk));
            if end - at < 8 {
                // What stands behind the text is of another name.
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

/// Why a text that has no room is no name: the first label that is too long or empty, or else all of it.
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

/// Copies a few octets to the front of `to`, which has room for them.
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
        // The last eight may overlap those before.
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
    // No sum carries into the next octet, since its summands are below 0x80.
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
            // The same buffer again and again: nothing of the name before may be left.
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
