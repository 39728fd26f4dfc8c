//! `nameward serve`: the order in which components start and stop.
//!
//! Configuration, ports, user, log, zones, ready. A failure before the zones are loaded is one line
//! and a non-zero exit code. Workers answer while zones load, each zone as it is ready.

mod announce;
mod api;
pub mod cookies;
mod core;
pub mod databases;
mod encrypted;
mod encrypted_ports;
mod faults;
mod flush;
mod geoip;
mod hand_over;
mod hand_over_lines;
mod health;
mod health_targets;
mod leases;
mod listeners;
mod live;
mod logs;
mod maintenance;
mod notes;
mod only_here;
mod opening;
mod operator;
mod page_zones;
mod ports;
mod preconditions;
mod prepared;
mod rate_limit;
mod recursion;
mod rollover;
mod running;
mod secondaries;
mod shared_health;
pub mod take_over;
mod web;
mod zone_files;
mod zone_requests;

use std::sync::Arc;

pub use logs::host_name;
use nameward_maintain::signature_watch::{self, SignatureSums, SignatureWatch};
use nameward_serve::pipeline::ServingState;
use nameward_stats::Gauge;
pub use preconditions::failures;
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
    time::Interval,
};

use self::core::{RUNTIME_THREADS, ServerCore};
use crate::{config::Overrides, huge_pages, signals, start_error::StartError};
use prepared::Prepared;
use running::{RunningServer, Signals};

/// Threads that query primaries and notify secondaries. Packing a large zone occupies one of them for a second.
const OUTGOING_THREADS: usize = 2;

/// Serves until a signal or a command stops the server.
pub fn run(overrides: &Overrides) -> Result<(), StartError> {
    let mut prepared = Prepared::new(overrides)?;
    let pid_file = prepared.pid_file.take();
    let runtime = build_runtime("edge", RUNTIME_THREADS)?;
    // Clients of this server never wait for a primary.
    let outgoing_runtime = build_runtime("transfer", OUTGOING_THREADS)?;
    let mut store = None;
    let ended = runtime.block_on(async {
        let signals = Signals::new()?;
        signals::release_hangup();
        let (core, reads) = ServerCore::build(&prepared, outgoing_runtime.handle().clone())?;
        store = core.maintain.store().cloned();
        let _watch = watch_signatures(&core.shared, &core.notes.signatures)?;
        huge_pages::start()?;
        let mut server = RunningServer::start(core, reads, prepared, signals)?;
        let ended = server.watch().await;
        server.end().await;
        ended
    });
    if let Some(store) = store {
        store.close();
    }
    // A reload in progress is not waited for.
    runtime.shutdown_background();
    outgoing_runtime.shutdown_background();
    drop(pid_file);
    ended
}

/// Waits for the next tick; false when the server stops.
pub async fn ticked(ticks: &mut Interval, stopping: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        _ = ticks.tick() => true,
        _ = stopping.wait_for(|stop| *stop) => false,
    }
}

fn build_runtime(thread_name: &str, threads: usize) -> std::io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(thread_name)
        .enable_all()
        .build()
}

/// Starts watching the stored signatures of zones.
fn watch_signatures(
    shared: &Arc<ServingState>,
    sums: &Arc<SignatureSums>,
) -> std::io::Result<signature_watch::WatchThread> {
    let watch = SignatureWatch::new(Arc::clone(sums));
    let (broken, ending) = (Arc::clone(sums), Arc::clone(sums));
    let stats = &shared.stats;
    stats.gauge_from(Gauge::StoredSignaturesBroken, move || {
        broken.now().broken as u64
    });
    stats.gauge_from(Gauge::StoredSignaturesEnding, move || {
        ending.now().ending as u64
    });
    let zones = Arc::clone(&shared.zones);
    signature_watch::start(watch, move || zones.load_full())
}
