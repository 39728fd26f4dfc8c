//! `nameward serve`: the order in which components start and stop.
//!
//! Configuration, ports, user, log, zones, ready. A failure before the zones are loaded is one line
//! and a non-zero exit code. Workers answer while zones load, each zone as it is ready.

mod announce;
mod api;
pub mod databases;
mod error;
mod faults;
mod flush;
mod health;
mod live;
mod logs;
mod maintenance;
mod operator;
mod page_zones;
mod ports;
mod preconditions;
mod recursion;
mod rollover;
mod running;
mod secondaries;
mod updates;
mod web;
mod zone_files;
mod zone_requests;

use nameward_base::time::now_seconds;
use std::sync::Arc;

pub use error::StartError;
pub use faults::moment;
use nameward_maintain::{
    Commits, Durable, TableWriter,
    catalog::{self, CatalogHandle, CatalogParts},
    commit::name_of,
    follow::{
        databases::{Databases, NotifiedSerials},
        unknown,
    },
    keys::local::ZoneKeys,
    keys::rollover::{RolloverManager, driver::KeyDriverHandle},
    policy::{PolicySource, PolicyTable, StoredPolicies, ZoneKind},
    signature_watch::{self, SignatureSums, SignatureWatch},
};
use nameward_serve::outgoing::Notifier;
use nameward_serve::pipeline::ServingState;
use nameward_stats::{Gauge, Stats};
use nameward_store::state::CopyBoundsInForce;
use nameward_zone::{AccessSource, TableChange};
pub use operator::resolved;
pub use preconditions::failures;

use crate::{
    check,
    config::{Config, Overrides, dnssec_policy},
    logging, memory,
    pid_file::PidFile,
    policies, privileges, state, zones,
};
use health::MaintenanceNotes;
use logs::TrafficLogs;
use maintenance::MaintenanceParts;
use ports::Ports;
use running::{OutgoingParts, RUNTIME_THREADS, RunningServer};

/// Requested number of descriptors: TCP connections need one each.
const DESCRIPTORS: u64 = 65_536;

/// Serves until a signal or a command stops the server.
pub fn run(overrides: &Overrides) -> Result<(), StartError> {
    let config = Config::load(overrides)?;
    // This thread only waits from now on and would keep the memory used to read a long file.
    memory::give_back();
    // Before the change of user, which may not be allowed to read the directories.
    let config_file = overrides.file.as_deref().map(resolved);
    let sources = zones::sources(&config);
    if let Some(first) = failures(&config).into_iter().next() {
        return Err(first);
    }
    let signatures = databases::signatures(&config);
    let databases = databases::prepare(&config, &signatures)?;
    let identity = privileges::resolve(&config.server.user, &config.server.group)?;
    let stats = Stats::new(zones::ring_capacities(&config.rings));
    let log = logging::start(
        config.server.log_level,
        config.log.format,
        Arc::clone(&stats),
    );
    // A lower limit means fewer TCP connections, which is reported where it matters.
    let _ = nameward_serve::raise_descriptor_limit(DESCRIPTORS);
    let ports = Ports::bind(&config)?;
    let tls = api::load_tls(&config)?;
    let pid_file = config.server.pid_file.as_deref().map(PidFile::write);
    let pid_file = pid_file.transpose()?;
    if let Some(identity) = identity {
        identity.assume()?;
    }
    // As the user who has to read them repeatedly.
    nameward_store::file::preflight(&sources)?;

    let settings = databases::live_settings(&config, &signatures);
    let shared = ServingState::with_live(live::engine(&config.server), stats, settings);
    let logs = Arc::new(TrafficLogs::start(&shared, &config)?);
    let watched = Arc::clone(&shared);
    let count = move || watched.zones.load().len() as u64;
    shared.stats.gauge_from(Gauge::ZoneCacheSize, count);
    let table = Arc::new(TableWriter::over(Arc::clone(&shared.zones)));
    let store = state::open(&config)?;
    let durable = store
        .clone()
        .map(|store| Arc::new(store) as Arc<dyn Durable>);
    let (notifier, notified) = (Notifier::default(), NotifiedSerials::default());
    let (changes, catalogs) = (notifier.clone(), CatalogHandle::default());
    let looked_at = catalogs.clone();
    let policy_table = Arc::new(PolicyTable::default());
    let kinds = Arc::clone(&policy_table);
    let key_driver = KeyDriverHandle::default();
    let loaded = key_driver.clone();
    let commits = Commits::new(Arc::clone(&table), durable, move |committed| {
        let zone = name_of(&committed.zone);
        changes.changed(zone);
        // Record changes in a zone that is not a catalog do not affect other zones.
        let policies = kinds.load();
        let policy = policies.of(zone.as_name());
        let kind = policy.kind;
        if committed.is_first && (policy.dnssec_policy.is_some() || policy.key_directory.is_some())
        {
            loaded.look_at(zone);
        }
        if committed.is_first || matches!(kind, ZoneKind::Producer | ZoneKind::Consumer) {
            looked_at.wake();
        }
    })?;
    let live_changes = notifier.clone();
    commits.on_live_change(move |zone| live_changes.changed(zone.into()));
    // Before the first zone, like access lists.
    let signed = Arc::clone(&shared);
    policy_table.on_change(move |change| {
        if change.has_keys {
            signed.tsig_keys.store(Arc::clone(change.policies.keys()));
        }
    });
    rollover::follow_policies(&policy_table, &key_driver);
    policy_table.set(PolicySource::Configured, policies::set(&config));
    let kept = Arc::new(StoredPolicies::new(
        store.clone(),
        Arc::clone(&policy_table),
    ));
    policies::apply_kept(&kept, &config);
    // Before the first zone, so that a zone that must be signed is never served unsigned.
    let zone_keys = Arc::new(ZoneKeys::new(
        store.clone(),
        Arc::clone(&table),
        Arc::clone(&signatures),
        Arc::clone(&policy_table),
    ));
    zone_keys.apply(now_seconds())?;
    let keeper = Arc::new(RolloverManager::new(
        Arc::clone(&zone_keys),
        Arc::clone(&table),
        Arc::clone(&policy_table),
        databases.iter().map(|(rank, ..)| *rank).collect(),
    ));
    keeper.set_policies(dnssec_policy::policies(&config));
    if commits.store().is_none() {
        state::warn_of_missing(&policy_table.load());
    }
    if config.example {
        let zone = check::example_zone().map_err(StartError::Example)?;
        table.publish(&[TableChange::Offer(Arc::new(zone))]);
    }
    // Before the first zone, so that none is ever served to more clients than it should be.
    table.set_access(AccessSource::Configured, zones::access(&config));
    if !sources.is_empty() {
        unknown::begin(&table);
    }
    let notes = Arc::new(MaintenanceNotes::new(tls));
    let watch = watch_signatures(&shared, &notes.signatures)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .thread_name("edge")
        .enable_all()
        .build()?;
    let transfer_runtime = secondaries::runtime()?;
    let outgoing = OutgoingParts {
        notifier,
        notified,
        runtime: transfer_runtime.handle().clone(),
    };
    let parts = CatalogParts {
        commits: Arc::clone(&commits),
        policies: Arc::clone(&policy_table),
        templates: policies::templates(&config),
    };
    catalog::start(parts, &catalogs)?;
    let parts = MaintenanceParts {
        overrides: overrides.clone(),
        config_file,
        copies: CopyBoundsInForce::new(config.journal.copy_bounds()),
        config,
        sources,
        shared,
        commits,
        policies: policy_table,
        kept,
        keepers: (keeper, key_driver),
        catalogs,
        log,
        databases: Databases::default(),
        recursion: None,
        notes,
        logs,
    };
    let closing = store.clone();
    let ended = runtime.block_on(async {
        let (shared, policies) = (&parts.shared, &parts.policies);
        let server = &parts.config.server;
        let table = parts.commits.table();
        let requests = zone_requests::start(shared, (policies, table), store, server)?;
        let mut server = RunningServer::start(parts, ports, databases, (requests, outgoing))?;
        let ended = server.watch().await;
        server.end().await;
        ended
    });
    drop(watch);
    if let Some(store) = closing {
        store.close();
    }
    // A reload in progress is not waited for.
    runtime.shutdown_background();
    transfer_runtime.shutdown_background();
    drop(pid_file);
    ended
}

/// Starts watching the stored signatures of zones.
fn watch_signatures(
    shared: &Arc<ServingState>,
    sums: &Arc<SignatureSums>,
) -> std::io::Result<signature_watch::WatchThread> {
    let watch = SignatureWatch::new(Arc::clone(sums));
    let (broken, ending) = (Arc::clone(sums), Arc::clone(sums));
    let stats = &shared.stats;
    stats.gauge_from(Gauge::StoredSignaturesBroken, move || broken.broken());
    stats.gauge_from(Gauge::StoredSignaturesEnding, move || ending.ending());
    let zones = Arc::clone(&shared.zones);
    signature_watch::start(watch, move || zones.load_full())
}
