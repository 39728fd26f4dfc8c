//! Owns text on its way to a terminal or a log: a name of a file may hold any octet, also those that a terminal obeys.

use std::fmt::{self, Write};

/// Control characters that are let through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    None,
    LinesAndTabs,
}

/// A text of one line, its control characters shown as `\DDD`.
pub fn line(text: impl fmt::Display) -> impl fmt::Display {
    escape(text, Kept::None)
}

/// A text of many lines, its control characters but line ends and tabs shown as `\DDD`.
pub fn lines(text: impl fmt::Display) -> impl fmt::Display {
    escape(text, Kept::LinesAndTabs)
}

fn escape(text: impl fmt::Display, kept: Kept) -> impl fmt::Display {
    fmt::from_fn(move |f| write!(Escaping { to: f, kept }, "{text}"))
}

/// Writes text on, escaped.
struct Escaping<'a, W> {
    to: &'a mut W,
    kept: Kept,
}

impl<W: Write> Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            let is_kept = self.kept == Kept::LinesAndTabs && matches!(c, '\n' | '\t');
            match c.is_control() && !is_kept {
                true => write!(self.to, "\\{:03}", u32::from(c))?,
                false => self.to.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_reaches_a_terminal() {
        let text = "zones/\u{1b}[2Ja\nb\tc\r\u{7f}\u{9b}ü.zone";
        let escaped = "zones/\\027[2Ja\\010b\\009c\\013\\127\\155ü.zone";
        assert_eq!(line(text).to_string(), escaped);
        let escaped = "zones/\\027[2Ja\nb\tc\\013\\127\\155ü.zone";
        assert_eq!(lines(text).to_string(), escaped);
    }
}
