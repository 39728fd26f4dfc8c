//! The `[cookies]` table: DNS cookies (RFC 7873, RFC 9018).

use std::path::Path;

use nameward_serve::cookies::CookieSecret;
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
        /// others are accepted, too. Servers that share an address need the same. Without a secret those of `nameward cookie roll` are used, or one that
        /// is made at start.
        secrets: Vec<CookieSecret> = "[]";
        /// Answer queries over UDP only with a valid cookie: a client that sends none is told to use TCP, one whose
        /// cookie is not valid gets a valid one (BADCOOKIE).
        require: bool = "false";
        /// The same, but only while there are more UDP queries per second than this; 0 means never.
        require_above: Count<0, 1_000_000_000> = "0";
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
        let text = value.get_ref().as_str();
        text.and_then(CookieSecret::from_hex).ok_or_else(wrong)
    }
}

impl Plural for CookieSecret {
    const LIST: &'static str = "a list of secrets of 32 hexadecimal digits";
}
