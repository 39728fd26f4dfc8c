//! Owns reading TSIG secrets from base64.

use data_encoding::{BASE64, Encoding};
use nameward_base::secret::Secret;
use std::sync::LazyLock;

/// Base64 whose last digit may have bits that encode nothing: other servers accept such secrets, so they are in use.
static LENIENT: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = BASE64.specification();
    specification.check_trailing_bits = false;
    specification.encoding().unwrap_or(BASE64)
});

/// Decodes a secret, ignoring white space; `None` if it is not base64.
pub fn read_secret(text: &str) -> Option<Secret<Vec<u8>>> {
    let mut digits = Secret::new(String::with_capacity(text.len()));
    digits.reveal_mut().extend(text.split_whitespace());
    let octets = LENIENT.decode(digits.reveal().as_bytes());
    octets.ok().map(Secret::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_after_the_last_octet_are_ignored() {
        let octets = |text| read_secret(text).map(|secret| secret.reveal().clone());
        assert_eq!(octets("AAAA AAAB\n"), Some(vec![0, 0, 0, 0, 0, 1]));
        assert_eq!(octets("/w=="), Some(vec![255]));
        assert_eq!(octets("/x=="), Some(vec![255]));
        for wrong in ["/x", "!!", "/x=", "a"] {
            assert_eq!(read_secret(wrong), None, "{wrong}");
        }
    }
}
