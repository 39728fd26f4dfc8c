//! TLS files in PEM format: certificate chains, private keys, authorities; and detection of changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nameward_sql::authorities::{self, AuthorityError};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, RootCertStore};

use super::TlsOptions;

/// The files with a certificate chain and its private key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its intermediates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: pem::Error,
    },
    /// There is no certificate in the file.
    #[error("{}: no certificate found", .0.display())]
    Empty(PathBuf),
    /// Key and certificate do not match, or are not supported.
    #[error("{}: {source}", path.display())]
    Unusable {
        /// The certificate file.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// The authorities of client certificates cannot be used.
    #[error("{}: {source}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: AuthorityError,
    },
}

/// Identity and modification time of a file.
pub type FileStamp = (u64, u64, i64, i64, u64);

/// Returns the stamps of all files; `None` for one that is missing.
pub(super) fn stamps(options: &TlsOptions) -> Vec<Option<FileStamp>> {
    let pairs = options.certificates.iter();
    let paths = pairs.flat_map(|files| [&files.certificate, &files.key]);
    let paths = paths.chain(&options.client_ca);
    paths.map(|path| file_stamp(path)).collect()
}

/// Returns the stamp of a file; `None` if it is missing.
pub fn file_stamp(path: &Path) -> Option<FileStamp> {
    let file = fs::metadata(path).ok()?;
    Some((
        file.dev(),
        file.ino(),
        file.mtime(),
        file.mtime_nsec(),
        file.size(),
    ))
}

/// Reads a certificate chain, which has at least one certificate, the server's own first.
pub fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| TlsError::Unreadable {
            path: path.to_path_buf(),
            source,
        })?;
    if chain.is_empty() {
        return Err(TlsError::Empty(path.to_path_buf()));
    }
    Ok(chain)
}

/// Reads a private key.
pub fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::Unreadable {
        path: path.to_path_buf(),
        source,
    })
}

/// Reads the certificates of authorities.
pub fn read_authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    authorities::read_authorities(path).map_err(|source| TlsError::Authorities {
        path: path.to_path_buf(),
        source,
    })
}
