//! Owns the settings of TLS (certificates, versions, client certificates) and of the transports over it.

use std::path::{Path, PathBuf};

use nameward_serve::quic::QuicRetry;
use nameward_serve::tls::{TlsFiles, TlsOptions, TlsVersion};
use toml::{Spanned, de::DeValue};

use super::{
    read::{Count, Paths, Read, Wrong, keywords},
    setting::section,
};

keywords! {
    TlsVersion {
        "1.2" => TlsVersion::Tls12,
        "1.3" => TlsVersion::Tls13,
    }
}

section! {
    /// TLS for the HTTP API (docs/api.md) and encrypted DNS (docs/encryption.md).
    TlsSettings = "tls" {
        /// File with the certificate and its intermediates, in PEM; "" turns TLS off. A list of files offers several
        /// certificates: a client gets the first one for the name it connects to. Changed files are loaded within
        /// seconds.
        certificate: Paths = r#""""#;
        /// File with the private key, in PEM: ECDSA, Ed25519 or RSA. A list contains the keys of the certificates, in the
        /// same order.
        key: Paths = r#""""#;
        /// Oldest TLS version that clients may use. Set "1.2" only for clients that do not support 1.3.
        minimum_version: TlsVersion = r#""1.3""#;
        /// PEM file with the CAs that verify client certificates; "" does not request client certificates. The API never
        /// requests them.
        client_ca: Option<PathBuf> = r#""""#;
        /// Time limit for a TLS handshake, in milliseconds.
        handshake_timeout_ms: Count<100, 600_000> = "5000";
    }
}

section! {
    /// DNS over HTTPS (docs/encryption.md).
    HttpsTable = "https" {
        /// Path for queries; all other paths return 404.
        path: HttpPath = r#""/dns-query""#;
    }
}

keywords! {
    QuicRetry {
        "auto" => QuicRetry::Auto,
        "always" => QuicRetry::Always,
        "never" => QuicRetry::Never,
    }
}

section! {
    /// DNS over QUIC (docs/encryption.md).
    QuicTable = "quic" {
        /// When a client must prove that it receives packets at its address before its handshake is processed (a Retry
        /// packet, which costs a round trip): "auto" while many handshakes are in progress, "always" or "never".
        retry: QuicRetry = r#""auto""#;
    }
}

/// An absolute path of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpPath(pub String);

impl Read for HttpPath {
    fn expected() -> String {
        "a path such as \"/dns-query\"".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, base: &Path) -> Result<Self, Wrong> {
        let text = String::read(value, base)?;
        let is_plain = |octet: u8| octet.is_ascii_graphic() && !matches!(octet, b'?' | b'#');
        if text.starts_with('/') && text.bytes().all(is_plain) {
            Ok(Self(text))
        } else {
            Err(Wrong::expected(&Self::expected(), value))
        }
    }
}

impl TlsSettings {
    /// Returns the settings for the listeners; `None` without a certificate.
    pub fn options(&self) -> Option<TlsOptions> {
        let pairs = self.certificate.0.iter().zip(&self.key.0);
        let files = |(certificate, key): (&PathBuf, &PathBuf)| TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let certificates: Vec<TlsFiles> = pairs.map(files).collect();
        (!certificates.is_empty()).then(|| TlsOptions {
            certificates,
            minimum_version: self.minimum_version,
            client_ca: self.client_ca.clone(),
            handshake_timeout: self.handshake_timeout_ms.millis(),
        })
    }

    /// Returns why the settings contradict each other.
    pub fn problem(&self) -> Option<&'static str> {
        match (self.certificate.0.len(), self.key.0.len()) {
            (1.., 0) => Some("tls.certificate is set and tls.key is empty: set both"),
            (0, 1..) => Some("tls.key is set and tls.certificate is empty: set both"),
            (certificates, keys) if certificates != keys => Some(
                "tls.certificate and tls.key differ in length: list one key for each certificate",
            ),
            _ => None,
        }
    }
}
