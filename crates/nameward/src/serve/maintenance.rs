//! The maintenance thread: reads the configuration and follows zone files, for the first load, every reload, and
//! every check of files that were seen to change.
//!
//! Requests wait in a short queue. A reload without a waiting client (SIGHUP) is a separate flag, so that a full
//! queue does not lose it; one reload covers every request received before it starts. The watcher reports changed
//! files again if the queue is full.

use nameward_base::time::now_seconds;
use nameward_base::worker::{self, Popped, PushError, Queue, QueueOwner, panic_guard};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, SyncSender},
    },
    time::Instant,
};

use nameward_control::operations::{ErrorKind, OperationError, Outcome, ReloadReport};
use nameward_files::{FileSource, ScanScope, Withdrawal};
use nameward_maintain::{
    follow::{FileFollower, LoadOutcome},
    policy::PolicySource,
    sync::{SyncError, SyncMode, SyncOutcome},
};
use nameward_wire::NameBuf;
use nameward_zone::{AccessSource, ViewRule};

use super::{
    core::{ServerCore, apply_steering},
    live,
    preconditions::failures,
    rate_limit,
    recursion::Recursion,
};
use crate::{
    config::{Config, Overrides, dnssec_policy, view_settings},
    memory, policies,
    sandbox::NamedPaths,
    start_error::StartError,
    terminal, zones,
};

/// The thread's work, in the message about a bug.
const LOOKING_AFTER: &str = "maintaining zone files";
/// Maximum number of queued requests.
const WAITING: usize = 4;

/// The outcome of a reload, for the operator who requested it.
type ReloadOutcome = Outcome<ReloadReport>;

/// A request to the thread.
enum MaintenanceRequest {
    /// A reload that an operator waits for.
    Reload(Withdrawal, SyncSender<ReloadOutcome>),
    Scan(ScanScope),
    /// Work on the zone files that a command waits for.
    OnFiles(FileWork),
    /// Only wakes the thread to check for a requested reload.
    Wake,
}

/// Work on zone files, with the sources of the current configuration.
type FileWork = Box<dyn FnOnce(&mut FileFollower, &[FileSource]) + Send>;

/// Sends requests to the maintenance thread.
#[derive(Clone)]
pub struct Maintenance {
    requests: Arc<QueueOwner<MaintenanceRequest>>,
    /// Set from SIGHUP until the reload starts.
    is_reload_requested: Arc<AtomicBool>,
}

impl Maintenance {
    /// Requests a reload without waiting for it (SIGHUP).
    pub fn request_reload(&self) {
        self.is_reload_requested.store(true, Ordering::Release);
        // If the queue is full, the thread checks the flag after each of its requests.
        let woken = self.requests.try_push(MaintenanceRequest::Wake);
        if let Err(PushError::Closed(_)) = woken {
            tracing::error!("cannot reload: the maintenance thread has stopped");
        }
    }

    /// Reloads and waits for the result.
    pub fn reload(&self, withdrawal: Withdrawal) -> ReloadOutcome {
        let (reply, replied) = mpsc::sync_channel(1);
        self.requests
            .push(MaintenanceRequest::Reload(withdrawal, reply))
            .map_err(|_| ended())?;
        replied.recv().map_err(|_| ended())?
    }
}

/// Returns the error of a request without a reply: the server is stopping, or hit a bug.
fn ended() -> OperationError {
    let text = "internal error while maintaining zone files: see the server log";
    OperationError::new(ErrorKind::Internal, text)
}

impl Maintenance {
    /// Loads the file of one zone if it changed, and waits for that. Returns its errors and warnings.
    pub fn reload_zone(&self, zone: NameBuf) -> Outcome<Vec<String>> {
        self.on_files(move |files, sources| files.check_zone(sources, &zone))
    }

    /// Runs work on the zone files in the thread, and waits for its result.
    pub fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut FileFollower, &[FileSource]) -> T + Send + 'static,
    ) -> Outcome<T> {
        let (reply, replied) = mpsc::sync_channel(1);
        let work: FileWork = Box::new(move |files, sources| {
            let _ = reply.try_send(work(files, sources));
        });
        self.requests
            .push(MaintenanceRequest::OnFiles(work))
            .map_err(|_| ended())?;
        replied.recv().map_err(|_| ended())
    }

    /// Writes the changes that a zone's file lacks into it, and waits for that.
    pub fn sync(&self, zone: NameBuf, mode: SyncMode) -> Outcome<SyncOutcome> {
        self.try_sync(zone, mode)?.map_err(|error| match error {
            SyncError::NotServed(_) => OperationError::not_found(error.to_string()),
            SyncError::File { .. } => OperationError::backend(error.to_string()),
            _ => OperationError::refused(error.to_string()),
        })
    }

    /// Like [`Maintenance::sync`], with the reason why a file was not written.
    pub fn try_sync(
        &self,
        zone: NameBuf,
        mode: SyncMode,
    ) -> Outcome<Result<SyncOutcome, SyncError>> {
        self.on_files(move |files, sources| files.sync(sources, &zone, mode))
    }
}

/// The state of the thread: the configuration in force, and what a reload applies it to.
pub struct CurrentConfig {
    /// The command line, which takes precedence over the file again at each reload.
    pub overrides: Overrides,
    /// The current configuration, without the zone tables: these are in effect as policies, access lists and files.
    pub config: Config,
    /// The sources of zones stored in files.
    pub sources: Vec<FileSource>,
    /// The components that settings apply to.
    pub core: ServerCore,
    /// The clients of resolvers.
    pub recursion: Recursion,
}

/// Starts the thread; it loads all zones, calls `loaded`, and then waits for requests.
pub fn start(
    current: CurrentConfig,
    loaded: impl FnOnce(Result<(), StartError>) + Send + 'static,
) -> std::io::Result<Maintenance> {
    let queue = Queue::new("maintenance", WAITING);
    let requests = Arc::new(QueueOwner::new(&queue));
    // The watcher must not keep the queue open by itself.
    let weak = Arc::downgrade(&requests);
    let scan = move |scan: &ScanScope| match weak.upgrade() {
        Some(requests) => requests
            .try_push(MaintenanceRequest::Scan(scan.clone()))
            .is_ok(),
        None => true,
    };
    let (maintain, notes) = (&current.core.maintain, &current.core.notes);
    let files = FileFollower::start(Arc::clone(&maintain.commits), scan, memory::give_back)
        .noting_faults(&notes.files)
        .judged_by(&maintain.policies)
        .keeping_copies(current.config.journal.file_copy_octets())?;
    notes.set_sources(&current.sources);
    let is_reload_requested = Arc::new(AtomicBool::new(false));
    let requested = RequestedWork {
        queue,
        is_reload_requested: Arc::clone(&is_reload_requested),
    };
    worker::start("maintenance", move || {
        run(current, files, &requested, loaded);
    })?;
    Ok(Maintenance {
        requests,
        is_reload_requested,
    })
}

/// The thread's side of the requests.
struct RequestedWork {
    queue: Queue<MaintenanceRequest>,
    is_reload_requested: Arc<AtomicBool>,
}

impl RequestedWork {
    /// Marks the start of a reload, which covers all earlier requests; false if SIGHUP did not request one.
    fn begin_reload(&self) -> bool {
        self.is_reload_requested.swap(false, Ordering::AcqRel)
    }
}

fn run(
    mut current: CurrentConfig,
    mut files: FileFollower,
    requested: &RequestedWork,
    loaded: impl FnOnce(Result<(), StartError>),
) {
    let first = load_first(&mut files, &current.sources);
    loaded(first);
    let mut written = Instant::now();
    loop {
        let interval = current.config.journal.file_sync_seconds.seconds();
        let sync_due = (!interval.is_zero()).then(|| written + interval);
        let withdrawal_due = files.next_withdrawal();
        let deadline = sync_due.into_iter().chain(withdrawal_due).min();
        let request = match requested.queue.pop(deadline) {
            Popped::Item(request) => request,
            Popped::Closed => return,
            Popped::TimedOut => {
                let now = Instant::now();
                if withdrawal_due.is_some_and(|due| due <= now) {
                    panic_guard(LOOKING_AFTER, || files.withdraw_overdue(&current.sources));
                }
                if sync_due.is_some_and(|due| due <= now) {
                    written = now;
                    panic_guard(LOOKING_AFTER, || files.sync_all(&current.sources));
                }
                continue;
            }
        };
        panic_guard(LOOKING_AFTER, || {
            if let MaintenanceRequest::Reload(..) = request {
                requested.begin_reload();
            }
            carry_out(request, &mut current, &mut files);
        });
        if requested.begin_reload() {
            panic_guard(LOOKING_AFTER, || reload_by_signal(&mut current, &mut files));
        }
    }
}

fn carry_out(request: MaintenanceRequest, current: &mut CurrentConfig, files: &mut FileFollower) {
    // The requesting command may have disconnected.
    match request {
        MaintenanceRequest::Reload(withdrawal, reply) => {
            let _ = reply.try_send(announced_reload(current, files, withdrawal));
        }
        MaintenanceRequest::Scan(what) => {
            files.check(&current.sources, &what);
        }
        MaintenanceRequest::OnFiles(work) => work(files, &current.sources),
        MaintenanceRequest::Wake => {}
    }
}

fn reload_by_signal(current: &mut CurrentConfig, files: &mut FileFollower) {
    if let Err(error) = announced_reload(current, files, Withdrawal::AtOnce) {
        let first = error.message.lines().next().unwrap_or_default();
        tracing::warn!("reload: {first}");
    }
}

/// Reloads, and notifies the service manager of start and end.
fn announced_reload(
    current: &mut CurrentConfig,
    files: &mut FileFollower,
    withdrawal: Withdrawal,
) -> ReloadOutcome {
    crate::notify::reloading();
    let outcome = reload(current, files, withdrawal);
    match &outcome {
        Ok(report) => current.core.notes.set_reload(true, &report.summary),
        Err(error) => current.core.notes.set_reload(false, &error.message),
    }
    crate::notify::ready();
    outcome
}

/// Loads all zones at start. A server that has zones and can serve none of them is useless.
fn load_first(files: &mut FileFollower, sources: &[FileSource]) -> Result<(), StartError> {
    let LoadOutcome { summary, errors } = files.load(sources, Withdrawal::AtOnce);
    match errors.first() {
        Some(first) if summary.refused > 0 && summary.loaded + summary.kept == 0 => {
            Err(StartError::NoZone(first.clone()))
        }
        _ => Ok(()),
    }
}

/// Rejects a configuration with paths outside the sandbox. Returns warnings for those that it cannot write to.
fn check_sandbox(
    core: &ServerCore,
    (config, sources): (&Config, &[FileSource]),
) -> Outcome<Vec<String>> {
    let named = NamedPaths {
        config,
        sources,
        config_file: core.config_file.as_deref(),
        control_socket: None,
    };
    let outside = core.sandbox.failures(&named);
    if outside.is_empty() {
        return Ok(core.sandbox.warnings(&named));
    }
    for line in &outside {
        tracing::error!("cannot reload: {line}");
    }
    Err(OperationError::invalid(outside.join("\n")))
}

fn reload(
    current: &mut CurrentConfig,
    files: &mut FileFollower,
    withdrawal: Withdrawal,
) -> ReloadOutcome {
    let mut config = match current.config.reload(&current.overrides) {
        Ok(config) => config,
        Err(error) => {
            let text = error.to_string();
            text.lines()
                .for_each(|line| tracing::error!("cannot load the configuration: {line}"));
            return Err(OperationError::invalid(text));
        }
    };
    let core = current.core.clone();
    let sources = zones::sources(&config);
    let read_only = check_sandbox(&core, (&config, &sources))?;
    current.sources = sources;
    let mut warnings = live::take(&core.shared, &current.config, &config);
    warnings.extend(read_only);
    warnings.extend(current.recursion.reload(&current.config, &config));
    let failures = failures(&config).into_iter();
    warnings.extend(failures.map(|error| format!("the server would not start again: {error}")));
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    if let Some(tls) = &core.notes.tls {
        tls.refresh(now_seconds());
    }
    if config.server.log_level != current.config.server.log_level {
        core.log.set_level(config.server.log_level);
    }
    if config.query_log != current.config.query_log {
        core.logs.apply(&config.query_log);
    }
    core.copies.set(config.journal.copy_bounds());
    files.set_copies_max(config.journal.file_copy_octets());
    rate_limit::apply(&core.shared, &config);
    apply_steering((&core.steering, &core.shared_health), &config);
    if config.cookies != current.config.cookies {
        core.cookies.set_table(&config.cookies);
    }
    if config.rings != current.config.rings {
        zones::resize_rings(&core.shared.stats, &config.rings);
    }
    let access = zones::access(&config);
    let table = Arc::clone(core.maintain.commits.table());
    let before = Arc::clone(table.load().access(AccessSource::Configured));
    // A zone that this reload is about to remove keeps its list until it is removed.
    let with_leftovers = access.with_leftovers_of(&before);
    table.set_access(AccessSource::Configured, with_leftovers);
    // Views lose versions before these are withdrawn, and get new ones after they are loaded: there is no gap.
    let views = view_settings::rules(&config);
    table.set_layers(&view_settings::layers(&config));
    let stored_views = Arc::clone(&core.maintain.stored_views);
    stored_views.configure(ViewRule::without_removed(
        view_settings::rules(&current.config),
        &views,
    ));
    let set = policies::set(&config);
    core.rollover.set_policies(dnssec_policy::policies(&config));
    core.maintain.policies.set(PolicySource::Configured, set);
    policies::apply_stored(&core.maintain.stored_policies, &config);
    core.catalogs.set_templates(policies::templates(&config));
    let unknown = policies::unknown_keys(&config);
    policies::warn_of_unknown_keys(&unknown, &core.maintain.policies.load());
    config.zones = Vec::new();
    current.config = config;
    core.notes.set_sources(&current.sources);
    core.maintain.databases.request_refresh();
    let outcome = files.load(&current.sources, withdrawal);
    core.key_driver.request_all();
    table.set_access(AccessSource::Configured, access);
    stored_views.configure(views);
    let report = ReloadReport {
        summary: outcome.describe(),
        warnings,
    };
    match outcome.summary.refused + outcome.summary.problems {
        0 => Ok(report),
        _ => {
            let mut lines = vec![report.summary];
            let findings = outcome.errors.into_iter().chain(report.warnings);
            // A file name may contain a newline.
            lines.extend(findings.map(|line| terminal::line(line).to_string()));
            Err(OperationError::invalid(lines.join("\n")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_by_signal_is_not_lost_to_a_full_queue_and_covers_those_before_it() {
        let queue = Queue::new("maintenance", WAITING);
        let requests = QueueOwner::new(&queue);
        let is_reload_requested = Arc::new(AtomicBool::new(false));
        let requested = RequestedWork {
            queue,
            is_reload_requested: Arc::clone(&is_reload_requested),
        };
        let maintenance = Maintenance {
            requests: Arc::new(requests),
            is_reload_requested,
        };
        let scan = || MaintenanceRequest::Scan(ScanScope::All);
        while maintenance.requests.try_push(scan()).is_ok() {}
        maintenance.request_reload();
        maintenance.request_reload();
        let first = requested.queue.try_pop();
        assert!(matches!(first, Some(MaintenanceRequest::Scan(_))));
        assert!(requested.begin_reload());
        assert!(!requested.begin_reload());
    }
}
