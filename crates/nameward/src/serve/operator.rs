//! The operations available over the control socket.

use std::{
    fs,
    os::unix::{fs::MetadataExt, net::UnixStream},
    path::PathBuf,
    sync::Arc,
};

use nameward_control::{
    api_keys::ApiKeys,
    operations::{
        Caller, ConfigFile, ControlRequest, Database, ErrorKind, ItemSink, ListedItem,
        ListedSecondary, NamedCounter, NoParent, OperationError, OperationRequest, OperationResult,
        Operations, Outcome, ServerProcess, zone_name,
    },
    socket::{Commands, ControlPeer},
};
use nameward_files::Withdrawal;
use nameward_maintain::follow::databases::FollowedDatabase;
use nameward_maintain::sync::{SyncError, SyncMode, SyncOutcome};
use nameward_peers::notify::SecondarySerial;
use nameward_peers::parent::find_ds;
use nameward_peers::update::Updates;
use nameward_stats::VARIABLES;
use nameward_wire::NameBuf;
use tokio::{runtime::Handle, sync::watch};

use crate::{
    author,
    config::settings::mode_word,
    logging::{LEVELS, read_level},
    script_check,
};

use super::{
    core::ServerCore,
    flush,
    hand_over::HandOver,
    health::ServerHealth,
    health_targets,
    maintenance::Maintenance,
    secondaries::{SecondaryZones, TroubledStates},
    zone_files::FollowedFiles,
};

/// Executes the requests of `nameward reload` and similar commands.
pub struct Operator {
    pub maintenance: Maintenance,
    /// For counters, caches and logs.
    pub core: ServerCore,
    /// For zones and records.
    pub operations: Arc<Operations>,
    pub secondaries: SecondaryZones,
    /// For freezing zones.
    pub updates: Arc<Updates>,
    pub stop: watch::Sender<bool>,
    pub health: Arc<ServerHealth>,
    /// For a new process that takes over.
    pub hand_over: Arc<HandOver>,
    /// How this process was started.
    pub process: ServerProcess,
}

/// Creates the operations on zones and on the databases of this server.
pub fn operations(
    core: &ServerCore,
    updates: &Arc<Updates>,
    files: FollowedFiles,
    api_keys: Arc<ApiKeys>,
) -> Operations {
    let (shared, maintain, runtime) = (&core.shared, &core.maintain, Handle::current());
    let database = |followed: &FollowedDatabase| {
        let (own, runtime) = (followed.clone(), runtime.clone());
        let (listed, commits) = (followed.clone(), Arc::clone(&maintain.commits));
        Database {
            rank: followed.rank,
            mode: mode_word(followed.served_from),
            backend: followed.backend.clone(),
            publish: Box::new(move |committed| {
                let followed = own.follow_all(&commits, &runtime, &[committed]);
                followed.into_iter().collect()
            }),
            request_list: Box::new(move || listed.request_list()),
        }
    };
    let (one, all) = (Arc::clone(shared), Arc::clone(shared));
    let frozen = Arc::clone(updates);
    Operations {
        databases: maintain.databases.all().iter().map(database).collect(),
        rank_of: Box::new(move |name| one.zones.load().exact(name).map(|zone| zone.rank())),
        each_zone: Box::new(move |each| {
            let table = all.zones.load();
            table.zones().for_each(|zone| each(zone.id(), zone.rank()));
        }),
        commits: Arc::clone(&maintain.commits),
        is_frozen: Box::new(move |name| frozen.is_frozen(name)),
        policies: Arc::clone(&maintain.policies),
        stored_policies: Arc::clone(&maintain.stored_policies),
        views: Arc::clone(&maintain.stored_views),
        rollover: Arc::clone(&core.rollover),
        keys_changed: Box::new({
            let driver = core.key_driver.clone();
            move |zone| driver.keys_changed(zone)
        }),
        files: Box::new(files),
        find_ds: Box::new({
            let (shared, runtime) = (Arc::clone(shared), runtime.clone());
            move |zone, servers| {
                let answers = runtime.block_on(find_ds(&shared, *zone, servers));
                if answers.is_empty() {
                    Err(NoParent("no [recursor] is configured"))
                } else {
                    Ok(answers)
                }
            }
        }),
        secondary_serials: Box::new({
            let notifier = core.notifier.clone();
            move |zone| Some(listed_secondaries(notifier.secondary_serials(zone)))
        }),
        copies: Arc::clone(&core.copies),
        scripts: script_check::for_server(&core.steering),
        api_keys,
        cookies: Box::new({
            let (cookies, policies) = (Arc::clone(&core.cookies), Arc::clone(&maintain.policies));
            move || {
                let stored = policies.cookies_with_source();
                cookies.listed(stored.map(|(source, _)| source))
            }
        }),
        runtime,
    }
}

fn listed_secondaries(serials: Vec<SecondarySerial>) -> Vec<ListedSecondary> {
    let listed = serials.into_iter().map(|one| {
        let (serial, problem) = match one.serial {
            Ok(serial) => (Some(serial.0), None),
            Err(problem) => (None, Some(problem.0)),
        };
        ListedSecondary {
            server: one.server,
            serial,
            problem,
            behind: false,
        }
    });
    listed.collect()
}

impl Commands for Operator {
    fn run(&self, request: &ControlRequest, peer: ControlPeer, items: ItemSink<'_>) -> Outcome {
        if let Some(config) = &request.config {
            self.check_config(config)?;
        }
        let caller = author::local_caller(peer.uid, request.message.as_deref())?;
        self.run_as(&caller, &request.request, items)
    }

    fn hand_over(&self, request: &ControlRequest, stream: &UnixStream) -> Outcome<()> {
        if let Some(config) = &request.config {
            self.check_config(config)?;
        }
        self.hand_over.run(stream)
    }
}

impl Operator {
    /// Runs an operation within the rights of its caller. Changes are recorded in the audit log, and in the history of the zone with
    /// the caller as their author.
    pub fn run_as(
        &self,
        caller: &Caller,
        request: &OperationRequest,
        items: ItemSink<'_>,
    ) -> Outcome {
        let run =
            |request: &OperationRequest, items: ItemSink<'_>| self.execute(caller, request, items);
        self.operations.run_recorded(caller, request, items, run)
    }

    fn execute(&self, caller: &Caller, request: &OperationRequest, items: ItemSink<'_>) -> Outcome {
        match request {
            OperationRequest::Status => {
                let status = self.health.refresh();
                Ok(OperationResult::Status(Box::new(Arc::unwrap_or_clone(
                    status,
                ))))
            }
            OperationRequest::Process => Ok(OperationResult::Process(self.process.clone())),
            OperationRequest::Stop => {
                tracing::info!("stopping: requested via control socket");
                self.stop.send_replace(true);
                Ok(OperationResult::Stopping)
            }
            OperationRequest::Reload { withdraw_missing } => {
                tracing::info!("reloading: requested via control socket");
                let withdrawal = if *withdraw_missing {
                    Withdrawal::Confirmed
                } else {
                    Withdrawal::AtOnce
                };
                let report = self.maintenance.reload(withdrawal)?;
                Ok(OperationResult::Reloaded(report))
            }
            OperationRequest::Stats { names } => self.counters(names),
            OperationRequest::CacheFlush { name } => {
                let entries = flush::flush(&self.core.shared, name.as_deref())?;
                let name = name.as_deref().unwrap_or("all names");
                tracing::info!(
                    "flushed the caches for {}: {entries} removed",
                    name.escape_debug()
                );
                Ok(OperationResult::Flushed { entries })
            }
            OperationRequest::QueryLogOn(template) => self.core.logs.turn_on(template),
            OperationRequest::QueryLogOff => Ok(self.core.logs.turn_off()),
            OperationRequest::QueryLogStatus => Ok(self.core.logs.status()),
            OperationRequest::HealthList => Ok(health_targets::list(&self.core.steering)),
            OperationRequest::HealthForce { address, state } => {
                health_targets::force(&self.core, *address, *state)
            }
            OperationRequest::LogLevel { level } => self.log_level(level.as_deref()),
            OperationRequest::ZoneStatus { zone, secondaries } => {
                self.secondaries.status(zone.as_deref(), &mut |item| {
                    let mut item = self.with_signing(item, zone.is_some());
                    if let ListedItem::Status(status) = &mut item
                        && zone.is_some()
                        && *secondaries
                        && let Ok(name) = zone_name(&status.name)
                    {
                        status.secondaries = self.operations.query_secondaries(&name);
                    }
                    items(item)
                })
            }
            OperationRequest::ZoneRetrieve { zone, force } => {
                self.secondaries.retrieve(zone, *force)
            }
            OperationRequest::ZoneList => {
                let states = self.secondaries.troubled_states();
                self.operations
                    .list_zones(&mut |item| items(with_state(item, &states)))
            }
            OperationRequest::ZoneShow { zone } => {
                let mut result = self.operations.show_zone(zone)?;
                if let OperationResult::Zone(details) = &mut result {
                    self.secondaries.set_state(details);
                }
                Ok(result)
            }
            OperationRequest::ZoneNotify { zone } => self.secondaries.notify(zone),
            OperationRequest::ZoneSync { zone, rewrite } => self.sync(zone, *rewrite),
            OperationRequest::ZoneFreeze { zone } => self.freeze(zone),
            OperationRequest::ZoneThaw { zone } => self.thaw(zone),
            request => {
                let author = Some(&caller.author);
                let result = self.operations.run_for(author, request, items)?;
                self.wait_until_applied(request)?;
                Ok(result)
            }
        }
    }
}

/// Replaces the state of a secondary zone that is not current.
fn with_state(item: ListedItem, states: &TroubledStates) -> ListedItem {
    match item {
        ListedItem::Zone(mut zone) => {
            states.apply(&mut zone);
            ListedItem::Zone(zone)
        }
        other => other,
    }
}

impl Operator {
    /// Adds the signing status to the status of a zone. Databases are queried only for a single zone named in the
    /// request: a list may have a million.
    fn with_signing(&self, item: ListedItem, is_named: bool) -> ListedItem {
        match item {
            ListedItem::Status(mut status) => {
                let operations = &self.operations;
                let signing = zone_name(&status.name).ok().and_then(|zone| {
                    if is_named {
                        operations.signing_of(zone.as_name())
                    } else {
                        operations.signing_in_memory(zone.as_name())
                    }
                });
                let signing = signing.filter(|signing| signing.signed != "no");
                status.signing = signing.map(Box::new);
                ListedItem::Status(status)
            }
            other => other,
        }
    }

    /// Waits until a zone that a command declared or deleted has appeared or disappeared, so that the next command
    /// sees it. A deleted zone does not stay frozen.
    fn wait_until_applied(&self, request: &OperationRequest) -> Outcome<()> {
        let (zone, is_deleted) = match request {
            OperationRequest::ZoneCreate(template) => (&template.zone, false),
            OperationRequest::ZoneProvision(request) => (&request.zone, false),
            OperationRequest::ZoneSet(terms) => (&terms.zone, false),
            OperationRequest::ZoneUndelete { zone, .. } => (zone, false),
            OperationRequest::ZoneDelete { zone, .. } => (zone, true),
            _ => return Ok(()),
        };
        let name = zone_name(zone)?;
        self.secondaries.wait_for_policy(name);
        if !is_deleted {
            self.operations.wait_until_produced(&name);
        }
        if is_deleted && self.updates.is_frozen(name.as_name()) {
            let thawed = self.updates.thaw(name.as_name());
            thawed.map_err(|error| OperationError::backend(error.to_string()))?;
        }
        Ok(())
    }

    /// Writes the changes that a zone's file lacks into it.
    fn sync(&self, zone: &str, rewrite: bool) -> Outcome {
        let zone = self.served(zone)?;
        let mode = if rewrite {
            SyncMode::Rewrite
        } else {
            SyncMode::KeepLayout
        };
        let (serial, records) = match self.maintenance.sync(zone, mode)? {
            SyncOutcome::UpToDate(serial) => (serial, 0),
            SyncOutcome::Written { serial, records } => (serial, records),
        };
        Ok(OperationResult::ZoneSynced {
            zone: zone.to_string(),
            serial: serial.0,
            records,
        })
    }

    /// Suspends updates of a zone; its file is then complete. A zone whose file cannot be written is not frozen: an
    /// operator who edits a file that lacks changes would undo them.
    fn freeze(&self, zone: &str) -> Outcome {
        let zone = self.served(zone)?;
        let frozen = self.updates.freeze(zone.as_name());
        let is_new = frozen.map_err(|error| OperationError::backend(error.to_string()))?;
        let is_in_database = |rank| self.operations.databases.iter().any(|one| one.rank == rank);
        let rank = (self.operations.rank_of)(zone.as_name());
        if !rank.is_some_and(is_in_database) {
            match self.maintenance.try_sync(zone, SyncMode::KeepLayout)? {
                // A transferred zone has no file to edit.
                Ok(_) | Err(SyncError::NoFile(_)) => {}
                Err(error) => {
                    if is_new {
                        let thawed = self.updates.thaw(zone.as_name());
                        thawed.map_err(|error| OperationError::backend(error.to_string()))?;
                    }
                    let text = format!("zone {zone}: cannot freeze: {error}");
                    return Err(OperationError::backend(text));
                }
            }
        }
        tracing::info!("zone {zone}: frozen");
        let zone = zone.to_string();
        Ok(OperationResult::ZoneFrozen { zone })
    }

    /// Loads the edited zone file and resumes updates. If the file cannot be served, the zone stays frozen.
    fn thaw(&self, zone: &str) -> Outcome {
        let zone = self.served(zone)?;
        let errors = self.maintenance.reload_zone(zone)?;
        if let Some(error) = errors.first() {
            let text = format!("zone {zone}: still frozen: {error}");
            return Err(OperationError::refused(text));
        }
        let thawed = self.updates.thaw(zone.as_name());
        if thawed.map_err(|error| OperationError::backend(error.to_string()))? {
            tracing::info!("zone {zone}: thawed");
            let zone = zone.to_string();
            Ok(OperationResult::ZoneThawed { zone })
        } else {
            Err(OperationError::conflict(format!(
                "zone {zone} is not frozen"
            )))
        }
    }

    fn served(&self, zone: &str) -> Outcome<NameBuf> {
        let name = zone_name(zone)?;
        match (self.operations.rank_of)(name.as_name()) {
            Some(_) => Ok(name),
            None => Err(OperationError::not_found(format!(
                "zone {name} not found; see `nameward zone list`"
            ))),
        }
    }

    /// Rejects a command for another configuration, even if its socket has the default path.
    fn check_config(&self, config_file: &ConfigFile) -> Outcome<()> {
        let is_ours = |ours: &PathBuf| {
            // Compare the current files: editors replace files.
            *ours == config_file.path
                || fs::metadata(ours)
                    .is_ok_and(|file| (file.dev(), file.ino()) == config_file.identity)
        };
        if self.core.config_file.as_ref().is_some_and(is_ours) {
            return Ok(());
        }
        let ours = match &self.core.config_file {
            Some(path) => format!("runs with {}", path.display()),
            None => "runs without a configuration file".into(),
        };
        Err(OperationError::new(
            ErrorKind::NotRunning,
            format!(
                "no server is running with {}: the one at this control socket {ours}; use server.control_socket to \
                 give each server its own socket",
                config_file.path.display()
            ),
        ))
    }

    /// Changes the log level, if one is given, and returns it.
    fn log_level(&self, word: Option<&str>) -> Outcome {
        if let Some(word) = word {
            let level = read_level(word).ok_or_else(|| {
                let words = LEVELS.join(", ");
                OperationError::invalid(format!("invalid log level {word:?}: expected {words}"))
            })?;
            // Logged at the more verbose of both levels, so that the log shows when it changed.
            tracing::info!("log level set to {word} via control socket");
            self.core.log.set_level(level);
            tracing::info!("log level is {word}");
        }
        let level = self.core.log.level().to_string();
        Ok(OperationResult::LogLevel { level })
    }

    /// Reads counters; a name may end in `*`.
    fn counters(&self, names: &[String]) -> Outcome {
        let matches = |known: &str, name: &str| match name.strip_suffix('*') {
            Some(start) => known.starts_with(start),
            None => known == name,
        };
        for name in names {
            if !VARIABLES
                .iter()
                .any(|variable| matches(variable.name, name))
            {
                return Err(OperationError::not_found(format!(
                    "counter {name:?} not found"
                )));
            }
        }
        let snapshot = self.core.shared.stats.snapshot();
        let is_wanted =
            |name: &str| names.is_empty() || names.iter().any(|pattern| matches(name, pattern));
        let listed = VARIABLES.iter().filter(|variable| is_wanted(variable.name));
        let counters = listed.map(|variable| NamedCounter {
            name: variable.name.into(),
            value: variable.value(&snapshot),
        });
        Ok(OperationResult::Counters {
            counters: counters.collect(),
        })
    }
}
