//! The words that record data is parsed from, and where the parsers of fields write to.

use super::digits::decimal;
use super::encoding::unescaped;
use crate::name::Name;
use crate::text::{Fields, TextError, Token};

pub(super) const STRING: &str =
    "a character string with escapes as \\DDD up to 255 or \\ and one character";
pub(super) const MALFORMED: &str = "expected well-formed record data";

/// Remarks on a record that was accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notes {
    /// A character string of more than 255 octets was split.
    pub txt_split: bool,
    /// Service parameters have `no-default-alpn` without `alpn`: clients ignore the record.
    pub no_alpn: bool,
}

/// The output of a parser, and the context it needs.
pub(super) struct RdataTarget<'t> {
    pub(super) origin: Name<'t>,
    pub(super) out: &'t mut Vec<u8>,
    /// Start of this record's data in `out`.
    pub(super) start: usize,
    pub(super) notes: Notes,
}

/// A stream of words with one word of lookahead.
pub(super) struct Words<'f, 'a> {
    pub(super) fields: &'f mut Fields<'a>,
    pub(super) held: Option<Token<'a>>,
}

impl<'a> Words<'_, 'a> {
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, TextError> {
        match self.held.take() {
            Some(word) => Ok(Some(word)),
            None => self.fields.next(),
        }
    }

    #[inline]
    pub(super) fn expect(&mut self, what: &str) -> Result<Token<'a>, TextError> {
        match self.held.take() {
            Some(word) => Ok(word),
            None => self.fields.expect(what),
        }
    }

    /// Pushes a word back.
    pub(super) fn hold(&mut self, word: Token<'a>) {
        self.held = Some(word);
    }
}

/// Reads a number.
#[inline]
pub(super) fn number(words: &mut Words<'_, '_>, max: u64, what: &str) -> Result<u64, TextError> {
    let word = words.expect(what)?;
    decimal(word.text, max).ok_or_else(|| word.error(what))
}

/// Writes one character string of at most 255 octets.
pub(super) fn string(word: &Token<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let at = out.len();
    out.push(0);
    unescaped(word.text, out).ok_or_else(|| word.error(STRING))?;
    out[at] = u8::try_from(out.len() - at - 1)
        .map_err(|_| word.error("a character string of at most 255 octets"))?;
    Ok(())
}
