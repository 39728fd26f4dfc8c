//! Owns the TLS certificate of the API: loaded at start, and again whenever its files change.
//!
//! New connections use the newest certificate that could be loaded; running ones keep theirs and are never dropped. Files that
//! cannot be used leave the previous certificate in service and are a fault. So is a certificate that expires soon: the renewal
//! has then failed already.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nameward_base::calendar::UtcTime;
use nameward_base::sync::Mutex;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Seconds before its expiry from which on a certificate is a fault.
pub const EXPIRY_NOTICE: u64 = 14 * 86_400;
/// Application protocols (RFC 7301), the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The files with certificate chain and private key, in PEM.
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
    /// Key and certificate do not fit, or are not supported.
    #[error("{}: {source}", path.display())]
    Unusable {
        /// The certificate file.
        path: PathBuf,
        /// The reason.
        source: tokio_rustls::rustls::Error,
    },
}

/// A problem of the certificate that an operator must solve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsFault {
    /// The files were replaced and cannot be used; the previous certificate is in service.
    Rejected {
        /// The reason.
        error: String,
        /// Since when, in seconds since 1970.
        since: u64,
    },
    /// It expires soon, or has expired.
    Expiring {
        /// The certificate file.
        path: PathBuf,
        /// When, in seconds since 1970.
        at: u64,
    },
}

/// A certificate that follows its files.
pub struct ServerTls {
    files: TlsFiles,
    state: Mutex<TlsState>,
}

struct TlsState {
    config: Arc<ServerConfig>,
    expires: Option<u64>,
    /// The files that were loaded or rejected last.
    stamp: [Option<FileStamp>; 2],
    rejected: Option<(String, u64)>,
}

/// Identity and change time of a file.
type FileStamp = (u64, u64, i64, i64, u64);

impl ServerTls {
    /// Loads the certificate; at start an unusable one is an error.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let stamp = stamps(&files);
        let (config, expires) = load(&files)?;
        Ok(Arc::new(ServerTls {
            files,
            state: Mutex::new(TlsState {
                config,
                expires,
                stamp,
                rejected: None,
            }),
        }))
    }

    /// Returns the acceptor for a new connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.state.lock().config))
    }

    /// Loads the files again if they have changed since the last time. It reads files, so call it where blocking is allowed.
    pub fn refresh(&self, now: u64) {
        let stamp = stamps(&self.files);
        if self.state.lock().stamp == stamp {
            return;
        }
        let loaded = load(&self.files);
        let mut state = self.state.lock();
        state.stamp = stamp;
        match loaded {
            Ok((config, expires)) => {
                (state.config, state.expires, state.rejected) = (config, expires, None);
                let path = self.files.certificate.display();
                tracing::info!("TLS certificate {path}: loaded");
            }
            Err(error) => {
                tracing::error!("TLS certificate: {error}; the previous one stays in service");
                let since = state.rejected.as_ref().map_or(now, |(_, since)| *since);
                state.rejected = Some((error.to_string(), since));
            }
        }
    }

    /// Returns what is wrong with the certificate.
    pub fn fault(&self, now: u64) -> Option<TlsFault> {
        let state = self.state.lock();
        if let Some((error, since)) = state.rejected.clone() {
            return Some(TlsFault::Rejected { error, since });
        }
        let at = state.expires?;
        (at <= now.saturating_add(EXPIRY_NOTICE)).then(|| TlsFault::Expiring {
            path: self.files.certificate.clone(),
            at,
        })
    }
}

fn stamps(files: &TlsFiles) -> [Option<FileStamp>; 2] {
    [&files.certificate, &files.key].map(|path| {
        let file = fs::metadata(path).ok()?;
        Some((
            file.dev(),
            file.ino(),
            file.mtime(),
            file.mtime_nsec(),
            file.size(),
        ))
    })
}

fn load(files: &TlsFiles) -> Result<(Arc<ServerConfig>, Option<u64>), TlsError> {
    let unreadable = |path: &Path, source| TlsError::Unreadable {
        path: path.to_path_buf(),
        source,
    };
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| unreadable(&files.certificate, source))?;
    let Some(first) = chain.first() else {
        return Err(TlsError::Empty(files.certificate.clone()));
    };
    let expires = not_after(first.as_ref());
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|source| unreadable(&files.key, source))?;
    let unusable = |source| TlsError::Unusable {
        path: files.certificate.clone(),
        source,
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    Ok((Arc::new(config), expires))
}

/// Returns the end of the validity of a certificate (RFC 5280 section 4.1.2.5) in seconds since 1970. rustls has no accessor for
/// it, and a parser crate for one field would bring far more code than this. `None` if it cannot be read: its expiry
/// is then not announced.
fn not_after(certificate: &[u8]) -> Option<u64> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let (_, body, _) = element(certificate).filter(|(tag, ..)| *tag == SEQUENCE)?;
    let (_, mut rest, _) = element(body).filter(|(tag, ..)| *tag == SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.2;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest)?;
    let (_, _, end) = element(validity)?;
    let (tag, text, _) = element(end)?;
    let digits = text.strip_suffix(b"Z")?;
    let whole = match tag {
        // RFC 5280: years from 50 on are in the last century.
        UTC_TIME if digits.first()? >= &b'5' => [b"19", digits].concat(),
        UTC_TIME => [b"20", digits].concat(),
        GENERALIZED_TIME => digits.to_vec(),
        _ => return None,
    };
    UtcTime::from_digits(&whole)?.to_unix()
}

/// Splits the first DER element off: tag, contents, rest.
fn element(octets: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, short], rest) = octets.split_first_chunk::<2>()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81..=0x84 => {
            let (long, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            let add = |sum: usize, octet: &u8| sum << 8 | usize::from(*octet);
            (long.iter().fold(0, add), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_end_early_are_not_read() {
        for octets in [
            &b""[..],
            b"\x30",
            b"\x30\x05ab",
            b"\x30\x82\x01",
            b"\x30\x80",
            b"\x30\x89aaaaaaaaaaaa",
            b"\x30\x84\xff\xff\xff\xff",
        ] {
            assert_eq!(element(octets), None, "{octets:x?}");
            assert_eq!(not_after(octets), None);
        }
        let (tag, contents, rest) = element(b"\x30\x81\x02abc").unwrap();
        assert_eq!((tag, contents, rest), (0x30, &b"ab"[..], &b"c"[..]));
    }
}
