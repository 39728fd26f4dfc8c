//! Owns the zones that stand in files: which there are, what changed, and the published table.
//!
//! A load goes over all sources: files that did not change since the last one cost a `stat`, others
//! are read in parallel, and each zone is published as soon as it is ready, many at a time. A new
//! version with errors is not taken: the old one stays in service. A zone whose file is gone is
//! removed, unless a directory could not be read, because then nobody knows.

mod one;
mod scan;
mod work;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use nameward_wire::{Name, NameBuf, zonefile::Diagnostic};
use nameward_zone::{Zone, ZoneTable};

use one::Fingerprint;
use scan::Candidate;

/// How often new zones are made visible while a load goes on.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(200);
/// How often a long load says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Where to look for zones.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Every `NAME.zone` below it is a zone.
    pub directory: Option<PathBuf>,
    /// Zones with their files.
    pub zones: Vec<(NameBuf, PathBuf)>,
}

/// What a load has to say while it runs.
pub enum Event<'a> {
    /// A zone was read and is served. The diagnostics are warnings.
    Served(Name<'a>, &'a Zone, &'a [Diagnostic]),
    /// A zone has errors; whether an older version of it stays in service.
    Refused(Name<'a>, &'a [Diagnostic], Standing),
    /// A zone is no longer served because its file is gone.
    Removed(Name<'a>),
    /// A source could not be used, in part or at all; one line with the path.
    Trouble(&'a str),
    /// So many zones of so many are done.
    Progress(usize, usize),
}

/// Whether a refused zone is answered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// By the version from before.
    OldVersion,
    /// By nobody.
    NotServed,
}

/// The sum of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Zones read and served.
    pub loaded: usize,
    /// Zones whose files did not change.
    pub unchanged: usize,
    /// Zones whose files have errors.
    pub refused: usize,
    /// Zones no longer served.
    pub removed: usize,
    /// Sources that could not be used.
    pub troubles: usize,
}

/// What is remembered of a zone between two loads.
struct Known {
    /// Of the files as they were read; `None` reads them again in any case.
    fingerprint: Option<Fingerprint>,
    /// The load that saw its file last.
    seen: u32,
    served: bool,
    /// Files it includes.
    includes: Option<Box<[PathBuf]>>,
}

/// The zones that stand in files.
#[derive(Default)]
pub struct FileBackend {
    /// By lower-cased wire name.
    known: HashMap<Box<[u8]>, Known>,
    load: u32,
}

impl FileBackend {
    /// No zones yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Brings `table`, which others read meanwhile, to what the sources say now. Zones of the
    /// table that did not come from here are left alone.
    pub fn load(
        &mut self,
        table: &ArcSwap<ZoneTable>,
        sources: &[Source],
        events: &mut dyn FnMut(Event<'_>),
    ) -> Summary {
        self.load = self.load.wrapping_add(1);
        let mut summary = Summary::default();
        let mut trouble = |text: &str| {
            summary.troubles += 1;
            events(Event::Trouble(text));
        };
        let scanned = scan::scan(sources, &mut trouble);
        let candidates = self.admit(scanned.candidates, &mut trouble);
        let total = candidates.len();
        let mut publisher = Publisher::new(table);
        let mut progress = Instant::now();
        let mut done = 0;
        let known = &mut self.known;
        work::read_all(candidates, |outcome| {
            done += 1;
            let entry = known.entry(outcome.name.clone()).or_insert_with(Known::new);
            settle(outcome, entry, &mut publisher, &mut summary, events);
            if progress.elapsed() >= PROGRESS_INTERVAL {
                progress = Instant::now();
                events(Event::Progress(done, total));
            }
            publisher.publish_now_and_then();
        });
        if scanned.complete {
            self.remove_unseen(&mut publisher, &mut summary, events);
        }
        publisher.publish();
        summary
    }

    /// Marks what was seen and passes over a zone that an earlier source has already.
    fn admit(
        &mut self,
        candidates: Vec<Candidate>,
        trouble: &mut dyn FnMut(&str),
    ) -> Vec<work::Job> {
        self.known
            .reserve(candidates.len().saturating_sub(self.known.len()));
        let mut jobs = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let load = self.load;
            let known = self
                .known
                .entry(candidate.name.clone())
                .or_insert_with(Known::new);
            if known.seen == load {
                let name = Name::from_valid_wire(&candidate.name);
                let path = candidate.path.display();
                trouble(&format!(
                    "{path}: the zone {name} has a file already: ignored"
                ));
                continue;
            }
            known.seen = load;
            jobs.push(work::Job {
                candidate,
                fingerprint: known.fingerprint,
                includes: known.includes.clone(),
            });
        }
        jobs
    }

    fn remove_unseen(
        &mut self,
        publisher: &mut Publisher<'_>,
        summary: &mut Summary,
        events: &mut dyn FnMut(Event<'_>),
    ) {
        let load = self.load;
        self.known.retain(|name, known| {
            if known.seen == load {
                return true;
            }
            let name = Name::from_valid_wire(name);
            if known.served {
                publisher.remove(name);
                summary.removed += 1;
                events(Event::Removed(name));
            }
            false
        });
    }
}

impl Known {
    fn new() -> Self {
        Self {
            fingerprint: None,
            seen: 0,
            served: false,
            includes: None,
        }
    }
}

/// Takes over what a reader brought for one zone.
fn settle(
    outcome: work::Outcome,
    known: &mut Known,
    publisher: &mut Publisher<'_>,
    summary: &mut Summary,
    events: &mut dyn FnMut(Event<'_>),
) {
    let name = Name::from_valid_wire(&outcome.name);
    let Some(read) = outcome.read else {
        summary.unchanged += 1;
        return;
    };
    match read.zone {
        Some(zone) => {
            summary.loaded += 1;
            events(Event::Served(name, &zone, &read.diagnostics));
            publisher.insert(Arc::new(zone));
            known.served = true;
            known.fingerprint = read.fingerprint;
            known.includes = read.includes;
        }
        None => {
            summary.refused += 1;
            let standing = match known.served {
                true => Standing::OldVersion,
                false => Standing::NotServed,
            };
            events(Event::Refused(name, &read.diagnostics, standing));
            // Read and reported again by the next load, changed or not.
            known.fingerprint = None;
        }
    }
}

/// Gathers changes of the table and makes them visible in groups.
struct Publisher<'t> {
    shared: &'t ArcSwap<ZoneTable>,
    table: ZoneTable,
    dirty: bool,
    last: Instant,
}

impl<'t> Publisher<'t> {
    fn new(shared: &'t ArcSwap<ZoneTable>) -> Self {
        Self {
            table: ZoneTable::clone(&shared.load()),
            shared,
            dirty: false,
            last: Instant::now(),
        }
    }

    fn insert(&mut self, zone: Arc<Zone>) {
        self.table.insert(zone);
        self.dirty = true;
    }

    fn remove(&mut self, name: Name<'_>) {
        self.dirty |= self.table.remove(name);
    }

    fn publish_now_and_then(&mut self) {
        if self.dirty && self.last.elapsed() >= PUBLISH_INTERVAL {
            self.publish();
        }
    }

    fn publish(&mut self) {
        if std::mem::take(&mut self.dirty) {
            self.shared.store(Arc::new(self.table.clone()));
            self.last = Instant::now();
        }
    }
}

/// Whether every listed file and every directory can be opened; if not, one line that says which
/// and why. Cheap: for a start that should fail at once and not after the first load.
pub fn preflight(sources: &[Source]) -> Result<(), String> {
    for source in sources {
        let files = source
            .zones
            .iter()
            .map(|(_, path)| (path, one::open(path).err()));
        let directory = source.directory.iter();
        let directories = directory.map(|path| (path, std::fs::read_dir(path).err()));
        for (path, error) in files.chain(directories) {
            if let Some(error) = error {
                let reason = scan::plain(&error);
                return Err(format!("cannot read {}: {reason}", path.display()));
            }
        }
    }
    Ok(())
}

/// Reads one zone from text that is part of the program; `label` stands for its file.
pub fn zone_from_text(name: Name<'_>, label: &str, text: &[u8]) -> Result<Zone, Vec<Diagnostic>> {
    one::from_text(name, Path::new(label), text)
}

#[cfg(test)]
mod tests;
