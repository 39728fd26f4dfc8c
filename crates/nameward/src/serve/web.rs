//! Owns the start of the status page: settings to the terms of the web server.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use nameward_control::web::{BadHash, Settings, Web};
use nameward_stats::Stats;
use tokio::sync::watch;

use crate::config::settings;

/// The web server for these settings; `ready` is what load balancers ask for. Fails for a password
/// hash that cannot be used.
pub fn prepare(
    settings: &settings::Web,
    stats: &Arc<Stats>,
    ready: Arc<AtomicBool>,
) -> Result<Web, BadHash> {
    let held = settings.reply_memory_mb.get() << 20;
    let settings = Settings {
        password: settings.password.reveal().into(),
        api_key: settings.api_key.reveal().into(),
        host_names: settings.host_names.clone(),
        mnemonic: |rtype| nameward_wire::Type(rtype).mnemonic(),
        ..Settings::new(settings.allow_from.clone(), held)
    };
    let is_ready = move || ready.load(Ordering::Relaxed);
    Web::with_readiness(Arc::clone(stats), settings, is_ready)
}

/// Serves the status page until `stopping` says true.
pub async fn serve(web: Web, listener: TcpListener, mut stopping: watch::Receiver<bool>) {
    let stopped = async move {
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => web.serve(listener, stopped).await,
        Err(error) => tracing::error!("the web page is not served: {error}"),
    }
}
