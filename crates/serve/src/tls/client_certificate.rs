//! Client certificates. Access lists decide what a client may do, so a handshake accepts any certificate, or none.
//! The handshake proves that the client has the key, which a pin can identify; its names count only if one of the
//! authorities issued the certificate.

use std::sync::Arc;
use std::time::Duration;

use nameward_base::time::now_seconds;
use nameward_zone::TlsPeer;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::EndEntityCert;

use super::certificate::spki_pin;

/// Maximum number of names of a client that are compared with access lists.
const NAMES_MAX: usize = 100;

/// The authorities that client certificates are verified against.
#[derive(Clone, Debug)]
pub struct ClientAuthorities(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientAuthorities {
    /// Checks whether one of the authorities issued a certificate, which is given with its intermediates, and it is
    /// valid now.
    pub fn verify(&self, chain: &[CertificateDer<'_>]) -> bool {
        let Some((first, intermediates)) = chain.split_first() else {
            return false;
        };
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now_seconds()));
        let verified = self.0.verify_client_cert(first, intermediates, now);
        verified.is_ok()
    }
}

/// Returns a client as access lists see it: its pin, and its names if one of the authorities has issued its certificate.
pub(crate) fn identify(
    chain: &[CertificateDer<'_>],
    authorities: Option<&ClientAuthorities>,
) -> TlsPeer {
    let Some(first) = chain.first() else {
        return TlsPeer::default();
    };
    let is_verified = authorities.is_some_and(|authorities| authorities.verify(chain));
    let names = EndEntityCert::try_from(first).ok().filter(|_| is_verified);
    let names = names
        .iter()
        .flat_map(|certificate| certificate.valid_dns_names());
    TlsPeer {
        names: names.take(NAMES_MAX).map(comparable).collect(),
        pin: spki_pin(first),
    }
}

/// Returns a name in the form that access lists compare.
fn comparable(name: &str) -> Box<str> {
    name.trim_end_matches('.').to_ascii_lowercase().into()
}

/// Accepts every client certificate if the client has its key.
#[derive(Debug)]
pub(super) struct AnyClientCertificate(pub(super) ClientAuthorities);

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // An empty list requests a certificate of any issuer: an access list may identify it by its pin alone.
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let authorities = &self.0.0;
        authorities.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let authorities = &self.0.0;
        authorities.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.0.supported_verify_schemes()
    }
}
