//! Collects the server's state: one structure for the command line, the page, metrics and probes.
//!
//! The page and the probes get the state of at most a second ago, which is read in the background: they never
//! wait.

use nameward_base::sync::Mutex;
use nameward_base::time::{now_seconds, seconds_since_1970};
use nameward_base::worker::{self, QueueUsage};
use nameward_base::{memory, panics};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use nameward_control::operations::{
    BackendLag, BackendStatus, FailedBackendServer, InternalError, MemoryRefusal, QueryRates,
    QueueStatus, ServerFault, ServerStatus, TransferCounts, UnseenChanges, XdpStatus,
};
use nameward_maintain::follow::{
    FaultyZones,
    databases::{DatabaseZoneFaults, FollowedDatabase, ServedFrom},
};
use nameward_peers::secondary::{SecondariesSummary, UntransferredZones};
use nameward_peers::zone_requests::ZoneRequestHandler;
use nameward_serve::xdp::XdpState;
use nameward_sql::Lag;
use nameward_state::StateStore;
use nameward_stats::HostReadings;
use nameward_steering::health::TargetHealth;
use nameward_zone::{TableSums, ZoneSums, ZoneTable};
use tokio::sync::watch;

use crate::config::settings::mode_word;

use super::{
    core::ServerCore,
    encrypted::EncryptedListeners,
    faults::{FaultSources, FirstSeen},
    health_targets,
    logs::host_name,
    only_here::LocalState,
    rate_limit,
    secondaries::SecondaryZones,
    ticked,
};

/// Interval at which the state is read.
const INTERVAL: Duration = Duration::from_secs(1);

/// The threads and tasks that receive queries; each reference is dead when its thread or task has ended.
pub struct ListenerWatch {
    pub udp: Vec<Weak<()>>,
    /// The task that accepts TCP connections.
    pub tcp: Weak<()>,
    /// The tasks that accept encrypted connections.
    pub encrypted: EncryptedListeners,
    pub xdp: Vec<Arc<XdpState>>,
}

impl ListenerWatch {
    /// Returns the transports over which queries are no longer received.
    fn ended(&self) -> Vec<&'static str> {
        let is_udp_down = self.udp.iter().all(|worker| worker.strong_count() == 0);
        let is_tcp_down = self.tcp.strong_count() == 0;
        let encrypted = self.encrypted.iter();
        let encrypted = encrypted.map(|(name, alive)| (alive.strong_count() == 0, *name));
        let transports = [(is_udp_down, "UDP"), (is_tcp_down, "TCP")];
        let transports = transports.into_iter().chain(encrypted);
        let ended = transports.filter(|(is_down, _)| *is_down);
        ended.map(|(_, transport)| transport).collect()
    }
}

/// The components that the state is read from.
pub struct HealthSources {
    /// Zones, databases, files, logs.
    pub core: ServerCore,
    pub secondaries: SecondaryZones,
    /// Transfers to secondaries.
    pub zone_requests: Arc<ZoneRequestHandler>,
    /// The threads and tasks that receive queries.
    pub listeners: ListenerWatch,
    /// The address of the status page.
    pub web: Option<SocketAddr>,
    /// When the server started.
    pub started: Instant,
}

/// Reads the state of the server, and caches it.
pub struct ServerHealth {
    sources: HealthSources,
    is_started: AtomicBool,
    /// Held until a result is stored, so that an older state cannot replace a newer one.
    refreshing: Mutex<Refreshing>,
    last: ArcSwap<ServerStatus>,
}

/// State that a refresh takes over from the previous one.
#[derive(Default)]
struct Refreshing {
    sums: TableSums,
    first_seen: FirstSeen,
    local_state: LocalState,
}

/// Totals over zones, from which both counts and faults are made.
struct ZoneReadings {
    sums: ZoneSums,
    secondaries: SecondariesSummary,
    never_transferred: Arc<UntransferredZones>,
    files: FaultyZones,
    databases: DatabaseZoneFaults,
}

impl ServerHealth {
    /// Reads the state of a starting server.
    pub fn new(sources: HealthSources) -> Arc<Self> {
        let health = ServerHealth {
            sources,
            is_started: AtomicBool::default(),
            refreshing: Mutex::default(),
            last: ArcSwap::default(),
        };
        health.refresh();
        Arc::new(health)
    }

    /// Records that all zones were loaded, and each database was queried once.
    pub fn set_started(&self) {
        self.is_started.store(true, Ordering::Relaxed);
        self.refresh();
    }

    /// Returns the cached state. Never blocks.
    pub fn last(&self) -> Arc<ServerStatus> {
        self.last.load_full()
    }

    /// Reads the state, and caches it.
    pub fn refresh(&self) -> Arc<ServerStatus> {
        let mut refreshing = self.refreshing.lock();
        let HealthSources {
            core, secondaries, ..
        } = &self.sources;
        let zones = ZoneReadings {
            sums: refreshing.sums.over(&core.shared.zones.load()),
            secondaries: secondaries.handle.summary(),
            never_transferred: secondaries.handle.never_transferred(),
            files: core.notes.files.zones(),
            databases: core.maintain.databases.zone_faults(),
        };
        let mut status = self.read(&zones);
        status.only_here = refreshing.local_state.items(core);
        status.faults = self.find_faults(&status, &zones);
        refreshing
            .first_seen
            .date(&mut status.faults, now_seconds());
        let status = Arc::new(status);
        self.last.store(Arc::clone(&status));
        status
    }

    fn read(&self, zones: &ZoneReadings) -> ServerStatus {
        let sources = &self.sources;
        let core = &sources.core;
        let rates = core.shared.stats.rates();
        let [minute_1, minutes_5, minutes_10] = rates.queries();
        let (sums, secondaries) = (&zones.sums, &zones.secondaries);
        let (outgoing, outgoing_waiting) = sources.zone_requests.transfer_counts();
        let refusals = memory::refusals();
        let nsid = core.shared.engine.load().identity.id.clone();
        ServerStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            process: std::process::id(),
            uptime_seconds: sources.started.elapsed().as_secs(),
            config: core
                .config_file
                .as_ref()
                .map(|path| path.display().to_string()),
            host: Some(nsid)
                .filter(|nsid| !nsid.is_empty())
                .unwrap_or_else(host_name),
            is_started: self.is_started.load(Ordering::Relaxed),
            listeners: core.listeners.clone(),
            web: sources.web.map(|address| address.to_string()),
            workers: sources.listeners.udp.len(),
            dnstap: core.logs.dnstap().map(Box::new),
            rate_limit: rate_limit::status(&core.shared).map(Box::new),
            zones: sums.zones,
            zones_not_ready: sums.not_ready
                + zones.never_transferred.looked_up
                + zones.databases.without_records.number,
            zones_never_transferred: zones.never_transferred.number,
            zones_unsigned: zones.databases.unsigned.number,
            zones_with_errors: zones.files.with_old_version.number
                + zones.files.without_contents.number,
            zones_stale: secondaries.stale as usize,
            zones_ahead_of_primary: secondaries.behind as usize,
            zones_expired: secondaries.expired as usize,
            zones_signed: sums.signed,
            backends: backends(sources, sums),
            last_reload: core.notes.last_reload.lock().clone(),
            transfers: TransferCounts {
                incoming: sources.secondaries.outgoing.transfers().running(),
                incoming_waiting: secondaries.waiting as usize,
                outgoing,
                outgoing_waiting,
            },
            queries_per_second: QueryRates {
                minute_1,
                minutes_5,
                minutes_10,
            },
            sandbox: core.sandbox.summary.clone(),
            memory_bytes: HostReadings::read().real_memory_usage,
            internal_errors: panics::count(),
            last_internal_error: panics::last().map(|last| InternalError {
                at: last.at,
                location: last.location,
            }),
            xdp: sources.listeners.xdp.iter().map(xdp_status).collect(),
            memory_refusals: refusals.count,
            last_memory_refusal: refusals.last.map(|last| MemoryRefusal {
                at: last.at,
                work: last.work,
            }),
            views: view_requests(&core.shared.zones.load()),
            health: health_targets::all(&core.steering),
            health_shared_with: core.shared_health.servers(),
            queues: worker::queues().into_iter().map(queue_status).collect(),
            only_here: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn find_faults(&self, status: &ServerStatus, zones: &ZoneReadings) -> Vec<ServerFault> {
        let (core, secondaries) = (&self.sources.core, &self.sources.secondaries);
        let store_fault = core.maintain.store().and_then(StateStore::fault);
        let tls_fault = core.notes.tls.as_ref().and_then(|tls| {
            let now = now_seconds();
            tls.refresh(now);
            tls.fault(now)
        });
        let peers = core.peer_connections.faults(&core.maintain.policies.load());
        let mut down = core.steering.health().reports();
        let all_targets = down.len();
        down.retain(|report| report.health == TargetHealth::Down);
        let unshared_health = core.shared_health.failure();
        let sources = FaultSources {
            tls: tls_fault.as_ref(),
            peers: &peers,
            status,
            ended_listeners: &self.sources.listeners.ended(),
            sums: &zones.sums,
            files: &zones.files,
            file_sources: &core.notes.files.problems(),
            missing_files: &core.notes.files.missing(),
            conflicts: &core.maintain.commits.conflicts(),
            store: store_fault.as_ref(),
            signatures: &core.notes.signatures,
            never_transferred: &zones.never_transferred,
            databases: &zones.databases,
            secondaries: &zones.secondaries,
            geo: &core.steering.geo().faults(),
            targets: (&down, all_targets),
            unshared_health: unshared_health.as_ref(),
            scripts: &core
                .shared
                .scripts()
                .map_or_else(Vec::new, |scripts| scripts.failing()),
            is_transferred: &|zone| secondaries.is_transferred(zone),
        };
        sources.find()
    }
}

fn xdp_status(state: &Arc<XdpState>) -> XdpStatus {
    XdpStatus {
        interface: state.interface.clone(),
        state: state.text(),
        is_used: state.failure().is_none(),
    }
}

fn queue_status(usage: QueueUsage) -> QueueStatus {
    QueueStatus {
        name: usage.name,
        waiting: usage.waiting,
        limit: usage.limit,
        full: usage.full,
    }
}

/// Returns the state of each source of zones, in configuration order.
fn backends(sources: &HealthSources, sums: &ZoneSums) -> Vec<BackendStatus> {
    let started = SystemTime::now() - sources.started.elapsed();
    let files = sources.core.notes.sources.lock().clone().into_iter();
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
        failed_servers: Vec::new(),
        lag: None,
        zones: sums.by_rank(rank),
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
            mode: mode_word(database.served_from).into(),
            is_up: health.is_up,
            since: seconds_since_1970(health.since.max(started)),
            last_error,
            last_error_at,
            unseen_changes: (!watch.is_up).then(|| UnseenChanges {
                error: watch.reason,
                since: seconds_since_1970(watch.since.max(started)),
            }),
            failed_servers: failed_servers_of(database),
            lag: lag_of(database),
            zones: sums.by_rank(database.rank),
            // Zones that wait for their primaries are not the database's fault.
            is_lost: !health.is_up
                && (database.served_from == ServedFrom::Lookups
                    || sums.by_rank(database.rank) == 0
                    || sums.is_rank_lost(database.rank)),
        }
    };
    let databases = sources.core.maintain.databases.all().iter().map(database);
    let mut all: Vec<_> = files.chain(databases).collect();
    all.sort_by_key(|backend| backend.backend);
    all
}

fn failed_servers_of(database: &FollowedDatabase) -> Vec<FailedBackendServer> {
    let failed = database.backend.failed_servers().into_iter();
    let shown = failed.map(|one| FailedBackendServer {
        server: one.server,
        error: one.reason,
        since: seconds_since_1970(one.since),
    });
    shown.collect()
}

fn lag_of(database: &FollowedDatabase) -> Option<BackendLag> {
    let (lag, options) = (database.backend.lag(), database.backend.options());
    (lag != Lag::default()).then_some(BackendLag {
        changes: lag.changes,
        seconds: lag.seconds,
        seconds_max: options.lag_max.as_secs(),
    })
}

/// Reads the state periodically until the server stops.
pub async fn refresh_loop(health: Arc<ServerHealth>, mut stopping: watch::Receiver<bool>) {
    let mut seconds = tokio::time::interval(INTERVAL);
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while ticked(&mut seconds, &mut stopping).await {
        let health = Arc::clone(&health);
        // On a blocking thread: a large table takes time after many changes.
        let _ = tokio::task::spawn_blocking(move || health.refresh()).await;
    }
}
/// Returns the number of requests in each view.
fn view_requests(zones: &ZoneTable) -> Vec<(String, u64)> {
    let views = zones.views();
    let rules = views.map_or(&[][..], |views| views.rules());
    let requests = |view| views.map_or(0, |views| views.requests(view));
    rules
        .iter()
        .map(|rule| (rule.name.clone(), requests(rule.id)))
        .collect()
}
