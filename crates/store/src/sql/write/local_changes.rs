//! Commits of this server: how their notifications differ from those of others.
//!
//! A database sends a notification for every change, regardless of who made it, and a zone in memory would be reloaded
//! as a whole. The records that a commit of this server changed are known here, so its notification need not trigger a
//! read. It is recognised by the versions in the table of changes (SQLite, MySQL), or by the session that sent it
//! (PostgreSQL). Commits are registered before they end, because a notification can overtake the result of its commit.

use nameward_base::sync::{Mutex, MutexGuard};
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
    Session(i32),
}

/// The commits of this server that the follower has not received yet.
#[derive(Default)]
pub(in crate::sql) struct OwnCommits {
    /// Set when notifications are awaited.
    is_watched: AtomicBool,
    noted: Mutex<NotedCommits>,
}

#[derive(Default)]
struct NotedCommits {
    /// Commits of each zone that are in progress, or whose differences the follower has not received.
    unfollowed: HashMap<i64, usize>,
    /// Expected notifications for a zone from a session.
    notices: HashMap<(i64, i32), usize>,
}

impl OwnCommits {
    fn noted(&self) -> MutexGuard<'_, NotedCommits> {
        self.noted.lock()
    }

    /// Records that a watch awaits notifications from now on.
    pub(in crate::sql) fn begin_watch(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// Registers the changes of a transaction that is about to be committed.
    pub(super) fn begin(&self, changes: &[(i64, CommitMark)]) {
        if !self.is_watched.load(Ordering::Relaxed) {
            return;
        }
        let mut noted = self.noted();
        for (zone, _) in changes {
            *noted.unfollowed.entry(*zone).or_default() += 1;
        }
        for notice in notices(changes) {
            *noted.notices.entry(notice).or_default() += 1;
        }
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
    }

    /// Records that the follower has received one commit of a zone.
    pub(in crate::sql) fn follow(&self, zone: i64) {
        lessen(&mut self.noted().unfollowed, &zone);
    }

    /// Drops the commits of a zone that were not delivered to the follower.
    pub(in crate::sql) fn abandon(&self, zone: i64) {
        self.noted().unfollowed.remove(&zone);
    }

    /// Counts the commits of a zone that the follower has not received yet.
    pub(in crate::sql) fn unfollowed(&self, zone: i64) -> usize {
        self.noted().unfollowed.get(&zone).copied().unwrap_or(0)
    }

    /// Checks whether a notification belongs to a commit of this server, and expects one less.
    pub(in crate::sql) fn claim_notice(&self, zone: i64, session: i32) -> bool {
        lessen(&mut self.noted().notices, &(zone, session))
    }

    /// Stops expecting notifications: the connection that would deliver them has ended.
    pub(in crate::sql) fn forget_notices(&self) {
        self.noted().notices.clear();
    }
}

/// Returns the notifications that PostgreSQL sends for a transaction, without duplicates.
fn notices(changes: &[(i64, CommitMark)]) -> HashSet<(i64, i32)> {
    let notices = changes.iter().filter_map(|(zone, mark)| match mark {
        CommitMark::Session(session) => Some((*zone, *session)),
        CommitMark::Versions { .. } => None,
    });
    notices.collect()
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
        let own = OwnCommits::default();
        own.begin_watch();
        let change = (1, CommitMark::Session(7));
        own.begin(&[change, change]);
        own.begin(&[change]);
        assert_eq!(own.unfollowed(1), 3);
        assert!(!own.claim_notice(1, 8) && !own.claim_notice(2, 7));
        assert!(own.claim_notice(1, 7) && own.claim_notice(1, 7));
        assert!(!own.claim_notice(1, 7));
        own.follow(1);
        own.undo(&[change, change]);
        assert_eq!(own.unfollowed(1), 0);
    }

    #[test]
    fn nothing_is_noted_where_nobody_waits_for_notices() {
        let own = OwnCommits::default();
        own.begin(&[(1, CommitMark::Session(7))]);
        assert!(!own.claim_notice(1, 7));
        assert_eq!(own.unfollowed(1), 0);
    }
}
