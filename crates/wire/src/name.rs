//! Domain names in uncompressed wire form.
//!
//! Implements the limits of RFC 1035 section 2.3.4 (63 octets per label, 255 octets per name), the canonical order of
//! RFC 4034 section 6.1 and the `\DDD` escapes of RFC 1035 section 5.1. Case is preserved and ignored in comparisons
//! (RFC 4343). Nothing here allocates.

mod inline;
mod octets;
mod variant;

pub use inline::InlineName;
pub(crate) use octets::common_tail;
pub use octets::{lower8, same_octets};
pub use variant::{MAX_VARIANT, Verbatim, is_variant};

use core::cmp::Ordering;
use core::fmt;

/// Octets of the longest name, including the root label.
pub const MAX_NAME: usize = 255;
/// Octets of the longest label.
pub const MAX_LABEL: usize = 63;
/// Labels of the deepest name, not counting the root label: 127 one-octet labels fill 255 octets.
pub const MAX_LABELS: usize = 127;

/// The reason why octets or text are not a valid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The input ends inside the name.
    #[error("the name is truncated")]
    Short,
    /// A label is longer than 63 octets.
    #[error("a label is longer than 63 octets")]
    LongLabel,
    /// The name is longer than 255 octets.
    #[error("the name is longer than 255 octets")]
    LongName,
    /// Two dots in a row, or a leading dot.
    #[error("empty label in the name")]
    EmptyLabel,
    /// A label type other than a plain label or a compression pointer (RFC 6891 section 5).
    #[error("unknown label type")]
    LabelType,
    /// A compression pointer where none is allowed, or one that does not point backwards.
    #[error("compression pointer not allowed here")]
    Pointer,
    /// A backslash that is not followed by a character or by three digits up to 255.
    #[error("invalid escape: expected \\DDD with DDD up to 255, or \\ and one character")]
    Escape,
    /// A variant of a zone that is not valid.
    #[error("a variant has 1 to 61 lower-case letters, digits, \"-\" and \"_\"")]
    Variant,
    /// More octets follow the name.
    #[error("trailing octets after the name")]
    Trailing,
}

/// A borrowed, valid, uncompressed name in wire form, including the root label.
#[derive(Clone, Copy)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// The root.
    pub const ROOT: Name<'static> = Name(&[0]);

    /// Parses a slice that is exactly one uncompressed name.
    pub fn from_wire(wire: &'a [u8]) -> Result<Self, NameError> {
        let (name, rest) = Self::split_from(wire)?;
        if rest.is_empty() {
            Ok(name)
        } else {
            Err(NameError::Trailing)
        }
    }

    /// Parses the uncompressed name at the start of `wire`; returns it and the remaining octets.
    pub fn split_from(wire: &'a [u8]) -> Result<(Self, &'a [u8]), NameError> {
        let mut at = 0;
        loop {
            let len = *wire.get(at).ok_or(NameError::Short)? as usize;
            match len {
                0 => {
                    at += 1;
                    break;
                }
                1..=MAX_LABEL => at += 1 + len,
                0xc0..=0xff => return Err(NameError::Pointer),
                _ => return Err(NameError::LabelType),
            }
            // The root label has to fit as well.
            if at >= MAX_NAME {
                return Err(NameError::LongName);
            }
        }
        match wire.split_at_checked(at) {
            Some((name, rest)) => Ok((Name(name), rest)),
            None => Err(NameError::Short),
        }
    }

    /// Wraps octets that the caller has already validated (a packed zone, a parsed message).
    ///
    /// An invalid slice leads to wrong answers but never to undefined behaviour.
    #[inline]
    pub fn from_valid_wire(wire: &'a [u8]) -> Self {
        debug_assert!(Name::from_wire(wire).is_ok(), "invalid name: {wire:?}");
        Name(wire)
    }

    /// Returns the octets of the name, including the root label.
    #[inline]
    pub fn as_wire(self) -> &'a [u8] {
        self.0
    }

    /// Checks whether this is the root.
    #[inline]
    pub fn is_root(self) -> bool {
        self.0.len() == 1
    }

    /// Returns the labels from the left, without the root label.
    pub fn labels(self) -> Labels<'a> {
        Labels { rest: self.0 }
    }

    /// Returns the number of labels, not counting the root label.
    pub fn label_count(self) -> usize {
        self.labels().count()
    }

    /// Returns the name without its leftmost label; `None` for the root.
    #[inline]
    pub fn parent(self) -> Option<Name<'a>> {
        match self.0[0] as usize {
            0 => None,
            len => Some(Name(&self.0[1 + len..])),
        }
    }

    /// Checks whether the leftmost label is exactly `*` (RFC 4592 section 2.1.1).
    #[inline]
    pub fn is_wildcard(self) -> bool {
        self.0.starts_with(b"\x01*")
    }

    /// Checks whether `self` is `ancestor` or a name below it.
    pub fn is_at_or_below(self, ancestor: Name<'_>) -> bool {
        let mut name = self;
        loop {
            if name.0.len() <= ancestor.0.len() {
                return name == ancestor;
            }
            match name.parent() {
                Some(parent) => name = parent,
                None => return false,
            }
        }
    }

    /// Compares names in the canonical order of RFC 4034 section 6.1: by labels from the right, lower-cased.
    pub fn canonical_cmp(self, other: Name<'_>) -> Ordering {
        let (mut ours, mut theirs) = ([0u8; MAX_LABELS], [0u8; MAX_LABELS]);
        let (n, m) = (
            self.label_offsets(&mut ours),
            other.label_offsets(&mut theirs),
        );
        for i in 1..=n.min(m) {
            let (a, b) = (self.label_at(ours[n - i]), other.label_at(theirs[m - i]));
            let order = a
                .iter()
                .map(u8::to_ascii_lowercase)
                .cmp(b.iter().map(u8::to_ascii_lowercase));
            if order != Ordering::Equal {
                return order;
            }
        }
        n.cmp(&m)
    }

    /// Writes the start of each label, from the left; returns the number of labels.
    pub fn label_offsets(self, offsets: &mut [u8; MAX_LABELS]) -> usize {
        let (mut at, mut count) = (0usize, 0);
        while self.0[at] != 0 && count < MAX_LABELS {
            offsets[count] = at as u8;
            count += 1;
            at += 1 + self.0[at] as usize;
        }
        count
    }

    fn label_at(self, offset: u8) -> &'a [u8] {
        let at = offset as usize;
        &self.0[at + 1..at + 1 + self.0[at] as usize]
    }
}

/// Case is ignored (RFC 4343). Length octets are below `A`, so the slices can be compared as a whole. Most names are in
/// lower case, for which the plain comparison is sufficient.
impl PartialEq<Name<'_>> for Name<'_> {
    #[inline]
    fn eq(&self, other: &Name<'_>) -> bool {
        same_octets(self.0, other.0) || self.0.eq_ignore_ascii_case(other.0)
    }
}

impl Eq for Name<'_> {}

/// Absolute presentation format with the final dot; the name of a zone version with its variant.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.zone().verbatim().fmt(f)?;
        match self.variant() {
            Some(variant) => write!(f, ".{variant}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes a label in presentation format, at once if nothing in it needs a backslash.
fn write_label(f: &mut impl fmt::Write, label: &[u8]) -> fmt::Result {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'*');
    match str::from_utf8(label) {
        Ok(text) if label.iter().all(is_plain) => f.write_str(text),
        _ => label.iter().try_for_each(|&byte| write_name_byte(f, byte)),
    }
}

/// Writes one octet of a label: characters that are special in zone files get a backslash, octets that are not
/// printable ASCII become `\DDD` (RFC 1035 section 5.1).
fn write_name_byte(f: &mut impl fmt::Write, byte: u8) -> fmt::Result {
    match byte {
        b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => {
            f.write_char('\\')?;
            f.write_char(byte as char)
        }
        0x21..=0x7e => f.write_char(byte as char),
        _ => write!(f, "\\{byte:03}"),
    }
}

/// Iterates over labels from the left.
#[derive(Clone)]
pub struct Labels<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let len = self.rest[0] as usize;
        if len == 0 {
            return None;
        }
        let (label, rest) = self.rest[1..].split_at(len);
        self.rest = rest;
        Some(label)
    }
}

/// An owned name in a fixed-size buffer, so that creating one never allocates.
#[derive(Clone, Copy)]
pub struct NameBuf {
    wire: [u8; MAX_NAME],
    len: u8,
}

impl NameBuf {
    /// Returns the root.
    pub const fn root() -> Self {
        NameBuf {
            wire: [0; MAX_NAME],
            len: 1,
        }
    }

    /// Returns the name as a borrowed [`Name`].
    #[inline]
    pub fn as_name(&self) -> Name<'_> {
        Name(&self.wire[..self.len as usize])
    }

    /// Parses presentation format. A name without a final dot is relative to `origin`; `@` alone is the origin.
    pub fn from_text(text: &[u8], origin: Name<'_>) -> Result<Self, NameError> {
        let mut name = NameBuf::root();
        name.set_from_text(text, origin)?;
        Ok(name)
    }

    /// Like [`NameBuf::from_text`], into an existing buffer.
    pub fn set_from_text(&mut self, text: &[u8], origin: Name<'_>) -> Result<(), NameError> {
        match text {
            b"@" => {
                self.assign(origin);
                return Ok(());
            }
            b"." => {
                self.assign(Name::ROOT);
                return Ok(());
            }
            b"" => return Err(NameError::EmptyLabel),
            _ => {}
        }
        // `label` is the offset of the length octet of the current label.
        let (mut label, mut at, mut read) = (0usize, 1usize, 0usize);
        while read < text.len() {
            let mut byte = text[read];
            read += 1;
            if byte == b'.' {
                close_label(&mut self.wire, label, at)?;
                label = at;
                at += 1;
                continue;
            }
            if byte == b'\\' {
                let (value, used) = unescape(&text[read..]).ok_or(NameError::Escape)?;
                byte = value;
                read += used;
            }
            // One octet stays free for the root label.
            if at >= MAX_NAME - 1 {
                return Err(NameError::LongName);
            }
            self.wire[at] = byte;
            at += 1;
        }
        if at == label + 1 {
            // The text ended with a dot: absolute.
            self.wire[label] = 0;
            self.len = (label + 1) as u8;
            return Ok(());
        }
        close_label(&mut self.wire, label, at)?;
        let origin = origin.as_wire();
        if at + origin.len() > MAX_NAME {
            return Err(NameError::LongName);
        }
        self.wire[at..at + origin.len()].copy_from_slice(origin);
        self.len = (at + origin.len()) as u8;
        Ok(())
    }

    /// Sets the buffer to this name. Cheaper than a new buffer: only the octets of the name are copied.
    #[inline]
    pub fn assign(&mut self, name: Name<'_>) {
        self.wire[..name.0.len()].copy_from_slice(name.0);
        self.len = name.0.len() as u8;
    }

    /// Joins `prefix` (the first labels of a name) and `suffix`.
    pub fn join(prefix: &[u8], suffix: Name<'_>) -> Result<Self, NameError> {
        let total = prefix.len() + suffix.0.len();
        if total > MAX_NAME {
            return Err(NameError::LongName);
        }
        let mut name = NameBuf::root();
        name.wire[..prefix.len()].copy_from_slice(prefix);
        name.wire[prefix.len()..total].copy_from_slice(suffix.0);
        name.len = total as u8;
        Ok(name)
    }

    /// Reads a possibly compressed name at offset `at` of `message`; returns it and the offset after it.
    ///
    /// Each pointer must go to an earlier offset than the previous one (RFC 1035 section 4.1.4 says "prior
    /// occurrence"), so there are no loops, and the result is at most 255 octets, so the cost is bounded by the name
    /// length whatever the message contains.
    pub fn from_message(message: &[u8], at: usize) -> Result<(Self, usize), NameError> {
        let mut name = NameBuf::root();
        let (mut read, mut end, mut limit, mut len) = (at, None, at, 0usize);
        loop {
            let octet = *message.get(read).ok_or(NameError::Short)? as usize;
            match octet {
                0 => {
                    name.wire[len] = 0;
                    name.len = (len + 1) as u8;
                    return Ok((name, end.unwrap_or(read + 1)));
                }
                1..=MAX_LABEL => {
                    if len + octet + 2 > MAX_NAME {
                        return Err(NameError::LongName);
                    }
                    let label = message
                        .get(read..read + 1 + octet)
                        .ok_or(NameError::Short)?;
                    name.wire[len..len + 1 + octet].copy_from_slice(label);
                    len += 1 + octet;
                    read += 1 + octet;
                }
                0xc0..=0xff => {
                    let low = *message.get(read + 1).ok_or(NameError::Short)? as usize;
                    let target = (octet & 0x3f) << 8 | low;
                    if target >= limit {
                        return Err(NameError::Pointer);
                    }
                    end.get_or_insert(read + 2);
                    limit = target;
                    read = target;
                }
                _ => return Err(NameError::LabelType),
            }
        }
    }

    /// Lower-cases the letters: the canonical form of RFC 4034 section 6.2.
    pub fn make_lowercase(&mut self) {
        self.wire[..self.len as usize].make_ascii_lowercase();
    }
}

fn close_label(wire: &mut [u8; MAX_NAME], label: usize, end: usize) -> Result<(), NameError> {
    match end - label - 1 {
        0 => Err(NameError::EmptyLabel),
        len @ 1..=MAX_LABEL => {
            if end >= MAX_NAME {
                return Err(NameError::LongName);
            }
            wire[label] = len as u8;
            Ok(())
        }
        _ => Err(NameError::LongLabel),
    }
}

/// Decodes the text after a backslash: three digits up to 255, or one character. Returns the octet and the number of
/// bytes used.
pub fn unescape(text: &[u8]) -> Option<(u8, usize)> {
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', ..] => {
            let value = (*a - b'0') as u16 * 100 + (*b - b'0') as u16 * 10 + (*c - b'0') as u16;
            Some((u8::try_from(value).ok()?, 3))
        }
        [b'0'..=b'9', ..] => None,
        [other, ..] => Some((*other, 1)),
        [] => None,
    }
}

impl<'a> From<Name<'a>> for NameBuf {
    fn from(name: Name<'a>) -> Self {
        let mut buf = NameBuf::root();
        buf.wire[..name.0.len()].copy_from_slice(name.0);
        buf.len = name.0.len() as u8;
        buf
    }
}

impl core::str::FromStr for NameBuf {
    type Err = NameError;

    /// Parses a name; without a final dot it is still taken as absolute.
    fn from_str(text: &str) -> Result<Self, NameError> {
        NameBuf::from_text(text.as_bytes(), Name::ROOT)
    }
}

impl PartialEq for NameBuf {
    fn eq(&self, other: &Self) -> bool {
        self.as_name() == other.as_name()
    }
}

impl Eq for NameBuf {}

impl core::hash::Hash for NameBuf {
    /// Hashes the name in lower case, consistent with equality.
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        let mut lower = *self;
        lower.make_lowercase();
        lower.as_name().as_wire().hash(state);
    }
}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_name().fmt(f)
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
