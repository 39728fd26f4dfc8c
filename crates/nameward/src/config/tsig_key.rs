//! TSIG keys in the configuration: algorithms, secrets, and secret files.

use std::{
    io::{self, Read as _},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nameward_base::{sandbox, secret::Secret};
use nameward_dnssec::tsig::{self, TsigKey};
use toml::{Spanned, de::DeValue};

use super::{
    error::plain,
    read::{Read, Wrong},
    settings::KeySettings,
};

/// Maximum size of a secret file.
const FILE_MAX: u64 = 4096;

/// The octets of a secret in base64, ignoring white space; empty if it is not set.
impl Read for Secret<Vec<u8>> {
    fn expected() -> String {
        "base64".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let text = value.get_ref().as_str();
        // A mistyped secret is nearly the secret: it is not printed.
        text.and_then(tsig::read_secret)
            .ok_or_else(|| Wrong::new(value, "expected base64"))
    }
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    #[error("a key has either a secret or a secret_file")]
    TwoSecrets,
    #[error("a key needs a secret or a secret_file")]
    NoSecret,
    #[error("cannot read {}: {}{}", path.display(), plain(error), sandbox::explain(path, error))]
    Unreadable { path: PathBuf, error: io::Error },
    #[error(
        "{} contains a secret and has mode {mode:04o}: it must be readable by its owner only (chmod 0600)",
        path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("{}: expected base64", .0.display())]
    NotBase64(PathBuf),
}

impl KeySettings {
    /// Reads the secret from its file.
    pub fn complete(&mut self) -> Result<(), KeyFault> {
        let has_secret = !self.secret.reveal().is_empty();
        match &self.secret_file {
            Some(_) if has_secret => return Err(KeyFault::TwoSecrets),
            Some(path) => self.secret = read_secret(path)?,
            None => {}
        }
        if self.secret.reveal().is_empty() {
            Err(KeyFault::NoSecret)
        } else {
            Ok(())
        }
    }

    pub fn key(&self) -> TsigKey {
        let name = self.name.0.as_name();
        TsigKey::new(name, self.algorithm, self.secret.reveal())
    }
}

fn read_secret(path: &Path) -> Result<Secret<Vec<u8>>, KeyFault> {
    let unreadable = |error| KeyFault::Unreadable {
        path: path.into(),
        error,
    };
    let (file, metadata) = nameward_import::open_regular(path).map_err(unreadable)?;
    let mode = metadata.mode();
    if mode & 0o077 != 0 {
        return Err(KeyFault::Exposed {
            path: path.into(),
            mode: mode & 0o777,
        });
    }
    // It never grows, which would leave a copy behind.
    let mut text = Secret::new(String::with_capacity(FILE_MAX as usize + 1));
    let read = file.take(FILE_MAX).read_to_string(text.reveal_mut());
    read.map_err(unreadable)?;
    tsig::read_secret(text.reveal())
        .filter(|secret| !secret.reveal().is_empty())
        .ok_or_else(|| KeyFault::NotBase64(path.into()))
}
