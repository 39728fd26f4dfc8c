//! `$GENERATE`, a BIND extension: one entry for each number in a range.
//!
//! `$GENERATE start-stop[/step] owner [ttl] [class] type data`. In owner and data, `$` is the number, `$$` and `\$` a
//! dollar sign, `${offset,width,base}` the number plus an offset, padded with zeros, in base `d`, `o`, `x`, `X`, or as
//! reversed nibbles with dots `n`, `N` (the width includes the dots). Data in a single pair of quotes is unquoted, as
//! in BIND; data with several words is used as is.

use super::parser::{Parser, Step, step};
use super::source::BlockEnd;
use super::{GENERATED_FACTOR, Sink};
use crate::rtype::Class;
use crate::text::{Fields, TextError, Token};

/// Maximum number of characters a number can be padded to: more do not fit into a name.
const MAX_WIDTH: u32 = 255;

/// Maximum size of one generated entry, in bytes.
const MAX_TEXT: usize = 65_536;

/// The largest number in a range, as in BIND.
const MAX_NUMBER: u64 = i32::MAX as u64;

struct Range {
    start: u64,
    stop: u64,
    step: u64,
}

impl<S: Sink + ?Sized> Parser<'_, S> {
    pub(super) fn generate(
        &mut self,
        fields: &mut Fields<'_>,
        directive: &Token<'_>,
        end: BlockEnd,
    ) -> Result<Step, TextError> {
        let range_word = fields.expect("a range such as 1-100 or 1-100/2")?;
        let range = Range::parse(range_word.text)
            .ok_or_else(|| range_word.error("a range such as 1-100 or 1-100/2"))?;
        let owner = fields.expect("an owner")?;
        let data = fields.rest_of_line()?;
        if data.text.is_empty() {
            return Err(data.error("a type and data"));
        }
        let count = (range.stop - range.start) / range.step + 1;
        if count > self.options.max_generate {
            let limit = format!("a range of at most {} numbers", self.options.max_generate);
            return Err(range_word.error(&limit));
        }
        if step(fields, end) == Step::NeedsMore {
            return Ok(Step::NeedsMore);
        }

        let mut template = Template(Vec::new());
        let at = |word: &Token<'_>, message| TextError {
            line: word.line,
            column: word.column,
            message,
        };
        let (head, tail) =
            split_quoted_data(data.text).map_err(|error| at(&data, error.message))?;
        template
            .add(owner.text)
            .map_err(|e| at(&owner, e.to_string()))?;
        for part in [b" ", head, b" ", tail] {
            template.add(part).map_err(|e| at(&data, e.to_string()))?;
        }
        let mut text = Vec::new();
        let mut number = range.start;
        while number <= range.stop && !self.has_stopped() {
            text.clear();
            let made = template
                .fill(number, &mut text)
                .map_err(|error| at(&owner, error.to_string()));
            made.and_then(|()| self.generated(&text, directive.line))
                .and_then(|()| self.count_generated(text.len(), directive))
                .map_err(|error| {
                    let message = format!("in the entry for {number}: {}", error.message);
                    at(directive, message)
                })?;
            number += range.step;
        }
        Ok(Step::Done)
    }

    /// Counts the record just generated. Lines, numbers and the size of an entry are bounded individually; their
    /// product could still let one small file take down a server.
    fn count_generated(&mut self, text: usize, directive: &Token<'_>) -> Result<(), TextError> {
        // Text that yields little data still takes time.
        self.generated += (self.owner.as_wire().len() + self.rdata.len().max(text)) as u64;
        let by_size = self.text_octets.saturating_mul(GENERATED_FACTOR);
        let most = by_size.max(self.options.generated_octets);
        if self.generated <= most {
            return Ok(());
        }
        Err(TextError {
            line: directive.line,
            column: directive.column,
            message: format!(
                "expected at most {most} octets from $GENERATE (generated_max_mb, or \
                 {GENERATED_FACTOR} times the size of the file), found more"
            ),
        })
    }
}

impl Range {
    fn parse(text: &[u8]) -> Option<Range> {
        let text = core::str::from_utf8(text).ok()?;
        let (range, step) = text.split_once('/').unwrap_or((text, "1"));
        let (start, stop) = range.split_once('-')?;
        let range = Range {
            start: number(start)?,
            stop: number(stop)?,
            step: number(step)?,
        };
        (range.start <= range.stop && range.step > 0).then_some(range)
    }
}

/// Parses digits only: `u64::from_str` accepts a plus sign.
fn number(text: &str) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|&number| number <= MAX_NUMBER)
}

/// The text of an entry with placeholders for the numbers.
struct Template<'a>(Vec<Piece<'a>>);

enum Piece<'a> {
    Text(&'a [u8]),
    Number { offset: i64, width: u32, base: Base },
}

#[derive(Clone, Copy)]
enum Base {
    Decimal,
    Octal,
    HexLower,
    HexUpper,
    NibblesLower,
    NibblesUpper,
}

/// The reason why a template cannot be parsed or filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum TemplateError {
    #[error("expected a '}}' for '${{', found the end of the word")]
    Unclosed,
    #[error("expected offset,width,base in '${{...}}', found '{0}'")]
    Modifier(String),
    #[error("expected a number from 0, found {0}")]
    Negative(i64),
    #[error("expected an entry of at most {MAX_TEXT} octets")]
    TooLong,
}

impl<'a> Template<'a> {
    fn add(&mut self, part: &'a [u8]) -> Result<(), TemplateError> {
        let (mut text_start, mut at) = (0, 0);
        while let Some(found) = memchr::memchr2(b'$', b'\\', &part[at..]) {
            at += found;
            if part[at] == b'\\' {
                at = (at + 2).min(part.len());
                continue;
            }
            self.0.push(Piece::Text(&part[text_start..at]));
            at += 1;
            match part.get(at) {
                Some(b'$') => {
                    // Escaped, so that a name built from it is not mistaken for a directive.
                    self.0.push(Piece::Text(b"\\$"));
                    at += 1;
                }
                Some(b'{') => {
                    let close = memchr::memchr(b'}', &part[at..]).ok_or(TemplateError::Unclosed)?;
                    self.0.push(Piece::modified(&part[at + 1..at + close])?);
                    at += close + 1;
                }
                _ => self.0.push(Piece::Number {
                    offset: 0,
                    width: 0,
                    base: Base::Decimal,
                }),
            }
            text_start = at;
        }
        self.0.push(Piece::Text(&part[text_start..]));
        Ok(())
    }

    fn fill(&self, number: u64, out: &mut Vec<u8>) -> Result<(), TemplateError> {
        for piece in &self.0 {
            match *piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Number {
                    offset,
                    width,
                    base,
                } => {
                    let value = number as i64 + offset;
                    let value = u64::try_from(value).map_err(|_| TemplateError::Negative(value))?;
                    push_number(out, value, width as usize, base);
                }
            }
            if out.len() > MAX_TEXT {
                return Err(TemplateError::TooLong);
            }
        }
        Ok(())
    }
}

impl Piece<'_> {
    /// Parses the text between `${` and `}`: offset, width, base, of which the last ones are optional.
    fn modified(text: &[u8]) -> Result<Self, TemplateError> {
        let wrong = || TemplateError::Modifier(crate::text::printable(text));
        let text = core::str::from_utf8(text).map_err(|_| wrong())?;
        let mut parts = text.split(',');
        let offset: i32 = parts.next().unwrap_or("").parse().map_err(|_| wrong())?;
        let width = match parts.next() {
            None => 0,
            Some(width) => width.parse().map_err(|_| wrong())?,
        };
        let base = match parts.next() {
            None | Some("d") => Base::Decimal,
            Some("o") => Base::Octal,
            Some("x") => Base::HexLower,
            Some("X") => Base::HexUpper,
            Some("n") => Base::NibblesLower,
            Some("N") => Base::NibblesUpper,
            Some(_) => return Err(wrong()),
        };
        if parts.next().is_some() || width > MAX_WIDTH {
            return Err(wrong());
        }
        Ok(Piece::Number {
            offset: offset.into(),
            width,
            base,
        })
    }
}

fn push_number(out: &mut Vec<u8>, value: u64, width: usize, base: Base) {
    use std::io::Write;
    let written = match base {
        Base::Decimal => write!(out, "{value:0width$}"),
        Base::Octal => write!(out, "{value:0width$o}"),
        Base::HexLower => write!(out, "{value:0width$x}"),
        Base::HexUpper => write!(out, "{value:0width$X}"),
        Base::NibblesLower => return push_nibbles(out, value, width, b"0123456789abcdef"),
        Base::NibblesUpper => return push_nibbles(out, value, width, b"0123456789ABCDEF"),
    };
    debug_assert!(written.is_ok(), "writing to a vector cannot fail");
}

/// Writes nibbles from the lowest, separated by dots, as in names below ip6.arpa. A dot is written while there is width
/// left, even as the last character.
fn push_nibbles(out: &mut Vec<u8>, mut value: u64, width: usize, digits: &[u8; 16]) {
    let start = out.len();
    loop {
        out.push(digits[(value & 15) as usize]);
        value >>= 4;
        if value == 0 && out.len() - start >= width {
            return;
        }
        out.push(b'.');
        if value == 0 && out.len() - start >= width {
            return;
        }
    }
}

/// Splits the text after the owner into head (up to the type) and data. Data that is one quoted word is unquoted.
fn split_quoted_data(text: &[u8]) -> Result<(&[u8], &[u8]), TextError> {
    let mut fields = Fields::new(text);
    loop {
        let word = fields.expect("a type")?;
        let is_ttl = word.text.first().is_some_and(u8::is_ascii_digit);
        if !is_ttl && Class::from_text(word.text).is_none() {
            break;
        }
    }
    let (head, data) = text.split_at(fields.offset());
    match (fields.next()?, fields.next()?) {
        (Some(only), None) if only.quoted => Ok((head, only.text)),
        _ => Ok((head, data)),
    }
}
