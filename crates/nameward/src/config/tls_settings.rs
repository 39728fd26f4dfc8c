//! Owns the settings of TLS: certificates, versions, client certificates.

use std::path::PathBuf;

use nameward_serve::tls::{TlsFiles, TlsOptions, TlsVersion};

use super::{
    read::{Count, Paths, words},
    setting::section,
};

words! {
    /// The oldest version of TLS that clients may use.
    MinimumTlsVersion {
        /// TLS 1.2.
        V12 = "1.2",
        /// TLS 1.3.
        V13 = "1.3",
    }
}

section! {
    /// TLS of the HTTP API (docs/api.md) and of encrypted DNS (docs/encryption.md).
    TlsSettings = "tls" {
        /// File with the certificate and its intermediates, in PEM; "" turns TLS off. A list of files offers several
        /// certificates: a client gets the first that has the name it connects to. Changed files are loaded within seconds.
        certificate: Paths = r#""""#;
        /// File with the private key, in PEM: ECDSA, Ed25519 or RSA. A list has the key of each certificate, in their order.
        key: Paths = r#""""#;
        /// Oldest version of TLS that clients may use. Set "1.2" only for clients that know no other.
        minimum_version: MinimumTlsVersion = r#""1.3""#;
        /// File with the authorities that verify client certificates, in PEM; "" asks no client for one. The API never asks.
        client_ca: Option<PathBuf> = r#""""#;
        /// Time limit for a TLS handshake, in milliseconds.
        handshake_timeout_ms: Count<100, 600_000> = "5000";
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
            minimum_version: match self.minimum_version {
                MinimumTlsVersion::V12 => TlsVersion::Tls12,
                MinimumTlsVersion::V13 => TlsVersion::Tls13,
            },
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
