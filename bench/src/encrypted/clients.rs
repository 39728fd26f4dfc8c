//! What the clients of all transports share: TLS settings, counts, and the time of a measurement.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

use super::EncryptedTransport;
use crate::queries::Queries;

/// The name in the certificate.
pub const SERVER_NAME: &str = "dns.example.org";
/// Connections that are being opened at the same time.
const OPENING: usize = 8;
/// Time in which all connections must be established.
const ESTABLISH: Duration = Duration::from_secs(120);
/// Time without an answer after which a connection is opened again and its queries are lost.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Whatever ends a measurement: TLS, HTTP, QUIC, sockets.
pub type ClientError = Box<dyn std::error::Error + Send + Sync>;

/// Whether a client resumes sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// Each handshake is a full one.
    Never,
    /// By tickets.
    Resumed,
}

/// Returns the settings of a client that verifies the server.
pub fn config(
    authority: &Path,
    transport: EncryptedTransport,
    sessions: Sessions,
) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = match sessions {
        Sessions::Never => Resumption::disabled(),
        Sessions::Resumed => Resumption::in_memory_sessions(8),
    };
    config.alpn_protocols = vec![match transport {
        EncryptedTransport::Tls => b"dot".to_vec(),
        EncryptedTransport::Https => b"h2".to_vec(),
        EncryptedTransport::Quic => b"doq".to_vec(),
    }];
    Ok(config)
}

/// Returns the name that certificates are verified for.
pub fn server_name() -> ServerName<'static> {
    ServerName::try_from(SERVER_NAME).unwrap_or_else(|_| unreachable!("a valid name"))
}

/// Returns a runtime of one thread: the calling one.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The queries of all connections, and their counts.
pub struct EncryptedCounts {
    queries: Arc<Queries>,
    next: AtomicUsize,
    /// Held while a connection is being opened: some servers have short queues of connections.
    pub opening: Semaphore,
    established: AtomicUsize,
    /// Whether queries may be sent.
    started: watch::Sender<bool>,
    pub answered: AtomicU64,
    pub wrong: AtomicU64,
}

impl EncryptedCounts {
    pub fn new(queries: &Arc<Queries>) -> Arc<Self> {
        Arc::new(EncryptedCounts {
            queries: Arc::clone(queries),
            next: AtomicUsize::new(0),
            opening: Semaphore::new(OPENING),
            started: watch::Sender::new(false),
            established: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        })
    }

    /// Returns the next query: its position, and its message with id 0.
    pub fn next(&self) -> (usize, &[u8]) {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.queries.len();
        (index, self.queries.message(index))
    }

    /// Counts a response to the query at a position.
    pub fn count(&self, index: usize, response: &[u8]) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let expected = self.queries.expected(index);
        if !response
            .first_chunk()
            .is_some_and(|it| expected.matches(it))
        {
            self.wrong.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a connection that is established for the first time, and waits until all are.
    pub async fn established(&self) {
        self.established.fetch_add(1, Ordering::Relaxed);
        // The sender lives as long as this.
        let _ = self.started.subscribe().wait_for(|started| *started).await;
    }

    /// Waits until this many connections are established, and lets them send queries.
    pub async fn start(&self, connections: usize) -> Result<(), ClientError> {
        let started = Instant::now();
        loop {
            let established = self.established.load(Ordering::Relaxed);
            if established >= connections {
                self.started.send_replace(true);
                return Ok(());
            }
            if started.elapsed() > ESTABLISH {
                return Err(format!("only {established} connections are established").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
