//! Certificate authorities that TLS peers are verified against: database servers, primaries, secondaries, remote servers of commands.

use std::path::Path;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};

/// Where Debian and derivatives store the authorities that the system trusts.
pub const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// An unusable file of authorities.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[from] pem::Error),
    /// A certificate in it cannot be used.
    #[error("{0}")]
    Unusable(#[from] tokio_rustls::rustls::Error),
    /// It has no certificate.
    #[error("the file contains no certificate")]
    Empty,
}

/// Reads the authorities in a PEM file.
pub fn read_authorities(path: &Path) -> Result<RootCertStore, AuthorityError> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path)? {
        store.add(certificate?)?;
    }
    if store.is_empty() {
        Err(AuthorityError::Empty)
    } else {
        Ok(store)
    }
}
