//! TLS for every listener that encrypts: the certificates, their files, and the settings that rustls derives from them.
//!
//! Certificates are loaded at start, and again whenever a file changes. New connections use the newest certificates
//! that could be loaded; running ones keep theirs and are never dropped. If files cannot be used, the previous
//! certificates stay in service, and this is a fault. So is a certificate that expires soon: its renewal has already
//! failed.
//!
//! Each load creates new keys for session tickets, so a session never outlives the authorities that verified its
//! client.

mod budget;
mod certificate;
mod client_certificate;
mod files;
mod stream;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nameward_base::sync::Mutex;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use tokio_rustls::rustls::server::{
    NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier,
};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, ServerConfig, SupportedProtocolVersion};

pub use budget::HandshakeBudget;
pub use certificate::spki_pin;
use certificate::{CertificateChooser, ServerCertificate};
use client_certificate::AnyClientCertificate;
pub use client_certificate::ClientAuthorities;
pub(crate) use client_certificate::identify as identify_client;
pub use files::{FileStamp, file_stamp};
pub use files::{TlsError, TlsFiles, read_authorities, read_chain, read_key};
pub use stream::{TlsByteStream, TlsLayer};

/// How many seconds before it expires a certificate becomes a fault.
pub const EXPIRY_NOTICE: u64 = 14 * 86_400;
/// Maximum number of sessions that QUIC clients can resume with early data. Each can be used only once (RFC 8446
/// section 8.1), so they are stored on the server.
const QUIC_SESSIONS: usize = 4096;

/// The oldest version of TLS that clients may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// The settings of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificates, at least one. A client gets the first with the server name it requests and a key type it
    /// supports, or else the first with such a key.
    pub certificates: Vec<TlsFiles>,
    /// The oldest version that clients may use; QUIC always requires 1.3.
    pub minimum_version: TlsVersion,
    /// The authorities that verify client certificates; without a file no client is asked for one.
    pub client_ca: Option<PathBuf>,
    /// Time limit for a handshake.
    pub handshake_timeout: Duration,
}

/// The use of a connection, which decides the application protocols (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPurpose {
    /// The HTTP API and the web administration.
    Api,
    /// DNS over TLS (RFC 7858), and transfers over TLS (RFC 9103).
    Dns,
    /// DNS over HTTPS (RFC 8484).
    Https,
    /// DNS over QUIC (RFC 9250).
    Quic,
}

impl TlsPurpose {
    const ALL: [TlsPurpose; 4] = [
        TlsPurpose::Api,
        TlsPurpose::Dns,
        TlsPurpose::Https,
        TlsPurpose::Quic,
    ];

    /// Returns the application protocols, the preferred one first. rustls refuses a client that offers only others; a
    /// client that offers none is accepted, except over QUIC.
    fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            TlsPurpose::Api | TlsPurpose::Https => &[b"h2", b"http/1.1"],
            TlsPurpose::Dns => &[b"dot"],
            TlsPurpose::Quic => &[b"doq"],
        }
    }
}

/// A problem of a certificate that an operator must solve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsFault {
    /// The files were replaced and cannot be used; the previous certificates are in service.
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

/// Certificates that are reloaded when their files change.
pub struct ServerTls {
    options: TlsOptions,
    loaded: watch::Sender<Arc<LoadedTls>>,
    files: Mutex<FollowedTlsFiles>,
}

/// The certificates and settings made of the files.
pub struct LoadedTls {
    /// By [`TlsPurpose`].
    configs: [Arc<ServerConfig>; TlsPurpose::ALL.len()],
    client_authorities: Option<ClientAuthorities>,
    /// The certificate that expires first, and when.
    expires: Option<(PathBuf, u64)>,
}

struct FollowedTlsFiles {
    /// The files that were loaded or rejected last.
    stamps: Vec<Option<FileStamp>>,
    rejected: Option<(String, u64)>,
}

impl LoadedTls {
    /// Returns the settings for new connections of a purpose.
    pub fn config(&self, purpose: TlsPurpose) -> &Arc<ServerConfig> {
        &self.configs[purpose as usize]
    }

    /// Returns the authorities of client certificates, if clients are asked for one.
    pub fn client_authorities(&self) -> Option<&ClientAuthorities> {
        self.client_authorities.as_ref()
    }
}

impl ServerTls {
    /// Loads the certificates; at start an unusable one is an error.
    pub fn load(options: TlsOptions) -> Result<Arc<Self>, TlsError> {
        let stamps = files::stamps(&options);
        let loaded = load(&options)?;
        Ok(Arc::new(ServerTls {
            options,
            loaded: watch::Sender::new(Arc::new(loaded)),
            files: Mutex::new(FollowedTlsFiles {
                stamps,
                rejected: None,
            }),
        }))
    }

    /// Returns the current settings, and notifies about each replacement.
    pub fn follow(&self) -> watch::Receiver<Arc<LoadedTls>> {
        self.loaded.subscribe()
    }

    /// Returns the current certificates and settings.
    pub fn current(&self) -> Arc<LoadedTls> {
        Arc::clone(&self.loaded.borrow())
    }

    /// Returns the acceptor for a new connection.
    pub fn acceptor(&self, purpose: TlsPurpose) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(self.loaded.borrow().config(purpose)))
    }

    /// Returns the time limit for a handshake.
    pub fn handshake_timeout(&self) -> Duration {
        self.options.handshake_timeout
    }

    /// Loads the files again if they have changed. Reads files, so it must be called where blocking is allowed.
    pub fn refresh(&self, now: u64) {
        let stamps = files::stamps(&self.options);
        // Held while loading, so that concurrent callers neither load a change twice nor finish with an older one.
        let mut files = self.files.lock();
        if files.stamps == stamps {
            return;
        }
        files.stamps = stamps;
        match load(&self.options) {
            Ok(loaded) => {
                self.loaded.send_replace(Arc::new(loaded));
                files.rejected = None;
                let paths = self.options.certificates.iter();
                let paths: Vec<String> = paths
                    .map(|files| files.certificate.display().to_string())
                    .collect();
                tracing::info!("TLS certificate {}: loaded", paths.join(", "));
            }
            Err(error) => {
                tracing::error!("TLS certificate: {error}; the previous one stays in service");
                let since = files.rejected.as_ref().map_or(now, |(_, since)| *since);
                files.rejected = Some((error.to_string(), since));
            }
        }
    }

    /// Returns what is wrong with the certificates.
    pub fn fault(&self, now: u64) -> Option<TlsFault> {
        if let Some((error, since)) = self.files.lock().rejected.clone() {
            return Some(TlsFault::Rejected { error, since });
        }
        let (path, at) = self.loaded.borrow().expires.clone()?;
        (at <= now.saturating_add(EXPIRY_NOTICE)).then_some(TlsFault::Expiring { path, at })
    }
}

/// Returns the cryptography of every TLS connection, to clients and to other servers.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

fn load(options: &TlsOptions) -> Result<LoadedTls, TlsError> {
    let provider = provider();
    let certificates = options
        .certificates
        .iter()
        .map(|files| ServerCertificate::load(files, &provider))
        .collect::<Result<Vec<_>, _>>()?;
    let expires = certificates
        .iter()
        .zip(&options.certificates)
        .filter_map(|(loaded, files)| Some((files.certificate.clone(), loaded.expires?)))
        .min_by_key(|(_, at)| *at);
    let client_authorities = options
        .client_ca
        .as_deref()
        .map(|path| load_authorities(path, &provider))
        .transpose()?;
    let sources = ConfigSources {
        chooser: Arc::new(CertificateChooser(certificates)),
        provider,
        client_authorities: client_authorities.clone(),
        minimum_version: options.minimum_version,
    };
    let path = &options.certificates[0].certificate;
    let config = |purpose| sources.config(purpose).map(Arc::new);
    let [api, dns, https, quic] = TlsPurpose::ALL.map(config);
    let unusable = |source| TlsError::Unusable {
        path: path.clone(),
        source,
    };
    Ok(LoadedTls {
        configs: [
            api.map_err(unusable)?,
            dns.map_err(unusable)?,
            https.map_err(unusable)?,
            quic.map_err(unusable)?,
        ],
        client_authorities,
        expires,
    })
}

fn load_authorities(
    path: &std::path::Path,
    provider: &Arc<CryptoProvider>,
) -> Result<ClientAuthorities, TlsError> {
    let roots = read_authorities(path)?;
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = builder.build().map_err(|error| TlsError::Unusable {
        path: path.to_path_buf(),
        source: rustls::Error::General(error.to_string()),
    })?;
    Ok(ClientAuthorities(verifier))
}

/// The parts that the settings of all purposes are made of.
struct ConfigSources {
    chooser: Arc<CertificateChooser>,
    provider: Arc<CryptoProvider>,
    client_authorities: Option<ClientAuthorities>,
    minimum_version: TlsVersion,
}

impl ConfigSources {
    fn config(&self, purpose: TlsPurpose) -> Result<ServerConfig, rustls::Error> {
        let newest: &[&SupportedProtocolVersion] = &[&TLS13];
        let versions = match self.minimum_version {
            TlsVersion::Tls12 if purpose != TlsPurpose::Quic => &[&TLS13, &TLS12],
            _ => newest,
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(versions)?;
        // Browsers would prompt the user for a certificate, and the API has keys instead.
        let builder = match &self.client_authorities {
            Some(authorities) if purpose != TlsPurpose::Api => {
                let verifier = AnyClientCertificate(authorities.clone());
                builder.with_client_cert_verifier(Arc::new(verifier))
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&self.chooser) as _);
        config.alpn_protocols = purpose
            .protocols()
            .iter()
            .map(|name| name.to_vec())
            .collect();
        if purpose == TlsPurpose::Quic {
            config.session_storage = ServerSessionMemoryCache::new(QUIC_SESSIONS);
            // RFC 9001 section 4.6.1: the only valid value, since QUIC has its own limits.
            config.max_early_data_size = u32::MAX;
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.ticketer = Ticketer::new()?;
        }
        Ok(config)
    }
}
