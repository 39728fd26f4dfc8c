//! Owns the start of the status page.

use std::{net::TcpListener, sync::Arc};

use nameward_serve::pipeline::Shared;
use tokio::sync::watch;

use crate::config::settings::Web;

/// Serves the status page until `stopping` says true.
pub async fn serve(
    listener: TcpListener,
    _settings: Web,
    _shared: Arc<Shared>,
    mut stopping: watch::Receiver<bool>,
) {
    let _ = stopping.wait_for(|stop| *stop).await;
    drop(listener);
}
