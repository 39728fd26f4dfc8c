//! Results of health checks that servers share through a database: a task writes those of this server and reads those
//! of others.
//!
//! The first database in the configuration has them (`nameward_sql::write::health_results`). Queries never wait for it: they see
//! what was last read. While it does not respond, the results of others expire and this server goes by its own; the states that
//! operators set stay as they were.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nameward_base::sync::Mutex;
use nameward_base::time::now_seconds;
use nameward_sql::SqlBackend;
use nameward_sql::write::{FleetResults, ForcedResult, OwnResults};
use nameward_steering::Steering;
use nameward_steering::health::{ForcedHealth, OtherResults, TargetHealth, TargetReport};
use tokio::sync::watch;

use super::ticked;

/// Interval at which results are exchanged.
const INTERVAL: Duration = Duration::from_secs(2);
/// Seconds for which an exchange may fail until that is a fault: a conflict or a promotion is over by then.
const FAULT_AFTER: u64 = 10;

/// Maximum time for withdrawing results when the server stops.
const WITHDRAWAL_MAX: Duration = Duration::from_secs(2);

/// The state of sharing, and what an operator has set since the last exchange.
#[derive(Default)]
pub struct SharedHealth {
    is_enabled: AtomicBool,
    forced: Mutex<BTreeMap<IpAddr, ForcedHealth>>,
    state: Mutex<SharingState>,
}

#[derive(Default)]
struct SharingState {
    /// The number of other servers whose results are used.
    servers: usize,
    failure: Option<SharingFailure>,
}

/// Why results are not shared.
#[derive(Debug, Clone)]
pub struct SharingFailure {
    /// The database, without its password.
    pub database: String,
    /// The error of the last exchange.
    pub error: String,
    /// Since when exchanges fail, in seconds since 1970.
    pub since: u64,
}

impl SharedHealth {
    /// Shares results from now on, or no longer.
    pub fn set_enabled(&self, is_enabled: bool) {
        self.is_enabled.store(is_enabled, Ordering::Relaxed);
    }

    fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    /// Forces the state of an address, on all servers if they share their results; returns how many targets it has here.
    pub fn force(&self, steering: &Steering, (address, state): (IpAddr, ForcedHealth)) -> usize {
        // Locked, so that the states of an exchange that is about to end do not replace it.
        let mut forced = self.forced.lock();
        let targets = steering.force(address, state);
        if targets > 0 && self.is_enabled() {
            forced.insert(address, state);
        }
        targets
    }

    /// Returns the number of other servers whose results are used; `None` if results are not shared.
    pub fn servers(&self) -> Option<usize> {
        self.is_enabled().then(|| self.state.lock().servers)
    }

    /// Returns why results are not shared although they should be.
    pub fn failure(&self) -> Option<SharingFailure> {
        let failure = self.state.lock().failure.clone()?;
        let is_over = failure.since + FAULT_AFTER > now_seconds();
        (self.is_enabled() && !is_over).then_some(failure)
    }
}

/// Exchanges results through a database, if there is one, until the server stops.
pub async fn run(exchange: Option<HealthExchange>, mut stopping: watch::Receiver<bool>) {
    let Some(mut exchange) = exchange else {
        return;
    };
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut was_enabled = false;
    while ticked(&mut ticks, &mut stopping).await {
        let is_enabled = exchange.shared.is_enabled();
        if is_enabled {
            tokio::select! {
                () = exchange.run() => {}
                _ = stopping.wait_for(|stop| *stop) => break,
            }
        } else if was_enabled {
            exchange.end().await;
        }
        was_enabled = is_enabled;
    }
    if was_enabled {
        exchange.withdraw().await;
    }
}

/// The exchange of results with one database.
pub struct HealthExchange {
    shared: Arc<SharedHealth>,
    steering: Arc<Steering>,
    backend: SqlBackend,
    /// The name of this server in the database.
    server: String,
    seen: FleetResults,
}

impl HealthExchange {
    /// Prepares the exchange of what health checks find under the name of this server.
    pub fn new(
        shared: &Arc<SharedHealth>,
        steering: &Arc<Steering>,
        backend: SqlBackend,
        server: String,
    ) -> Self {
        HealthExchange {
            shared: Arc::clone(shared),
            steering: Arc::clone(steering),
            backend,
            server,
            seen: FleetResults::default(),
        }
    }

    async fn run(&mut self) {
        let (shared, steering) = (&self.shared, &self.steering);
        let waiting = shared.forced.lock().clone();
        let forced = waiting.iter().map(|(at, state)| (*at, to_stored(*state)));
        let own = OwnResults {
            server: &self.server,
            results: &steering.health().own_results(),
            forced: &forced.collect(),
        };
        let result = self.backend.share_health(&own, &mut self.seen).await;
        let others = self.seen.others(&self.server, Instant::now());
        let servers = others.len();
        let mut results: HashMap<&str, OtherResults> = HashMap::new();
        for (target, state) in others.into_iter().flatten() {
            results.entry(target).or_default().add(*state);
        }
        let changed = steering.health().set_others(&results);
        changed.iter().for_each(log_change);
        {
            let mut state = shared.state.lock();
            state.servers = servers;
            let before = state.failure.take();
            if let Err(error) = &result {
                let since = before.map_or_else(now_seconds, |before| before.since);
                state.failure = Some(SharingFailure {
                    database: self.backend.options().address.to_string(),
                    error: error.to_string(),
                    since,
                });
            }
        }
        if result.is_ok() {
            // What an operator has set in the meantime is written by the next exchange.
            let mut forced = shared.forced.lock();
            forced.retain(|address, state| waiting.get(address) != Some(state));
        }
        let has_forced = self.apply_forced(steering, &waiting);
        if has_forced || !changed.is_empty() {
            steering.prepare_pools();
        }
    }

    /// Puts the states that operators have set anywhere into effect; returns whether that changes anything.
    fn apply_forced(&self, steering: &Steering, waiting: &BTreeMap<IpAddr, ForcedHealth>) -> bool {
        let Some(stored) = self.seen.forced() else {
            return false;
        };
        let stored = stored.into_iter();
        let mut forced: BTreeMap<_, _> =
            stored.map(|(at, state)| (at, from_stored(state))).collect();
        // The states of this exchange were written after it has read, and later ones are not written yet.
        forced.extend(waiting);
        let newer = self.shared.forced.lock();
        forced.extend(newer.iter());
        steering.force_only(&forced)
    }

    /// Goes by the results of this server alone.
    async fn end(&mut self) {
        self.withdraw().await;
        self.seen = FleetResults::default();
        self.steering.health().set_others(&HashMap::new());
        self.steering.prepare_pools();
        *self.shared.state.lock() = SharingState::default();
    }
}

impl HealthExchange {
    /// Deletes the results of this server, so that others do not wait until they expire. A successor of this process has the same
    /// name, and writes its own.
    async fn withdraw(&self) {
        let withdrawn = self.backend.withdraw_health(&self.server);
        match tokio::time::timeout(WITHDRAWAL_MAX, withdrawn).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("cannot withdraw results of health checks: {error}"),
            Err(_) => tracing::debug!("cannot withdraw results of health checks: timed out"),
        }
    }
}

fn to_stored(forced: ForcedHealth) -> ForcedResult {
    match forced {
        ForcedHealth::No => ForcedResult::No,
        ForcedHealth::Down => ForcedResult::Down,
        ForcedHealth::Up => ForcedResult::Up,
    }
}

fn from_stored(forced: ForcedResult) -> ForcedHealth {
    match forced {
        ForcedResult::No => ForcedHealth::No,
        ForcedResult::Down => ForcedHealth::Down,
        ForcedResult::Up => ForcedHealth::Up,
    }
}

fn log_change(report: &TargetReport) {
    let TargetReport { check, others, .. } = report;
    let (up, down) = (others.up, others.down);
    match report.health {
        TargetHealth::Up(_) => tracing::info!(
            "health check {check}: up, with the results of other servers ({up} up, {down} down)"
        ),
        TargetHealth::Down => tracing::warn!(
            "health check {check}: down, with the results of other servers ({up} up, {down} down)"
        ),
        TargetHealth::Unknown => {}
    }
}
