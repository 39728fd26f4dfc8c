//! TLS configurations for other servers, rebuilt when their certificate files change.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use nameward_base::sync::Mutex;
use nameward_maintain::policy::{ClientIdentity, PeerTls};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::version::TLS13;

use super::failure::TlsFailure;
use super::verify::PeerVerifier;
use nameward_serve::tls::{FileStamp, file_stamp, read_chain, read_key};

/// Maximum number of cached configurations; the configuration file seldom needs more than a few.
const CONFIGS_MAX: usize = 256;
/// The ALPN protocol of DNS over TLS (RFC 7858), also used for zone transfers (RFC 9103).
pub(super) const ALPN_DOT: &[u8] = b"dot";
/// The ALPN protocol of DNS over QUIC (RFC 9250 section 4.1.1).
const ALPN_DOQ: &[u8] = b"doq";

/// The configurations built so far, by TLS settings.
#[derive(Default)]
pub(super) struct TlsConfigs {
    configs: Mutex<HashMap<Arc<PeerTls>, CachedConfig>>,
}

struct CachedConfig {
    files: Vec<Option<FileStamp>>,
    config: Arc<ClientConfig>,
}

impl TlsConfigs {
    /// Returns the configuration for a server. Reads the files again if they have changed.
    pub(super) fn config(&self, tls: &Arc<PeerTls>) -> Result<Arc<ClientConfig>, TlsFailure> {
        // Before the files are read: a change in between is noticed the next time.
        let files = stamps(tls);
        let mut configs = self.configs.lock();
        if let Some(known) = configs.get(tls).filter(|known| known.files == files) {
            return Ok(Arc::clone(&known.config));
        }
        let config = Arc::new(build(tls)?);
        if configs.len() >= CONFIGS_MAX {
            configs.clear();
        }
        let new = CachedConfig {
            files,
            config: Arc::clone(&config),
        };
        configs.insert(Arc::clone(tls), new);
        Ok(config)
    }
}

fn stamps(tls: &PeerTls) -> Vec<Option<FileStamp>> {
    let authorities = tls.verifies_chain().then(|| tls.authorities_path());
    let identity = tls.identity.iter();
    let identity = identity.flat_map(|identity| [&*identity.certificate, &*identity.key]);
    let paths = authorities.into_iter().chain(identity);
    paths.map(file_stamp).collect()
}

fn build(tls: &PeerTls) -> Result<ClientConfig, TlsFailure> {
    let failed = |error: tokio_rustls::rustls::Error| TlsFailure::Handshake(error.to_string());
    let provider = Arc::new(default_provider());
    let verifier = PeerVerifier::new(tls, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        // RFC 9103 section 7.1: TLS 1.3 or later.
        .with_protocol_versions(&[&TLS13])
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some(ClientIdentity { certificate, key }) => {
            let unusable = |setting, path: &PathBuf, error: String| {
                TlsFailure::File(setting, path.clone(), error)
            };
            let chain = read_chain(certificate);
            let chain = chain
                .map_err(|error| unusable("tls_certificate", certificate, error.to_string()))?;
            let private = read_key(key);
            let private = private.map_err(|error| unusable("tls_key", key, error.to_string()))?;
            builder
                .with_client_auth_cert(chain, private)
                .map_err(|error| unusable("tls_certificate", certificate, error.to_string()))?
        }
    };
    let protocol = if tls.is_quic() { ALPN_DOQ } else { ALPN_DOT };
    config.alpn_protocols = vec![protocol.to_vec()];
    // A resumed session does not present a certificate: an expired certificate, or a removed pin,
    // would still be accepted. Connections are reused instead.
    config.resumption = Resumption::disabled();
    Ok(config)
}
