//! Collects the server's state: one structure for the command line, the page, metrics and probes.
//!
//! The page and the probes get the state of at most a second ago, which is read in the background: they never
//! wait.

use nameward_base::panics;
use nameward_base::sync::Mutex;
use nameward_base::text::counted;
use nameward_base::time::{now_seconds, seconds_since_1970};
use nameward_base::worker::{self, QueueUsage};
use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use nameward_api::tls::ServerTls;
use nameward_control::operations::{
    BackendStatus, InternalError, QueryRates, QueueStatus, ReloadStatus, ServerStatus,
    TransferCounts, UnseenChanges,
};
use nameward_maintain::Commits;
use nameward_maintain::follow::{
    FileFaults,
    databases::{Databases, FollowedDatabase, ServedFrom},
};
use nameward_maintain::signature_watch::SignatureSums;
use nameward_serve::{pipeline::ServingState, zone_requests::ZoneRequestHandler};
use nameward_stats::HostReadings;
use nameward_store::{file::FileSource, state::StateStore};
use nameward_zone::{TableSums, ZoneSums};
use tokio::sync::watch;

use super::{
    faults::{self, FaultSources, FirstSeen},
    logs::TrafficLogs,
    secondaries::SecondaryZones,
};

/// Interval at which the state is read.
const INTERVAL: Duration = Duration::from_secs(1);

/// State that the maintenance thread reports.
#[derive(Default)]
pub struct MaintenanceNotes {
    /// The faults of zone files.
    pub files: Arc<FileFaults>,
    /// Zones whose stored signatures need an operator.
    pub signatures: Arc<SignatureSums>,
    /// The TLS certificate of the API.
    pub tls: Option<Arc<ServerTls>>,
    last_reload: Mutex<Option<ReloadStatus>>,
    /// Rank and location of each source of zone files.
    sources: Mutex<Vec<(u16, String)>>,
}

impl MaintenanceNotes {
    /// Creates notes of a server with this certificate.
    pub fn new(tls: Option<Arc<ServerTls>>) -> Self {
        MaintenanceNotes {
            tls,
            ..MaintenanceNotes::default()
        }
    }

    /// Sets the sources of zone files that are used from now on.
    pub fn set_sources(&self, sources: &[FileSource]) {
        let places = sources.iter().map(|source| (source.rank, place_of(source)));
        *self.sources.lock() = places.collect();
    }

    /// Records the result of a reload.
    pub fn set_reload(&self, is_ok: bool, text: &str) {
        *self.last_reload.lock() = Some(ReloadStatus {
            at: now_seconds(),
            is_ok,
            text: text.lines().next().unwrap_or_default().to_string(),
        });
    }
}

/// Describes the location of a source's files.
fn place_of(source: &FileSource) -> String {
    let directory = source.directory.iter();
    let places = directory.chain(&source.named_conf);
    let mut places: Vec<String> = places.map(|path| path.display().to_string()).collect();
    if !source.zones.is_empty() {
        places.push(counted(source.zones.len(), "listed file"));
    }
    places.join(", ")
}

/// The threads and tasks that receive queries; each reference is dead when its thread or task has ended.
#[derive(Default)]
pub struct ListenerWatch {
    /// The UDP workers.
    pub udp: Vec<Weak<()>>,
    /// The task that accepts TCP connections.
    pub tcp: Weak<()>,
}

impl ListenerWatch {
    /// Returns the transports over which queries are no longer received.
    fn ended(&self) -> Vec<&'static str> {
        let is_udp_down = self.udp.iter().all(|worker| worker.strong_count() == 0);
        let is_tcp_down = self.tcp.strong_count() == 0;
        let transports = [(is_udp_down, "UDP"), (is_tcp_down, "TCP")];
        let ended = transports.into_iter().filter(|(is_down, _)| *is_down);
        ended.map(|(_, transport)| transport).collect()
    }
}

/// The components that the state is read from.
pub struct HealthParts {
    /// When the server started.
    pub started: Instant,
    /// The configuration file, with symbolic links resolved; none for the built-in example.
    pub config: Option<PathBuf>,
    /// The DNS listen addresses.
    pub listeners: Vec<SocketAddr>,
    /// The address of the status page.
    pub web: Option<SocketAddr>,
    /// Number of UDP threads.
    pub workers: usize,
    /// Zones and counters.
    pub shared: Arc<ServingState>,
    /// The databases.
    pub databases: Databases,
    /// Reloads and zone files.
    pub maintenance: Arc<MaintenanceNotes>,
    /// The secondary zones.
    pub secondaries: SecondaryZones,
    /// Transfers to secondaries.
    pub zone_requests: Arc<ZoneRequestHandler>,
    /// The query log and dnstap.
    pub logs: Arc<TrafficLogs>,
    /// The state store, if there is one.
    pub store: Option<StateStore>,
    /// Changes of zones.
    pub commits: Arc<Commits>,
}

/// Reads the state of the server, and keeps the last result.
pub struct ServerHealth {
    /// None until the server has its components.
    parts: Mutex<Option<HealthParts>>,
    is_started: AtomicBool,
    sums: Mutex<TableSums>,
    /// None until the listeners run.
    listeners: Mutex<Option<ListenerWatch>>,
    first_seen: Mutex<FirstSeen>,
    last: ArcSwap<ServerStatus>,
}

impl Default for ServerHealth {
    fn default() -> Self {
        let health = ServerHealth {
            parts: Mutex::default(),
            is_started: AtomicBool::default(),
            sums: Mutex::default(),
            listeners: Mutex::default(),
            first_seen: Mutex::default(),
            last: ArcSwap::default(),
        };
        health.refresh();
        health
    }
}

impl ServerHealth {
    /// Sets the components to read the state from.
    pub fn set_parts(&self, parts: HealthParts) {
        *self.parts.lock() = Some(parts);
        self.refresh();
    }

    /// Sets the listeners to watch.
    pub fn set_listeners(&self, listeners: ListenerWatch) {
        *self.listeners.lock() = Some(listeners);
    }

    /// Records that all zones were loaded, and each database was queried once.
    pub fn set_started(&self) {
        self.is_started.store(true, Ordering::Relaxed);
        self.refresh();
    }

    /// Returns the state as it was last read. Never blocks.
    pub fn last(&self) -> Arc<ServerStatus> {
        self.last.load_full()
    }

    /// Reads the state, and keeps it.
    pub fn refresh(&self) -> Arc<ServerStatus> {
        // Held until the result is stored, so that an older state cannot replace a newer one.
        let parts = self.parts.lock();
        let mut status = self.read(parts.as_ref());
        let now = now_seconds();
        self.first_seen.lock().date(&mut status.faults, now);
        let status = Arc::new(status);
        self.last.store(Arc::clone(&status));
        status
    }

    fn read(&self, parts: Option<&HealthParts>) -> ServerStatus {
        let is_started = self.is_started.load(Ordering::Relaxed);
        let Some(parts) = parts else {
            return ServerStatus {
                version: env!("CARGO_PKG_VERSION").into(),
                process: std::process::id(),
                host: host_name(),
                faults: faults::of_start(),
                ..ServerStatus::default()
            };
        };
        let sums = self.sums.lock().over(&parts.shared.zones.load());
        let rates = parts.shared.stats.rates();
        let rate = |n: usize| rates.udp_queries.averages[n] + rates.tcp_queries.averages[n];
        let life = parts.secondaries.summary();
        let files = parts.maintenance.files.zones();
        let never_transferred = parts.secondaries.never_transferred();
        let in_databases = parts.databases.zone_faults();
        let (outgoing, outgoing_waiting) = parts.zone_requests.transfer_counts();
        let nsid = parts.shared.engine.load().identity.id.clone();
        let mut status = ServerStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            process: std::process::id(),
            uptime_seconds: parts.started.elapsed().as_secs(),
            config: parts.config.as_ref().map(|path| path.display().to_string()),
            host: Some(nsid)
                .filter(|nsid| !nsid.is_empty())
                .unwrap_or_else(host_name),
            is_started,
            listeners: parts.listeners.iter().map(ToString::to_string).collect(),
            web: parts.web.map(|address| address.to_string()),
            workers: parts.workers,
            dnstap: parts.logs.dnstap().map(Box::new),
            zones: sums.zones,
            zones_not_ready: sums.not_ready
                + never_transferred.looked_up
                + in_databases.without_records.number,
            zones_never_transferred: never_transferred.number,
            zones_unsigned: in_databases.unsigned.number,
            zones_with_errors: files.with_old_version.number + files.without_contents.number,
            zones_stale: life.stale as usize,
            zones_ahead_of_primary: life.behind as usize,
            zones_expired: life.expired as usize,
            zones_signed: sums.signed,
            backends: backends(parts, &sums),
            last_reload: parts.maintenance.last_reload.lock().clone(),
            transfers: TransferCounts {
                incoming: parts.secondaries.running_transfers(),
                incoming_waiting: life.waiting as usize,
                outgoing,
                outgoing_waiting,
            },
            queries_per_second: QueryRates {
                minute_1: rate(0),
                minutes_5: rate(1),
                minutes_10: rate(2),
            },
            memory_bytes: HostReadings::read().real_memory_usage,
            internal_errors: panics::count(),
            last_internal_error: panics::last().map(|last| InternalError {
                at: last.at,
                location: last.location,
            }),
            queues: worker::queues().into_iter().map(queue_status).collect(),
            faults: Vec::new(),
        };
        let ended = self.listeners.lock().as_ref().map(ListenerWatch::ended);
        let store_fault = parts.store.as_ref().and_then(StateStore::fault);
        let tls = parts.maintenance.tls.as_ref();
        let tls_fault = tls.and_then(|tls| {
            let now = now_seconds();
            tls.refresh(now);
            tls.fault(now)
        });
        let sources = FaultSources {
            tls: tls_fault.as_ref(),
            status: &status,
            ended_listeners: &ended.unwrap_or_default(),
            sums: &sums,
            files: &files,
            file_sources: &parts.maintenance.files.troubles(),
            missing_files: &parts.maintenance.files.missing(),
            conflicts: &parts.commits.conflicts(),
            store: store_fault.as_ref(),
            signatures: &parts.maintenance.signatures,
            never_transferred: &never_transferred,
            databases: &in_databases,
            secondaries: &life,
            is_transferred: &|zone| parts.secondaries.is_transferred(zone),
        };
        status.faults = sources.find();
        status
    }
}

/// Returns the state of each source of zones, in configuration order.
fn queue_status(usage: QueueUsage) -> QueueStatus {
    QueueStatus {
        name: usage.name,
        waiting: usage.waiting,
        limit: usage.limit,
        full: usage.full,
    }
}

fn backends(parts: &HealthParts, sums: &ZoneSums) -> Vec<BackendStatus> {
    let started = SystemTime::now() - parts.started.elapsed();
    let files = parts.maintenance.sources.lock().clone().into_iter();
    let files = files.map(|(rank, address)| BackendStatus {
        backend: rank.into(),
        engine: "file".into(),
        address,
        mode: "resident".into(),
        is_up: true,
        since: seconds_since_1970(started),
        last_error: None,
        last_error_at: None,
        unseen_changes: None,
        zones: sums.of_rank(rank),
        // Zones declared in `[[zone]]` have no backend that could be lost.
        is_lost: rank > 0 && sums.is_rank_lost(rank),
    });
    let database = |database: &FollowedDatabase| {
        let (health, watch) = (database.backend.health(), database.backend.watch_health());
        let address = &database.backend.options().address;
        let (last_error, last_error_at) = match health.last_error {
            Some((error, at)) => (Some(error), Some(seconds_since_1970(at))),
            None => (None, None),
        };
        BackendStatus {
            backend: database.rank.into(),
            engine: address.engine().into(),
            address: address.to_string(),
            mode: match database.served_from {
                ServedFrom::Lookups => "live",
                ServedFrom::Memory => "resident",
            }
            .into(),
            is_up: health.is_up,
            since: seconds_since_1970(health.since.max(started)),
            last_error,
            last_error_at,
            unseen_changes: (!watch.is_up).then(|| UnseenChanges {
                error: watch.reason,
                since: seconds_since_1970(watch.since.max(started)),
            }),
            zones: sums.of_rank(database.rank),
            // Zones that wait for their primaries are not the database's fault.
            is_lost: !health.is_up
                && (database.served_from == ServedFrom::Lookups
                    || sums.of_rank(database.rank) == 0
                    || sums.is_rank_lost(database.rank)),
        }
    };
    let databases = parts.databases.all().iter().map(database);
    let mut all: Vec<_> = files.chain(databases).collect();
    all.sort_by_key(|backend| backend.backend);
    all
}

/// Returns the host name, as the kernel has it.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname");
    name.unwrap_or_default().trim().to_string()
}

/// Reads the state periodically until the server stops.
pub async fn keep_fresh(health: Arc<ServerHealth>, mut stopping: watch::Receiver<bool>) {
    let mut seconds = tokio::time::interval(INTERVAL);
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = seconds.tick() => {}
            _ = stopping.wait_for(|stop| *stop) => return,
        }
        let health = Arc::clone(&health);
        // On a blocking thread: a large table takes time after many changes.
        let _ = tokio::task::spawn_blocking(move || health.refresh()).await;
    }
}
