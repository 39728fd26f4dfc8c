//! Owns the TLS settings.

use std::path::PathBuf;

use super::setting::section;

section! {
    /// TLS certificate of the HTTP API (docs/api.md).
    TlsSettings = "tls" {
        /// File with the certificate and its intermediates, in PEM; "" turns TLS off. Changed files are loaded within seconds.
        certificate: Option<PathBuf> = r#""""#;
        /// File with the private key, in PEM.
        key: Option<PathBuf> = r#""""#;
    }
}
