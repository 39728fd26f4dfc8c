//! Word boundaries: the meaning of each byte, and scanning eight bytes at a time.

/// The meaning of a byte to the scanner outside quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteClass {
    Plain,
    Blank,
    Newline,
    Open,
    Close,
    Comment,
    Quote,
    Backslash,
}

const CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Plain; 256];
    classes[b' ' as usize] = ByteClass::Blank;
    classes[b'\t' as usize] = ByteClass::Blank;
    // The carriage return of a CRLF line end.
    classes[b'\r' as usize] = ByteClass::Blank;
    classes[b'\n' as usize] = ByteClass::Newline;
    classes[b'(' as usize] = ByteClass::Open;
    classes[b')' as usize] = ByteClass::Close;
    classes[b';' as usize] = ByteClass::Comment;
    classes[b'"' as usize] = ByteClass::Quote;
    classes[b'\\' as usize] = ByteClass::Backslash;
    classes
};

#[inline]
pub(super) fn class(byte: u8) -> ByteClass {
    CLASSES[byte as usize]
}

/// Returns the offset of the newline that ends the line of `at`, or the end of the input.
pub(super) fn line_end(input: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &input[at..]).map_or(input.len(), |found| at + found)
}

/// Returns the end of the plain bytes that start at `at`. Works on eight bytes at a time: words are short, and a
/// per-byte loop would pay a mispredicted branch at the end of each word.
#[inline]
pub(super) fn plain_end(input: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = input.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let stops = possible_stops(u64::from_le_bytes(*chunk));
        if stops == 0 {
            at += 8;
            continue;
        }
        at += stops.trailing_zeros() as usize / 8;
        if class(input[at]) != ByteClass::Plain {
            return at;
        }
        at += 1;
    }
    while at < input.len() && class(input[at]) == ByteClass::Plain {
        at += 1;
    }
    at
}

/// Sets the high bit of each byte of `word` that may not be plain: everything up to `"`, parentheses, `;` and the
/// backslash. Control characters and `!` are marked as well and left to the table.
#[inline]
fn possible_stops(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOW: u64 = 0x7f * ONES;
    // No sum carries into the next byte, because both summands are below 0x80.
    let is_zero = |x: u64| !(((x & LOW) + LOW) | x);
    let is_low = !(((word & LOW) + (0x80 - 0x23) * ONES) | word);
    let parenthesis = is_zero((word & (0xfe * ONES)) ^ (0x28 * ONES));
    let semicolon = is_zero(word ^ (0x3b * ONES));
    let backslash = is_zero(word ^ (0x5c * ONES));
    (is_low | parenthesis | semicolon | backslash) & (0x80 * ONES)
}

/// A bitmap of which of 64 bytes may not be plain, computed once for all words in that range.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    /// Start of the 64 bytes.
    base: usize,
    bits: u64,
}

impl Default for Marks {
    fn default() -> Self {
        Marks {
            // Empty so far: no input is this long.
            base: usize::MAX / 2,
            bits: 0,
        }
    }
}

impl Marks {
    /// Returns the offset of the first byte from `at` that may not be plain. `None` near the end of the input, where
    /// fewer than 64 bytes are left.
    #[inline]
    pub(super) fn next(&mut self, input: &[u8], mut at: usize) -> Option<usize> {
        loop {
            let offset = at.wrapping_sub(self.base);
            if offset < 64 {
                let bits = self.bits >> offset;
                if bits != 0 {
                    return Some(at + bits.trailing_zeros() as usize);
                }
                at = self.base + 64;
            }
            let block = input.get(at..)?.first_chunk::<64>()?;
            (self.base, self.bits) = (at, marks_of(block));
        }
    }
}

/// Returns the marks of [`possible_stops`], one bit for each of 64 bytes.
#[inline]
fn marks_of(block: &[u8; 64]) -> u64 {
    let (chunks, _) = block.as_chunks::<8>();
    chunks.iter().rev().fold(0, |bits, chunk| {
        let stops = possible_stops(u64::from_le_bytes(*chunk)) >> 7;
        // Gathers the low bits of eight octets in the highest octet.
        bits << 8 | stops.wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_set_where_bytes_may_not_be_plain() {
        for byte in 0..=255u8 {
            for place in [0, 1, 15, 16, 63, 64, 100] {
                let mut text = [b'x'; 192];
                text[place] = byte;
                let mut marks = Marks::default();
                let is_marked = possible_stops(u64::from_le_bytes([byte; 8])) != 0;
                assert!(is_marked || class(byte) == ByteClass::Plain);
                let found = marks.next(&text, 0);
                assert_eq!(found, is_marked.then_some(place), "{byte} at {place}");
            }
        }
    }

    #[test]
    fn eight_bytes_at_once_stop_where_the_table_says() {
        for byte in 0..=255u8 {
            for place in 0..20 {
                let mut text = *b"abcdefgh\xc3\xa4jklm\x80\xffqrst";
                text[place] = byte;
                let end = text.iter().position(|&b| class(b) != ByteClass::Plain);
                assert_eq!(plain_end(&text, 0), end.unwrap_or(20), "{byte} at {place}");
            }
        }
    }
}
