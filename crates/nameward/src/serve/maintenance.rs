//! Owns the one thread that changes zones while the server runs: the first load and every reload.
//!
//! Requests wait in a short queue. A reload that is waiting covers every request that comes before
//! it begins, so a full queue loses nothing.

use std::{
    sync::{
        Arc,
        mpsc::{self, Receiver, SyncSender, TrySendError},
    },
    thread,
    time::Instant,
};

use nameward_serve::pipeline::Shared;
use nameward_store::file::{Event, FileBackend, Source, Standing, Summary};

use super::{
    announce::counted,
    databases::{self, Databases},
    live,
};
use crate::{
    config::{Config, Overrides},
    logging::LogControl,
    memory, zones,
};

/// Reloads that may wait.
const WAITING: usize = 4;
/// Lines about zones that one load writes to the log.
const LINES_MAX: usize = 1000;
/// Lines about zones that a reload gives to the one who asked for it.
const REPLY_LINES_MAX: usize = 20;

/// What a reload came to, in text for the one who asked.
pub type Reply = Result<String, String>;

/// Asks the maintenance thread.
#[derive(Clone)]
pub struct Maintenance {
    requests: SyncSender<Option<SyncSender<Reply>>>,
}

impl Maintenance {
    /// Reloads some time soon (SIGHUP).
    pub fn request_reload(&self) {
        if let Err(TrySendError::Disconnected(_)) = self.requests.try_send(None) {
            tracing::error!("cannot reload: the maintenance thread is gone");
        }
    }

    /// Reloads and waits for it.
    pub fn reload(&self) -> Reply {
        let gone = |_| "cannot reload: the maintenance thread is gone".to_string();
        let (reply, replied) = mpsc::sync_channel(1);
        self.requests
            .send(Some(reply))
            .map_err(|error| gone(error.to_string()))?;
        replied.recv().map_err(|error| gone(error.to_string()))?
    }
}

/// What the thread works on.
pub struct Keeper {
    /// The command line, which wins over the file again at each reload.
    pub overrides: Overrides,
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
    loaded: impl FnOnce(Result<(), String>) + Send + 'static,
) -> std::io::Result<Maintenance> {
    let (requests, queue) = mpsc::sync_channel(WAITING);
    thread::Builder::new()
        .name("maintenance".into())
        .spawn(move || run(keeper, &queue, loaded))?;
    Ok(Maintenance { requests })
}

fn run(
    mut keeper: Keeper,
    queue: &Receiver<Option<SyncSender<Reply>>>,
    loaded: impl FnOnce(Result<(), String>),
) {
    let mut backend = FileBackend::new();
    let first = match zones::sources(&keeper.config) {
        Ok(sources) => load_first(&keeper.shared, &mut backend, &sources),
        Err(error) => Err(error),
    };
    loaded(first);
    while let Ok(request) = queue.recv() {
        crate::notify::reloading();
        let reply = reload(&mut keeper, &mut backend);
        crate::notify::ready();
        if let Err(text) = &reply
            && request.is_none()
        {
            tracing::warn!("reload: {}", text.lines().next().unwrap_or_default());
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
) -> Result<(), String> {
    let (summary, said) = load(shared, backend, sources);
    match said.first() {
        Some(first) if summary.refused > 0 && summary.loaded == 0 => {
            Err(format!("no zone can be served: {first}"))
        }
        _ => Ok(()),
    }
}

fn reload(keeper: &mut Keeper, backend: &mut FileBackend) -> Reply {
    let config = match Config::load(&keeper.overrides) {
        Ok(config) => config,
        Err(error) => {
            let text = error.to_string();
            text.lines()
                .for_each(|line| tracing::error!("configuration not taken: {line}"));
            return Err(text);
        }
    };
    let sources = zones::sources(&config)?;
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
    keeper.config = config;
    keeper.databases.request_refresh();
    let (summary, said) = load(&keeper.shared, backend, &sources);
    let mut text = said.join("\n");
    text.extend(warnings.iter().map(|warning| format!("\n{warning}")));
    let text = format!("{}\n{}", describe(&summary), text.trim())
        .trim_end()
        .to_string();
    match summary.refused + summary.troubles {
        0 => Ok(text + "\n"),
        _ => Err(text),
    }
}

/// Loads, writes to the log, and returns the first of the errors as well.
fn load(shared: &Shared, backend: &mut FileBackend, sources: &[Source]) -> (Summary, Vec<String>) {
    let start = Instant::now();
    let mut chronicle = Chronicle::default();
    let summary = backend.load(&shared.zones, sources, &mut |event| chronicle.write(&event));
    memory::give_back();
    if chronicle.passed_over > 0 {
        let more = chronicle.passed_over;
        tracing::warn!("{more} more lines about zones; `nameward check` prints them all");
    }
    if !sources.is_empty() {
        let took = start.elapsed().as_secs_f64();
        tracing::info!("{} in {took:.2} s", describe(&summary));
    }
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

/// Writes what a load says to the log, with a bound.
#[derive(Default)]
struct Chronicle {
    lines: usize,
    passed_over: usize,
    errors: Vec<String>,
}

impl Chronicle {
    fn write(&mut self, event: &Event<'_>) {
        match event {
            Event::Served(name, _, diagnostics) => {
                tracing::debug!("zone {name} loaded");
                for diagnostic in *diagnostics {
                    self.bounded(|| tracing::warn!("{diagnostic}"));
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
                self.bounded(|| tracing::error!("zone {name} has errors: {consequence}"));
            }
            Event::Removed(name) => self.bounded(|| tracing::info!("zone {name} removed")),
            Event::Contested(name, served, other) => {
                self.bounded(|| tracing::warn!("{}", databases::contested(*name, *served, *other)));
            }
            Event::Trouble(text) => self.error((*text).to_string()),
            Event::Note(text) => self.bounded(|| tracing::warn!("{text}")),
            Event::Progress(done, total) => tracing::info!("{done} of {total} zones read"),
        }
    }

    fn error(&mut self, text: String) {
        self.bounded(|| tracing::error!("{text}"));
        if self.errors.len() < REPLY_LINES_MAX {
            self.errors.push(text);
        }
    }

    fn bounded(&mut self, write: impl FnOnce()) {
        if self.lines < LINES_MAX {
            self.lines += 1;
            write();
        } else {
            self.passed_over += 1;
        }
    }
}
