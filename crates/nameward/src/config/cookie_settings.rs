//! The `[cookies]` table: DNS cookies (RFC 7873, RFC 9018).

use std::path::Path;

use nameward_serve::cookies::CookieSecret;
use toml::{Spanned, de::DeValue};

use super::read::{Count, Read, Wrong};
use super::setting::section;

section! {
    /// DNS cookies (RFC 7873), by which clients prove that their address is not forged; such clients are exempt from
    /// `[rate_limit]`. Changes take effect on reload.
    CookieTable = "cookies" {
        /// Answer the COOKIE option.
        enabled: bool = "true";
        /// Secrets of 32 hexadecimal digits each, as printed by `openssl rand -hex 16`: new cookies are made with the
        /// first one, cookies made with the others are also accepted. Servers that share an address need the same
        /// secrets. By default the secrets of `nameward cookie roll` are used, or one that is generated at start-up.
        secrets: Vec<CookieSecret> = "[]";
        /// Answer UDP queries only if they have a valid cookie: a client without a cookie is told to use TCP, a client
        /// with an invalid cookie gets a valid one (BADCOOKIE).
        require: bool = "false";
        /// The same, but only while there are more UDP queries per second than this; 0 means never.
        require_above: Count<0, 1_000_000_000> = "0";
    }
}

impl Read for CookieSecret {
    const LIST: &'static str = "a list of secrets of 32 hexadecimal digits";

    fn expected() -> String {
        "a secret of 32 hexadecimal digits".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        // A wrong secret must not be printed either.
        let wrong = || Wrong::new(value, format!("expected {}", Self::expected()));
        let text = value.get_ref().as_str();
        text.and_then(CookieSecret::from_hex).ok_or_else(wrong)
    }
}
