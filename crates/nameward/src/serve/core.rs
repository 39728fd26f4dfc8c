//! The components that all parts of a running server share, and the order in which they are built: policies, keys and
//! access lists are in force before the first zone is in the table.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use nameward_base::time::now_seconds;
use nameward_control::operations::ListenerStatus;
use nameward_keys::rollover::{RolloverManager, driver::KeyDriverHandle};
use nameward_keys::{
    database::{KeyDatabase, random_server_name},
    local::ZoneKeys,
    storages::KeyStorages,
};
use nameward_maintain::CommitListener;
use nameward_maintain::Commits;
use nameward_maintain::CommittedVersion;
use nameward_maintain::Durable;
use nameward_maintain::TableWriter;
use nameward_maintain::catalog::CatalogHandle;
use nameward_maintain::follow::{
    databases::{self, DatabaseSource, Databases, FollowSettings, FollowedDatabase},
    unknown,
};
use nameward_maintain::leases::Leases;
use nameward_maintain::policy::{PolicySource, PolicyTable, StoredPolicies, ZoneKind};
use nameward_maintain::stored_views::StoredViews;
use nameward_peers::connections::PeerConnections;
use nameward_peers::notify::Notifier;
use nameward_peers::notify::NotifyContext;
use nameward_peers::notify::database_serials::NotifiedSerials;
use nameward_serve::live::Running;
use nameward_serve::pipeline::ServingState;
use nameward_serve::scripts::Scripts;
use nameward_sql::Lag;
use nameward_state::{CopyBoundsInForce, StateStore};
use nameward_stats::{Gauge, Stats};
use nameward_steering::Steering;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessSource, TableChange};
use tokio::{runtime::Handle, sync::oneshot};

use super::{
    cookies::CookieKeeper,
    databases as database_settings, live,
    logs::TrafficLogs,
    notes::MaintenanceNotes,
    prepared::Prepared,
    shared_health::{HealthExchange, SharedHealth},
};
use crate::{
    config::{Config, dnssec_policy, pool_settings, steering_settings, view_settings},
    example,
    logging::LogControl,
    memory, policies,
    sandbox::Sandbox,
    start_error::StartError,
    state, zones,
};

/// Maximum number of zones in a policy change that are checked one by one.
const MANY_ZONES: usize = 64;
/// Threads for TCP, the status page and the control socket. UDP has its own.
pub const RUNTIME_THREADS: usize = 2;

/// The shared components of a running server. Cheap to clone.
#[derive(Clone)]
pub struct ServerCore {
    /// The state that all workers read: zones, settings, counters.
    pub shared: Arc<ServingState>,
    /// Everything that LUA records read besides the query.
    pub steering: Arc<Steering>,
    /// Results of health checks that servers share.
    pub shared_health: Arc<SharedHealth>,
    /// The secrets of DNS cookies.
    pub cookies: Arc<CookieKeeper>,
    /// Commits, policies and databases.
    pub maintain: nameward_maintain::Core,
    /// Manages DNSSEC keys.
    pub rollover: Arc<RolloverManager>,
    /// Wakes the key management thread.
    pub key_driver: KeyDriverHandle,
    /// Wakes the follower of catalog zones.
    pub catalogs: CatalogHandle,
    /// Sends NOTIFY messages.
    pub notifier: Notifier,
    /// Stores notified serials in databases.
    pub notified: NotifiedSerials,
    /// Connections to primaries and secondaries.
    pub peer_connections: Arc<PeerConnections>,
    /// The runtime for queries to primaries and for NOTIFY.
    pub outgoing_runtime: Handle,
    /// The limits for copies of deleted zones.
    pub copies: Arc<CopyBoundsInForce>,
    /// The state of files and reloads, for status displays.
    pub notes: Arc<MaintenanceNotes>,
    /// The query log and dnstap.
    pub logs: Arc<TrafficLogs>,
    /// Changes the log level.
    pub log: LogControl,
    pub sandbox: Arc<Sandbox>,
    /// The configuration file, with symbolic links resolved; none for the built-in example.
    pub config_file: Option<PathBuf>,
    /// The addresses that this server answers on.
    pub addresses: Vec<SocketAddr>,
    /// The same addresses and the encrypted ones, each with its transports.
    pub listeners: Vec<ListenerStatus>,
}

/// Reads from databases that start with the core.
pub struct DatabaseReads {
    /// The look-ups for live zones, which end when this is dropped.
    pub lookups: Running,
    /// Each receives when a database was queried for its zones, whether it answered or not.
    pub zone_lists: Vec<oneshot::Receiver<()>>,
}

impl ServerCore {
    /// Builds it, and starts to follow the databases. Call within the runtime of their connections.
    pub fn build(
        prepared: &Prepared,
        outgoing_runtime: Handle,
    ) -> Result<(Self, DatabaseReads), StartError> {
        let config = &prepared.config;
        let shared = serving_state(prepared);
        let cookies = CookieKeeper::new(&shared, &config.cookies);
        let logs = Arc::new(TrafficLogs::start(&shared, config)?);
        let store = state::open(config)?;
        let (key_driver, catalogs) = (KeyDriverHandle::default(), CatalogHandle::default());
        let policies = policy_table(&shared, &cookies, &key_driver);
        let ranks: Vec<u16> = prepared.databases.iter().map(|(rank, ..)| *rank).collect();
        let notified = NotifiedSerials::new(&ranks);
        let leases = Leases::new(&ranks);
        let addresses = prepared.ports.dns.addresses.clone();
        let peer_connections = Arc::<PeerConnections>::default();
        let notifier = Notifier::start(NotifyContext {
            policies: Arc::clone(&policies),
            shared: Arc::clone(&shared),
            databases: ranks.iter().copied().collect(),
            leases: leases.clone(),
            connections: Arc::clone(&peer_connections),
            listens: addresses.clone(),
            store: store.clone(),
            runtime: outgoing_runtime.clone(),
            database_runtime: Handle::current(),
            notified: notified.clone(),
        });
        let listener = ChangeRouter {
            notifier: notifier.clone(),
            policies: Arc::clone(&policies),
            key_driver: key_driver.clone(),
            catalogs: catalogs.clone(),
        };
        let table = Arc::new(TableWriter::over(Arc::clone(&shared.zones)));
        let durable = { store.clone() }.map(|store| Arc::new(store) as Arc<dyn Durable>);
        let commits = Commits::new(Arc::clone(&table), durable, listener)?;
        policies.set(PolicySource::Configured, policies::set(config));
        let (steering, shared_health) = steering(config);
        let scripts = Scripts::new(Arc::clone(&steering), Arc::clone(&policies));
        shared.set_scripts(Arc::new(scripts));
        let stored_policies = stored_policies(config, store.as_ref(), &policies);
        let zone_keys = zone_keys(prepared, store.clone(), (&table, &policies))?;
        let stored_views = fill_table(&table, prepared, store)?;

        let lookups = nameward_serve::live::start(&shared, RUNTIME_THREADS)?;
        let (databases, zone_lists) = follow_databases(prepared, &shared, &commits, &policies)?;
        let storages = KeyStorages::new(zone_keys, key_databases(&databases));
        let rollover = RolloverManager::new(storages, table, Arc::clone(&policies));
        rollover.set_policies(dnssec_policy::policies(config));
        let core = ServerCore {
            shared,
            steering,
            shared_health,
            cookies,
            maintain: nameward_maintain::Core {
                commits,
                policies,
                stored_policies: Arc::new(stored_policies),
                stored_views,
                databases,
                leases,
            },
            rollover: Arc::new(rollover),
            key_driver,
            catalogs,
            notifier,
            notified,
            peer_connections,
            outgoing_runtime,
            copies: CopyBoundsInForce::new(config.journal.copy_bounds()),
            notes: Arc::new(MaintenanceNotes::new(prepared.tls.clone())),
            logs,
            log: prepared.log.clone(),
            sandbox: Arc::clone(&prepared.sandbox),
            config_file: prepared.config_file.clone(),
            addresses,
            listeners: prepared.ports.listeners(config),
        };
        let reads = DatabaseReads {
            lookups,
            zone_lists,
        };
        Ok((core, reads))
    }
}

/// Applies the policies in the state store.
fn stored_policies(
    config: &Config,
    store: Option<&StateStore>,
    policies: &Arc<PolicyTable>,
) -> StoredPolicies {
    let stored = StoredPolicies::new(store.cloned(), Arc::clone(policies));
    policies::apply_stored(&stored, config);
    if store.is_none() {
        state::warn_of_missing(&policies.load());
    }
    stored
}

/// Puts access lists and what is known before the first zone is loaded into the zone table.
fn fill_table(
    table: &Arc<TableWriter>,
    prepared: &Prepared,
    store: Option<StateStore>,
) -> Result<Arc<StoredViews>, StartError> {
    let config = &prepared.config;
    table.set_access(AccessSource::Configured, zones::access(config));
    table.set_layers(&view_settings::layers(config));
    let views = StoredViews::new(store, Arc::clone(table));
    views.configure(view_settings::rules(config));
    if config.example {
        let zone = example::zone().map_err(StartError::Example)?;
        table.publish(&[TableChange::Offer(Arc::new(zone))]);
    }
    if !prepared.sources.is_empty() {
        unknown::begin(table, unknown::FILES);
    }
    Ok(Arc::new(views))
}

fn serving_state(prepared: &Prepared) -> Arc<ServingState> {
    let config = &prepared.config;
    let live = database_settings::live_settings(config, &prepared.signatures);
    let stats = Arc::clone(&prepared.stats);
    let shared = ServingState::with_live(live::engine(&config.server), stats, live);
    super::rate_limit::apply(&shared, config);
    let zones = Arc::clone(&shared.zones);
    let count = move || zones.load().len() as u64;
    shared.stats.gauge_from(Gauge::ZoneCacheSize, count);
    shared
}

impl ServerCore {
    /// Prepares the exchange of health results through the first database, if there is one.
    pub fn health_exchange(&self) -> Option<HealthExchange> {
        let backend = self.maintain.databases.all().first()?.backend.clone();
        let server = self.rollover.storages().server_name();
        let server = server.unwrap_or_else(|_| random_server_name());
        let (shared, steering) = (&self.shared_health, &self.steering);
        Some(HealthExchange::new(shared, steering, backend, server))
    }
}

/// Creates everything that LUA records read besides the query.
fn steering(config: &Config) -> (Arc<Steering>, Arc<SharedHealth>) {
    let (steering, shared_health) = (Arc::default(), Arc::default());
    apply_steering((&steering, &shared_health), config);
    (steering, shared_health)
}

/// Applies the settings for LUA records, pools, GeoIP databases and health checks.
pub fn apply_steering((steering, health): (&Steering, &SharedHealth), config: &Config) {
    if let Some(warning) = steering_settings::missing_interpreter(config) {
        tracing::warn!("{warning}");
    }
    steering.set_script_settings(config.lua.script_settings());
    steering.geo().load(&config.geoip.databases.0);
    let interval = config.health.interval.get() as u64;
    steering.health().set_interval(interval);
    steering
        .health()
        .set_authorities(config.health.tls_ca.clone());
    health.set_enabled(config.health.share);
    steering.set_pools(pool_settings::rules(config));
}

/// Creates the table of zone policies, which passes on TSIG keys, cookie secrets and the zones whose keys may have to change.
fn policy_table(
    shared: &Arc<ServingState>,
    cookies: &Arc<CookieKeeper>,
    key_driver: &KeyDriverHandle,
) -> Arc<PolicyTable> {
    let policies = Arc::<PolicyTable>::default();
    let (shared, cookies) = (Arc::clone(shared), Arc::clone(cookies));
    policies.on_change(move |change| {
        if change.has_keys {
            shared.tsig_keys.store(Arc::clone(change.policies.keys()));
        }
        cookies.set_rolled(change.policies.cookies());
    });
    follow_policies(&policies, key_driver);
    policies
}

/// Puts the DNSSEC keys in the state store and in key directories into effect: a zone that must be signed is never
/// served unsigned.
fn zone_keys(
    prepared: &Prepared,
    store: Option<StateStore>,
    (table, policies): (&Arc<TableWriter>, &Arc<PolicyTable>),
) -> Result<Arc<ZoneKeys>, StartError> {
    let zone_keys = ZoneKeys::new(
        store,
        Arc::clone(table),
        Arc::clone(&prepared.signatures),
        Arc::clone(policies),
    );
    zone_keys.apply(now_seconds())?;
    Ok(Arc::new(zone_keys))
}

/// Wakes the key keeper when zone policies change.
fn follow_policies(policies: &PolicyTable, handle: &KeyDriverHandle) {
    let handle = handle.clone();
    policies.on_change(move |change| match change.zones {
        zones if zones.len() > MANY_ZONES => handle.request_all(),
        zones => {
            for zone in zones {
                handle.request(Name::from_valid_wire(zone).into());
            }
        }
    });
}

/// Returns the databases as storage of their zones' keys. Call within the runtime of their connections.
fn key_databases(databases: &Databases) -> Vec<KeyDatabase> {
    let database = |followed: &FollowedDatabase| {
        let (own, runtime) = (followed.clone(), Handle::current());
        KeyDatabase {
            rank: followed.rank,
            backend: followed.backend.clone(),
            publish: Box::new(move |committed| own.follow(&runtime, committed)),
            runtime: Handle::current(),
        }
    };
    databases.all().iter().map(database).collect()
}

/// Exports how far databases lag behind.
fn show_lag(stats: &Stats, databases: &Databases) {
    let most = |read: fn(Lag) -> u64| {
        let databases = databases.clone();
        move || {
            let all = databases.all().iter();
            all.map(|one| read(one.backend.lag())).max().unwrap_or(0)
        }
    };
    stats.gauge_from(Gauge::DatabaseLagChanges, most(|lag| lag.changes));
    stats.gauge_from(Gauge::DatabaseLagSeconds, most(|lag| lag.seconds));
}

/// Passes changes of zones to the components that act on them.
struct ChangeRouter {
    notifier: Notifier,
    policies: Arc<PolicyTable>,
    key_driver: KeyDriverHandle,
    catalogs: CatalogHandle,
}

impl CommitListener for ChangeRouter {
    fn committed(&self, version: &CommittedVersion) {
        let zone = NameBuf::from(version.zone.id());
        self.notifier.changed(zone);
        let policies = self.policies.load();
        let policy = policies.get(zone.as_name());
        let has_keys = policy.dnssec_policy.is_some() || policy.key_directory.is_some();
        if version.is_first && has_keys {
            self.key_driver.request(zone);
        }
        // Record changes in a zone that is not a catalog do not affect other zones.
        if version.is_first || matches!(policy.kind, ZoneKind::Producer | ZoneKind::Consumer) {
            self.catalogs.wake();
        }
    }

    fn live_zone_changed(&self, zone: Name<'_>) {
        self.notifier.changed(zone.into());
    }
}

/// Starts one follower per database.
fn follow_databases(
    prepared: &Prepared,
    shared: &ServingState,
    commits: &Arc<Commits>,
    policies: &Arc<PolicyTable>,
) -> std::io::Result<(Databases, Vec<oneshot::Receiver<()>>)> {
    let state_directory = prepared.config.state_directory();
    let settings = FollowSettings {
        refresh_interval: prepared.config.cache.zone_refresh.seconds(),
        state_directory: state_directory.as_deref(),
        give_back: memory::give_back,
        policies,
    };
    let sources = prepared.databases.iter().map(|(rank, mode, backend)| {
        let name = backend.options().address.to_string();
        DatabaseSource {
            rank: *rank,
            served_from: *mode,
            lookup_source: shared.live.add_source(&name, Arc::new(backend.clone())),
            backend: backend.clone(),
        }
    });
    let (databases, zone_lists) = databases::start(commits, sources.collect(), &settings)?;
    show_lag(&shared.stats, &databases);
    Ok((databases, zone_lists))
}
