//! Who made a change and why, for the history of a zone.

use std::sync::Arc;

/// Octets of the one who made a change, and of the reason, at the most.
const WHO_MAX: usize = 300;
/// Octets of a reason, at the most.
pub const MESSAGE_MAX: usize = 1000;

/// Who made a change, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeAuthor {
    /// A kind and a name: `user root`, `update 192.0.2.1 key k.example.`, `primary 192.0.2.1:53`.
    pub who: Box<str>,
    /// The reason, in the words of the one who asked.
    pub message: Option<Box<str>>,
}

impl ChangeAuthor {
    /// Makes an author; texts that are too long are cut.
    pub fn new(who: &str, message: Option<&str>) -> Arc<Self> {
        Arc::new(ChangeAuthor {
            who: cut(who, WHO_MAX).into(),
            message: message.map(|message| cut(message, MESSAGE_MAX).into()),
        })
    }
}

fn cut(text: &str, octets: usize) -> &str {
    &text[..text.floor_char_boundary(octets)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let author = ChangeAuthor::new(&"ü".repeat(200), Some(&"x".repeat(5000)));
        assert_eq!(author.who.len(), WHO_MAX);
        assert_eq!(
            author.message.as_ref().map(|text| text.len()),
            Some(MESSAGE_MAX)
        );
        assert_eq!(cut("aü", 2), "a");
    }
}
