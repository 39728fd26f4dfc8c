//! Watches zone files: which directories, what their events mean, and when to check.
//!
//! One watch per directory, however many files it has. Events become paths that wait until they are quiet
//! ([`pending`]); then the caller checks them in the same way as a reload. If the kernel grants no more watches, all
//! files are polled instead.

mod listed;
mod pending;
mod sys;

use nameward_base::file::opened;
use nameward_base::sync::Mutex;
use nameward_base::worker::{self, panic_guard};
use std::{
    collections::HashMap,
    ffi::OsStr,
    hash::{BuildHasher, RandomState},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub use pending::ScanScope;

use super::inventory::Slot;
use nameward_import::reason_of;
use pending::Pending;
use sys::{Inotify, InotifyEvent};

/// Maximum number of watched directories.
const WATCHES_MAX: usize = 100_000;
/// How long the thread sleeps when nothing is pending; also how soon it ends after its handle is dropped.
const TICK: Duration = Duration::from_secs(1);
/// How soon a check that was declined is offered again.
const AGAIN: Duration = Duration::from_millis(50);
/// Polling without watches: not more often than this interval, and at most a fiftieth of the time.
const POLL: Duration = Duration::from_secs(10);
const POLL_SHARE: u32 = 50;

/// The zones that a file affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    /// A zone of a list: the file is checked alone.
    Zone,
    /// More than one zone may depend on it.
    All,
}

/// The files of a directory that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchedFiles {
    /// Explicitly named files.
    Named,
    /// Also every `*.zone`, and directories.
    Zones,
    /// All files.
    Any,
}

/// Watches directories. Clones share one watcher; it ends with the last of them.
#[derive(Clone)]
pub struct Watcher(Arc<WatcherInner>);

struct WatcherInner {
    /// `None`: not available from the kernel.
    inotify: Option<Inotify>,
    state: Mutex<WatchState>,
    keys: RandomState,
    /// A check of everything was requested.
    is_requested: AtomicBool,
}

#[derive(Default)]
struct WatchState {
    /// By the kernel's watch numbers. One directory may be known by several paths.
    directories: HashMap<i32, Vec<Directory>>,
    /// By the hashes of their paths.
    files: HashMap<u64, (Interest, u32)>,
    /// Directories of files, by the hashes of their paths, and the round in which they were watched.
    parents: HashMap<u64, u32>,
    round: u32,
    /// Polling interval, if not everything is watched.
    poll: Option<Duration>,
}

struct Directory {
    path: PathBuf,
    kind: WatchedFiles,
    round: u32,
    /// Sorted hashes of the names of its files that a long list has. On a hash collision one file too many is
    /// checked, and no zone is found in it.
    listed: Vec<u32>,
}

impl Watcher {
    /// Starts watching. `scan` is called from a separate thread for whatever changed; if it returns false because it
    /// has no room, it is called again soon.
    pub fn start(scan: impl Fn(&ScanScope) -> bool + Send + 'static) -> io::Result<Self> {
        let (inotify, error) = match Inotify::new() {
            Ok(inotify) => (Some(inotify), None),
            Err(error) => (None, Some(error)),
        };
        let inner = Arc::new(WatcherInner {
            inotify,
            state: Mutex::default(),
            keys: RandomState::new(),
            is_requested: AtomicBool::new(false),
        });
        if let Some(error) = error {
            inner.fall_back(&reason_of(&error));
        }
        let weak = Arc::downgrade(&inner);
        worker::start("file-watch", move || {
            while !panic_guard("watching zone files", || run(&weak, &scan)) {
                // Events may be lost: everything is scanned again.
                if let Some(inner) = weak.upgrade() {
                    inner.is_requested.store(true, Ordering::Relaxed);
                }
            }
        })?;
        Ok(Self(inner))
    }

    /// Starts a full scan: files not named until its [end](Self::end) are no longer watched.
    pub(super) fn begin(&self) {
        let mut state = self.0.state.lock();
        state.round = state.round.wrapping_add(1);
    }

    /// Watches a directory. Must be called before the directory is read, so that nothing is missed.
    pub(super) fn directory(&self, path: &Path, kind: WatchedFiles) {
        let mut state = self.0.state.lock();
        let Some(inotify) = &self.0.inotify else {
            return;
        };
        if state.directories.len() >= WATCHES_MAX {
            drop(state);
            return self.0.fall_back("too many directories");
        }
        let watch = match inotify.add(opened(path)) {
            Ok(watch) => watch,
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                drop(state);
                return self.0.fall_back("the inotify watch limit is reached");
            }
            Err(_) => {
                drop(state);
                // It does not exist, or may not be read: its parent gets the event when that changes.
                if path.parent().is_some() {
                    self.file(path, Interest::All);
                }
                return;
            }
        };
        let round = state.round;
        let directories = state.directories.entry(watch).or_default();
        match directories
            .iter_mut()
            .find(|directory| directory.path == path)
        {
            Some(directory) if directory.round == round && kind == WatchedFiles::Named => {}
            Some(directory) if directory.round == round && directory.kind == WatchedFiles::Any => {}
            Some(directory) => {
                if directory.round != round {
                    directory.listed = Vec::new();
                }
                (directory.kind, directory.round) = (kind, round);
            }
            None => directories.push(Directory {
                path: path.to_path_buf(),
                kind,
                round,
                listed: Vec::new(),
            }),
        }
    }

    /// Watches one file, and its link target; returns whether it was not watched before.
    pub(super) fn file(&self, path: &Path, interest: Interest) -> bool {
        let key = self.0.key(path);
        let parent = path.parent().unwrap_or(Path::new(""));
        let (is_new, needs_parent) = {
            let mut state = self.0.state.lock();
            let round = state.round;
            let before = state.files.insert(key, (interest, round));
            // Thousands of files of one directory need one watch.
            let parent_key = self.0.directory_key(parent);
            let parent_before = state.parents.insert(parent_key, round);
            (before.is_none(), parent_before != Some(round))
        };
        if needs_parent {
            self.directory(parent, WatchedFiles::Named);
        }
        if path.is_symlink()
            && let Ok(target) = path.canonicalize()
        {
            self.link_target(&target);
        }
        is_new
    }

    /// Watches a link target: a change there is a change of the link.
    pub(super) fn link_target(&self, target: &Path) {
        let mut state = self.0.state.lock();
        let round = state.round;
        let key = self.0.key(target);
        state.files.insert(key, (Interest::All, round));
        drop(state);
        if let Some(parent) = target.parent() {
            self.directory(parent, WatchedFiles::Named);
        }
    }

    /// Finishes a full scan, which took this long.
    pub(super) fn end(&self, took: Duration) {
        let mut state = self.0.state.lock();
        let round = state.round;
        state.files.retain(|_, (_, seen)| *seen == round);
        state.parents.retain(|_, seen| *seen == round);
        let mut gone = Vec::new();
        state.directories.retain(|watch, paths| {
            paths.retain(|directory| directory.round == round);
            if paths.is_empty() {
                gone.push(*watch);
            }
            !paths.is_empty()
        });
        if let Some(inotify) = &self.0.inotify {
            gone.into_iter().for_each(|watch| inotify.remove(watch));
        }
        if let Some(poll) = &mut state.poll {
            *poll = POLL.max(took * POLL_SHARE);
        }
    }

    /// Watches the files that zones include. Another check of everything is requested if one was not watched before.
    pub(super) fn included<'s>(&self, zones: impl Iterator<Item = &'s Slot>) {
        let mut is_new = false;
        for path in zones.flat_map(Slot::includes) {
            is_new |= self.file(path, Interest::All);
        }
        if is_new {
            self.0.is_requested.store(true, Ordering::Relaxed);
        }
    }
}

impl WatcherInner {
    fn key(&self, path: &Path) -> u64 {
        let parent = path.parent().unwrap_or(Path::new(""));
        let file = path.file_name().unwrap_or_default();
        self.file_key(self.directory_key(parent), file)
    }

    /// Returns the hash of a file's name, for [`Directory::listed`].
    fn name_hash(&self, name: &[u8]) -> u32 {
        self.keys.hash_one(name) as u32
    }

    /// Returns the key of a file in a directory with this key.
    fn file_key(&self, directory: u64, file: &OsStr) -> u64 {
        self.keys.hash_one((directory, file.as_bytes()))
    }

    fn directory_key(&self, path: &Path) -> u64 {
        // Different spellings of one path have the same hash.
        self.keys.hash_one(path)
    }

    fn fall_back(&self, reason: &str) {
        let mut state = self.state.lock();
        if state.poll.is_none() {
            let seconds = POLL.as_secs();
            tracing::warn!(
                "cannot watch all zone files: {reason}; polling every {seconds} s instead (see \
                 fs.inotify.max_user_watches)"
            );
            state.poll = Some(POLL);
        }
    }

    fn take_events(&self, pending: &mut Pending) {
        let Some(inotify) = &self.inotify else {
            return;
        };
        let mut state = self.state.lock();
        // Bounded: an endless stream of events is as bad as a lost one.
        for _ in 0..1000 {
            let read = inotify.read(|event| self.take(event, &mut state, pending));
            match read {
                Ok(true) => {}
                Ok(false) | Err(_) => return,
            }
        }
        pending.all(Instant::now());
    }

    fn take(&self, event: InotifyEvent<'_>, state: &mut WatchState, pending: &mut Pending) {
        let now = Instant::now();
        if event.is_overflow() {
            return pending.all(now);
        }
        if event.is_ignored() {
            state.directories.remove(&event.watch);
            return;
        }
        let directories = state.directories.get(&event.watch);
        for directory in directories.into_iter().flatten() {
            if event.name.is_empty() {
                // The directory itself was moved or removed, or its permissions changed.
                pending.all(now);
                continue;
            }
            let path = directory.path.join(event.name);
            let name = event.name.as_bytes();
            let is_listed = || {
                directory
                    .listed
                    .binary_search(&self.name_hash(name))
                    .is_ok()
            };
            let interest = match state.files.get(&self.key(&path)) {
                Some((interest, _)) => Some(*interest),
                None => is_listed().then_some(Interest::Zone),
            };
            let is_hidden = name.starts_with(b".");
            let (alone, all) = match (interest, directory.kind) {
                (Some(interest), _) => (true, interest == Interest::All),
                // If a directory is replaced as a whole, its links start with two dots.
                (None, WatchedFiles::Zones) if is_hidden => (false, name.starts_with(b"..")),
                (None, WatchedFiles::Any) if !is_hidden => (true, true),
                (None, WatchedFiles::Zones) if event.is_directory() => (false, true),
                (None, WatchedFiles::Zones) => (name.ends_with(b".zone"), false),
                (None, _) => (false, false),
            };
            if all || (alone && event.is_directory()) {
                pending.all(now);
            }
            if alone && !event.is_directory() {
                pending.file(path, event.is_unfinished(), now);
            }
        }
    }
}

fn run(weak: &Weak<WatcherInner>, scan: impl Fn(&ScanScope) -> bool) {
    let mut pending = Pending::default();
    let mut polled = Instant::now();
    let mut refused = false;
    loop {
        let Some(inner) = weak.upgrade() else { return };
        let now = Instant::now();
        let wait = match pending.next(now) {
            _ if refused => AGAIN,
            Some(wait) => wait.clamp(Duration::from_millis(10), TICK),
            None => TICK,
        };
        match &inner.inotify {
            Some(inotify) if !refused && inotify.wait(wait).is_ok() => {}
            _ => thread::sleep(wait),
        }
        inner.take_events(&mut pending);
        let now = Instant::now();
        let poll = inner.state.lock().poll;
        let is_poll = poll.is_some_and(|poll| now - polled >= poll);
        if is_poll || inner.is_requested.swap(false, Ordering::Relaxed) {
            pending.all(now);
            polled = now;
        }
        refused = match pending.due(now) {
            Some(what) if scan(&what) => {
                pending.take(&what);
                false
            }
            Some(_) => true,
            None => false,
        };
    }
}

#[cfg(test)]
mod tests;
