//! Commits of this server: how their notifications differ from those of others.
//!
//! A database sends a notification for every change, regardless of who made it, and a zone in memory would be reloaded
//! as a whole. The records that a commit of this server changed are known here, so its notification need not trigger a
//! read. It is recognised by the versions in the table of changes (SQLite, MySQL), by the session that sent it and the
//! number of its transaction (PostgreSQL), or by the heads of the log index before and after it (SQLite without that table). Commits are registered
//! before they end, because a notification can overtake the result of its commit.

use super::super::DatabaseAddress;
use super::super::log_index::{LogHead, LogIndex};
use nameward_base::sync::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// Identifies the notification of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitMark {
    /// The commit alone took a zone from one version in the table of changes to another.
    Versions {
        /// The version before.
        before: i64,
        /// The version after.
        after: i64,
    },
    /// The commit was made by this PostgreSQL session, which sends one notification for it.
    Session {
        /// The process of the session.
        process: i32,
        /// The number of the transaction in the table of changes, if there is one.
        transaction: Option<i64>,
    },
    /// The heads of the log index show that the commit was made here.
    Log,
}

/// Maximum number of commits between two checks for changes; with more of them, everything counts as changed.
const LOGGED_MAX: usize = 4096;

/// Maximum number of transactions that the table of changes has not shown yet; beyond it they count as those of others.
const TRANSACTIONS_MAX: usize = 16_384;

/// The commits of this server that the follower has not received yet.
pub(crate) struct OwnCommits {
    /// Set when notifications are awaited.
    is_watched: AtomicBool,
    noted: Mutex<NotedCommits>,
    /// The log index of a SQLite database.
    log: Option<LogIndex>,
}

#[derive(Default)]
struct NotedCommits {
    /// Commits of each zone that are in progress, or whose differences the follower has not received.
    unfollowed: HashMap<i64, usize>,
    /// Expected notifications for a zone from a session.
    notices: HashMap<(i64, i32), usize>,
    /// Rows that the table of changes will show: zone and transaction.
    transactions: HashSet<(i64, i64)>,
    logged: LoggedCommits,
}

/// Commits of this server that follow each other in the log.
#[derive(Default)]
struct LoggedCommits {
    /// The commit after a head, by that head.
    after: HashMap<LogHead, LoggedCommit>,
    /// The commit that is being written: the head before it, which is the last one as long as its transaction has the lock, and
    /// its zones.
    current: Option<(LogHead, Vec<i64>)>,
    /// A commit failed, and its lock may have been released before that was noticed.
    is_uncertain: bool,
}

struct LoggedCommit {
    head: LogHead,
    zones: Vec<i64>,
}

impl LoggedCommits {
    /// Returns the zones changed from one head to another if all commits in between are known, and forgets those commits.
    fn between(&mut self, seen: &LogHead, now: &LogHead) -> Option<HashSet<i64>> {
        let mut zones = HashSet::new();
        let mut at = *seen;
        while at != *now {
            if let Some(commit) = self.after.remove(&at) {
                zones.extend(commit.zones);
                at = commit.head;
                continue;
            }
            // The lock keeps others out until the commit after this head is made.
            match &self.current {
                Some((before, own)) if *before == at && now.is_next_after(before) => {
                    zones.extend(own);
                    at = *now;
                }
                _ => return None,
            }
        }
        Some(zones)
    }

    /// Forgets commits that no later head leads to.
    fn keep_from(&mut self, now: &LogHead) {
        let (mut kept, mut at) = (HashMap::new(), *now);
        while let Some(commit) = self.after.remove(&at) {
            let before = std::mem::replace(&mut at, commit.head);
            kept.insert(before, commit);
        }
        self.after = kept;
    }
}

/// A transaction that has the write lock of a SQLite database, and the head of the log index before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoggedTransaction(LogHead);

impl OwnCommits {
    pub(crate) fn new(address: &DatabaseAddress) -> Self {
        OwnCommits {
            is_watched: AtomicBool::new(false),
            noted: Mutex::default(),
            log: match address {
                DatabaseAddress::Sqlite(path) => Some(LogIndex::new(path)),
                DatabaseAddress::Postgres(_) | DatabaseAddress::Mysql(_) => None,
            },
        }
    }

    /// Reads the head of the log index; `None` for other engines, and without a log.
    pub(crate) fn log_head(&self) -> Option<LogHead> {
        self.log.as_ref()?.head()
    }

    /// Notes the start of a transaction that has the write lock and has not written anything. `None` if its commit cannot be
    /// recognised in the log.
    pub(super) fn begin_logged(&self) -> Option<LoggedTransaction> {
        if !self.is_watched.load(Ordering::Relaxed) {
            return None;
        }
        self.log_head().map(LoggedTransaction)
    }

    /// Registers the zones of a transaction that is about to be committed.
    pub(super) fn announce_logged(&self, transaction: LoggedTransaction, zones: Vec<i64>) {
        self.noted.lock().logged.current = Some((transaction.0, zones));
    }

    /// Registers that the announced transaction was committed.
    pub(super) fn end_logged(&self) {
        let head = self.log_head();
        let mut noted = self.noted.lock();
        let Some((before, zones)) = noted.logged.current.take() else {
            return;
        };
        // If another commit followed already, the head of this one is unknown, and the chain ends.
        let Some(head) = head.filter(|head| head.is_next_after(&before)) else {
            drop(noted);
            return self.log.iter().for_each(LogIndex::follow_file);
        };
        if noted.logged.after.len() >= LOGGED_MAX {
            noted.logged.after.clear();
        }
        let commit = LoggedCommit { head, zones };
        noted.logged.after.insert(before, commit);
    }

    /// Registers that the announced transaction was not committed, or that its outcome is unknown.
    pub(super) fn fail_logged(&self) {
        let logged = &mut self.noted.lock().logged;
        logged.is_uncertain |= logged.current.take().is_some();
    }

    /// Returns the zones that this server changed between two heads of the log index; `None` if others may have changed something.
    pub(crate) fn changed_zones(&self, seen: &LogHead, now: &LogHead) -> Option<Vec<i64>> {
        let logged = &mut self.noted.lock().logged;
        let zones = logged.between(seen, now);
        logged.keep_from(now);
        let is_uncertain = std::mem::take(&mut logged.is_uncertain);
        let zones = zones.filter(|_| !is_uncertain)?;
        Some(zones.into_iter().collect())
    }

    /// Records that a watch awaits notifications from now on.
    pub(crate) fn begin_watch(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// Registers the changes of a transaction that is about to be committed.
    pub(super) fn begin(&self, changes: &[(i64, CommitMark)]) {
        if !self.is_watched.load(Ordering::Relaxed) {
            return;
        }
        let mut noted = self.noted.lock();
        for (zone, _) in changes {
            *noted.unfollowed.entry(*zone).or_default() += 1;
        }
        for notice in notices(changes) {
            *noted.notices.entry(notice).or_default() += 1;
        }
        if noted.transactions.len() >= TRANSACTIONS_MAX {
            noted.transactions.clear();
        }
        noted.transactions.extend(transactions(changes));
    }

    /// Unregisters a transaction that was not committed, or whose outcome is unknown: its notifications are then
    /// treated like any other.
    pub(super) fn undo(&self, changes: &[(i64, CommitMark)]) {
        for (zone, _) in changes {
            self.follow(*zone);
        }
        for (zone, session) in notices(changes) {
            self.claim_notice(zone, session);
        }
        for (zone, transaction) in transactions(changes) {
            self.claim_transaction(zone, transaction);
        }
    }

    /// Records that the follower has received one commit of a zone.
    pub(crate) fn follow(&self, zone: i64) {
        lessen(&mut self.noted.lock().unfollowed, &zone);
    }

    /// Drops the commits of a zone that were not delivered to the follower.
    pub(crate) fn abandon(&self, zone: i64) {
        self.noted.lock().unfollowed.remove(&zone);
    }

    /// Counts the commits of a zone that the follower has not received yet.
    pub(crate) fn unfollowed(&self, zone: i64) -> usize {
        self.noted
            .lock()
            .unfollowed
            .get(&zone)
            .copied()
            .unwrap_or(0)
    }

    /// Checks whether a notification belongs to a commit of this server, and expects one less.
    pub(crate) fn claim_notice(&self, zone: i64, session: i32) -> bool {
        lessen(&mut self.noted.lock().notices, &(zone, session))
    }

    /// Checks whether a row of the table of changes belongs to a commit of this server, and no longer expects it.
    pub(crate) fn claim_transaction(&self, zone: i64, transaction: i64) -> bool {
        self.noted.lock().transactions.remove(&(zone, transaction))
    }

    /// Stops expecting notifications: the connection that would deliver them has ended.
    pub(crate) fn forget_notices(&self) {
        self.noted.lock().notices.clear();
    }
}

/// Returns the notifications that PostgreSQL sends for a transaction, without duplicates.
fn notices(changes: &[(i64, CommitMark)]) -> HashSet<(i64, i32)> {
    let notices = changes.iter().filter_map(|(zone, mark)| match mark {
        CommitMark::Session { process, .. } => Some((*zone, *process)),
        CommitMark::Versions { .. } | CommitMark::Log => None,
    });
    notices.collect()
}

/// Returns the rows that a transaction adds to the table of changes of PostgreSQL.
fn transactions(changes: &[(i64, CommitMark)]) -> impl Iterator<Item = (i64, i64)> {
    changes.iter().filter_map(|(zone, mark)| match mark {
        CommitMark::Session { transaction, .. } => Some((*zone, (*transaction)?)),
        CommitMark::Versions { .. } | CommitMark::Log => None,
    })
}

/// Decrements a count; returns false if there is none.
fn lessen<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) -> bool {
    let Some(count) = counts.get_mut(key) else {
        return false;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transaction_claims_one_notice_of_its_session_and_zone() {
        let own = OwnCommits::new(&DatabaseAddress::Sqlite("none.db".into()));
        own.begin_watch();
        let mark = CommitMark::Session {
            process: 7,
            transaction: Some(50),
        };
        let change = (1, mark);
        own.begin(&[change, change]);
        own.begin(&[change]);
        assert_eq!(own.unfollowed(1), 3);
        assert!(!own.claim_notice(1, 8) && !own.claim_notice(2, 7));
        assert!(own.claim_notice(1, 7) && own.claim_notice(1, 7));
        assert!(!own.claim_notice(1, 7));
        assert!(!own.claim_transaction(2, 50) && !own.claim_transaction(1, 51));
        assert!(own.claim_transaction(1, 50), "the table has one row for it");
        assert!(!own.claim_transaction(1, 50));
        own.follow(1);
        own.undo(&[change, change]);
        assert_eq!(own.unfollowed(1), 0);
        own.begin(&[change]);
        own.undo(&[change]);
        assert!(!own.claim_transaction(1, 50));
    }

    #[test]
    fn nothing_is_noted_without_a_reader_of_notices() {
        let own = OwnCommits::new(&DatabaseAddress::Sqlite("none.db".into()));
        let mark = CommitMark::Session {
            process: 7,
            transaction: None,
        };
        own.begin(&[(1, mark)]);
        assert!(!own.claim_notice(1, 7));
        assert_eq!(own.unfollowed(1), 0);
    }

    fn commit(before: &LogHead, head: LogHead, zone: i64) -> (LogHead, LoggedCommit) {
        let zones = vec![zone];
        (*before, LoggedCommit { head, zones })
    }

    #[test]
    fn a_chain_of_commits_explains_a_head_and_one_with_a_gap_does_not() {
        let head = |commits| LogHead::numbered(commits, 1);
        let own = OwnCommits::new(&DatabaseAddress::Sqlite("none.db".into()));
        let chain = [(1, 2, 10), (2, 3, 11), (4, 5, 12), (5, 6, 13)];
        let add = || {
            let mut noted = own.noted.lock();
            let commits = chain
                .iter()
                .map(|(a, b, zone)| commit(&head(*a), head(*b), *zone));
            noted.logged.after.extend(commits);
        };
        add();
        let mut zones = own.changed_zones(&head(1), &head(3)).unwrap();
        zones.sort_unstable();
        assert_eq!(zones, [10, 11]);
        add();
        assert_eq!(
            own.changed_zones(&head(1), &head(6)),
            None,
            "3 to 4 is not ours"
        );
        // What follows the head that was compared stays known.
        add();
        assert_eq!(own.changed_zones(&head(3), &head(5)), None);
        assert_eq!(own.changed_zones(&head(5), &head(6)), Some(vec![13]));
        assert_eq!(own.changed_zones(&head(6), &head(6)), Some(vec![]));
    }

    #[test]
    fn a_commit_that_is_being_written_explains_the_next_head_only() {
        let head = |commits| LogHead::numbered(commits, 1);
        let own = OwnCommits::new(&DatabaseAddress::Sqlite("none.db".into()));
        own.announce_logged(LoggedTransaction(head(1)), vec![7]);
        assert_eq!(own.changed_zones(&head(1), &head(3)), None);
        assert_eq!(own.changed_zones(&head(1), &head(2)), Some(vec![7]));
        own.fail_logged();
        assert_eq!(
            own.changed_zones(&head(1), &head(1)),
            None,
            "it is unknown who wrote"
        );
        assert_eq!(own.changed_zones(&head(1), &head(2)), None);
    }
}
