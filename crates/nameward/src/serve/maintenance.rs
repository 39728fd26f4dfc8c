//! Owns the one thread that changes zones while the server runs: the first load, every reload, and every look at
//! files that were seen to change.
//!
//! Requests wait in a short queue. A reload that is waiting covers every request that comes before
//! it begins, so a full queue loses nothing; changed files are offered again by whoever watches them.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, Receiver, SyncSender, TrySendError},
    },
    thread,
    time::Instant,
};

use nameward_control::operations::{ErrorKind, OperationError, ReloadReport};
use nameward_serve::pipeline::Shared;
use nameward_store::file::{Event, FileBackend, Look, Source, Standing, Summary, Watcher};
use nameward_zone::AccessSource;

use super::{
    StartError,
    announce::counted,
    databases::{self, Databases},
    live, unknown,
};
use crate::{
    check,
    cli::print::zone_text,
    config::{Config, Overrides},
    logging::LogControl,
    memory, terminal, zones,
};

/// Reloads that may wait.
const WAITING: usize = 4;
/// Lines about zones that one load writes to the log.
const LINES_MAX: usize = 1000;
/// Loaded zones that one load names in the log.
const LOADED_MAX: usize = 100;
/// Lines about zones that a reload gives to the one who asked for it.
const REPLY_LINES_MAX: usize = 20;

/// The outcome of a reload, for the operator who asked.
type ReloadOutcome = Result<ReloadReport, OperationError>;

/// What the thread is asked for.
enum Request {
    Reload(Option<SyncSender<ReloadOutcome>>),
    Look(Look),
}

/// Asks the maintenance thread.
#[derive(Clone)]
pub struct Maintenance {
    requests: Arc<SyncSender<Request>>,
}

impl Maintenance {
    /// Reloads some time soon (SIGHUP).
    pub fn request_reload(&self) {
        if let Err(TrySendError::Disconnected(_)) = self.requests.try_send(Request::Reload(None)) {
            tracing::error!("cannot reload: the maintenance thread has ended");
        }
    }

    /// Reloads and waits for it.
    pub fn reload(&self) -> ReloadOutcome {
        let ended = || {
            let text = "cannot reload: the maintenance thread has ended";
            OperationError::new(ErrorKind::Internal, text)
        };
        let (reply, replied) = mpsc::sync_channel(1);
        self.requests
            .send(Request::Reload(Some(reply)))
            .map_err(|_| ended())?;
        replied.recv().map_err(|_| ended())?
    }
}

/// What the thread works on.
pub struct Keeper {
    /// The command line, which wins over the file again at each reload.
    pub overrides: Overrides,
    /// The configuration file, without links.
    pub config_file: Option<PathBuf>,
    /// The configuration in use.
    pub config: Config,
    /// What all workers read.
    pub shared: Arc<Shared>,
    /// The level of the log can change.
    pub log: LogControl,
    /// Asked for their zones again by a reload.
    pub databases: Databases,
}

/// Starts the thread; it loads all zones, calls `loaded`, and then waits for requests.
pub fn start(
    keeper: Keeper,
    loaded: impl FnOnce(Result<(), StartError>) + Send + 'static,
) -> std::io::Result<Maintenance> {
    let (requests, queue) = mpsc::sync_channel(WAITING);
    let requests = Arc::new(requests);
    // The watcher must not keep a queue open that nobody else has.
    let weak = Arc::downgrade(&requests);
    let look = move |look: &Look| match weak.upgrade() {
        Some(requests) => requests.try_send(Request::Look(look.clone())).is_ok(),
        None => true,
    };
    let backend = match Watcher::start(look) {
        Ok(watcher) => FileBackend::new().watched_by(watcher),
        Err(error) => {
            tracing::warn!("zone files are not watched: {error}");
            FileBackend::new()
        }
    };
    thread::Builder::new()
        .name("maintenance".into())
        .spawn(move || run(keeper, backend, &queue, loaded))?;
    Ok(Maintenance { requests })
}

fn run(
    mut keeper: Keeper,
    mut backend: FileBackend,
    queue: &Receiver<Request>,
    loaded: impl FnOnce(Result<(), StartError>),
) {
    let mut told = Told::new();
    let first = match zones::sources(&keeper.config) {
        Ok(sources) => load_first(&keeper.shared, &mut backend, &sources, &mut told),
        Err(error) => Err(error),
    };
    loaded(first);
    while let Ok(request) = queue.recv() {
        let request = match request {
            Request::Reload(request) => request,
            Request::Look(what) => {
                look(&keeper, &mut backend, &what, &mut told);
                continue;
            }
        };
        crate::notify::reloading();
        let reply = reload(&mut keeper, &mut backend, &mut told);
        crate::notify::ready();
        if let Err(error) = &reply
            && request.is_none()
        {
            let first = error.message.lines().next().unwrap_or_default();
            tracing::warn!("reload: {first}");
        }
        if let Some(sender) = request {
            // The one who asked may have gone.
            let _ = sender.try_send(reply);
        }
    }
}

/// At start, a server that has zones and can serve none of them is of no use.
fn load_first(
    shared: &Shared,
    backend: &mut FileBackend,
    sources: &[Source],
    told: &mut Told,
) -> Result<(), StartError> {
    let (summary, said) = load(shared, backend, sources, told);
    match said.first() {
        Some(first) if summary.refused > 0 && summary.loaded == 0 => {
            Err(StartError::NoZone(first.clone()))
        }
        _ => Ok(()),
    }
}

fn reload(keeper: &mut Keeper, backend: &mut FileBackend, told: &mut Told) -> ReloadOutcome {
    let config = match keeper.config.reload(&keeper.overrides) {
        Ok(config) => config,
        Err(error) => {
            let text = error.to_string();
            text.lines()
                .for_each(|line| tracing::error!("configuration not loaded: {line}"));
            return Err(OperationError::invalid(text));
        }
    };
    let sources =
        zones::sources(&config).map_err(|error| OperationError::invalid(error.to_string()))?;
    let warnings = live::take(&keeper.shared, &keeper.config, &config);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    if config.server.log_level != keeper.config.server.log_level {
        keeper.log.set_level(config.server.log_level);
    }
    if config.rings != keeper.config.rings {
        zones::resize_rings(&keeper.shared.stats, &config.rings);
    }
    let access = zones::access(&config);
    let table = &keeper.shared.zones;
    let before = Arc::clone(table.load().access(AccessSource::Configured));
    // A zone that this reload is about to remove keeps its list until it is gone.
    zones::set_access(table, access.with_leftovers_of(&before));
    keeper.config = config;
    keeper.databases.request_refresh();
    let (summary, said) = load(&keeper.shared, backend, &sources, told);
    zones::set_access(&keeper.shared.zones, access);
    let report = ReloadReport {
        summary: describe(&summary),
        warnings,
    };
    match summary.refused + summary.troubles {
        0 => Ok(report),
        _ => {
            let mut lines = vec![report.summary];
            let told = said.into_iter().chain(report.warnings);
            // A name of a file may hold a line end.
            lines.extend(told.map(|line| terminal::line(line).to_string()));
            Err(OperationError::invalid(lines.join("\n")))
        }
    }
}

/// Looks at what was seen to change. What was told of before and is still so is not told again.
fn look(keeper: &Keeper, backend: &mut FileBackend, what: &Look, told: &mut Told) {
    let Ok(sources) = zones::sources(&keeper.config) else {
        return;
    };
    let start = Instant::now();
    let mut chronicle = Chronicle::default();
    if let Look::AtAll = what {
        chronicle.before = std::mem::take(told);
    }
    let summary = backend.look(&keeper.shared.zones, &sources, what, &mut |event| {
        chronicle.write(&event);
    });
    chronicle.finish();
    if let Look::AtAll = what {
        memory::give_back();
        *told = chronicle.told;
    }
    if summary.loaded + summary.removed > 0 {
        let took = start.elapsed().as_secs_f64();
        tracing::info!("files changed: {} in {took:.3} s", describe(&summary));
    }
}

/// Loads, writes to the log, and returns the first of the errors as well.
fn load(
    shared: &Shared,
    backend: &mut FileBackend,
    sources: &[Source],
    told: &mut Told,
) -> (Summary, Vec<String>) {
    let start = Instant::now();
    let mut chronicle = Chronicle::default();
    let summary = backend.load(&shared.zones, sources, &mut |event| {
        if let Event::Known = event {
            unknown::end(&shared.zones);
        }
        chronicle.write(&event);
    });
    memory::give_back();
    chronicle.finish();
    if !sources.is_empty() {
        let took = start.elapsed().as_secs_f64();
        tracing::info!("{} in {took:.2} s", describe(&summary));
    }
    *told = chronicle.told;
    (summary, chronicle.errors)
}

fn describe(summary: &Summary) -> String {
    let Summary {
        unchanged,
        refused,
        removed,
        ..
    } = summary;
    let loaded = counted(summary.loaded, "zone");
    let waiting = match summary.waiting {
        0 => String::new(),
        waiting => format!(", {waiting} without a copy yet"),
    };
    format!(
        "{loaded} loaded, {unchanged} unchanged, {removed} removed, {refused} with errors{waiting}"
    )
}

/// Lines that were written to the log.
type Told = HashSet<String>;

/// Writes what a load says to the log, with a bound.
#[derive(Default)]
struct Chronicle {
    /// Of the load before: not written again.
    before: Told,
    told: Told,
    passed_over: usize,
    /// Zones that were loaded.
    loaded: usize,
    errors: Vec<String>,
}

impl Chronicle {
    fn write(&mut self, event: &Event<'_>) {
        match event {
            Event::Served(name, zone, diagnostics) => {
                let name = name.to_string();
                let (zone_name, serial) = (zone_text(&name), zone.serial().0);
                self.loaded += 1;
                // Lines about many zones would push everything else out of the log.
                match self.loaded <= LOADED_MAX {
                    true => tracing::info!("loaded zone {zone_name} serial {serial}"),
                    false => tracing::debug!("loaded zone {zone_name} serial {serial}"),
                }
                for diagnostic in *diagnostics {
                    self.line(diagnostic.to_string(), |text| tracing::warn!("{text}"));
                }
            }
            Event::Refused(name, diagnostics, standing) => {
                for diagnostic in *diagnostics {
                    self.error(diagnostic.to_string());
                }
                let consequence = match standing {
                    Standing::OldVersion => "the old version stays in service",
                    Standing::NotReady => "there is no older version to serve",
                };
                let text = format!("zone {name} has errors: {consequence}");
                self.line(text, |text| tracing::error!("{text}"));
            }
            Event::Removed(name) => {
                let name = name.to_string();
                self.line(format!("removed zone {}", zone_text(&name)), |text| {
                    tracing::info!("{text}")
                });
            }
            Event::Contested(name, served, other) => {
                let text = databases::contested(*name, *served, *other);
                self.line(text, |text| tracing::warn!("{text}"));
            }
            Event::Trouble(text) => self.error((*text).to_string()),
            Event::Note(text) => self.line((*text).to_string(), |text| tracing::warn!("{text}")),
            Event::Waiting(name, path) => {
                self.line(check::waiting(*name, path), |text| tracing::warn!("{text}"));
            }
            Event::Known => {}
            Event::Progress(done, total) => tracing::info!("{done} of {total} zones read"),
        }
    }

    fn error(&mut self, text: String) {
        if self.errors.len() < REPLY_LINES_MAX {
            self.errors.push(text.clone());
        }
        self.line(text, |text| tracing::error!("{text}"));
    }

    fn line(&mut self, text: String, write: impl FnOnce(&str)) {
        if self.told.len() >= LINES_MAX {
            self.passed_over += 1;
            return;
        }
        if !self.before.contains(&text) {
            write(&text);
        }
        self.told.insert(text);
    }

    fn finish(&self) {
        if self.passed_over > 0 && self.before.is_empty() {
            let more = self.passed_over;
            tracing::warn!("{more} more lines about zones; `nameward check` prints them all");
        }
    }
}
