//! One certificate of the server: its chain and key, its names, its expiry; and the choice between several by the
//! server name that a client requests (SNI, RFC 6066 section 3).

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use nameward_base::calendar::UtcTime;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, DnsName, ServerName};
use tokio_rustls::rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::files::{TlsError, TlsFiles, read_chain, read_key};

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct ServerCertificate {
    key: Arc<CertifiedKey>,
    /// The end of its validity in seconds since 1970, if it can be read.
    pub(super) expires: Option<u64>,
}

impl ServerCertificate {
    /// Loads the certificate. A key that belongs to another certificate is an error.
    pub(super) fn load(files: &TlsFiles, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let chain = read_chain(&files.certificate)?;
        let expires = chain.first().and_then(|first| not_after(first));
        let key = read_key(&files.key)?;
        let key =
            CertifiedKey::from_der(chain, key, provider).map_err(|source| TlsError::Unusable {
                path: files.certificate.clone(),
                source,
            })?;
        Ok(ServerCertificate {
            key: Arc::new(key),
            expires,
        })
    }

    /// Checks whether it is a certificate for this server name.
    fn has_name(&self, name: &str) -> bool {
        let Ok(name) = DnsName::try_from(name) else {
            return false;
        };
        let parsed = self.key.end_entity_cert().ok();
        let parsed = parsed.and_then(|first| ParsedCertificate::try_from(first).ok());
        parsed.is_some_and(|it| verify_server_name(&it, &ServerName::DnsName(name)).is_ok())
    }

    /// Checks whether the client can verify a signature of its key.
    fn fits(&self, hello: &ClientHello<'_>) -> bool {
        let chosen = self.key.key.choose_scheme(hello.signature_schemes());
        chosen.is_some()
    }
}

/// Chooses the certificate of a connection.
#[derive(Debug)]
pub(super) struct CertificateChooser(pub(super) Vec<ServerCertificate>);

impl ResolvesServerCert for CertificateChooser {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = || self.0.iter().filter(|it| it.fits(&hello));
        // DNS clients often connect by address, without a name.
        let named = match hello.server_name() {
            Some(name) if self.0.len() > 1 => fits().find(|it| it.has_name(name)),
            _ => None,
        };
        let chosen = named.or_else(|| fits().next())?;
        Some(Arc::clone(&chosen.key))
    }
}

/// Returns SHA-256 of a certificate's SubjectPublicKeyInfo (RFC 7858 section 4.2), if it is a certificate.
pub fn spki_pin(certificate: &CertificateDer<'_>) -> Option<[u8; 32]> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let hashed = digest(&SHA256, &parsed.subject_public_key_info());
    hashed.as_ref().try_into().ok()
}

/// Returns the end of the validity of a certificate (RFC 5280 section 4.1.2.5) in seconds since 1970; `None` if it
/// cannot be read, in which case its expiry is not announced. rustls has no accessor for it, and a parser crate for
/// one field would add far more code than this.
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
        // RFC 5280: years from 50 on are in the 20th century.
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
