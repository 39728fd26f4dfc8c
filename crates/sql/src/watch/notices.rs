//! Matches notifications of PostgreSQL with rows of its table of changes, so that each change is passed on once.
//!
//! A transaction sends one notification for a zone and has one row for it. Whichever is seen first is passed on, and the other
//! is expected. Rows of this server's transactions are known by their numbers, since a look may precede the notification. If reads go to a replica, changes of others are passed on when the replica shows them.

use super::super::schema::NO_ZONE_CHANGED;
use super::Change;
use nameward_base::sync::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Notifications and rows of the table that are still to be matched.
#[derive(Default)]
pub(super) struct TableNotices {
    is_there: AtomicBool,
    /// Wakes the poll of the table.
    pub(super) bell: Notify,
    zones: Mutex<HashMap<i64, Unmatched>>,
}

/// Transactions of a zone that only one of the two has shown.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
struct Unmatched {
    /// Notifications about changes of this server.
    own: usize,
    /// Notifications about changes of others.
    others: usize,
    /// Rows of this server.
    own_rows: usize,
    /// Rows of others, or of unknown origin.
    rows: usize,
}

/// New rows of a zone in the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenRows {
    /// Rows known to be of this server.
    pub(super) own: usize,
    /// All rows.
    pub(super) all: usize,
}

impl TableNotices {
    /// Checks whether the database has a table of changes.
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    pub(super) fn set_there(&self, is_there: bool) {
        if self.is_there.swap(is_there, Ordering::Relaxed) != is_there {
            self.forget();
        }
    }

    /// Forgets what was to be matched: notifications may have been lost.
    pub(super) fn forget(&self) {
        self.zones.lock().clear();
    }

    /// Takes a notification, and returns the change to pass on now.
    pub(super) fn notified(&self, change: Change, has_replica: bool) -> Option<Change> {
        let (zone, is_own) = match change {
            _ if !self.is_there() => return Some(change),
            Change::Own(zone) => (zone, true),
            Change::Zone(zone, _) => (zone, false),
            Change::List => (NO_ZONE_CHANGED, false),
            Change::All => return Some(change),
        };
        if has_replica && !is_own {
            self.bell.notify_one();
            return None;
        }
        let mut zones = self.zones.lock();
        let unmatched = zones.entry(zone).or_default();
        let expected = if is_own && unmatched.own_rows > 0 {
            &mut unmatched.own_rows
        } else {
            &mut unmatched.rows
        };
        let is_seen = *expected > 0;
        if is_seen {
            *expected -= 1;
        } else if is_own {
            unmatched.own += 1;
        } else {
            unmatched.others += 1;
        }
        if *unmatched == Unmatched::default() {
            zones.remove(&zone);
        }
        // A row was taken for a change of another server; that it is our own must still be known.
        (!is_seen || is_own).then_some(change)
    }

    /// Takes new rows of a zone, and returns the change to pass on.
    pub(super) fn seen(&self, zone: i64, rows: SeenRows, has_replica: bool) -> Option<Change> {
        let mut zones = self.zones.lock();
        let unmatched = zones.entry(zone).or_default();
        let own = rows.own.min(unmatched.own);
        let new_own = rows.own - own;
        let unknown = rows.all - rows.own;
        let others = unknown.min(unmatched.others);
        // A row of this server whose number was forgotten.
        let forgotten = (unknown - others).min(unmatched.own - own);
        let new = unknown - others - forgotten;
        unmatched.others -= others;
        unmatched.own -= own + forgotten;
        unmatched.own_rows += new_own;
        // With a replica, changes of others send nothing that would have to be matched.
        if !has_replica {
            unmatched.rows += new;
        }
        if *unmatched == Unmatched::default() {
            zones.remove(&zone);
        }
        if new > 0 {
            return Some(Change::from_row(zone, None));
        }
        // What was read from a replica before it showed the change is obsolete.
        let is_late = has_replica && own + forgotten > 0;
        (new_own > 0 || is_late).then_some(Change::Own(zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_table() -> TableNotices {
        let table = TableNotices::default();
        table.set_there(true);
        table
    }

    fn others(all: usize) -> SeenRows {
        SeenRows { own: 0, all }
    }

    #[test]
    fn a_row_of_this_server_is_its_own_change_before_the_notification_as_well() {
        let (table, own) = (with_table(), Change::Own(7));
        let one = SeenRows { own: 1, all: 1 };
        for has_replica in [false, true] {
            assert_eq!(table.seen(7, one, has_replica), Some(own));
            assert_eq!(table.notified(own, has_replica), Some(own));
            assert!(table.zones.lock().is_empty());
        }
        assert_eq!(table.notified(own, false), Some(own));
        assert_eq!(table.seen(7, one, false), None);
        // One of another server is never taken for it.
        let both = SeenRows { own: 1, all: 2 };
        let change = Change::Zone(7, None);
        assert_eq!(table.seen(7, both, false), Some(change));
        assert_eq!(table.notified(change, false), None);
        assert_eq!(table.notified(own, false), Some(own));
        assert!(table.zones.lock().is_empty());
    }

    #[test]
    fn a_change_is_passed_on_by_whichever_is_first() {
        let (table, change) = (with_table(), Change::Zone(7, None));
        assert_eq!(table.notified(change, false), Some(change));
        assert_eq!(table.seen(7, others(1), false), None);
        assert_eq!(table.seen(7, others(1), false), Some(change));
        assert_eq!(table.notified(change, false), None);
        assert_eq!(table.notified(change, false), Some(change));
        assert_eq!(
            table.seen(7, others(2), false),
            Some(change),
            "one was not announced"
        );
    }

    #[test]
    fn a_lost_notification_is_made_up_for_by_the_table() {
        let (table, change) = (with_table(), Change::Zone(7, None));
        assert_eq!(table.notified(change, false), Some(change));
        table.forget();
        assert_eq!(table.seen(7, others(1), false), Some(change));
    }

    #[test]
    fn a_replica_decides_when_changes_of_others_are_passed_on() {
        let (table, change) = (with_table(), Change::Zone(7, None));
        assert_eq!(table.notified(change, true), None);
        assert_eq!(table.seen(7, others(1), true), Some(change));
        let own = Change::Own(7);
        assert_eq!(table.notified(own, true), Some(own));
        assert_eq!(
            table.seen(7, others(1), true),
            Some(own),
            "the replica was behind"
        );
        assert!(table.zones.lock().is_empty());
    }

    #[test]
    fn without_a_table_notifications_are_passed_on() {
        let (table, change) = (TableNotices::default(), Change::Zone(7, None));
        assert_eq!(table.notified(change, true), Some(change));
        assert!(table.zones.lock().is_empty());
    }
}
