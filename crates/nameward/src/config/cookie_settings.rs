//! The `[cookies]` table: DNS cookies (RFC 7873, RFC 9018).

use std::path::Path;

use nameward_serve::cookies::SECRET;
use toml::{Spanned, de::DeValue};

use super::read::{Count, Plural, Read, Wrong};
use super::setting::section;

section! {
    /// DNS cookies (RFC 7873), by which clients show that their address is not forged: they are exempt from
    /// `[rate_limit]`. Changes take effect on reload.
    CookieTable = "cookies" {
        /// Answer the COOKIE option.
        enabled: bool = "true";
        /// Secrets of 32 hexadecimal digits each, as `openssl rand -hex 16` prints one: the first makes cookies, the
        /// others are accepted, too. Servers that share an address need the same. Without a secret one is made at start.
        secrets: Vec<CookieSecret> = "[]";
        /// Answer queries over UDP only with a valid cookie: a client that sends none is told to use TCP, one whose
        /// cookie is not valid gets a valid one (BADCOOKIE).
        require: bool = "false";
        /// The same, but only while there are more UDP queries per second than this; 0 means never.
        require_above: Count<0, 1_000_000_000> = "0";
    }
}

/// A secret, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieSecret(pub [u8; SECRET]);

impl std::fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Read for CookieSecret {
    fn expected() -> String {
        "a secret of 32 hexadecimal digits".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        // A wrong secret must not be printed either.
        let wrong = || Wrong {
            span: value.span(),
            message: format!("expected {}", Self::expected()),
        };
        let text = value.get_ref().as_str().ok_or_else(wrong)?;
        let is_hex =
            text.len() == 2 * SECRET && text.bytes().all(|octet| octet.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
        number
            .map(|number| Self(number.to_be_bytes()))
            .ok_or_else(wrong)
    }
}

impl Plural for CookieSecret {
    const LIST: &'static str = "a list of secrets of 32 hexadecimal digits";
}
