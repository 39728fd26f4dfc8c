//! Detection of external changes to a SQLite file: replaced, emptied, restored from a backup, or just written to.
//!
//! A connection relies on its file only changing by SQLite's rules. `cp backup.db live.db` breaks them: the connection
//! continues with pages and a schema that no longer exist. Such a file differs from one with new commits in what SQLite
//! leaves behind: only a checkpoint writes to the file of a database with a write-ahead log, and it records that in the
//! log index before it writes.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The octets of a log index in which checkpoints leave traces: salts and frames of the log, and the frames that
/// checkpoints have copied or will copy (https://www.sqlite.org/walformat.html sections 2.1 and 2.2).
const INDEX_HEAD: usize = 136;
const SALTS: std::ops::Range<usize> = 32..40;
const COPIED: std::ops::Range<usize> = 96..100;
const ATTEMPTED: std::ops::Range<usize> = 128..132;

/// The difference between two checks of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// Nothing that a connection does not notice itself.
    None,
    /// A database without a write-ahead log was written to.
    Written,
    /// The file or its contents were replaced.
    Replaced,
    /// It existed and no longer does. Connections still read it, but writes of others go elsewhere.
    Missing,
}

/// Identifies a file by its device and inode.
type FileIdentity = (u64, u64);

/// The relevant octets of the log index.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Checkpoint {
    salts: [u8; 8],
    copied: [u8; 4],
    attempted: [u8; 4],
}

#[derive(Clone, Copy)]
struct FileCheck {
    file: FileIdentity,
    /// Identifies the contents: their size, and seconds and nanoseconds of their last change.
    contents: (u64, i64, i64),
    log: Option<FileIdentity>,
    index: Option<FileIdentity>,
    /// From before the contents were inspected.
    checkpoint: Option<Checkpoint>,
}

/// Tracks the file of one database from check to check.
pub struct DatabaseFile {
    path: PathBuf,
    last: Option<FileCheck>,
    /// The log index. It stays open: closing any descriptor of a file drops all locks of the process on it, including
    /// those of SQLite (https://www.sqlite.org/howtocorrupt.html section 2.2).
    index: Option<(FileIdentity, File)>,
}

impl DatabaseFile {
    /// Watches the file at `path`.
    pub fn new(path: &Path) -> Self {
        DatabaseFile {
            path: path.into(),
            last: None,
            index: None,
        }
    }

    /// Checks the file; the first check reports no change, and a file that never existed is waited for.
    pub fn check(&mut self) -> FileChange {
        let index = self.beside("-shm").map(|index| identity(&index));
        let checkpoint = index.and_then(|index| self.read_checkpoint(index));
        let file = match std::fs::metadata(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound && self.last.is_some() => {
                return FileChange::Missing;
            }
            Err(_) => return FileChange::None,
        };
        let log = self.beside("-wal").map(|log| identity(&log));
        let now = FileCheck {
            file: identity(&file),
            contents: (file.size(), file.mtime(), file.mtime_nsec()),
            log,
            index,
            checkpoint,
        };
        // A checkpoint writes to the file after its first trace and before its last one, and it may run right now: traces are
        // compared from before the last inspection of the contents until after this one.
        let latest = index.and_then(|index| self.read_checkpoint(index));
        match self.last.replace(now) {
            Some(before) => change(&before, &now, latest),
            None => FileChange::None,
        }
    }

    fn beside(&self, end: &str) -> Option<Metadata> {
        std::fs::metadata(beside(&self.path, end)).ok()
    }

    fn read_checkpoint(&mut self, index: FileIdentity) -> Option<Checkpoint> {
        if self.index.as_ref().is_none_or(|(open, _)| *open != index) {
            let file = File::open(beside(&self.path, "-shm")).ok()?;
            self.index = Some((index, file));
        }
        let mut head = [0; INDEX_HEAD];
        let (_, file) = self.index.as_ref()?;
        file.read_exact_at(&mut head, 0).ok()?;
        Some(Checkpoint {
            salts: head[SALTS].try_into().ok()?,
            copied: head[COPIED].try_into().ok()?,
            attempted: head[ATTEMPTED].try_into().ok()?,
        })
    }
}

/// Returns the path of a file that SQLite has beside a database: `-wal`, `-shm`, `-journal`.
pub fn beside(database: &Path, end: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(end);
    path.into()
}

fn identity(file: &Metadata) -> FileIdentity {
    (file.dev(), file.ino())
}

fn change(before: &FileCheck, now: &FileCheck, latest: Option<Checkpoint>) -> FileChange {
    // While connections are open, only an operator removes or replaces a log.
    let is_other = |before: Option<FileIdentity>, now| before.is_some() && before != now;
    if before.file != now.file || is_other(before.log, now.log) || is_other(before.index, now.index)
    {
        return FileChange::Replaced;
    }
    if before.contents == now.contents {
        return FileChange::None;
    }
    match (before.checkpoint, latest) {
        // It writes until it has copied what it will copy.
        (Some(_), Some(latest)) if latest.copied != latest.attempted => FileChange::None,
        (Some(before), Some(latest)) if before == latest => FileChange::Replaced,
        (Some(_), Some(_)) => FileChange::None,
        _ => FileChange::Written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn database(mode: &str) -> (tempfile::TempDir, PathBuf, Connection) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode = {mode}; CREATE TABLE t (x); INSERT INTO t VALUES (1)"
            ))
            .unwrap();
        (directory, path, connection)
    }

    /// Overwrites a file with the contents of another, as `cp` does.
    fn copy_over(from: &Path, to: &Path) {
        // The file system clock may stand still for some milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(to, std::fs::read(from).unwrap()).unwrap();
    }

    #[test]
    fn commits_and_checkpoints_are_no_replacement() {
        let (_directory, path, connection) = database("WAL");
        let mut file = DatabaseFile::new(&path);
        assert_eq!(file.check(), FileChange::None);
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            connection.execute("INSERT INTO t VALUES (2)", []).unwrap();
            assert_eq!(file.check(), FileChange::None);
            connection
                .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
                .unwrap();
            assert_eq!(file.check(), FileChange::None);
        }
    }

    #[test]
    fn checkpoints_that_run_during_a_check_are_no_replacement() {
        let (_directory, path, connection) = database("WAL");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let writer = connection;
                let sql = "INSERT INTO t VALUES (zeroblob(20000)); PRAGMA wal_checkpoint(PASSIVE)";
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    writer.execute_batch(sql).unwrap();
                }
            });
            let mut file = DatabaseFile::new(&path);
            let changes: Vec<FileChange> = (0..20_000).map(|_| file.check()).collect();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(
                changes.iter().find(|change| **change != FileChange::None),
                None
            );
        });
    }

    #[test]
    fn contents_copied_over_a_file_are_a_replacement() {
        let (directory, path, connection) = database("WAL");
        connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .unwrap();
        let backup = directory.path().join("backup.db");
        std::fs::write(&backup, std::fs::read(&path).unwrap()).unwrap();
        let mut file = DatabaseFile::new(&path);
        file.check();
        copy_over(&backup, &path);
        assert_eq!(file.check(), FileChange::Replaced);
        assert_eq!(file.check(), FileChange::None);
        copy_over(Path::new("/dev/null"), &path);
        assert_eq!(file.check(), FileChange::Replaced, "emptied");
        std::fs::rename(&backup, &path).unwrap();
        assert_eq!(file.check(), FileChange::Replaced, "another file");
        std::fs::remove_file(directory.path().join("test.db-wal")).unwrap();
        assert_eq!(file.check(), FileChange::Replaced, "without its log");
    }

    #[test]
    fn a_file_that_was_there_is_missing_until_it_is_back() {
        let (directory, path, _connection) = database("WAL");
        let mut file = DatabaseFile::new(&directory.path().join("none.db"));
        assert_eq!(file.check(), FileChange::None);
        let mut file = DatabaseFile::new(&path);
        file.check();
        let away = directory.path().join("away.db");
        std::fs::rename(&path, &away).unwrap();
        assert_eq!(file.check(), FileChange::Missing);
        assert_eq!(file.check(), FileChange::Missing);
        std::fs::rename(&away, &path).unwrap();
        assert_eq!(file.check(), FileChange::None);
    }

    #[test]
    fn a_database_without_a_log_is_written_to() {
        let (_directory, path, connection) = database("DELETE");
        let mut file = DatabaseFile::new(&path);
        assert_eq!(file.check(), FileChange::None);
        std::thread::sleep(std::time::Duration::from_millis(20));
        connection.execute("INSERT INTO t VALUES (2)", []).unwrap();
        assert_eq!(file.check(), FileChange::Written);
        assert_eq!(file.check(), FileChange::None);
    }
}
