//! A running server: its threads and tasks, its signals, and its shutdown.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nameward_control::{api_keys::ApiKeys, web};
use nameward_maintain::{
    catalog::{CatalogStorage, StoredCatalogs},
    follow::databases::{
        self, DatabaseSource, Databases, FollowSettings, FollowedDatabase, NotifiedParts,
        NotifiedSerials, ServedFrom,
    },
    keys::rollover::driver::KeyDriverHandle,
    policy::PolicyTable,
};
use nameward_serve::{
    live::Running,
    outgoing::Notifier,
    pipeline::{ServingState, TcpPipeline, UdpPipeline},
    tcp::TcpSettings,
    udp::UdpWorker,
    zone_requests::ZoneRequestHandler,
};
use nameward_store::sql::SqlBackend;
use tokio::{
    runtime::Handle,
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
    task::JoinSet,
};

use super::{
    StartError, announce,
    health::{self, HealthParts, ListenerWatch, ServerHealth},
    logs::TrafficLogs,
    maintenance::{self, Maintenance, MaintenanceParts},
    operator::{self, Operator},
    page_zones::PageZones,
    ports::Ports,
    recursion::Recursion,
    secondaries::{SecondaryParts, SecondaryZones},
    zone_files::FollowedFiles,
};
use crate::{
    config::settings::{self, BackendMode},
    example, memory, notify,
    policies::{self, UnknownKey},
    signals, state,
};

/// Threads for TCP, the status page and the control socket. UDP has its own.
pub const RUNTIME_THREADS: usize = 2;
/// Time limit for the shutdown of components on the runtime.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// A running server.
pub struct RunningServer {
    workers: Vec<UdpWorker>,
    stop_workers: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    maintenance: Maintenance,
    loaded: oneshot::Receiver<Result<(), StartError>>,
    signals: Signals,
    shared: Arc<ServingState>,
    example: bool,
    /// Keys that the configuration refers to but does not define.
    unknown_keys: Vec<UnknownKey>,
    policy_table: Arc<PolicyTable>,
    addresses: Vec<SocketAddr>,
    health: Arc<ServerHealth>,
    logs: Arc<TrafficLogs>,
    /// Databases that were not queried for their zones yet.
    asked: Vec<oneshot::Receiver<()>>,
    databases: Databases,
    secondaries: SecondaryZones,
    key_driver: KeyDriverHandle,
    _looking_up: Running,
}

/// Components for outgoing queries and NOTIFY, created before the server.
pub struct OutgoingParts {
    /// Is notified of every commit.
    pub notifier: Notifier,
    /// Stores notified serials in databases.
    pub notified: NotifiedSerials,
    /// The runtime for queries to primaries and for NOTIFY.
    pub runtime: Handle,
}

/// The signals that are handled.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

impl RunningServer {
    /// Starts every component. Call within the runtime.
    pub fn start(
        mut parts: MaintenanceParts,
        ports: Ports,
        databases: Vec<(u16, BackendMode, SqlBackend)>,
        (zone_requests, outgoing): (Arc<ZoneRequestHandler>, OutgoingParts),
    ) -> Result<Self, StartError> {
        let (started, health) = (Instant::now(), Arc::<ServerHealth>::default());
        let web = super::web::prepare(&parts.config.web, &parts.shared.stats, &health)
            .map_err(|error| StartError::Secret("web", error))?;
        let heard = Signals::new()?;
        signals::release_hangup();
        let unknown_keys = policies::unknown_keys(&parts.config);
        // The zone settings are in effect as policies, access lists and file sources.
        parts.config.zones = Vec::new();
        let (shared, config) = (Arc::clone(&parts.shared), parts.config.clone());
        let (web_address, api_address) = (ports.web_address(), ports.api_address(&config));
        let (dns, control, http) = (ports.dns, ports.control, (ports.web, ports.api));
        let addresses = dns.addresses.clone();
        let (recursion, pollers) = Recursion::start(&config, &shared, &addresses)?;
        parts.recursion = Some(recursion);
        let looking_up = nameward_serve::live::start(&shared, RUNTIME_THREADS)?;
        let state_directory = super::databases::state_directory(&config);
        let terms = FollowSettings {
            refresh_interval: config.cache.zone_refresh.seconds(),
            state_directory: state_directory.as_deref(),
            give_back: memory::give_back,
            policies: &parts.policies,
        };
        let sources = databases.into_iter().map(|one| followed(&shared, one));
        let (databases, mut asked) = databases::start(&parts.commits, sources.collect(), &terms)?;
        parts.databases = databases.clone();
        parts.catalogs.set_homes(catalog_homes(&databases)?);
        let (keeper, key_driver) = parts.keepers.clone();
        super::rollover::set_databases(&keeper, &databases, &Handle::current());
        super::rollover::start(keeper, &key_driver, (&shared, &outgoing))?;
        let notifier = outgoing.notifier.clone();
        outgoing.notified.start(NotifiedParts {
            databases: databases.clone(),
            policies: Arc::clone(&parts.policies),
            notify: Arc::new(move |zone| notifier.changed(zone)),
        })?;
        let (updates, requests) =
            super::updates::start(&shared, &parts.commits, &parts.policies, &databases)?;
        zone_requests.set_updates(Arc::new(requests));
        let (commits_store, copies) = (parts.commits.store().cloned(), Arc::clone(&parts.copies));
        let secondary = SecondaryParts {
            shared: Arc::clone(&shared),
            commits: Arc::clone(&parts.commits),
            policies: Arc::clone(&parts.policies),
            notifier: outgoing.notifier.clone(),
            notified: outgoing.notified,
            listens: addresses.clone(),
            kept: Arc::clone(&parts.kept),
            databases: databases.clone(),
            runtime: outgoing.runtime,
        };
        let (taken_over, all_taken_over) = oneshot::channel();
        let secondaries = SecondaryZones::start(secondary, &config.server, || {
            let _ = taken_over.send(());
        })?;
        asked.push(all_taken_over);
        zone_requests.set_notify_sink(secondaries.notify_sink());
        zone_requests.set_expiry(secondaries.expiry());
        health.set_parts(HealthParts {
            started,
            config: parts.config_file.clone(),
            listeners: addresses.clone(),
            web: web_address,
            workers: dns.udp.len(),
            shared: Arc::clone(&shared),
            databases: databases.clone(),
            maintenance: Arc::clone(&parts.notes),
            secondaries: secondaries.clone(),
            zone_requests: Arc::clone(&zone_requests),
            logs: Arc::clone(&parts.logs),
            store: parts.commits.store().cloned(),
            commits: Arc::clone(&parts.commits),
        });
        let (logs, log) = (Arc::clone(&parts.logs), parts.log.clone());
        let config_file = parts.config_file.clone();
        let policy_table = Arc::clone(&parts.policies);
        let tls = parts.notes.tls.clone();
        announce::started(&addresses, web_address, (api_address, tls.is_some()));

        let stop_workers = Arc::new(AtomicBool::new(false));
        let workers = UdpPipeline::spawn_workers(&shared, dns.udp, &stop_workers)?;

        let (stop, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let pipeline = Arc::new(TcpPipeline::new(&shared, RUNTIME_THREADS));
        let settings = tcp_settings(&config.server);
        let serving = pipeline.serve(dns.tcp, settings, stopping.clone());
        let accepting = Arc::new(());
        health.set_listeners(ListenerWatch {
            udp: workers.iter().map(UdpWorker::running).collect(),
            tcp: Arc::downgrade(&accepting),
        });
        tasks.spawn(async move {
            let _accepting = accepting;
            if let Err(error) = serving.await {
                tracing::error!("TCP disabled: {error}");
            }
        });
        tasks.spawn(tick(Arc::clone(&shared), stopping.clone()));
        if let Some(store) = commits_store {
            tasks.spawn(state::drop_old_copies(store, copies, stopping.clone()));
        }
        tasks.spawn(health::keep_fresh(Arc::clone(&health), stopping.clone()));
        tasks.spawn(super::recursion::poll(pollers, stopping.clone()));

        let (kept, keepers) = (Arc::clone(&parts.kept), parts.keepers.clone());
        let file_faults = Arc::clone(&parts.notes.files);
        let (commits, operator_copies) = (Arc::clone(&parts.commits), Arc::clone(&parts.copies));
        let (loaded_sender, loaded) = oneshot::channel();
        let maintenance = maintenance::start(parts, |result| {
            let _ = loaded_sender.send(result);
        })?;
        let files = FollowedFiles {
            maintenance: maintenance.clone(),
            config: config_file.clone(),
        };
        let api_keys = ApiKeys::load(commits.store().cloned()).map_err(StartError::State)?;
        let operations = Arc::new(operator::operations(
            &shared,
            &databases,
            (&policy_table, &kept, &keepers),
            (&commits, &updates),
            (&operator_copies, &Handle::current(), &outgoing.notifier),
            (files, api_keys),
        ));
        let web = web.showing_zones(PageZones {
            secondaries: secondaries.clone(),
            operations: Arc::clone(&operations),
            shared: Arc::clone(&shared),
            files: file_faults,
            pass: nameward_base::sync::Mutex::default(),
        });
        let operator = Arc::new(Operator {
            maintenance: maintenance.clone(),
            shared: Arc::clone(&shared),
            operations,
            secondaries: secondaries.clone(),
            updates,
            stop: stop.clone(),
            config: config_file,
            health: Arc::clone(&health),
            logs: Arc::clone(&logs),
            log: log.clone(),
        });
        let api = super::api::prepare(&config, &operator, tls);
        let api = api.map_err(|error| StartError::Secret("api.key", error))?;
        super::web::start((web, api), http, &mut tasks, &stopping);
        if let Some(control) = control {
            tasks.spawn(async move {
                if let Err(error) = control.serve(operator, stopping).await {
                    tracing::error!("control socket disabled: {error}");
                }
            });
        }
        Ok(Self {
            workers,
            stop_workers,
            stop,
            tasks,
            maintenance,
            loaded,
            signals: heard,
            shared,
            example: config.example,
            unknown_keys,
            policy_table,
            addresses,
            health,
            logs,
            asked,
            databases,
            secondaries,
            key_driver,
            _looking_up: looking_up,
        })
    }

    /// Waits until a signal, a command or a failure ends the server.
    pub async fn watch(&mut self) -> Result<(), StartError> {
        let mut stopping = self.stop.subscribe();
        let (mut loading, mut is_announced) = (true, false);
        loop {
            tokio::select! {
                result = &mut self.loaded, if loading => {
                    loading = false;
                    result.unwrap_or(Err(StartError::MaintenanceEnded))?;
                    is_announced = self.asked.is_empty();
                    if is_announced {
                        self.announce_ready();
                    }
                }
                _ = first_asked(&mut self.asked), if !loading && !is_announced => {
                    is_announced = true;
                    self.announce_ready();
                }
                _ = self.signals.hangup.recv() => {
                    tracing::info!("received SIGHUP: reloading");
                    self.maintenance.request_reload();
                }
                _ = self.signals.terminate.recv() => {
                    tracing::info!("received SIGTERM: stopping");
                    return Ok(());
                }
                _ = self.signals.interrupt.recv() => {
                    tracing::info!("received SIGINT: stopping");
                    return Ok(());
                }
                _ = stopping.wait_for(|stop| *stop) => return Ok(()),
            }
        }
    }

    fn announce_ready(&self) {
        let zones = self.shared.zones.load();
        let question = if self.example {
            Some(example::QUESTION.to_string())
        } else {
            zones
                .zones()
                .find(|zone| zone.is_ready())
                .map(|zone| format!("{} SOA", zone.apex_name()))
        };
        if zones.is_empty() {
            tracing::warn!("no zones: all queries are refused");
        }
        self.health.set_started();
        let number = zones.zones().filter(|zone| zone.is_ready()).count();
        announce::ready(number, &self.addresses, question.as_deref());
        notify::ready();
        policies::warn_of_unknown_keys(&self.unknown_keys, &self.policy_table.load());
        self.key_driver.look_at_all();
        let secondaries = self.secondaries.clone();
        tokio::task::spawn_blocking(move || secondaries.notify_of_changes_before_start());
    }

    /// Shuts down every component: workers answer pending queries, connections get their pending
    /// answers.
    pub async fn end(mut self) {
        notify::stopping();
        self.stop_workers.store(true, Ordering::Relaxed);
        self.stop.send_replace(true);
        self.secondaries.end();
        self.key_driver.end();
        let workers = std::mem::take(&mut self.workers);
        let joined = tokio::task::spawn_blocking(move || {
            workers.into_iter().for_each(UdpWorker::join);
        });
        let all = async {
            let _ = joined.await;
            while self.tasks.join_next().await.is_some() {}
        };
        if tokio::time::timeout(END_PATIENCE, all).await.is_err() {
            tracing::warn!("some threads did not stop in time");
        }
        let logs = self.logs;
        let ended = tokio::task::spawn_blocking(move || logs.end());
        if tokio::time::timeout(END_PATIENCE, ended).await.is_err() {
            tracing::warn!("the dnstap collector did not confirm the end of the stream in time");
        }
        // Zones are no longer read or written.
        let databases = self.databases;
        let closed = tokio::task::spawn_blocking(move || databases.close());
        if tokio::time::timeout(END_PATIENCE, closed).await.is_err() {
            tracing::warn!("some databases were not closed in time");
        }
    }
}

/// Creates the storage for catalogs in databases. Call within the runtime of their connections.
fn catalog_homes(databases: &Databases) -> std::io::Result<HashMap<u16, Arc<dyn CatalogStorage>>> {
    let home = |database: &FollowedDatabase| {
        let home = StoredCatalogs::start(database, &Handle::current())?;
        Ok((database.rank, Arc::new(home) as Arc<dyn CatalogStorage>))
    };
    databases.all().iter().map(home).collect()
}

/// Makes a database a followed source of look-ups.
fn followed(
    shared: &ServingState,
    (rank, mode, backend): (u16, BackendMode, SqlBackend),
) -> DatabaseSource {
    let name = backend.options().address.to_string();
    DatabaseSource {
        rank,
        served_from: match mode {
            BackendMode::Live => ServedFrom::Lookups,
            BackendMode::Resident => ServedFrom::Memory,
        },
        lookup_source: shared.live.add_source(&name, Arc::new(backend.clone())),
        backend,
    }
}

/// Waits until each database was queried for its zones, whether it answered or not.
async fn first_asked(asked: &mut Vec<oneshot::Receiver<()>>) {
    while let Some(next) = asked.last_mut() {
        let _ = next.await;
        asked.pop();
    }
}

/// Computes the rates once a second.
async fn tick(shared: Arc<ServingState>, mut stopping: watch::Receiver<bool>) {
    tokio::select! {
        () = web::tick_every_second(Arc::clone(&shared.stats)) => {}
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

fn tcp_settings(server: &settings::Server) -> TcpSettings {
    TcpSettings::new(
        server.tcp_idle_timeout_ms.millis(),
        server.tcp_total_timeout_ms.millis(),
        server.tcp_connections_max.get(),
        server.tcp_connections_per_client.get(),
    )
}
