//! Start of the HTTP API: its limits and defaults from the settings, and its operations.

use std::{net::TcpListener, sync::Arc};

use nameward_api::{
    Api, ApiDefaults, ApiOperator,
    admin::Admin,
    listener::{ApiLimits, ApiServer},
};
use nameward_control::{
    operations::{Caller, ItemSink, OperationRequest, Outcome},
    web::{BadHash, KeyGate, ListedZonesView, ZoneListPage, ZoneListQuery},
};
use nameward_maintain::change_feed::ChangeFeed;
use nameward_serve::tls::ServerTls;
use nameward_stats::Snapshot;
use nameward_zone::ScriptCheck;
use tokio::sync::watch;

use super::{operator::Operator, page_zones::PageZones};
use crate::config::{Config, settings::BackendType};

/// The running server as the API uses it.
struct ServerApi {
    operator: Arc<Operator>,
    zones: Arc<PageZones>,
    settings: Vec<(String, String)>,
}

impl ApiOperator for ServerApi {
    fn run(&self, caller: &Caller, request: &OperationRequest, items: ItemSink<'_>) -> Outcome {
        self.operator.run_as(caller, request, items)
    }

    fn zone_page(&self, query: &ZoneListQuery) -> Option<ZoneListPage> {
        Some(self.zones.list(query))
    }

    fn feed(&self) -> Option<Arc<ChangeFeed>> {
        let table = self.operator.operations.commits.table();
        Some(Arc::clone(table.feed()))
    }

    fn script_check(&self) -> ScriptCheck {
        self.operator.operations.scripts.clone()
    }

    fn snapshot(&self) -> Snapshot {
        self.operator.core.shared.stats.snapshot()
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }
}

/// The key of the API as configured; `web.api_key` is an alias.
pub fn key(config: &Config) -> &str {
    match config.api.key.reveal().as_str() {
        "" => config.web.api_key.reveal(),
        key => key,
    }
}

/// The API for these settings; `None` if it is off. Fails for a key hash that cannot be used.
pub fn prepare(
    config: &Config,
    (operator, zones): (&Arc<Operator>, Arc<PageZones>),
    tls: Option<Arc<ServerTls>>,
) -> Result<Option<ApiServer>, BadHash> {
    if config.api.listen.is_none() {
        return Ok(None);
    }
    let gate = KeyGate::new(key(config), Arc::clone(&operator.operations.api_keys))?;
    let settings = &config.api;
    let server = ServerApi {
        operator: Arc::clone(operator),
        zones,
        settings: powerdns_settings(config),
    };
    let defaults = ApiDefaults {
        soa_edit: settings.default_soa_edit.clone(),
        soa_edit_api: settings.default_soa_edit_api.clone(),
        catalog_zone: settings.default_catalog_zone.clone(),
    };
    let allowed = settings.allow_from.clone();
    let api = Api::new(server, defaults);
    let admin = settings
        .admin
        .then(|| Admin::new(config.server.nsid.clone()));
    Ok(Some(ApiServer::new(
        (api, admin),
        gate,
        allowed,
        ApiLimits::default(),
        tls,
    )))
}

/// Serves the API on its own port until `stopping` is true.
pub async fn serve(api: ApiServer, listener: TcpListener, mut stopping: watch::Receiver<bool>) {
    let stopped = async move {
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => api.serve(listener, stopped).await,
        Err(error) => tracing::error!("the API is not served: {error}"),
    }
}

/// The settings that PowerDNS clients read, under their PowerDNS names.
fn powerdns_settings(config: &Config) -> Vec<(String, String)> {
    let launch = config.backends.iter().map(|backend| match backend.r#type {
        BackendType::File => "bind",
        BackendType::Sqlite => "gsqlite3",
        BackendType::Postgres => "gpgsql",
        BackendType::Mysql => "gmysql",
    });
    let mut launch: Vec<&str> = launch.collect();
    launch.dedup();
    let listens = config.listen_addresses();
    let addresses = listens.iter().map(|address| address.ip().to_string());
    let addresses: Vec<String> = addresses.collect();
    let port = listens.first().map_or(53, |first| first.port());
    let listen = config.api.listen;
    let pairs = [
        ("api", "yes".to_owned()),
        ("api-key", "***".to_owned()),
        ("default-ksk-algorithm", "ecdsa256".to_owned()),
        ("default-soa-edit", config.api.default_soa_edit.clone()),
        ("dnsupdate", "yes".to_owned()),
        (
            "enable-lua-records",
            if config.lua.records && nameward_steering::lua::IS_BUILT {
                "yes"
            } else {
                "no"
            }
            .to_owned(),
        ),
        ("launch", launch.join(",")),
        ("local-address", addresses.join(",")),
        ("local-port", port.to_string()),
        ("max-nsec3-iterations", "100".to_owned()),
        ("primary", "yes".to_owned()),
        ("secondary", "yes".to_owned()),
        ("server-id", config.server.nsid.clone()),
        ("version-string", config.server.version.clone()),
        ("webserver", "yes".to_owned()),
        (
            "webserver-address",
            listen.map_or_else(String::new, |listen| listen.ip().to_string()),
        ),
        (
            "webserver-port",
            listen.map_or_else(String::new, |listen| listen.port().to_string()),
        ),
    ];
    let pairs = pairs.into_iter();
    pairs
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
