//! Follows zone files: the first load, every reload, and every check of files that were seen to change.
//!
//! A new version of a zone replaces the older one by a commit, so that the difference is journalled; at the first
//! load the journal is compared with the file.

mod by_command;
mod target;

pub use by_command::{ServedFile, StoreVersion, ZoneFileError};

use super::directory_sizes::DirectorySizes;
use super::file_copies::{self, FileCopies};
use super::file_faults::FileFaults;
use super::log::{contested, waiting};
use super::unknown;
use crate::commit::Commits;
use crate::policy::PolicyTable;
use crate::reconcile::Reconciler;
use crate::sync::{SyncError, SyncMode, SyncOutcome, sync_zone};
use nameward_base::text::counted;
use nameward_base::text::zone_text;
use nameward_files::{
    Fallback, FileBackend, FileSource, LoadEvent, LoadSummary, MissingOutlook, MissingZones,
    ScanScope, Watcher, Withdrawal,
};
use nameward_state::ZoneStorage;
use nameward_wire::NameBuf;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use target::FileTarget;

/// Maximum number of log lines about zones per load.
const LINES_MAX: usize = 1000;
/// Maximum number of loaded zones named in the log per load.
const LOADED_MAX: usize = 100;
/// Maximum number of lines about zones returned to the client that requested a reload.
const REPLY_LINES_MAX: usize = 20;

/// The result of a load.
pub struct LoadOutcome {
    /// Its totals.
    pub summary: LoadSummary,
    /// The first errors.
    pub errors: Vec<String>,
}

impl LoadOutcome {
    /// Describes the totals.
    pub fn describe(&self) -> String {
        describe(&self.summary)
    }
}

/// Follows all zone files.
pub struct FileFollower {
    backend: FileBackend,
    target: FileTarget,
    /// Returns memory to the system that a load needed only while it ran.
    give_back: fn(),
    logged: LoggedLines,
    faults: Arc<FileFaults>,
    copies: Option<FileCopies>,
}

impl FileFollower {
    /// Starts watching files; `scan` requests that [`FileFollower::check`] is called, and returns whether it will be.
    pub fn start(
        commits: Arc<Commits>,
        scan: impl Fn(&ScanScope) -> bool + Send + 'static,
        give_back: fn(),
    ) -> Self {
        let backend = match Watcher::start(scan) {
            Ok(watcher) => FileBackend::new().watched_by(watcher),
            Err(error) => {
                tracing::warn!("cannot watch zone files: {error}");
                FileBackend::new()
            }
        };
        Self::over(commits, backend, give_back)
    }

    /// Creates a follower that reads files on request, and watches none.
    pub fn unwatched(commits: Arc<Commits>) -> Self {
        Self::over(commits, FileBackend::new(), || ())
    }

    fn over(commits: Arc<Commits>, backend: FileBackend, give_back: fn()) -> Self {
        let reconciler = Reconciler::new(&commits, ZoneStorage::File);
        FileFollower {
            backend,
            target: FileTarget {
                commits,
                reconciler,
                policies: Arc::default(),
                directories: None,
            },
            give_back,
            logged: LoggedLines::new(),
            faults: Arc::default(),
            copies: None,
        }
    }

    /// Keeps copies of zone files in the state store from now on, with a size limit in octets.
    pub fn keeping_copies(mut self, octets_max: u64) -> std::io::Result<Self> {
        self.copies = FileCopies::start(&self.target.commits, octets_max)?;
        if self.copies.is_some() {
            self.target.directories = Some(DirectorySizes::default());
        }
        Ok(self)
    }

    /// Sets the limit for copies of zone files.
    pub fn set_copies_max(&self, octets_max: u64) {
        if let Some(copies) = &self.copies {
            copies.set_octets_max(octets_max);
        }
    }

    /// Records the faults of zone files in `faults` from now on.
    pub fn noting_faults(mut self, faults: &Arc<FileFaults>) -> Self {
        self.faults = Arc::clone(faults);
        self
    }

    /// Verifies zones by their digests from now on where their policies require it.
    pub fn judged_by(mut self, policies: &Arc<PolicyTable>) -> Self {
        self.target.policies = Arc::clone(policies);
        self
    }

    /// Brings the table up to date with the sources, and logs their faults.
    pub fn load(&mut self, sources: &[FileSource], withdrawal: Withdrawal) -> LoadOutcome {
        let start = Instant::now();
        let mut log = LoadLog::default();
        let (target, faults) = (&self.target, &self.faults);
        faults.forget_troubles();
        let each = &mut |event: LoadEvent<'_>| {
            faults.note(&event);
            if let LoadEvent::Known = event {
                unknown::end(target.commits.table(), unknown::FILES);
            }
            log.write(&event);
        };
        let summary = self
            .backend
            .load_withdrawing(target, sources, withdrawal, each);
        self.faults.set_missing(self.backend.missing_zones());
        self.note_directory_sizes(sources, &summary);
        if let Some(copies) = &self.copies {
            let ranks = sources.iter().map(|source| source.rank).collect();
            let is_complete = summary.problems == 0 && self.backend.missing_zones().is_empty();
            copies.compare_all(ranks, is_complete);
        }
        (self.give_back)();
        log.finish();
        if !sources.is_empty() {
            let took = start.elapsed().as_secs_f64();
            tracing::info!("{} in {took:.2} s", describe(&summary));
        }
        self.logged = log.logged;
        if summary.problems == 0 {
            self.target.reconciler.forget_vanished(ZoneStorage::File);
        }
        self.target.reconciler.end_start();
        LoadOutcome {
            summary,
            errors: log.errors,
        }
    }

    /// Reads zones from an incomplete set of sources: a zone is not considered removed because it is not among them.
    pub fn read_some(&mut self, sources: &[FileSource]) -> LoadOutcome {
        let mut log = LoadLog::default();
        let summary = self
            .backend
            .load(&self.target, sources, &mut |event| log.write(&event));
        LoadOutcome {
            summary,
            errors: log.errors,
        }
    }

    /// Checks what was seen to change. Faults that were logged before and persist are not logged again.
    pub fn check(&mut self, sources: &[FileSource], what: &ScanScope) {
        let start = Instant::now();
        let mut log = LoadLog::default();
        if let ScanScope::All = what {
            log.before = std::mem::take(&mut self.logged);
            self.faults.forget_troubles();
        }
        let faults = &self.faults;
        let (mut served, mut removed) = (Vec::new(), Vec::new());
        let each = &mut |event: LoadEvent<'_>| {
            faults.note(&event);
            match &event {
                LoadEvent::Served(name, ..) if served.len() <= file_copies::ZONES_MAX => {
                    served.push(NameBuf::from(*name));
                }
                LoadEvent::Removed(name) => removed.push(NameBuf::from(*name)),
                _ => {}
            }
            log.write(&event);
        };
        let summary = self.backend.check(&self.target, sources, what, each);
        self.faults.set_missing(self.backend.missing_zones());
        self.note_directory_sizes(sources, &summary);
        if let Some(copies) = &self.copies {
            copies.compare(&served);
            copies.forget(removed);
        }
        log.finish();
        if let ScanScope::All = what {
            (self.give_back)();
            self.logged = log.logged;
        }
        log_look(&summary, start);
    }

    /// Notes how many zones each directory has, unless files are missing or a source cannot be read.
    fn note_directory_sizes(&mut self, sources: &[FileSource], summary: &LoadSummary) {
        let missing = self.backend.missing_zones();
        let (Some(sizes), 0) = (&mut self.target.directories, summary.problems) else {
            return;
        };
        for source in sources {
            let Some(directory) = &source.directory else {
                continue;
            };
            if missing.iter().all(|one| one.directory != *directory) {
                let zones = self.backend.zones_found(source.rank);
                sizes.note(&self.target.commits, directory, zones);
            }
        }
    }

    /// Returns when the next grace period of a missing file ends.
    pub fn next_withdrawal(&self) -> Option<Instant> {
        self.backend.next_withdrawal()
    }

    /// Withdraws the zones whose files are still missing at the end of their grace period.
    pub fn withdraw_overdue(&mut self, sources: &[FileSource]) {
        if let Some(scan) = self.backend.overdue() {
            self.check(sources, &scan);
            self.backend.postpone_overdue();
        }
    }

    /// Checks the file of one zone, if it has one, watched or not, and returns its faults.
    pub fn check_zone(&mut self, sources: &[FileSource], zone: &NameBuf) -> Vec<String> {
        let Some((path, _)) = self.backend.file_of(sources, zone.as_name()) else {
            return Vec::new();
        };
        let start = Instant::now();
        let LoadOutcome { summary, errors } = self.check_path(sources, path);
        self.faults.set_missing(self.backend.missing_zones());
        if let Some(copies) = self.copies.as_ref().filter(|_| summary.loaded > 0) {
            copies.compare(&[*zone]);
        }
        log_look(&summary, start);
        errors
    }

    fn check_path(&mut self, sources: &[FileSource], path: PathBuf) -> LoadOutcome {
        let mut log = LoadLog::default();
        let faults = &self.faults;
        let each = &mut |event: LoadEvent<'_>| {
            faults.note(&event);
            log.write(&event);
        };
        let summary = self.backend.check_file(&self.target, sources, path, each);
        log.finish();
        LoadOutcome {
            summary,
            errors: log.errors,
        }
    }

    /// Writes the changes that a zone's file lacks into it. Edits by hand are loaded first.
    pub fn sync(
        &mut self,
        sources: &[FileSource],
        zone: &NameBuf,
        mode: SyncMode,
    ) -> Result<SyncOutcome, SyncError> {
        let found = self.backend.file_of(sources, zone.as_name());
        let (path, rank) = found.ok_or_else(|| SyncError::NoFile(zone.to_string()))?;
        self.check_zone(sources, zone);
        let outcome = sync_zone(&self.target.commits, (zone, rank), &path, mode)?;
        if let Some(copies) = &self.copies {
            copies.compare(&[*zone]);
        }
        Ok(outcome)
    }

    /// Writes the changes that zone files lack into all that can keep their layout; failures are logged.
    pub fn sync_all(&mut self, sources: &[FileSource]) {
        for (zone, _) in self.target.commits.zones_behind() {
            if let Err(error) = self.sync(sources, &zone, SyncMode::KeepLayout) {
                tracing::warn!("zone {zone}: cannot write its file: {error}");
            }
        }
    }
}

fn log_look(summary: &LoadSummary, start: Instant) {
    if summary.loaded + summary.removed > 0 {
        let took = start.elapsed().as_secs_f64();
        tracing::info!("zone files changed: {} in {took:.3} s", describe(summary));
    }
}

/// Describes the zones of a directory whose files are missing, as in "1 zone file is missing (example.org)".
pub fn missing_files(missing: &MissingZones) -> String {
    let MissingZones {
        number,
        served,
        first,
        outlook,
        ..
    } = missing;
    let names: Vec<_> = first.iter().map(|name| zone_text(name)).collect();
    let more = match number.saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = names.join(", ");
    match outlook {
        MissingOutlook::Withdrawn(_) => {
            let verb = if *number == 1 { "is" } else { "are" };
            let files = counted(*number, "zone file");
            format!("{files} {verb} missing ({names}{more})")
        }
        MissingOutlook::Kept => {
            format!("{number} of {served} zone files are missing ({names}{more})")
        }
    }
}

/// Returns the log line about zones whose files are missing.
fn missing_text(missing: &MissingZones) -> String {
    let (directory, files) = (missing.directory.display(), missing_files(missing));
    match missing.outlook {
        MissingOutlook::Withdrawn(grace) => {
            let grace = grace.as_secs();
            format!("{directory}: {files}: withdrawn after {grace} s unless restored")
        }
        MissingOutlook::Kept => format!("{directory}: {files}: their zones are still being served"),
    }
}

fn describe(summary: &LoadSummary) -> String {
    let LoadSummary {
        unchanged,
        refused,
        removed,
        ..
    } = summary;
    let loaded = counted(summary.loaded, "zone");
    let waiting = match summary.waiting {
        0 => String::new(),
        waiting => format!(", {waiting} not transferred yet"),
    };
    format!(
        "{loaded} loaded, {unchanged} unchanged, {removed} removed, {refused} with errors{waiting}"
    )
}

/// Lines that were written to the log.
type LoggedLines = HashSet<String>;

/// Logs the events of a load, with a limit.
#[derive(Default)]
struct LoadLog {
    /// Lines of the previous load, which are not repeated.
    before: LoggedLines,
    logged: LoggedLines,
    passed_over: usize,
    /// Number of loaded zones.
    loaded: usize,
    errors: Vec<String>,
}

impl LoadLog {
    fn write(&mut self, event: &LoadEvent<'_>) {
        match event {
            LoadEvent::Served(name, zone, diagnostics) => {
                self.loaded += 1;
                // Lines about many zones would push everything else out of the log.
                if self.loaded <= LOADED_MAX || tracing::enabled!(tracing::Level::DEBUG) {
                    let name = name.to_string();
                    let (zone_name, serial) = (zone_text(&name), zone.serial());
                    if self.loaded <= LOADED_MAX {
                        tracing::info!("zone {zone_name}: loaded serial {serial}")
                    } else {
                        tracing::debug!("zone {zone_name}: loaded serial {serial}")
                    }
                }
                for diagnostic in *diagnostics {
                    self.warn(diagnostic.to_string());
                }
            }
            LoadEvent::Refused(name, diagnostics, fallback) => {
                for diagnostic in *diagnostics {
                    self.error(diagnostic.to_string());
                }
                let consequence = match fallback {
                    Fallback::OldVersion => "the previous version is still being served".into(),
                    Fallback::Copy(serial) => format!(
                        "serving the last valid version from the state store, serial {serial}"
                    ),
                    Fallback::NotReady => {
                        String::from("no previous version to serve; answered SERVFAIL")
                    }
                };
                let text = format!("zone {name}: not loaded due to errors: {consequence}");
                self.line(text, |text| tracing::error!("{text}"));
            }
            LoadEvent::Removed(name) => {
                let name = name.to_string();
                self.line(format!("zone {}: removed", zone_text(&name)), |text| {
                    tracing::info!("{text}")
                });
            }
            LoadEvent::Missing(missing) => {
                let text = missing_text(missing);
                match missing.outlook {
                    MissingOutlook::Kept => self.error(text),
                    MissingOutlook::Withdrawn(_) => self.warn(text),
                }
            }
            LoadEvent::Returned(name) => {
                let name = name.to_string();
                let text = format!("zone {}: zone file found again", zone_text(&name));
                self.line(text, |text| tracing::info!("{text}"));
            }
            LoadEvent::Contested(name, served, other) => {
                self.warn(contested(*name, *served, *other));
            }
            LoadEvent::Problem(text) => self.error((*text).to_string()),
            LoadEvent::Note(text) => self.warn((*text).to_string()),
            LoadEvent::Waiting(name, path) => self.warn(waiting(*name, path)),
            LoadEvent::Known => {}
            LoadEvent::Progress(done, total) => {
                tracing::info!("loading: {done} of {total} zones read")
            }
        }
    }

    fn error(&mut self, text: String) {
        if self.errors.len() < REPLY_LINES_MAX {
            self.errors.push(text.clone());
        }
        self.line(text, |text| tracing::error!("{text}"));
    }

    fn warn(&mut self, text: String) {
        self.line(text, |text| tracing::warn!("{text}"));
    }

    fn line(&mut self, text: String, write: impl FnOnce(&str)) {
        if self.logged.len() >= LINES_MAX {
            self.passed_over += 1;
            return;
        }
        if !self.before.contains(&text) {
            write(&text);
        }
        self.logged.insert(text);
    }

    fn finish(&self) {
        if self.passed_over > 0 && self.before.is_empty() {
            let more = self.passed_over;
            tracing::warn!(
                "{more} more messages about zones; run `nameward check` for all of them"
            );
        }
    }
}
