//! The head of a SQLite log index: identifies the last commit in a database with a write-ahead log.
//!
//! A transaction that has the write lock reads the head before and after it commits. A chain of such pairs from one head to another
//! shows that nothing else was committed in between: SQLite has one writer at a time, and every commit makes a new head.

use nameward_base::sync::Mutex;
use nameward_state::sqlite_file::beside;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Octets of the header. The index starts with two copies, which are equal unless one is just being written
/// (https://www.sqlite.org/walformat.html section 2.1).
const HEADER: usize = 48;
/// The counter of commits in a header.
const COMMITS: std::ops::Range<usize> = 8..12;
/// The size of the database in pages and the checksum of the last frame, after the last commit.
const LAST_COMMIT: std::ops::Range<usize> = 20..32;
/// How often a head is read that is just being written: at first without a pause, then at this interval. On a busy machine the
/// writer may have to wait for a processor between the two copies.
const TRIES: usize = 100;
const TRIES_WITHOUT_PAUSE: usize = 3;
const TRY_INTERVAL: Duration = Duration::from_millis(1);

/// The head of a log index: the fields of its header that change with a commit, and only then. The number of frames and the salts
/// change when the log is restarted, too: by the next writer after a checkpoint, or by the checkpoint itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LogHead {
    commits: u32,
    last: [u8; 12],
}

impl LogHead {
    /// Checks whether this is the head of the commit after another. The caller knows that no recovery was in between, which starts
    /// to count again.
    pub(crate) fn is_next_after(&self, before: &LogHead) -> bool {
        self.commits == before.commits.wrapping_add(1)
    }

    fn read(header: &[u8]) -> Option<Self> {
        Some(LogHead {
            // The index is in the byte order of the machine: it is shared memory.
            commits: u32::from_ne_bytes(header.get(COMMITS)?.try_into().ok()?),
            last: header.get(LAST_COMMIT)?.try_into().ok()?,
        })
    }

    #[cfg(test)]
    pub(crate) fn numbered(commits: u32, content: u8) -> Self {
        let last = [content; 12];
        LogHead { commits, last }
    }
}

/// The log index of one database.
pub(crate) struct LogIndex {
    path: PathBuf,
    /// It stays open: closing any descriptor of a file drops all locks of the process on it, including those of SQLite
    /// (https://www.sqlite.org/howtocorrupt.html section 2.2).
    open: Mutex<Option<OpenIndex>>,
}

struct OpenIndex {
    file: File,
    inode: u64,
}

impl LogIndex {
    pub(crate) fn new(database: &Path) -> Self {
        LogIndex {
            path: beside(database, "-shm"),
            open: Mutex::default(),
        }
    }

    /// Reads the head; `None` if the database has no write-ahead log, or a writer died while it wrote the head.
    pub(crate) fn head(&self) -> Option<LogHead> {
        let mut open = self.open.lock();
        if open.is_none() {
            *open = self.open_file().ok();
        }
        let mut headers = [0; 2 * HEADER];
        let file = &open.as_ref()?.file;
        for tried in 0..TRIES {
            if tried >= TRIES_WITHOUT_PAUSE {
                thread::sleep(TRY_INTERVAL);
            }
            file.read_exact_at(&mut headers, 0).ok()?;
            let (first, second) = headers.split_at(HEADER);
            if first == second {
                return LogHead::read(first);
            }
        }
        None
    }

    /// Opens the index again if its file is another one by now: the database was replaced.
    pub(crate) fn follow_file(&self) {
        let mut open = self.open.lock();
        let inode = std::fs::metadata(&self.path).map(|file| file.ino()).ok();
        if open.as_ref().is_some_and(|open| Some(open.inode) != inode) {
            *open = None;
        }
    }

    fn open_file(&self) -> io::Result<OpenIndex> {
        let file = File::open(&self.path)?;
        let inode = file.metadata()?.ino();
        Ok(OpenIndex { file, inode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn every_commit_makes_the_next_head_and_reading_makes_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        let connection = Connection::open(&path).unwrap();
        let sql = "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 4; CREATE TABLE t (x)";
        connection.execute_batch(sql).unwrap();
        let index = LogIndex::new(&path);
        let other = Connection::open(&path).unwrap();
        for n in 0..40 {
            let before = index.head().unwrap();
            other
                .query_row("SELECT count(*) FROM t", [], |_| Ok(()))
                .unwrap();
            assert_eq!(index.head(), Some(before));
            let sql = "INSERT INTO t VALUES (zeroblob(9000))";
            [&connection, &other][n % 2].execute(sql, []).unwrap();
            let after = index.head().unwrap();
            assert!(after.is_next_after(&before), "commit {n}");
        }
    }

    #[test]
    fn a_head_whose_writer_waits_for_a_processor_is_read_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        let file = File::create(directory.path().join("test.db-shm")).unwrap();
        let [old, new] = [1, 2].map(|content| [content; HEADER]);
        file.write_all_at(&[old, new].concat(), 0).unwrap();
        let writer = thread::spawn(move || {
            thread::sleep(20 * TRY_INTERVAL);
            file.write_all_at(&new, 0).unwrap();
        });
        assert_eq!(LogIndex::new(&path).head(), LogHead::read(&new));
        writer.join().unwrap();
    }

    #[test]
    fn a_restart_of_the_log_makes_no_head() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        let connection = Connection::open(&path).unwrap();
        let sql = "PRAGMA journal_mode = WAL; PRAGMA cache_size = 2; CREATE TABLE t (x)";
        connection.execute_batch(sql).unwrap();
        let index = LogIndex::new(&path);
        let header = || std::fs::read(beside(&path, "-shm")).unwrap()[..HEADER].to_vec();
        let pages = "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 40) \
                     INSERT INTO t SELECT zeroblob(9000) FROM n";
        // The next writer restarts the log as soon as it writes pages, long before it commits.
        let by_writer = format!("PRAGMA wal_checkpoint(RESTART); BEGIN; {pages}");
        for sql in ["PRAGMA wal_checkpoint(TRUNCATE)", &by_writer] {
            connection.execute("INSERT INTO t VALUES (1)", []).unwrap();
            let (before, whole) = (index.head().unwrap(), header());
            connection.execute_batch(sql).unwrap();
            assert_ne!(header(), whole, "the log is restarted: {sql}");
            assert_eq!(index.head(), Some(before), "{sql}");
        }
        let before = index.head().unwrap();
        connection.execute_batch("COMMIT").unwrap();
        assert!(index.head().unwrap().is_next_after(&before));
    }

    #[test]
    fn a_database_without_a_log_has_no_head() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        assert_eq!(LogIndex::new(&path).head(), None);
    }
}
