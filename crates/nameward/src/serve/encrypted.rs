//! Owns the start of encrypted DNS: the certificates, and the listeners for DNS over TLS.

use std::{
    net::TcpListener,
    sync::{Arc, Weak},
    thread,
};

use nameward_serve::{
    listener::StreamListener,
    pipeline::TcpPipeline,
    tcp::TcpSettings,
    tls::{HandshakeBudget, ServerTls, TlsError, TlsLayer},
};
use nameward_stats::Protocol;
use tokio::{sync::watch, task::JoinSet};

use super::core::{RUNTIME_THREADS, ServerCore};
use crate::config::Config;

/// Loads the configured certificates; `None` without any, or without a listener for them. Call before the change of user: keys
/// are often readable by root only.
pub fn load_tls(config: &Config) -> Result<Option<Arc<ServerTls>>, TlsError> {
    let is_used = config.api.listen.is_some() || config.listens_encrypted();
    let options = config.tls.options().filter(|_| is_used);
    options.map(ServerTls::load).transpose()
}

/// Starts the listeners; the reference is dead when they have ended, and `None` if there are none.
pub fn start(
    core: &ServerCore,
    listeners: Vec<TcpListener>,
    settings: &TcpSettings,
    tasks: &mut JoinSet<()>,
    stopping: &watch::Receiver<bool>,
) -> Option<Weak<()>> {
    let tls = core.notes.tls.as_ref().filter(|_| !listeners.is_empty())?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let budget = Arc::new(HandshakeBudget::new(cores));
    let ports = listeners.into_iter().map(StreamListener::from).collect();
    let layer = TlsLayer::new(Arc::clone(tls), budget);
    let pipeline = TcpPipeline::over(Protocol::Tls, &core.shared, RUNTIME_THREADS);
    let serving = Arc::new(pipeline).serve_tls(ports, settings.clone(), layer, stopping.clone());
    let alive = Arc::new(());
    let accepting = Arc::downgrade(&alive);
    tasks.spawn(async move {
        let _alive = alive;
        if let Err(error) = serving.await {
            tracing::error!("DNS over TLS disabled: {error}");
        }
    });
    Some(accepting)
}
