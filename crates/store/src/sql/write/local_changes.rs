//! Commits of this server: how their notices differ from those of others.
//!
//! A database sends a notice of every change, whoever made it, and a zone in memory would be read as a whole for it. The records
//! that a commit of this server changed are known here, so its notice need not have anything read. It is recognised
//! by the versions in the table of changes (SQLite, MySQL), or by the session that sent it (PostgreSQL). Commits are noted
//! before they end, because a notice may overtake the result of its commit.

use nameward_base::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// The sign by which the notice of a commit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitMark {
    /// The commit alone led a zone from one version in the table of changes to another.
    Versions {
        /// The version before.
        before: i64,
        /// The version after.
        after: i64,
    },
    /// The commit was made by this session of PostgreSQL, which sends one notice for it.
    Session(i32),
}

/// The commits of this server that are not followed yet.
#[derive(Default)]
pub(in crate::sql) struct OwnCommits {
    /// Set when notices are waited for.
    is_watched: AtomicBool,
    noted: Mutex<NotedCommits>,
}

#[derive(Default)]
struct NotedCommits {
    /// Commits of each zone that are under way, or whose differences the follower has not been given.
    unfollowed: HashMap<i64, usize>,
    /// Notices that are to come for a zone from a session.
    notices: HashMap<(i64, i32), usize>,
}

impl OwnCommits {
    fn noted(&self) -> MutexGuard<'_, NotedCommits> {
        self.noted.lock()
    }

    /// Notes that a watch waits for notices from now on.
    pub(in crate::sql) fn begin_watch(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// Notes the changes of a transaction that is about to be committed.
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

    /// Forgets a transaction that was not committed, or of which nobody knows: its notices are then like any other.
    pub(super) fn undo(&self, changes: &[(i64, CommitMark)]) {
        for (zone, _) in changes {
            self.follow(*zone);
        }
        for (zone, session) in notices(changes) {
            self.claim_notice(zone, session);
        }
    }

    /// Notes that the follower was given one commit of a zone.
    pub(in crate::sql) fn follow(&self, zone: i64) {
        lessen(&mut self.noted().unfollowed, &zone);
    }

    /// Forgets the commits of a zone that nobody has handed to the follower.
    pub(in crate::sql) fn abandon(&self, zone: i64) {
        self.noted().unfollowed.remove(&zone);
    }

    /// Counts the commits of a zone that the follower was not given yet.
    pub(in crate::sql) fn unfollowed(&self, zone: i64) -> usize {
        self.noted().unfollowed.get(&zone).copied().unwrap_or(0)
    }

    /// Returns whether a notice is that of a commit of this server, and expects one less.
    pub(in crate::sql) fn claim_notice(&self, zone: i64, session: i32) -> bool {
        lessen(&mut self.noted().notices, &(zone, session))
    }

    /// Expects no notices any more: the connection they would come by has ended.
    pub(in crate::sql) fn forget_notices(&self) {
        self.noted().notices.clear();
    }
}

/// Returns the notices that PostgreSQL sends for a transaction: equal ones once.
fn notices(changes: &[(i64, CommitMark)]) -> HashSet<(i64, i32)> {
    let notices = changes.iter().filter_map(|(zone, mark)| match mark {
        CommitMark::Session(session) => Some((*zone, *session)),
        CommitMark::Versions { .. } => None,
    });
    notices.collect()
}

/// Counts one less; false if there is none.
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
