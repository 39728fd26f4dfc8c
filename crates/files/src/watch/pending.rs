//! Changes that were seen and are not processed yet: editors write a file several times, and a file that is being
//! written is left alone until it is quiet.

use std::{
    collections::HashMap,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Delay for a file that was closed, moved or removed.
const QUIET: Duration = Duration::from_millis(100);
/// Delay for a file that seems to be open for writing.
const QUIET_OPEN: Duration = Duration::from_secs(1);
/// A file that is closed repeatedly is checked at the first close after this time.
const LATEST: Duration = Duration::from_secs(2);
/// How long a check of everything waits for files that are being written.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Maximum number of files remembered individually; beyond it, all are checked.
const FILES_MAX: usize = 4096;

/// The files to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanScope {
    /// These files.
    Files(Vec<PathBuf>),
    /// All sources.
    All,
}

#[derive(Default)]
pub(super) struct Pending {
    /// When each file becomes quiet, and the deadline for that.
    files: HashMap<PathBuf, (Instant, Instant)>,
    /// When everything is checked, and the deadline for that.
    all: Option<(Instant, Instant)>,
}

impl Pending {
    /// Records that a file changed; it may still be open.
    pub(super) fn file(&mut self, path: PathBuf, is_unfinished: bool, now: Instant) {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&path) {
            return self.all(now);
        }
        let quiet = if is_unfinished { QUIET_OPEN } else { QUIET };
        let waiting = self.files.entry(path).or_insert((now, now + LATEST));
        waiting.0 = if waiting.1 <= now && !is_unfinished {
            // Just closed, so it is complete, and no time would be better: it may be rewritten forever.
            now
        } else {
            now + quiet
        };
    }

    /// Records a change that affects more than single files.
    pub(super) fn all(&mut self, now: Instant) {
        let latest = self.all.map_or(now + MAX_WAIT, |(_, latest)| latest);
        self.all = Some(((now + QUIET).min(latest), latest));
    }

    /// Returns the time until something is due; `None` if nothing is pending.
    pub(super) fn next(&self, now: Instant) -> Option<Duration> {
        let files = self.files.values().map(|(quiet, _)| *quiet).min();
        let all = self.all.map(|(due, _)| due);
        let next = files.into_iter().chain(all).min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Returns the check that is due now. It stays until it is [taken](Self::take).
    pub(super) fn due(&mut self, now: Instant) -> Option<ScanScope> {
        if let Some((due, latest)) = self.all {
            // A file that is being written would be read incompletely.
            let busy = self.files.values().map(|(quiet, _)| *quiet).max();
            let due = busy.map_or(due, |busy| due.max(busy)).min(latest);
            if due <= now {
                return Some(ScanScope::All);
            }
            self.all = Some((due, latest));
        }
        let quiet = self.files.iter().filter(|(_, (quiet, _))| *quiet <= now);
        let mut paths: Vec<PathBuf> = quiet.map(|(path, _)| path.clone()).collect();
        paths.sort();
        (!paths.is_empty()).then_some(ScanScope::Files(paths))
    }

    /// Removes the files of a check that starts now.
    pub(super) fn take(&mut self, scope: &ScanScope) {
        match scope {
            ScanScope::All => *self = Self::default(),
            ScanScope::Files(paths) => paths.iter().for_each(|path| {
                self.files.remove(path);
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_file_is_scanned_once_when_it_is_quiet() {
        let (mut pending, start) = (Pending::default(), Instant::now());
        for n in 0..10 {
            pending.file("a".into(), false, start + n * 50 * MS);
        }
        assert_eq!(pending.due(start + 500 * MS), None);
        let scope = pending.due(start + 560 * MS).unwrap();
        assert_eq!(scope, ScanScope::Files(vec!["a".into()]));
        pending.take(&scope);
        assert_eq!(pending.next(start), None);
    }

    #[test]
    fn a_file_that_is_never_quiet_is_scanned_when_it_is_closed_after_the_deadline() {
        let (mut pending, start) = (Pending::default(), Instant::now());
        let mut now = start;
        // Opened and closed every 50 ms.
        let scope = loop {
            pending.file("busy".into(), true, now);
            assert_eq!(pending.due(now), None, "it is open");
            now += 25 * MS;
            pending.file("busy".into(), false, now);
            if let Some(scope) = pending.due(now) {
                break scope;
            }
            now += 25 * MS;
            assert!(now < start + 2 * LATEST);
        };
        assert_eq!(scope, ScanScope::Files(vec!["busy".into()]));
        assert!(now >= start + LATEST);
        pending.take(&scope);
        // From then on it waits again.
        pending.file("busy".into(), false, now);
        assert_eq!(pending.due(now), None);
    }

    #[test]
    fn a_file_that_is_being_written_waits_longer_and_keeps_no_other_waiting() {
        let (mut pending, start) = (Pending::default(), Instant::now());
        pending.file("slow".into(), true, start);
        pending.file("quick".into(), false, start);
        let scope = pending.due(start + 100 * MS).unwrap();
        assert_eq!(scope, ScanScope::Files(vec!["quick".into()]));
        pending.take(&scope);
        // Closed: now it is quick too.
        pending.file("slow".into(), false, start + 200 * MS);
        assert!(pending.due(start + 250 * MS).is_none());
        assert!(pending.due(start + 300 * MS).is_some());
    }

    #[test]
    fn a_full_scan_waits_for_writers_but_not_forever() {
        let (mut pending, start) = (Pending::default(), Instant::now());
        pending.all(start);
        let mut now = start;
        while pending.due(now).is_none() {
            pending.file("endless".into(), true, now);
            now += 100 * MS;
            assert!(now < start + 2 * MAX_WAIT);
        }
        assert_eq!(pending.due(now), Some(ScanScope::All));
        assert!(now >= start + MAX_WAIT);
        pending.take(&ScanScope::All);
        assert_eq!(pending.next(now), None);
    }

    #[test]
    fn too_many_files_cause_a_full_scan() {
        let (mut pending, start) = (Pending::default(), Instant::now());
        for n in 0..2 * FILES_MAX {
            pending.file(n.to_string().into(), false, start);
        }
        assert_eq!(pending.due(start + 200 * MS), Some(ScanScope::All));
    }
}
