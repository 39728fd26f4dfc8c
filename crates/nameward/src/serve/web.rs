//! Starts the status page: converts settings for the web server.

use std::{net::TcpListener, sync::Arc};

use nameward_api::listener::ApiServer;
use nameward_control::operations::ReadyRules;
use nameward_control::web::{BadHash, Settings, Web};
use nameward_stats::Stats;
use tokio::{sync::watch, task::JoinSet};

use super::{health::ServerHealth, opening::spawn_behind};
use crate::config::settings;

/// Creates the web server for these settings, which shows the state from `health`. Fails for an unusable password
/// hash.
pub fn prepare(
    settings: &settings::Web,
    stats: &Arc<Stats>,
    health: &Arc<ServerHealth>,
) -> Result<Web, BadHash> {
    let held = settings.reply_memory_mb.get() << 20;
    let settings = Settings {
        password: settings.password.clone(),
        api_key: settings.api_key.clone(),
        host_names: settings.host_names.clone(),
        ready: ReadyRules {
            faults: settings.ready_faults.clone(),
            zones_percent: settings.ready_zones_percent.get(),
        },
        ..Settings::new(settings.allow_from.clone(), held)
    };
    let health = Arc::clone(health);
    Web::with_status(Arc::clone(stats), settings, move || health.last())
}

/// Starts the status page and the API, each on its own port. An API without one shares that of the page.
pub fn start(
    (web, api): (Web, Option<ApiServer>),
    (web_port, api_port): (Option<TcpListener>, Option<TcpListener>),
    tasks: &mut JoinSet<()>,
    (gate, stopping): (&watch::Receiver<bool>, &watch::Receiver<bool>),
) {
    let web = match &api {
        Some(api) if api_port.is_none() => web.with_api(api.handover()),
        _ => web,
    };
    if let Some(listener) = web_port {
        spawn_behind(gate, tasks, serve(web, listener, stopping.clone()));
    }
    if let (Some(api), Some(listener)) = (api, api_port) {
        let serving = super::api::serve(api, listener, stopping.clone());
        spawn_behind(gate, tasks, serving);
    }
}

/// Serves the status page until `stopping` is true.
async fn serve(web: Web, listener: TcpListener, mut stopping: watch::Receiver<bool>) {
    let stopped = async move {
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => web.serve(listener, stopped).await,
        Err(error) => tracing::error!("web page disabled: {error}"),
    }
}
