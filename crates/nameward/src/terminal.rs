//! Escapes text for a terminal or a log: a file name may contain any octet, including terminal control sequences.

use std::fmt::{self, Write};

/// Control characters that are not escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Preserved {
    None,
    LinesAndTabs,
}

/// Returns a one-line text with control characters escaped as `\DDD`.
pub fn line(text: impl fmt::Display) -> impl fmt::Display {
    escape(text, Preserved::None)
}

/// Returns a multi-line text with control characters except newlines and tabs escaped as `\DDD`.
pub fn lines(text: impl fmt::Display) -> impl fmt::Display {
    escape(text, Preserved::LinesAndTabs)
}

fn escape(text: impl fmt::Display, kept: Preserved) -> impl fmt::Display {
    fmt::from_fn(move |f| write!(Escaping { to: f, kept }, "{text}"))
}

/// Writes text through, escaped.
struct Escaping<'a, W> {
    to: &'a mut W,
    kept: Preserved,
}

impl<W: Write> Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            let is_kept = self.kept == Preserved::LinesAndTabs && matches!(c, '\n' | '\t');
            if c.is_control() && !is_kept {
                write!(self.to, "\\{:03}", u32::from(c))?
            } else {
                self.to.write_char(c)?
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
