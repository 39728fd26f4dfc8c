//! The author of a change and the reason for it, for the zone's history.

use std::sync::Arc;

/// Maximum length of the author, in octets.
const WHO_MAX: usize = 300;
/// Maximum length of the reason, in octets.
pub const MESSAGE_MAX: usize = 1000;

/// The author of a change, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeAuthor {
    /// A kind and a name: `user root`, `update 192.0.2.1 key k.example.`, `primary 192.0.2.1:53`.
    pub who: Box<str>,
    /// The reason, as given in the request.
    pub message: Option<Box<str>>,
}

impl ChangeAuthor {
    /// Creates an author; overlong texts are truncated.
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
