//! Owns the zones that stand in files: which there are, what changed, and the published table.
//!
//! A load goes over all sources: files that did not change since the last one cost a `stat`, others
//! are read in parallel, and each zone is published as soon as it is ready, many at a time. A new
//! version with errors is not taken: the old one stays in service. A zone that has no older version
//! is answered SERVFAIL until it is read, or mended: it is ours, so REFUSED would be wrong. A zone whose
//! file is gone is removed, unless a directory could not be read, because then nobody knows.

mod known;
pub mod named_conf;
mod one;
mod scan;
mod work;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use nameward_wire::{Name, NameBuf, zonefile::Diagnostic};
use nameward_zone::{Offered, Zone, ZoneTable};

use known::{Known, Slot};
use one::ZoneRead;
use scan::{Candidates, Configurations, Said};
use work::Job;

/// How soon new zones are made visible while a load goes on. Each time costs the size of the table,
/// so the wait doubles from the first of these to the second.
const PUBLISH_FIRST: Duration = Duration::from_millis(100);
const PUBLISH_AT_LEAST: Duration = Duration::from_secs(5);
/// How often a long load says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Where to look for zones.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Its place among all sources: the lower one wins where two have a zone.
    pub rank: u16,
    /// Every `NAME.zone` below it is a zone.
    pub directory: Option<PathBuf>,
    /// Zones with their files.
    pub zones: Vec<(NameBuf, PathBuf)>,
    /// A configuration of BIND whose zones are served.
    pub named_conf: Option<PathBuf>,
}

/// What a load has to say while it runs.
pub enum Event<'a> {
    /// A zone was read and is served. The diagnostics are warnings.
    Served(Name<'a>, &'a Zone, &'a [Diagnostic]),
    /// A zone has errors; whether an older version of it stays in service.
    Refused(Name<'a>, &'a [Diagnostic], Standing),
    /// A zone is no longer served because its file is gone.
    Removed(Name<'a>),
    /// Another source has the zone too; the first of the two ranks is served, the second is not.
    Contested(Name<'a>, u16, u16),
    /// A source could not be used, in part or at all; one line with the path.
    Trouble(&'a str),
    /// Something of a source is not served, or not as it was; one line with the path.
    Note(&'a str),
    /// So many zones of so many are done.
    Progress(usize, usize),
}

/// Whether a refused zone is answered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// By the version from before.
    OldVersion,
    /// Not from here: SERVFAIL, unless another source has the zone.
    NotReady,
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
    /// Secondaries whose copy is not there yet.
    pub waiting: usize,
    /// Sources that could not be used.
    pub troubles: usize,
}

/// The zones that stand in files.
#[derive(Default)]
pub struct FileBackend {
    known: Known,
    configurations: Configurations,
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
        let mut summary = Summary::default();
        let mut say = |said: Said<'_>| match said {
            Said::Trouble(text) => {
                summary.troubles += 1;
                events(Event::Trouble(text));
            }
            Said::Note(text) => events(Event::Note(text)),
        };
        let scanned = scan::scan(sources, &mut self.configurations, &mut say);
        let jobs = self.admit(&scanned.candidates, &mut say);
        let mut load = Load {
            candidates: &scanned.candidates,
            summary,
            publisher: Publisher::new(table),
            events,
        };
        load.announce(&jobs, &mut self.known.slots);
        load.run(&jobs, &mut self.known.slots);
        if !scanned.incomplete && self.known.has_gone() {
            load.remove(&self.known);
            self.known.forget_gone();
        }
        load.publish();
        load.summary
    }

    /// The zones of BIND configurations, with their types and the servers that they name.
    pub fn configured(&self) -> impl Iterator<Item = &named_conf::Zone> {
        self.configurations.zones()
    }

    /// Marks what was seen and passes over a zone that an earlier source has already.
    fn admit(&mut self, candidates: &Candidates, say: &mut dyn FnMut(Said<'_>)) -> Vec<Job> {
        self.known.begin(candidates.len());
        let mut jobs = Vec::with_capacity(candidates.len());
        for candidate in 0..candidates.len() {
            let name = candidates.name(candidate);
            match self.known.see(name) {
                Some(slot) => {
                    let rank = candidates.rank(candidate);
                    jobs.push(self.known.slots[slot].job(candidate, slot, rank));
                }
                None => {
                    let path = candidates.path(candidate);
                    let path = path.display();
                    let text = format!("{path}: the zone {name} has a file already: ignored");
                    say(Said::Trouble(&text));
                }
            }
        }
        jobs
    }
}

/// A load in progress.
struct Load<'l> {
    candidates: &'l Candidates,
    summary: Summary,
    publisher: Publisher<'l>,
    events: &'l mut dyn FnMut(Event<'_>),
}

impl Load<'_> {
    /// Says of every zone that has no version yet that it is ours, before the first is read.
    fn announce(&mut self, jobs: &[Job], slots: &mut [Slot]) {
        for job in jobs {
            let slot = &mut slots[job.slot];
            let rank = self.candidates.rank(job.candidate);
            if slot.served || slot.rank == Some(rank) {
                continue;
            }
            let name = self.candidates.name(job.candidate);
            self.publisher.offer(Zone::not_ready(name), rank, slot.rank);
            slot.rank = Some(rank);
        }
        // Where another source has a zone too is told when it is loaded.
        self.publisher.publish();
    }

    fn run(&mut self, jobs: &[Job], slots: &mut [Slot]) {
        let mut progress = Instant::now();
        let mut done = 0;
        work::look_at_all(jobs, self.candidates, |outcomes| {
            done += outcomes.len();
            for (job, read) in outcomes {
                match read {
                    None => self.summary.unchanged += 1,
                    Some(read) => self.settle(job, read, &mut slots[job.slot]),
                }
            }
            let now = Instant::now();
            if now - progress >= PROGRESS_INTERVAL {
                progress = now;
                (self.events)(Event::Progress(done, jobs.len()));
            }
            if self.publisher.is_due(now) {
                self.publish();
            }
        });
    }

    /// Takes over what was read for one zone.
    fn settle(&mut self, job: &Job, read: ZoneRead, slot: &mut Slot) {
        let name = self.candidates.name(job.candidate);
        let Some(zone) = read.zone else {
            // Read and reported again by the next load, changed or not.
            slot.fingerprint = None;
            if read.is_missing && self.candidates.is_copy(job.candidate) {
                self.summary.waiting += 1;
                return;
            }
            self.summary.refused += 1;
            let standing = match slot.served {
                true => Standing::OldVersion,
                false => Standing::NotReady,
            };
            (self.events)(Event::Refused(name, &read.diagnostics, standing));
            return;
        };
        self.summary.loaded += 1;
        (self.events)(Event::Served(name, &zone, &read.diagnostics));
        let rank = self.candidates.rank(job.candidate);
        self.publisher.offer(zone, rank, slot.rank);
        slot.settle(read.fingerprint, read.includes, rank);
    }

    /// Takes zones whose files are gone out of the table.
    fn remove(&mut self, known: &Known) {
        let table = self.publisher.shared.load_full();
        for zone in table.offered() {
            let name = zone.apex_name();
            if known.is_gone(name, zone.rank()) {
                self.publisher
                    .changes
                    .push(Change::Remove(Arc::clone(zone)));
                self.summary.removed += 1;
                (self.events)(Event::Removed(name));
            }
        }
    }

    /// Makes the changes visible, and tells where another source has a zone too.
    fn publish(&mut self) {
        for (name, served, other) in self.publisher.publish() {
            (self.events)(Event::Contested(name.as_name(), served, other));
        }
    }
}

enum Change {
    Insert(Arc<Zone>),
    /// As an insert; it had this rank before.
    Move(Arc<Zone>, u16),
    Remove(Arc<Zone>),
}

/// Gathers changes of the table and makes them visible in groups. Others change the table too, so each group is
/// applied to what the table is then.
struct Publisher<'t> {
    shared: &'t ArcSwap<ZoneTable>,
    changes: Vec<Change>,
    last: Instant,
    interval: Duration,
}

impl<'t> Publisher<'t> {
    fn new(shared: &'t ArcSwap<ZoneTable>) -> Self {
        Self {
            shared,
            changes: Vec::new(),
            last: Instant::now(),
            interval: PUBLISH_FIRST,
        }
    }

    fn offer(&mut self, mut zone: Zone, rank: u16, rank_before: Option<u16>) {
        zone.set_rank(rank);
        let zone = Arc::new(zone);
        self.changes.push(match rank_before {
            Some(before) if before != rank => Change::Move(zone, before),
            _ => Change::Insert(zone),
        });
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = !self.changes.is_empty() && now - self.last >= self.interval;
        if is_due {
            self.last = now;
            self.interval = (self.interval * 2).min(PUBLISH_AT_LEAST);
        }
        is_due
    }

    /// Returns the zones that another source has too: the rank that is served, and the one that is not.
    fn publish(&mut self) -> Vec<(NameBuf, u16, u16)> {
        let mut contested = Vec::new();
        if self.changes.is_empty() {
            return contested;
        }
        self.shared.rcu(|table| {
            contested.clear();
            let mut table = ZoneTable::clone(table);
            for change in &self.changes {
                let (zone, offered) = match change {
                    Change::Insert(zone) => (zone, table.offer(Arc::clone(zone))),
                    Change::Move(zone, before) => {
                        let offered = table.offer(Arc::clone(zone));
                        table.withdraw(zone.apex_name(), *before);
                        (zone, offered)
                    }
                    Change::Remove(zone) => {
                        table.withdraw(zone.apex_name(), zone.rank());
                        continue;
                    }
                };
                let (name, rank) = (zone.apex_name(), zone.rank());
                match offered {
                    Offered::TakenFrom(other) if !is_own(change, other) => {
                        contested.push((name.into(), rank, other));
                    }
                    Offered::KeptBy(other) if !is_own(change, other) => {
                        contested.push((name.into(), other, rank));
                    }
                    _ => {}
                }
            }
            table
        });
        self.changes.clear();
        contested
    }
}

/// Whether the other source is the same one before it moved.
fn is_own(change: &Change, other: u16) -> bool {
    matches!(change, Change::Move(_, before) if *before == other)
}

/// Whether every listed file and every directory can be opened; if not, one line that says which
/// and why. Cheap: for a start that should fail at once and not after the first load.
pub fn preflight(sources: &[Source]) -> Result<(), String> {
    for source in sources {
        if let Some(path) = &source.named_conf {
            let found = named_conf::read(path, &mut named_conf::OnDisk);
            if let Some(first) = found.diagnostics.first() {
                return Err(first.to_string());
            }
        }
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
