//! The threads that read zone files: as many as there are cores, each taking the next few files from
//! a common list and returning the results through a bounded channel.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use super::{
    discovery::Candidates,
    zone_file::{Fingerprint, ZoneFileReader, ZoneRead, fingerprint_now, left_by_a_bug},
};

/// Files a thread takes at a time: enough that threads rarely contend, few enough that no thread is
/// left with a long list at the end.
const GROUP: usize = 32;
/// Maximum number of unprocessed groups; beyond it readers wait, so memory stays bounded.
const WAITING: usize = 16;

/// Files that a zone includes; one word, because nearly all zones include none.
pub(super) type Includes = Option<Box<Vec<PathBuf>>>;

/// A file to check.
pub(super) struct Job {
    /// Index of the candidate.
    pub candidate: usize,
    /// Index of the zone's slot.
    pub slot: usize,
    /// Fingerprint of the files when they were last read.
    pub fingerprint: Option<Fingerprint>,
    pub includes: Includes,
}

/// The outcome of a job: the file, and its zone unless it did not change.
pub(super) type Outcome<'j> = (&'j Job, Option<ZoneRead>);

/// Checks all jobs and calls `take` on this thread for each group of outcomes, in no particular
/// order.
pub(super) fn check_all<'j>(
    jobs: &'j [Job],
    candidates: &Candidates,
    mut take: impl FnMut(Vec<Outcome<'j>>),
) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // A few zones may be large ones: then each gets a thread.
    let group = if jobs.len() <= GROUP * cores {
        1
    } else {
        GROUP
    };
    let next = AtomicUsize::new(0);
    // Checks one group after the other until none is left, or until `deliver` returns false.
    let check_files = &|deliver: &mut dyn FnMut(Vec<Outcome<'j>>) -> bool| {
        let mut checker = FileChecker::new(candidates);
        loop {
            let start = next.fetch_add(group, Ordering::Relaxed);
            let end = jobs.len().min(start.saturating_add(group));
            let Some(mine @ [_, ..]) = jobs.get(start..end) else {
                return;
            };
            let outcomes = mine.iter().map(|job| (job, checker.check(job)));
            if !deliver(outcomes.collect()) {
                return;
            }
        }
    };
    let (sender, receiver) = mpsc::sync_channel(WAITING);
    thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            let sender = sender.clone();
            let check = move || check_files(&mut |outcomes| sender.send(outcomes).is_ok());
            // Without memory for another stack, the threads that there are read all files.
            if thread::Builder::new().spawn_scoped(scope, check).is_err() {
                break;
            }
        }
        drop(sender);
        receiver.into_iter().for_each(&mut take);
    });
    // Nothing is left unless no thread could be started.
    check_files(&mut |outcomes| {
        take(outcomes);
        true
    });
}

/// One thread's buffers.
struct FileChecker<'l> {
    candidates: &'l Candidates,
    reader: ZoneFileReader,
    path: PathBuf,
}

impl<'l> FileChecker<'l> {
    fn new(candidates: &'l Candidates) -> Self {
        Self {
            candidates,
            reader: ZoneFileReader::new(candidates.scripts.clone()),
            path: PathBuf::new(),
        }
    }

    fn check(&mut self, job: &Job) -> Option<ZoneRead> {
        self.candidates.path_into(job.candidate, &mut self.path);
        let includes = job.includes.as_deref().map_or(&[][..], Vec::as_slice);
        let unchanged = job
            .fingerprint
            .is_some_and(|old| fingerprint_now(&self.path, includes) == Some(old));
        let name = self.candidates.name(job.candidate);
        let limits = self.candidates.limits(job.candidate);
        let role = self.candidates.entry(job.candidate).role;
        if unchanged {
            return None;
        }
        let read = or_none(|| self.reader.read((name, &self.path), limits, role));
        Some(read.unwrap_or_else(|| {
            // The buffers may be in any state.
            self.reader = ZoneFileReader::new(self.candidates.scripts.clone());
            left_by_a_bug(&self.path)
        }))
    }
}

/// Reads a zone. A bug triggered by its text costs the zone, not the server: there are other zones.
fn or_none(read: impl FnOnce() -> ZoneRead) -> Option<ZoneRead> {
    catch_unwind(AssertUnwindSafe(read)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_bug_while_a_zone_is_read_is_an_error_of_that_zone() {
        let path = Path::new("/zones/one");
        assert!(or_none(|| panic!("on purpose")).is_none());
        let left = left_by_a_bug(path);
        assert!(left.zone.is_none() && left.fingerprint.is_none() && !left.is_missing);
        let message = left.diagnostics[0].to_string();
        assert!(
            message.contains("/zones/one") && message.contains("internal error"),
            "{message}"
        );
    }
}
