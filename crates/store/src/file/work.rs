//! Owns the threads that read zone files: as many as there are cores, each taking the next few
//! files from a common list and handing back what it read through a bounded channel.

use std::{
    path::PathBuf,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use nameward_wire::Name;

use super::{
    one::{Fingerprint, Reader, ZoneRead, fingerprint_now},
    scan::Candidate,
};

/// Files a thread takes at a time: enough that threads rarely meet, few enough that no thread is
/// left with a long list at the end.
const GROUP: usize = 32;
/// Groups that may wait to be taken over; then readers wait, so memory stays bounded.
const WAITING: usize = 64;

/// A file to look at.
pub(super) struct Job {
    pub candidate: Candidate,
    /// As it was when it was read last.
    pub fingerprint: Option<Fingerprint>,
    pub includes: Option<Box<[PathBuf]>>,
}

/// What became of a file.
pub(super) struct Outcome {
    pub name: Box<[u8]>,
    /// `None`: it did not change.
    pub read: Option<ZoneRead>,
}

/// Reads all jobs and calls `take` on this thread for each outcome, in no order.
pub(super) fn read_all(jobs: Vec<Job>, mut take: impl FnMut(Outcome)) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(jobs.len().div_ceil(GROUP));
    if threads <= 1 && jobs.len() <= 1 {
        let mut reader = Reader::new();
        jobs.iter().for_each(|job| take(look_at(&mut reader, job)));
        return;
    }
    // A handful of zones may be large ones: then each is worth a thread.
    let group = if jobs.len() <= GROUP * cores {
        1
    } else {
        GROUP
    };
    let threads = cores.min(jobs.len());
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::sync_channel::<Vec<Outcome>>(WAITING);
    thread::scope(|scope| {
        for _ in 0..threads {
            let (jobs, next, sender) = (&jobs, &next, sender.clone());
            scope.spawn(move || {
                let mut reader = Reader::new();
                loop {
                    let start = next.fetch_add(group, Ordering::Relaxed);
                    let Some(mine) = jobs.get(start..jobs.len().min(start + group)) else {
                        return;
                    };
                    let outcomes = mine.iter().map(|job| look_at(&mut reader, job)).collect();
                    if mine.is_empty() || sender.send(outcomes).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        receiver.into_iter().flatten().for_each(take);
    });
}

fn look_at(reader: &mut Reader, job: &Job) -> Outcome {
    let Candidate { name, path } = &job.candidate;
    let unchanged = job
        .fingerprint
        .is_some_and(|old| fingerprint_now(path, job.includes.as_deref()) == Some(old));
    Outcome {
        name: name.clone(),
        read: (!unchanged).then(|| reader.read(Name::from_valid_wire(name), path)),
    }
}
