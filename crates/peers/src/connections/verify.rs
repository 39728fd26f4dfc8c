//! Verification of a server's certificate: by authority and name, by pin, by both, or not at all.

use std::sync::Arc;

use data_encoding::BASE64;
use nameward_maintain::policy::PeerTls;
use nameward_sql::authorities::read_authorities;
use nameward_zone::SpkiPin;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme,
};

use super::failure::TlsFailure;
use nameward_serve::tls::spki_pin;

/// Verifies the certificate of one server.
#[derive(Debug)]
pub(super) struct PeerVerifier {
    /// `None` if certificates of any issuer are accepted.
    chain: Option<Arc<WebPkiServerVerifier>>,
    pins: Vec<SpkiPin>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// None of the server's certificates has an expected pin.
#[derive(Debug, thiserror::Error)]
#[error("its pin is {0}, which is not in tls_pin")]
pub(super) struct UnknownPin(String);

impl PeerVerifier {
    /// Reads the authorities that the settings name.
    pub(super) fn new(tls: &PeerTls, provider: &Arc<CryptoProvider>) -> Result<Self, TlsFailure> {
        let chain = tls.verifies_chain().then(|| {
            let path = tls.authorities_path();
            let unusable = |error: String| TlsFailure::File("tls_ca", path.into(), error);
            let roots = read_authorities(path).map_err(|error| unusable(error.to_string()))?;
            let provider = Arc::clone(provider);
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| unusable(error.to_string()))
        });
        Ok(PeerVerifier {
            chain: chain.transpose()?,
            pins: tls.pins.clone(),
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(chain) = &self.chain {
            chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        }
        if !self.pins.is_empty() {
            let pin = spki_pin(end_entity).ok_or(CertificateError::BadEncoding)?;
            if !self.pins.contains(&pin) {
                let unknown = UnknownPin(BASE64.encode(&pin));
                return Err(CertificateError::Other(OtherError(Arc::new(unknown))).into());
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
