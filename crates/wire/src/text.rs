//! The lexer for zone file entries, which yields the words that record data is parsed from.
//!
//! Implements the lexical rules of RFC 1035 section 5.1: blanks, comments, parentheses, quotes, and which characters a
//! backslash escapes. Words are slices of the input: nothing is copied, and escapes are decoded by the consumer of the
//! word. Scanning costs about a nanosecond for every eight bytes of a word.

mod scan;

use core::fmt;

use scan::{ByteClass, Marks, class, line_end, plain_end};

/// A syntax error: expected and found text, and the location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// States what was expected and what was found.
    pub message: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for TextError {}

/// One word of an entry.
#[derive(Debug, Clone, Copy)]
pub struct Token<'a> {
    /// The bytes as written, without the quotes; escapes are not decoded.
    pub text: &'a [u8],
    /// Whether it was quoted.
    pub quoted: bool,
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

impl Token<'_> {
    /// Creates an error at this word: `expected X, found Y`.
    #[cold]
    pub fn error(&self, expected: &str) -> TextError {
        TextError {
            line: self.line,
            column: self.column,
            message: format!("expected {expected}, found '{}'", printable(self.text)),
        }
    }
}

/// Returns at most 60 bytes of `text` for a message: control characters and invalid UTF-8 are replaced, so that a zone
/// file cannot send escape sequences to a terminal through the log.
pub(crate) fn printable(text: &[u8]) -> String {
    let mut shown: String = String::from_utf8_lossy(&text[..text.len().min(60)])
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.len() > 60 {
        shown.push_str("...");
    }
    shown
}

/// The words of one entry that have not been read yet; ends with the entry (a newline outside parentheses). Comments
/// and parentheses are removed.
pub struct Fields<'a> {
    input: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
    depth: u32,
    /// Line and column of the outermost open parenthesis.
    opened: (u32, u32),
    marks: Marks,
}

impl<'a> Fields<'a> {
    /// Reads the words of `input`, which is one entry.
    pub fn new(input: &'a [u8]) -> Self {
        Fields::from_line(input, 1)
    }

    /// Reads `input`, which has several entries and starts on line `line` of its file.
    pub(crate) fn from_line(input: &'a [u8], line: u32) -> Self {
        Fields {
            input,
            at: 0,
            line,
            line_start: 0,
            depth: 0,
            opened: (0, 0),
            marks: Marks::default(),
        }
    }

    /// Returns the next word; `None` at the end of the entry.
    #[inline(always)]
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would continue after the end of the entry"
    )]
    pub fn next(&mut self) -> Result<Option<Token<'a>>, TextError> {
        // Most words follow a single blank and are plain; inlining this case keeps the result in registers.
        if matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        match self.peek() {
            Some(byte) if class(byte) == ByteClass::Plain => {
                let start = self.at;
                self.at = plain_end(self.input, start);
                if self.peek() != Some(b'\\') {
                    return Ok(Some(Token {
                        text: &self.input[start..self.at],
                        quoted: false,
                        line: self.line,
                        column: self.column_of(start),
                    }));
                }
                self.at = start;
            }
            Some(b'\n') if self.depth == 0 => return Ok(None),
            _ => {}
        }
        self.next_of_any_kind()
    }

    #[inline(never)]
    fn next_of_any_kind(&mut self) -> Result<Option<Token<'a>>, TextError> {
        while let Some(&byte) = self.input.get(self.at) {
            match class(byte) {
                ByteClass::Plain | ByteClass::Backslash => return self.plain().map(Some),
                ByteClass::Blank => self.at += 1,
                ByteClass::Newline if self.depth == 0 => return Ok(None),
                ByteClass::Newline => self.pass_newline(),
                ByteClass::Quote => return self.quoted().map(Some),
                ByteClass::Comment => self.at = line_end(self.input, self.at),
                ByteClass::Open => self.open(),
                ByteClass::Close if self.depth == 0 => {
                    return Err(self.error_here("a ')' without its '('".into()));
                }
                ByteClass::Close => {
                    self.depth -= 1;
                    self.at += 1;
                }
            }
        }
        if self.depth > 0 {
            return Err(self.unclosed());
        }
        Ok(None)
    }

    /// Returns the next word, or an error that names what was expected.
    #[inline]
    pub fn expect(&mut self, what: &str) -> Result<Token<'a>, TextError> {
        match self.next()? {
            Some(token) => Ok(token),
            None => Err(self.error_here(format!("expected {what}, found the end of the entry"))),
        }
    }

    /// Checks that no word is left.
    #[inline]
    pub fn expect_end(&mut self) -> Result<(), TextError> {
        match self.next()? {
            None => Ok(()),
            Some(token) => Err(token.error("the end of the entry")),
        }
    }

    #[cold]
    fn error_here(&self, message: String) -> TextError {
        TextError {
            line: self.line,
            column: self.column_of(self.at),
            message,
        }
    }

    #[cold]
    fn unclosed(&self) -> TextError {
        let (line, column) = self.opened;
        TextError {
            line,
            column,
            message: "expected a ')' for this '(', found none".into(),
        }
    }

    #[inline]
    fn column_of(&self, at: usize) -> u32 {
        (at - self.line_start + 1) as u32
    }

    #[inline]
    fn pass_newline(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
    }

    fn open(&mut self) {
        if self.depth == 0 {
            self.opened = (self.line, self.column_of(self.at));
        }
        // The depth is at most the number of bytes in the entry, which is bounded.
        self.depth += 1;
        self.at += 1;
    }

    fn plain(&mut self) -> Result<Token<'a>, TextError> {
        let start = self.at;
        self.at = plain_end(self.input, start);
        while self.input.get(self.at) == Some(&b'\\') {
            self.pass_escape()?;
            self.at = plain_end(self.input, self.at);
        }
        Ok(Token {
            text: &self.input[start..self.at],
            quoted: false,
            line: self.line,
            column: self.column_of(start),
        })
    }

    /// Skips a backslash and the character it escapes. A line end cannot be escaped: parentheses are the only way to
    /// continue a line in RFC 1035 section 5.1.
    #[cold]
    fn pass_escape(&mut self) -> Result<(), TextError> {
        match self.input.get(self.at + 1) {
            Some(b'\n' | b'\r') | None => {
                let error = self.error_here(
                    "expected a character after the backslash, found the end of the line".into(),
                );
                self.at += 1;
                Err(error)
            }
            Some(_) => {
                self.at += 2;
                Ok(())
            }
        }
    }

    fn quoted(&mut self) -> Result<Token<'a>, TextError> {
        let (line, column) = (self.line, self.column_of(self.at));
        let start = self.at + 1;
        self.at = start;
        loop {
            let rest = &self.input[self.at..];
            let stop = memchr::memchr3(b'"', b'\\', b'\n', rest).unwrap_or(rest.len());
            self.at += stop;
            match rest.get(stop) {
                Some(b'"') => {
                    let text = &self.input[start..self.at];
                    self.at += 1;
                    return Ok(Token {
                        text,
                        quoted: true,
                        line,
                        column,
                    });
                }
                Some(b'\\') => self.pass_escape()?,
                _ => {
                    return Err(TextError {
                        line,
                        column,
                        message: "expected a closing quote, found the end of the line".into(),
                    });
                }
            }
        }
    }
}

/// How a skipped invalid entry ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    Newline,
    EndOfInput,
}

/// Entry boundaries, which the zone file parser needs in addition to the words.
impl<'a> Fields<'a> {
    /// Returns the byte at the current position.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    /// Returns the text at an offset found earlier.
    #[inline]
    pub(crate) fn text_at(&self, start: usize, len: usize) -> Option<&'a [u8]> {
        self.input.get(start..start + len)
    }

    /// Returns the current offset.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Returns the current line.
    #[inline]
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    /// Checks whether all input has been scanned.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.input.len()
    }

    /// Returns line and column of the open parenthesis, if there is one.
    pub(crate) fn open_parenthesis(&self) -> Option<(u32, u32)> {
        (self.depth > 0).then_some(self.opened)
    }

    /// Skips the newline that ends an entry.
    #[inline]
    pub(crate) fn pass_entry_end(&mut self) {
        if self.peek() == Some(b'\n') {
            self.pass_newline();
        }
    }

    /// Returns the text up to the end of the line or to a comment, without surrounding blanks.
    pub(crate) fn rest_of_line(&mut self) -> Result<Token<'a>, TextError> {
        while self.peek().is_some_and(|b| class(b) == ByteClass::Blank) {
            self.at += 1;
        }
        let (start, line, column) = (self.at, self.line, self.column_of(self.at));
        let mut end = start;
        while self.next()?.is_some() {
            end = self.at;
        }
        Ok(Token {
            text: &self.input[start..end],
            quoted: false,
            line,
            column,
        })
    }

    /// Returns the number of words on the current line and the offset of its newline, if the words are plain and at
    /// most five. A line that starts with a blank has an empty first word. The position does not change.
    #[inline]
    pub(crate) fn plain_line(&mut self, words: &mut [&'a [u8]; 5]) -> Option<(usize, usize)> {
        let (mut at, mut count) = (self.at, 0);
        loop {
            let end = match self.marks.next(self.input, at) {
                Some(end) => end,
                None => plain_end(self.input, at),
            };
            *words.get_mut(count)? = &self.input[at..end];
            count += 1;
            at = end;
            // Usually a single blank, and then the next word.
            while let Some(b' ' | b'\t') = self.input.get(at) {
                at += 1;
            }
            match self.input.get(at)? {
                b'\n' => return Some((count, at)),
                b'\r' if self.input.get(at + 1) == Some(&b'\n') => return Some((count, at + 1)),
                &byte if class(byte) == ByteClass::Plain => {}
                _ => return None,
            }
        }
    }

    /// Advances to `offset` on the same line.
    #[inline]
    pub(crate) fn go_to(&mut self, offset: usize) {
        self.at = offset;
    }

    /// Returns to `offset`, the start of an entry on `line`.
    pub(crate) fn rewind(&mut self, offset: usize, line: u32) {
        *self = Fields {
            at: offset,
            line_start: offset,
            ..Fields::from_line(self.input, line)
        };
    }

    /// Skips an invalid entry from its start, whatever it contains. If a parenthesis is not closed, that is the error
    /// to report, and the entry is assumed to end before the next line that does not start with a blank: otherwise one
    /// missing parenthesis would hide the rest of the file.
    pub(crate) fn pass_wrong_entry(&mut self) -> Result<Passed, TextError> {
        let mut after_opening = None;
        while let Some(byte) = self.peek() {
            match class(byte) {
                ByteClass::Newline => {
                    self.pass_newline();
                    if self.depth == 0 {
                        return Ok(Passed::Newline);
                    }
                    after_opening.get_or_insert((self.at, self.line));
                }
                ByteClass::Open => self.open(),
                ByteClass::Close => {
                    self.depth = self.depth.saturating_sub(1);
                    self.at += 1;
                }
                ByteClass::Comment => self.at = line_end(self.input, self.at),
                // Errors inside a word are the ones being skipped.
                ByteClass::Quote => _ = self.quoted(),
                ByteClass::Backslash => _ = self.pass_escape(),
                ByteClass::Plain | ByteClass::Blank => self.at += 1,
            }
        }
        if self.depth == 0 {
            return Ok(Passed::EndOfInput);
        }
        let error = self.unclosed();
        if let Some((at, line)) = after_opening {
            self.rewind(at, line);
            while self.peek().is_some_and(|b| class(b) == ByteClass::Blank) {
                self.at = line_end(self.input, self.at);
                self.pass_entry_end();
            }
        }
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_their_place() {
        let mut fields = Fields::new(b"ab \"c d\" (\n  e\\ f ) ; g");
        let mut words = Vec::new();
        while let Some(word) = fields.next().unwrap() {
            words.push((word.text, word.quoted, word.line, word.column));
        }
        assert_eq!(
            words,
            [
                (&b"ab"[..], false, 1, 1),
                (b"c d", true, 1, 4),
                (b"e\\ f", false, 2, 3)
            ]
        );
    }

    #[test]
    fn messages_cannot_write_to_a_terminal() {
        let mut fields = Fields::new(b"\x1b[31m\x9b\xc2\x9b");
        let word = fields.expect("x").unwrap();
        let shown = word.error("y").message;
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
    }
}
