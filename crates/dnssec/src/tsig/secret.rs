//! Owns reading TSIG secrets from base64.

use data_encoding::{BASE64, Encoding};
use std::sync::LazyLock;

/// Base64 whose last digit may have bits that encode nothing: other servers accept such secrets, so they are in use.
static LENIENT: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = BASE64.specification();
    specification.check_trailing_bits = false;
    specification.encoding().unwrap_or(BASE64)
});

/// Decodes a secret, ignoring white space; `None` if it is not base64.
pub fn read_secret(text: &str) -> Option<Vec<u8>> {
    let text: String = text.split_whitespace().collect();
    LENIENT.decode(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_after_the_last_octet_are_ignored() {
        assert_eq!(read_secret("AAAA AAAB\n"), Some(vec![0, 0, 0, 0, 0, 1]));
        assert_eq!(read_secret("/w=="), Some(vec![255]));
        assert_eq!(read_secret("/x=="), Some(vec![255]));
        for wrong in ["/x", "!!", "/x=", "a"] {
            assert_eq!(read_secret(wrong), None, "{wrong}");
        }
    }
}
