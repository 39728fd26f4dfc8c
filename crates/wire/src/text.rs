//! The words of one zone-file entry, as record data is read from them.

use core::fmt;

/// What was found and what was expected, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What was expected, and what was found instead.
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
    /// The bytes as written, without the quotes; escapes are still in it.
    pub text: &'a [u8],
    /// Whether it stood in quotes.
    pub quoted: bool,
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

impl Token<'_> {
    /// An error at this word: `expected X, found Y`.
    pub fn error(&self, expected: &str) -> TextError {
        let found = String::from_utf8_lossy(&self.text[..self.text.len().min(60)]).into_owned();
        TextError {
            line: self.line,
            column: self.column,
            message: format!("expected {expected}, found '{found}'"),
        }
    }
}

/// The words of one entry that are not read yet; ends where the entry ends (a newline outside
/// parentheses). Comments and parentheses are gone.
pub struct Fields<'a> {
    input: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
    depth: u32,
}

impl<'a> Fields<'a> {
    /// Reads the words of `input`, one entry.
    pub fn new(input: &'a [u8]) -> Self {
        Fields {
            input,
            at: 0,
            line: 1,
            line_start: 0,
            depth: 0,
        }
    }

    /// The next word; `None` at the end of the entry.
    pub fn next(&mut self) -> Result<Option<Token<'a>>, TextError> {
        while let Some(&byte) = self.input.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'(' => {
                    self.depth += 1;
                    self.at += 1
                }
                b')' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.at += 1
                }
                b';' => {
                    while self.at < self.input.len() && self.input[self.at] != b'\n' {
                        self.at += 1
                    }
                }
                b'\n' if self.depth == 0 => return Ok(None),
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    self.line_start = self.at
                }
                b'"' => return self.quoted().map(Some),
                _ => return Ok(Some(self.plain())),
            }
        }
        Ok(None)
    }

    /// The next word, or an error that names what was expected.
    pub fn expect(&mut self, what: &str) -> Result<Token<'a>, TextError> {
        self.next()?.ok_or_else(|| TextError {
            line: self.line,
            column: (self.at - self.line_start + 1) as u32,
            message: format!("expected {what}, found the end of the entry"),
        })
    }

    fn plain(&mut self) -> Token<'a> {
        let start = self.at;
        while let Some(&byte) = self.input.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')' | b';' | b'"' => break,
                b'\\' => self.at = (self.at + 2).min(self.input.len()),
                _ => self.at += 1,
            }
        }
        Token {
            text: &self.input[start..self.at],
            quoted: false,
            line: self.line,
            column: (start - self.line_start + 1) as u32,
        }
    }

    fn quoted(&mut self) -> Result<Token<'a>, TextError> {
        let (line, column) = (self.line, (self.at - self.line_start + 1) as u32);
        let start = self.at + 1;
        self.at = start;
        while let Some(&byte) = self.input.get(self.at) {
            match byte {
                b'"' => {
                    let text = &self.input[start..self.at];
                    self.at += 1;
                    return Ok(Token {
                        text,
                        quoted: true,
                        line,
                        column,
                    });
                }
                b'\\' => self.at = (self.at + 2).min(self.input.len()),
                b'\n' => break,
                _ => self.at += 1,
            }
        }
        Err(TextError {
            line,
            column,
            message: "expected a closing quote before the end of the line".into(),
        })
    }
}
