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
    /// A certificate in it cannot be used; its position, from 1.
    #[error("certificate {0} in the file: {1}")]
    Unusable(usize, tokio_rustls::rustls::Error),
    /// It has no certificate that can be used.
    #[error("the file contains no certificate")]
    Empty,
}

/// Treatment of a file with a certificate that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnusableCertificates {
    /// The file is rejected: an operator chose its certificates, and must know of the error.
    Reject,
    /// They are skipped: the system's bundle has authorities that no operator chose, and some use old algorithms.
    Skip,
}

/// Reads the authorities in a PEM file. Of the system's own file, certificates that cannot be used are skipped.
pub fn read_authorities(path: &Path) -> Result<RootCertStore, AuthorityError> {
    let rule = if path == Path::new(SYSTEM_AUTHORITIES) {
        UnusableCertificates::Skip
    } else {
        UnusableCertificates::Reject
    };
    read(path, rule)
}

fn read(path: &Path, rule: UnusableCertificates) -> Result<RootCertStore, AuthorityError> {
    let mut store = RootCertStore::empty();
    for (index, certificate) in CertificateDer::pem_file_iter(path)?.enumerate() {
        match store.add(certificate?) {
            Err(error) if rule == UnusableCertificates::Skip => {
                let (path, position) = (path.display(), index + 1);
                tracing::debug!("{path}: certificate {position} skipped: {error}");
            }
            added => added.map_err(|error| AuthorityError::Unusable(index + 1, error))?,
        }
    }
    if store.is_empty() {
        Err(AuthorityError::Empty)
    } else {
        Ok(store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_testkit::certificates::Authority;

    #[test]
    fn an_unusable_certificate_is_named_in_a_configured_file_and_skipped_in_the_systems() {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new(directory.path(), "authority").unwrap();
        let good = std::fs::read_to_string(authority.path()).unwrap();
        // Valid PEM, but no certificate.
        let bad = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        let path = directory.path().join("bundle.pem");
        std::fs::write(&path, format!("{good}{bad}{good}")).unwrap();
        let error = read_authorities(&path).unwrap_err().to_string();
        assert!(error.starts_with("certificate 2 in the file: "), "{error}");
        let store = read(&path, UnusableCertificates::Skip).unwrap();
        assert_eq!(store.len(), 2);
        std::fs::write(&path, bad).unwrap();
        let empty = read(&path, UnusableCertificates::Skip);
        assert!(matches!(empty, Err(AuthorityError::Empty)));
    }

    #[test]
    fn a_damaged_file_is_always_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bundle.pem");
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\n?\n").unwrap();
        for rule in [UnusableCertificates::Skip, UnusableCertificates::Reject] {
            let error = read(&path, rule);
            assert!(matches!(error, Err(AuthorityError::Unreadable(_))));
        }
    }
}
