//! The lexer for `named.conf`: strings with and without quotes, braces and semicolons, each with its location.
//!
//! Comments are `#` and `//` to the end of the line and `/* */`; they start anywhere except in a quoted string and
//! separate words like a space.

use std::borrow::Cow;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TextLocation {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

impl TextLocation {
    pub(super) const START: TextLocation = TextLocation { line: 1, column: 1 };

    /// Returns an error at this location.
    pub(super) fn wrong(self, message: impl Into<String>) -> ConfMistake {
        ConfMistake {
            location: self,
            message: message.into(),
        }
    }
}

/// An error in a configuration, with its location.
#[derive(Debug)]
pub(super) struct ConfMistake {
    pub location: TextLocation,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConfToken<'t> {
    /// A string with or without quotes.
    Word(Cow<'t, [u8]>),
    Open,
    Close,
    Semicolon,
    End,
}

impl ConfToken<'_> {
    /// Describes the token for an error message.
    pub(super) fn describe(&self) -> String {
        match self {
            ConfToken::Word(word) => quoted(word),
            ConfToken::Open => "'{'".into(),
            ConfToken::Close => "'}'".into(),
            ConfToken::Semicolon => "';'".into(),
            ConfToken::End => "the end of the file".into(),
        }
    }
}

/// Quotes text from a file, with a length limit.
pub(super) fn quoted(text: &[u8]) -> String {
    let (shown, more) = match text.get(..60) {
        Some(start) if text.len() > 60 => (start, "..."),
        _ => (text, ""),
    };
    format!("'{}{more}'", shown.escape_ascii())
}

/// Scans the text of one file.
pub(super) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    line: u32,
    line_start: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            line_start: 0,
        }
    }

    fn location(&self) -> TextLocation {
        TextLocation {
            line: self.line,
            column: u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX),
        }
    }

    fn step(&mut self) {
        if self.text.get(self.at) == Some(&b'\n') {
            self.line = self.line.saturating_add(1);
            self.line_start = self.at + 1;
        }
        self.at += 1;
    }

    /// Returns the next token and its start.
    pub(super) fn next(&mut self) -> Result<(TextLocation, ConfToken<'t>), ConfMistake> {
        self.skip_blanks()?;
        let location = self.location();
        let Some(&byte) = self.text.get(self.at) else {
            return Ok((location, ConfToken::End));
        };
        let special = match byte {
            b'"' => return Ok((location, ConfToken::Word(self.quoted_string()?))),
            b'{' => ConfToken::Open,
            b'}' => ConfToken::Close,
            b';' => ConfToken::Semicolon,
            b'!' => ConfToken::Word(Cow::Borrowed(&self.text[self.at..=self.at])),
            _ => return Ok((location, ConfToken::Word(Cow::Borrowed(self.bare_word())))),
        };
        self.step();
        Ok((location, special))
    }

    fn skip_blanks(&mut self) -> Result<(), ConfMistake> {
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => self.step(),
                b'#' => self.skip_line(),
                b'/' if self.text[self.at..].starts_with(b"//") => self.skip_line(),
                b'/' if self.text[self.at..].starts_with(b"/*") => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn skip_line(&mut self) {
        while self.text.get(self.at).is_some_and(|byte| *byte != b'\n') {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) -> Result<(), ConfMistake> {
        let location = self.location();
        self.at += 2;
        while !self.text[self.at..].starts_with(b"*/") {
            if self.at >= self.text.len() {
                return Err(location.wrong("unterminated comment: expected '*/'"));
            }
            self.step();
        }
        self.at += 2;
        Ok(())
    }

    fn bare_word(&mut self) -> &'t [u8] {
        let start = self.at;
        while let Some(&byte) = self.text.get(self.at) {
            let rest = &self.text[self.at..];
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => break,
                b'{' | b'}' | b';' | b'"' | b'!' | b'#' => break,
                b'/' if rest.starts_with(b"//") || rest.starts_with(b"/*") => break,
                _ => self.at += 1,
            }
        }
        &self.text[start..self.at]
    }

    /// Reads a quoted string. A backslash escapes a quotation mark and is kept before anything else: zone names have
    /// their own escapes.
    fn quoted_string(&mut self) -> Result<Cow<'t, [u8]>, ConfMistake> {
        let location = self.location();
        self.at += 1;
        let start = self.at;
        let mut unescaped: Option<Vec<u8>> = None;
        let mut is_escaped = false;
        loop {
            let Some(&byte) = self.text.get(self.at) else {
                return Err(location.wrong("unterminated string: expected '\"'"));
            };
            match byte {
                b'"' if !is_escaped => {
                    let whole = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(unescaped.map_or(Cow::Borrowed(whole), Cow::Owned));
                }
                b'"' => {
                    let text = unescaped.get_or_insert_with(|| self.text[start..self.at].to_vec());
                    text.pop();
                    text.push(b'"');
                }
                _ => {
                    if let Some(text) = &mut unescaped {
                        text.push(byte);
                    }
                }
            }
            is_escaped = byte == b'\\' && !is_escaped;
            self.step();
        }
    }
}
