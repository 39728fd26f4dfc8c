//! Executes commands while no server of the configuration runs: the same operations on the same databases, zone files
//! and state store, without answering queries.
//!
//! The lock of the state store keeps servers and other commands out; without a state directory only databases are
//! changed, which have their own locks. No NOTIFY is sent: a server that starts compares its serials with the last
//! notified ones. A result means the same as from a server: the change is on disk.

mod zone_files;
mod zones;

use nameward_base::time::now_seconds;
use std::{
    path::Path,
    sync::{Arc, Once, mpsc},
    thread,
    time::Duration,
};

use nameward_control::api_keys::ApiKeys;
use nameward_control::operations::{
    Caller, Database, IsFrozen, ItemSink, ListedCookieSecret, ListedItem, NoParent, OperationError,
    OperationRequest, OperationResult, Operations, Outcome, Publish,
};
use nameward_dnssec::SignatureCache;
use nameward_keys::database::KeyDatabase;
use nameward_keys::local::ZoneKeys;
use nameward_keys::rollover::RolloverManager;
use nameward_keys::storages::KeyStorages;
use nameward_maintain::Commits;
use nameward_maintain::Durable;
use nameward_maintain::TableWriter;
use nameward_maintain::follow::databases::ServedFrom;
use nameward_maintain::policy::{PolicySource, PolicyTable, StoredPolicies};
use nameward_maintain::stored_views::StoredViews;
use nameward_peers::notify::forget_notified;
use nameward_peers::update::is_kept_frozen;
use nameward_sql::{SqlBackend, write::Committed};
use nameward_state::{
    CopyBoundsInForce, JournalOrigin, StateChange, StateStore, StoreUser, ZoneStorage,
};
use tokio::runtime::{Handle, Runtime};

use crate::{
    author,
    cli::print,
    command_error::{CommandError, CommandResult},
    config::{Config, Overrides, dnssec_policy, settings::mode_word, view_settings},
    policies, privileges, script_check,
    serve::{cookies, databases},
    start_error::StartError,
    zones::sources as zone_sources,
};
use zone_files::StoredFiles;
use zones::StoredZones;

/// Threads that drive the database connections.
const RUNTIME_THREADS: usize = 2;
/// Time limit for closing connections.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Executes a request on the stores of a configuration. Fails with the state store's error if another process uses
/// it.
pub fn run(
    request: &OperationRequest,
    (file, given): (&Path, &Overrides),
    each: &mut dyn FnMut(ListedItem),
) -> CommandResult<OperationResult> {
    let caller = author::local_caller(privileges::real_user(), given.message.as_deref())?;
    let overrides = Overrides {
        file: Some(file.to_path_buf()),
        ..Overrides::default()
    };
    let config = Config::load(&overrides)?;
    // Dropped last: files that are created on the way belong to the server.
    let _identity = privileges::borrow_server_user(&config).map_err(StartError::from)?;
    let store = match config.state_directory() {
        Some(directory) => {
            let bounds = config.journal.bounds();
            Some(StateStore::open_as(StoreUser::Command, &directory, bounds)?)
        }
        None => None,
    };
    static NOTED: Once = Once::new();
    NOTED.call_once(|| print::note("no server is running: using the stores directly"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .enable_all()
        .build()
        .map_err(CommandError::Threads)?;
    let stores = (store.clone(), &runtime);
    let result = work((request, &caller), (&config, file), stores, each);
    if let Some(store) = store {
        store.close();
    }
    runtime.shutdown_timeout(CLOSE_TIMEOUT);
    result
}

/// Assembles the components that operations need, and executes the request with them.
fn work(
    (request, caller): (&OperationRequest, &Caller),
    (config, file): (&Config, &Path),
    (store, runtime): (Option<StateStore>, &Runtime),
    each: &mut dyn FnMut(ListedItem),
) -> CommandResult<OperationResult> {
    let signatures = Arc::new(SignatureCache::new(1));
    let databases = databases::prepare(config, &signatures).map_err(CommandError::Address)?;
    let table = Arc::new(TableWriter::default());
    let views = StoredViews::new(store.clone(), Arc::clone(&table));
    views.configure(view_settings::rules(config));
    let durable = store
        .clone()
        .map(|store| Arc::new(store) as Arc<dyn Durable>);
    let commits = Commits::new(Arc::clone(&table), durable, ());
    let commits = commits.map_err(CommandError::Threads)?;
    let policy_table = Arc::new(PolicyTable::default());
    policy_table.set(PolicySource::Configured, policies::set(config));
    let stored_policies = Arc::new(StoredPolicies::new(
        store.clone(),
        Arc::clone(&policy_table),
    ));
    policies::apply_stored(&stored_policies, config);
    let kinds = Arc::clone(&policy_table);
    let zone_keys = ZoneKeys::new(store.clone(), Arc::clone(&table), signatures, kinds);
    zone_keys
        .apply(now_seconds())
        .map_err(|error| OperationError::backend(format!("DNSSEC keys: {error}")))?;
    let key_databases = databases
        .iter()
        .map(|database| key_database(database_of(database, store.as_ref()), runtime.handle()));
    let storages = KeyStorages::new(Arc::new(zone_keys), key_databases.collect());
    let rollover = RolloverManager::new(storages, table, Arc::clone(&policy_table));
    rollover.set_policies(dnssec_policy::policies(config));
    let files = StoredFiles {
        sources: zone_sources(config),
        commits: Arc::clone(&commits),
        policies: Arc::clone(&policy_table),
        config: file.to_path_buf(),
    };
    let zones = StoredZones::new(
        config,
        Arc::clone(&commits),
        Arc::clone(&policy_table),
        databases.clone(),
        runtime.handle().clone(),
    );
    zones.read(request)?;
    let zones = Arc::new(zones);
    let sharing = config.api.keys_in_database.then_some(&*policy_table);
    let api_keys = ApiKeys::load(store.clone(), sharing)?;
    let operations = Operations {
        databases: databases
            .iter()
            .map(|database| database_of(database, store.as_ref()))
            .collect(),
        rank_of: Box::new({
            let zones = Arc::clone(&zones);
            move |name| zones.rank_of(name)
        }),
        each_zone: Box::new(move |each| zones.each_name(each)),
        commits,
        is_frozen: frozen_zones(store.clone()),
        cookies: cookie_list(&policy_table, config),
        policies: policy_table,
        stored_policies,
        views: Arc::new(views),
        rollover: Arc::new(rollover),
        keys_changed: Box::new(move |zone| {
            if let Some(store) = &store {
                // If this fails, the zone's secondaries are only notified of the next change.
                let _ = store.write(vec![forget_notified(&zone)]);
            }
        }),
        files: Box::new(files),
        find_ds: Box::new(|_, _| Err(NoParent("no server is running"))),
        secondary_serials: Box::new(|_| None),
        copies: CopyBoundsInForce::new(config.journal.copy_bounds()),
        api_keys,
        scripts: script_check::for_config(config),
        runtime: Handle::clone(runtime.handle()),
    };
    let result = run_on_thread(&operations, request, caller, each);
    for (.., backend) in &databases {
        // Checkpoints the WAL of a SQLite file; if that fails, the next process that opens the file does it.
        let _ = backend.close();
    }
    Ok(result??)
}

fn frozen_zones(store: Option<StateStore>) -> IsFrozen {
    Box::new(move |zone| {
        let store = store.as_ref();
        // If the flag cannot be read, changes are not accepted either.
        store.is_some_and(|store| is_kept_frozen(store, zone).unwrap_or(true))
    })
}

/// Lists the secrets of DNS cookies, as a server with this configuration would use them.
fn cookie_list(
    policies: &Arc<PolicyTable>,
    config: &Config,
) -> Box<dyn Fn() -> Vec<ListedCookieSecret> + Send + Sync> {
    let (policies, table) = (Arc::clone(policies), config.cookies.clone());
    Box::new(move || match policies.cookies_with_source() {
        Some((source, rolled)) => cookies::listed(&table, Some(source), &rolled),
        None => cookies::listed(&table, None, &[]),
    })
}

/// Runs the request on a separate thread, as within a server: items wait here for a pager, and not in a database
/// connection.
fn run_on_thread(
    operations: &Operations,
    request: &OperationRequest,
    caller: &Caller,
    each: &mut dyn FnMut(ListedItem),
) -> CommandResult<Outcome> {
    let (sender, items) = mpsc::channel();
    thread::scope(|scope| {
        let take = move |item| sender.send(item).is_ok();
        let working = scope.spawn(move || {
            let mut take = take;
            let run = |request: &OperationRequest, items: ItemSink<'_>| {
                operations.run_for(Some(&caller.author), request, items)
            };
            operations.run_recorded(caller, request, &mut take, run)
        });
        items.iter().for_each(each);
        working.join().map_err(|_| CommandError::Interrupted)
    })
}

/// Returns a database as storage of its zones' keys.
fn key_database(database: Database, runtime: &Handle) -> KeyDatabase {
    KeyDatabase {
        rank: database.rank,
        backend: database.backend,
        publish: database.publish,
        runtime: runtime.clone(),
    }
}

/// Returns a database as operations see it. There are no answers to update; changes are journalled as by a server.
fn database_of(
    (rank, mode, backend): &(u16, ServedFrom, SqlBackend),
    store: Option<&StateStore>,
) -> Database {
    let journal = store.filter(|_| *mode == ServedFrom::Memory).cloned();
    let publish: Publish = Box::new(move |committed| {
        if let Some(store) = &journal {
            append(store, committed);
        }
        Ok(())
    });
    Database {
        rank: *rank,
        mode: mode_word(*mode),
        backend: backend.clone(),
        publish,
        request_list: Box::new(|| ()),
    }
}

/// Appends to the journal of a database zone. If the change does not fit, the journal restarts when a server reads
/// the zone.
fn append(store: &StateStore, committed: &Committed) {
    let Some(difference) = &committed.difference else {
        return;
    };
    let _ = store.write(vec![StateChange::Append {
        zone: committed.apex,
        storage: ZoneStorage::Database,
        origin: JournalOrigin::Change,
        difference: Arc::new(difference.clone()),
        time: now_seconds(),
        author: committed.author.clone(),
    }]);
}
