//! A load in progress: zones are read, checked, and passed on for publication.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use nameward_wire::{
    Name,
    zonefile::{Diagnostic, Severity},
};
use nameward_zone::Zone;

use super::{
    Fallback, LoadEvent, LoadSummary,
    discovery::{Candidates, FileRole},
    inventory::Slot,
    loader::{self, Job},
    publish::Publisher,
    zone_file::ZoneRead,
};

/// Interval between progress events of a long load.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// A load in progress.
pub(super) struct Load<'l> {
    pub candidates: &'l Candidates,
    pub summary: LoadSummary,
    pub publisher: Publisher<'l>,
    pub events: &'l mut dyn FnMut(LoadEvent<'_>),
}

impl Load<'_> {
    /// Publishes a stub for every zone without a version, before the first is read.
    pub(super) fn announce(&mut self, jobs: &[Job], slots: &mut [Slot]) {
        for job in jobs {
            let slot = &mut slots[job.slot];
            let rank = self.candidates.entry(job.candidate).rank;
            if slot.served || slot.rank == Some(rank) {
                continue;
            }
            let name = self.candidates.name(job.candidate);
            self.publisher.offer(Zone::not_ready(name), rank, slot.rank);
            slot.rank = Some(rank);
        }
        // Conflicts with other sources are logged when the zone is loaded.
        self.publisher.publish();
    }

    pub(super) fn run(&mut self, jobs: &[Job], slots: &mut [Slot]) {
        let mut progress = Instant::now();
        let mut done = 0;
        loader::check_all(jobs, self.candidates, |outcomes| {
            done += outcomes.len();
            for (job, read) in outcomes {
                match read {
                    None => self.summary.unchanged += 1,
                    Some(read) => self.process_result(job, read, &mut slots[job.slot]),
                }
            }
            let now = Instant::now();
            if now - progress >= PROGRESS_INTERVAL {
                progress = now;
                (self.events)(LoadEvent::Progress(done, jobs.len()));
            }
            if self.publisher.is_due(now) {
                self.publish();
            }
        });
    }

    fn process_result(&mut self, job: &Job, mut read: ZoneRead, slot: &mut Slot) {
        let name = self.candidates.name(job.candidate);
        let objection = read.zone.as_ref();
        if let Some(message) = objection.and_then(|zone| self.publisher.target.objection(zone)) {
            read.zone = None;
            let mut error = self.at_soa(job.candidate, &read, message);
            error.severity = Severity::Error;
            read.diagnostics.push(error);
        }
        let Some(zone) = read.zone.take() else {
            // Read and reported again by the next load, changed or not.
            slot.fingerprint = None;
            if read.is_missing && self.candidates.entry(job.candidate).role != FileRole::Zone {
                self.summary.waiting += 1;
                let mut path = PathBuf::new();
                self.candidates.path_into(job.candidate, &mut path);
                (self.events)(LoadEvent::Waiting(name, &path));
                return;
            }
            self.summary.refused += 1;
            let fallback = if slot.served {
                Fallback::OldVersion
            } else {
                self.serve_copy(job, slot)
            };
            (self.events)(LoadEvent::Refused(name, &read.diagnostics, fallback));
            return;
        };
        self.summary.loaded += 1;
        let rank = self.candidates.entry(job.candidate).rank;
        if slot.served {
            let before = self.publisher.target.file_version(name, rank);
            let warning = before.and_then(|before| advice_on_serial(&before, &zone));
            let warning = warning.map(|message| self.at_soa(job.candidate, &read, message));
            read.diagnostics.extend(warning);
        }
        (self.events)(LoadEvent::Served(name, &zone, &read.diagnostics));
        self.publisher.offer(zone, rank, slot.rank);
        slot.record_version(read.fingerprint, read.includes, rank);
    }

    /// Serves the copy of a zone whose file has errors and that has no version in the table.
    fn serve_copy(&mut self, job: &Job, slot: &mut Slot) -> Fallback {
        let name = self.candidates.name(job.candidate);
        let Some(zone) = self.publisher.target.last_good(name) else {
            return Fallback::NotReady;
        };
        let (serial, rank) = (zone.serial(), self.candidates.entry(job.candidate).rank);
        self.publisher.offer(zone, rank, slot.rank);
        slot.record_version(None, Vec::new(), rank);
        self.summary.kept += 1;
        Fallback::Copy(serial)
    }

    /// Creates a warning at the SOA of a zone.
    fn at_soa(&self, candidate: usize, read: &ZoneRead, message: String) -> Diagnostic {
        let (included, line) = &read.soa_location;
        let mut path = PathBuf::new();
        self.candidates.path_into(candidate, &mut path);
        Diagnostic {
            severity: Severity::Warning,
            file: included.as_ref().unwrap_or(&path).to_string_lossy().into(),
            line: *line,
            column: 0,
            message,
        }
    }

    /// Removes a zone whose file no longer exists from the table.
    pub(super) fn remove(&mut self, name: Name<'_>, rank: u16) {
        self.publisher.withdraw(name, rank);
        self.summary.removed += 1;
        (self.events)(LoadEvent::Removed(name));
    }

    /// Publishes the changes, and reports the zones that another source has too.
    pub(super) fn publish(&mut self) {
        for contest in self.publisher.publish() {
            let name = contest.name.as_name();
            (self.events)(LoadEvent::Contested(name, contest.served, contest.other));
        }
    }
}

/// Returns the warning about a new version whose serial is not greater. Secondaries accept a version
/// only if its serial is greater (RFC 1996 section 3.10, RFC 1982 section 3.2).
fn advice_on_serial(before: &Zone, now: &Zone) -> Option<String> {
    let (old, new) = (before.serial(), now.serial());
    if new.is_after(old) || !before.is_ready() || now.has_same_records(before) {
        return None;
    }
    Some(if old == new {
        format!(
            "the contents changed but the serial is still {new}: secondaries will not transfer this version"
        )
    } else {
        format!(
            "the serial decreased from {old} to {new}: secondaries will not transfer this version"
        )
    })
}
