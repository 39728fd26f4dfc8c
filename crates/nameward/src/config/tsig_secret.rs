//! The secret of a TSIG key as it is configured.

use std::path::Path;

use nameward_base::secret::Secret;
use toml::{Spanned, de::DeValue};

use super::read::{Read, Wrong};

/// The octets of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TsigSecret(Secret<Vec<u8>>);

impl TsigSecret {
    /// Reads base64, ignoring white space.
    pub fn from_base64(text: &str) -> Option<Self> {
        nameward_dnssec::tsig::read_secret(text).map(Self)
    }

    /// Returns the octets; empty if the secret is not set.
    pub fn reveal(&self) -> &[u8] {
        self.0.reveal()
    }
}

impl Read for TsigSecret {
    fn expected() -> String {
        "base64".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let text = value.get_ref().as_str();
        // A mistyped secret is nearly the secret: it is not printed.
        text.and_then(Self::from_base64).ok_or_else(|| Wrong {
            span: value.span(),
            message: "expected base64".into(),
        })
    }
}
