//! A running server: its threads and tasks, its signals, and its shutdown.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nameward_base::{text::listed, worker};
use nameward_control::{api_keys::ApiKeys, operations::Operations, socket::ControlSocket, web};
use nameward_maintain::catalog;
use nameward_peers::update::Updates;
use nameward_serve::{live::Running, pipeline::ServingState, udp::UdpWorker};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
    task::JoinSet,
};

use super::{
    announce,
    core::{DatabaseReads, ServerCore},
    geoip,
    hand_over::HandOver,
    health::{self, HealthSources, ServerHealth},
    leases,
    listeners::Listeners,
    maintenance::{self, CurrentConfig, Maintenance},
    only_here,
    opening::{Gates, spawn_behind},
    operator::{self, Operator},
    page_zones::PageZones,
    prepared::Prepared,
    rate_limit,
    recursion::{self, Recursion},
    rollover,
    secondaries::SecondaryZones,
    shared_health,
    take_over::TakeOver,
    zone_files::FollowedFiles,
    zone_requests,
};
use crate::{
    config::{Config, settings},
    example, notify, policies,
    policies::UnknownKey,
    start_error::StartError,
    state,
};

/// Time limit for the shutdown of components on the runtime.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server that was replaced finishes transfers: a slow secondary may need long for a large zone.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long it waits for databases whose answers clients wait for.
const LATE_REPLIES: Duration = Duration::from_secs(1);
/// The threads that change zones by themselves, by the start of their names.
const ZONE_WORKERS: [&str; 5] = [
    "secondaries",
    "rollover",
    "catalogs",
    "notified-",
    "leases-",
];
/// How long shutdown waits for them: one may be waiting for a database.
const WORKER_TIMEOUT: Duration = Duration::from_secs(2);

pub struct RunningServer {
    core: ServerCore,
    listeners: Listeners,
    stop: watch::Sender<bool>,
    gates: Gates,
    take_over: Option<TakeOver>,
    hand_over: Arc<HandOver>,
    tasks: JoinSet<()>,
    maintenance: Maintenance,
    loaded: oneshot::Receiver<Result<(), StartError>>,
    signals: Signals,
    example: bool,
    /// Keys that the configuration refers to but does not define.
    unknown_keys: Vec<UnknownKey>,
    health: Arc<ServerHealth>,
    /// Databases that were not queried for their zones yet, and stored secondary zones that are not served yet.
    first_reads: Vec<oneshot::Receiver<()>>,
    secondaries: SecondaryZones,
    _lookups: Running,
}

pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Handles them from now on. Call within the runtime.
    pub fn new() -> std::io::Result<Self> {
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
        core: ServerCore,
        reads: DatabaseReads,
        prepared: Prepared,
        signals: Signals,
    ) -> Result<Self, StartError> {
        let started = Instant::now();
        let Prepared {
            overrides,
            mut config,
            sources,
            ports,
            tls,
            take_over,
            ports_from,
            process,
            ..
        } = prepared;
        let gates = Gates::new(ports_from, started);
        let hand_over = HandOver::new(&ports, &gates, core.maintain.store())?;
        let unknown_keys = policies::unknown_keys(&config);
        // The zone settings are in effect as policies, access lists and file sources.
        config.zones = Vec::new();
        let (stop, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();

        let (recursion, pollers) = Recursion::start(&config, &core.shared, &core.addresses)?;
        start_zone_workers(&core, &config)?;
        let (updates, update_requests) = zone_requests::start_updates(&core)?;
        let mut first_reads = reads.zone_lists;
        let secondaries = start_secondaries(&core, &config.server, &mut first_reads)?;
        leases::start(&core, &secondaries)?;
        let zone_requests =
            zone_requests::start(&core, &config.server, &secondaries, update_requests)?;

        announce::started(&ports, &config, tls.is_some());
        let web = ports.web_address();
        let ports_of_dns = (ports.dns, ports.xdp, ports.encrypted);
        let listeners = Listeners::start(&core, ports_of_dns, &config, &mut tasks, &gates)?;
        let health = ServerHealth::new(HealthSources {
            core: core.clone(),
            secondaries: secondaries.clone(),
            zone_requests,
            listeners: listeners.watch(),
            web,
            started,
        });
        start_periodic_tasks(&core, &health, &mut tasks, &stopping);
        tasks.spawn(recursion::poll(pollers, stopping.clone()));

        let (maintenance, loaded) = start_maintenance(CurrentConfig {
            overrides,
            config: config.clone(),
            sources,
            core: core.clone(),
            recursion,
        })?;
        let operator = Arc::new(Operator {
            maintenance: maintenance.clone(),
            operations: Arc::new(operations(&core, &updates, (&config, &maintenance))?),
            core: core.clone(),
            secondaries: secondaries.clone(),
            updates,
            stop: stop.clone(),
            health: Arc::clone(&health),
            hand_over: Arc::clone(&hand_over),
            process,
        });
        let gate = (&gates.administration(), &stopping);
        start_http(&config, &operator, (ports.web, ports.api), &mut tasks, gate)?;
        start_control(ports.control, operator, &mut tasks, gate);
        Ok(Self {
            core,
            listeners,
            stop,
            gates,
            take_over,
            hand_over,
            tasks,
            maintenance,
            loaded,
            signals,
            example: config.example,
            unknown_keys,
            health,
            first_reads,
            secondaries,
            _lookups: reads.lookups,
        })
    }

    /// Waits until a signal, a command or a failure ends the server.
    pub async fn watch(&mut self) -> Result<(), StartError> {
        let mut stopping = self.stop.subscribe();
        let mut handed_over = self.hand_over.subscribe();
        let (mut loading, mut is_announced, mut is_overdue) = (true, false, false);
        loop {
            tokio::select! {
                result = &mut self.loaded, if loading => {
                    loading = false;
                    result.unwrap_or(Err(StartError::MaintenanceEnded))?;
                    is_announced = self.first_reads.is_empty();
                    if is_announced {
                        self.announce_ready()?;
                    }
                }
                _ = wait_for_first_queries(&mut self.first_reads), if !loading && !is_announced => {
                    is_announced = true;
                    self.announce_ready()?;
                }
                () = self.gates.overdue(), if !is_announced && !is_overdue => {
                    is_overdue = true;
                    tracing::warn!("zones are not loaded yet: queries for those that are missing get SERVFAIL");
                    self.gates.open();
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
                _ = handed_over.wait_for(|done| *done) => return Ok(()),
            }
        }
    }

    fn announce_ready(&mut self) -> Result<(), StartError> {
        let mut take_over = self.take_over.take();
        if let Some(before) = &mut take_over {
            before.finish()?;
        }
        self.gates.open();
        let zones = self.core.shared.zones.load();
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
        self.core.maintain.commits.table().feed().start();
        let number = zones.zones().filter(|zone| zone.is_ready()).count();
        announce::ready(number, &self.core.addresses, question.as_deref());
        if let Some(before) = &mut take_over {
            before.finish_output();
        }
        notify::ready();
        policies::warn_of_unknown_keys(&self.unknown_keys, &self.core.maintain.policies.load());
        only_here::log(&self.health.last().only_here);
        self.core.key_driver.request_all();
        let notifier = self.core.notifier.clone();
        // May wait for the disk.
        tokio::task::spawn_blocking(move || notifier.notify_of_changes_before_start());
        Ok(())
    }

    /// Shuts down every component: workers answer pending queries, connections get their pending
    /// answers.
    pub async fn end(mut self) {
        let is_replaced = self.hand_over.is_done();
        if !is_replaced {
            notify::stopping();
        }
        self.listeners.switch.stop();
        self.hand_over.close();
        // Those that wait for their start end, too.
        self.gates.open();
        self.stop.send_replace(true);
        self.secondaries.end();
        self.core.key_driver.end();
        self.core.catalogs.end();
        self.core.maintain.leases.end(is_replaced);
        if is_replaced {
            self.finish_connections().await;
        }
        self.listeners.stop.send_replace(true);
        let mut workers = std::mem::take(&mut self.listeners.workers);
        workers.append(&mut self.listeners.xdp);
        let joined = tokio::task::spawn_blocking(move || {
            workers.into_iter().for_each(UdpWorker::join);
        });
        let all = async {
            let _ = joined.await;
            while self.tasks.join_next().await.is_some() {}
        };
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
            tracing::warn!("some threads did not stop in time");
        }
        let logs = Arc::clone(&self.core.logs);
        let ended = tokio::task::spawn_blocking(move || logs.end());
        if tokio::time::timeout(STOP_TIMEOUT, ended).await.is_err() {
            tracing::warn!("the dnstap collector did not confirm the end of the stream in time");
        }
        // They commit to the state store and write to databases, which are closed next.
        let ended = || worker::wait_for_end(&ZONE_WORKERS, WORKER_TIMEOUT);
        let running = tokio::task::spawn_blocking(ended).await.unwrap_or_default();
        if !running.is_empty() {
            tracing::warn!("did not stop in time: {}", listed(running));
        }
        // Zones are no longer read or written.
        let databases = self.core.maintain.databases.clone();
        let closed = tokio::task::spawn_blocking(move || databases.close());
        if tokio::time::timeout(STOP_TIMEOUT, closed).await.is_err() {
            tracing::warn!("some databases were not closed in time");
        }
    }
}

impl RunningServer {
    /// Lets connections and transfers end while another process accepts new ones. Replies that wait for a database are
    /// sent in the meantime.
    async fn finish_connections(&mut self) {
        self.listeners.drain();
        let ended = async {
            tokio::time::sleep(LATE_REPLIES).await;
            while self.listeners.are_serving() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = ended => {}
            () = tokio::time::sleep(DRAIN_TIMEOUT) => {}
            _ = self.signals.terminate.recv() => {}
            _ = self.signals.interrupt.recv() => {}
        }
    }
}

/// Starts the threads that change zones by themselves, except those of secondary zones.
fn start_zone_workers(core: &ServerCore, config: &Config) -> std::io::Result<()> {
    catalog::start(&core.maintain, &core.catalogs, policies::templates(config))?;
    rollover::start(core)?;
    core.notified.start(&core.maintain, &core.notifier)
}

/// Answers at the control socket, once the gate is open.
fn start_control(
    control: Option<ControlSocket>,
    operator: Arc<Operator>,
    tasks: &mut JoinSet<()>,
    (gate, stopping): (&watch::Receiver<bool>, &watch::Receiver<bool>),
) {
    let Some(control) = control else {
        return;
    };
    let stopping = stopping.clone();
    spawn_behind(gate, tasks, async move {
        if let Err(error) = control.serve(operator, stopping).await {
            tracing::error!("control socket disabled: {error}");
        }
    });
}

/// Starts secondary zones; `first_reads` gets a receiver for the moment when the stored ones are served.
fn start_secondaries(
    core: &ServerCore,
    server: &settings::Server,
    first_reads: &mut Vec<oneshot::Receiver<()>>,
) -> std::io::Result<SecondaryZones> {
    let (loaded_sender, loaded) = oneshot::channel();
    first_reads.push(loaded);
    SecondaryZones::start(core, server, || {
        let _ = loaded_sender.send(());
    })
}

/// Starts the tasks that run once a second, and the removal of old copies of deleted zones.
fn start_periodic_tasks(
    core: &ServerCore,
    health: &Arc<ServerHealth>,
    tasks: &mut JoinSet<()>,
    stopping: &watch::Receiver<bool>,
) {
    tasks.spawn(tick(Arc::clone(&core.shared), stopping.clone()));
    tasks.spawn(health::refresh_loop(Arc::clone(health), stopping.clone()));
    tasks.spawn(nameward_serve::health_checks::run(
        Arc::clone(&core.steering),
        stopping.clone(),
    ));
    tasks.spawn(shared_health::run(core.health_exchange(), stopping.clone()));
    tasks.spawn(nameward_serve::script_upkeep::run(
        Arc::clone(&core.shared),
        stopping.clone(),
    ));
    tasks.spawn(geoip::follow(Arc::clone(&core.steering), stopping.clone()));
    tasks.spawn(rate_limit::report(
        Arc::clone(&core.shared),
        stopping.clone(),
    ));
    if let Some(store) = core.maintain.store().cloned() {
        let copies = Arc::clone(&core.copies);
        tasks.spawn(state::drop_old_copies(store, copies, stopping.clone()));
    }
}

/// Starts the maintenance thread; the receiver gets the result of the first load.
fn start_maintenance(
    current: CurrentConfig,
) -> std::io::Result<(Maintenance, oneshot::Receiver<Result<(), StartError>>)> {
    let (loaded_sender, loaded) = oneshot::channel();
    let maintenance = maintenance::start(current, |result| {
        let _ = loaded_sender.send(result);
    })?;
    Ok((maintenance, loaded))
}

/// Creates the operations of the control socket, the API and the page.
fn operations(
    core: &ServerCore,
    updates: &Arc<Updates>,
    (config, maintenance): (&Config, &Maintenance),
) -> Result<Operations, StartError> {
    let files = FollowedFiles {
        maintenance: maintenance.clone(),
        config: core.config_file.clone(),
    };
    let policies = &core.maintain.policies;
    let sharing = config.api.keys_in_database.then_some(&**policies);
    let store = core.maintain.store().cloned();
    let api_keys = ApiKeys::load(store, sharing).map_err(StartError::State)?;
    Ok(operator::operations(core, updates, files, api_keys))
}

/// Starts the status page and the API.
fn start_http(
    config: &Config,
    operator: &Arc<Operator>,
    ports: (Option<TcpListener>, Option<TcpListener>),
    tasks: &mut JoinSet<()>,
    signals: (&watch::Receiver<bool>, &watch::Receiver<bool>),
) -> Result<(), StartError> {
    let core = &operator.core;
    let web = super::web::prepare(&config.web, &core.shared.stats, &operator.health)
        .map_err(|error| StartError::Secret("web", error))?;
    let zones = Arc::new(PageZones {
        secondaries: operator.secondaries.clone(),
        operations: Arc::clone(&operator.operations),
        shared: Arc::clone(&core.shared),
        files: Arc::clone(&core.notes.files),
        pass: nameward_base::sync::Mutex::default(),
    });
    let web = web.showing_zones(zones.clone());
    let api = super::api::prepare(config, (operator, zones), core.notes.tls.clone())
        .map_err(|error| StartError::Secret("api.key", error))?;
    super::web::start((web, api), ports, tasks, signals);
    Ok(())
}

/// Waits until each database was queried for its zones, whether it answered or not.
async fn wait_for_first_queries(pending: &mut Vec<oneshot::Receiver<()>>) {
    while let Some(next) = pending.last_mut() {
        let _ = next.await;
        pending.pop();
    }
}

/// Computes the rates once a second.
async fn tick(shared: Arc<ServingState>, mut stopping: watch::Receiver<bool>) {
    tokio::select! {
        () = web::tick_every_second(Arc::clone(&shared.stats)) => {}
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}
