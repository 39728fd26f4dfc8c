//! Which zones changed, by the table of changes of PostgreSQL, without a clock.
//!
//! The table has a row for each zone and transaction that changed it. A look reads the rows of transactions that were not visible
//! to the last one: those from the oldest that was in progress then. That is exact on a primary and on a standby, however
//! far it is behind, and rows of different transactions never wait for each other. After a gap the server may be another one, which
//! may lack the latest transactions: what was seen before is compared, too. Rows are deleted after a while; after a
//! longer gap everything counts as changed.

use super::super::Driver;
use super::super::dialect::Statement;
use super::super::error::SqlError;
use super::super::schema::{CHANGES_KEPT, NEWEST_ON_STANDBY, OLDEST_IN_PROGRESS};
use super::REPEATED;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// A gap after which rows may have been deleted unseen. The database deletes by its own clock: half of it is a margin.
const GAP_MAX: Duration = Duration::from_secs(CHANGES_KEPT / 2);
/// How long a change is kept for the comparison after a gap, and how many are.
const SEEN_TIME: Duration = Duration::from_secs(CHANGES_KEPT / 4);
const SEEN_MAX: usize = 16_384;

/// The changes that were seen last.
#[derive(Default)]
pub(super) struct SeenTransactions {
    /// The oldest transaction that was in progress at the last look, and its time; `None` before the first look.
    last: Option<(i64, Instant)>,
    /// Changes that were seen lately, and when: zone and transaction.
    seen: HashMap<(i64, i64), Instant>,
    /// Changes were possible before the first look.
    has_missed: bool,
    /// The connection was lost: the next one may lead to another server.
    has_gap: bool,
    /// The newest time in the table, if it was read on a standby.
    newest: Option<i64>,
    /// How often another server was read than before.
    moves: u64,
    /// Zones whose changes were seen on another server.
    repeated: HashSet<i64>,
}

/// The table as one statement read it.
#[derive(Default)]
struct TransactionRows {
    changes: Vec<(i64, i64)>,
    oldest: i64,
    newest: Option<i64>,
}

impl TransactionRows {
    async fn read(driver: &Driver, since: i64) -> Result<Self, SqlError> {
        let mut rows = TransactionRows::default();
        driver
            .query(Statement::Changes, Some(since), &[], &mut |row| {
                match (row.int(0), row.int(1)) {
                    (Some(OLDEST_IN_PROGRESS), Some(transaction)) => rows.oldest = transaction,
                    (Some(NEWEST_ON_STANDBY), newest) => rows.newest = newest,
                    (Some(zone), Some(transaction)) => rows.changes.push((zone, transaction)),
                    _ => {}
                }
                Ok(())
            })
            .await?;
        Ok(rows)
    }
}

impl SeenTransactions {
    /// Notes that the database could not be read.
    pub(super) fn note_gap(&mut self) {
        self.has_gap = true;
        self.has_missed |= self.last.is_none();
    }

    /// Returns the zones that changed since the last look, and by which transactions; `None` if that is unknown.
    pub(super) async fn poll(
        &mut self,
        driver: &Driver,
    ) -> Result<Option<HashMap<i64, Vec<i64>>>, SqlError> {
        self.note_moves(driver.moves());
        let mut rows = TransactionRows::read(driver, self.since()).await?;
        if driver.moves() != self.moves {
            // Another server has answered: its rows are read again from further back.
            self.note_moves(driver.moves());
            rows = TransactionRows::read(driver, self.since()).await?;
        }
        Ok(self.take(rows, Instant::now()))
    }

    /// Notes how often another server was read than before.
    fn note_moves(&mut self, moves: u64) {
        if std::mem::replace(&mut self.moves, moves) != moves && self.last.is_some() {
            self.has_gap = true;
        }
    }

    /// Returns the zones whose changes have to be passed on again, since another server is read.
    pub(super) fn take_repeated(&mut self) -> HashSet<i64> {
        std::mem::take(&mut self.repeated)
    }

    /// Returns the first transaction that the next look reads.
    fn since(&self) -> i64 {
        let oldest = self.last.map_or(i64::MAX, |(oldest, _)| oldest);
        let seen = self.seen.keys().map(|(_, transaction)| *transaction);
        let first_seen = seen.filter(|_| self.has_gap).min();
        first_seen.map_or(oldest, |first| first.min(oldest))
    }

    fn take(&mut self, rows: TransactionRows, now: Instant) -> Option<HashMap<i64, Vec<i64>>> {
        let oldest = rows.oldest;
        let last = self.last.replace((oldest, now));
        let has_gap = std::mem::take(&mut self.has_gap);
        let newest = std::mem::replace(&mut self.newest, rows.newest);
        let rows = rows.changes;
        let Some((before, at)) = last else {
            let has_missed = std::mem::take(&mut self.has_missed);
            return (!has_missed).then(HashMap::new);
        };
        let is_another = has_gap && {
            let rows: HashSet<&(i64, i64)> = rows.iter().collect();
            self.seen.keys().any(|seen| !rows.contains(seen))
        };
        // A standby that resumes may replay hours in one step: rows were added and deleted in the meantime.
        let has_jumped = newest
            .zip(self.newest)
            .is_some_and(|(old, new)| new.abs_diff(old) >= CHANGES_KEPT / 2);
        if oldest < before || now - at > GAP_MAX || is_another || has_jumped {
            self.seen.clear();
            return None;
        }
        if has_gap {
            let recent = self.seen.iter().filter(|(_, at)| now - **at < REPEATED);
            self.repeated = recent.map(|((zone, _), _)| *zone).collect();
        }
        let mut changed = HashMap::<i64, Vec<i64>>::new();
        for (zone, transaction) in rows {
            if self.seen.insert((zone, transaction), now).is_none() {
                changed.entry(zone).or_default().push(transaction);
            }
        }
        let is_full = self.seen.len() > SEEN_MAX;
        self.seen.retain(|(_, transaction), seen_at| {
            *transaction >= oldest || !is_full && now - *seen_at < SEEN_TIME
        });
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(changed: Option<HashMap<i64, Vec<i64>>>) -> Option<Vec<(i64, usize)>> {
        changed.map(|changed| {
            let counts = changed.into_iter().map(|(zone, rows)| (zone, rows.len()));
            let mut list: Vec<(i64, usize)> = counts.collect();
            list.sort_unstable();
            list
        })
    }

    fn rows(changes: &[(i64, i64)], oldest: i64) -> TransactionRows {
        TransactionRows {
            changes: changes.to_vec(),
            oldest,
            newest: None,
        }
    }

    fn started(oldest: i64) -> (SeenTransactions, Instant) {
        let (mut seen, now) = (SeenTransactions::default(), Instant::now());
        assert_eq!(zones(seen.take(rows(&[], oldest), now)), Some(Vec::new()));
        (seen, now)
    }

    #[test]
    fn a_transaction_that_ends_late_is_seen_once() {
        let (mut seen, now) = started(100);
        // 100 is in progress, 105 has ended.
        let changed = seen.take(rows(&[(7, 105)], 100), now);
        assert_eq!(zones(changed), Some(vec![(7, 1)]));
        let changed = seen.take(rows(&[(7, 105)], 100), now);
        assert_eq!(zones(changed), Some(Vec::new()));
        let changed = seen.take(rows(&[(7, 105), (7, 100), (8, 100)], 106), now);
        assert_eq!(zones(changed), Some(vec![(7, 1), (8, 1)]));
        let later = now + SEEN_TIME;
        assert_eq!(zones(seen.take(rows(&[], 106), later)), Some(Vec::new()));
        assert!(seen.seen.is_empty(), "what is over is not kept for long");
    }

    #[test]
    fn a_long_gap_or_an_older_database_is_unknown() {
        let (mut seen, now) = started(100);
        assert_eq!(seen.take(rows(&[], 99), now), None);
        let (mut seen, now) = started(100);
        let later = now + GAP_MAX + Duration::from_secs(1);
        assert_eq!(seen.take(rows(&[(7, 100)], 101), later), None);
    }

    #[test]
    fn a_server_that_lacks_a_transaction_is_noticed_after_a_gap() {
        let (mut seen, now) = started(100);
        seen.take(rows(&[(7, 101)], 102), now);
        seen.note_gap();
        assert_eq!(seen.since(), 101);
        let changed = seen.take(rows(&[(7, 101), (8, 102)], 103), now);
        assert_eq!(zones(changed), Some(vec![(8, 1)]), "the same server");
        seen.note_gap();
        assert_eq!(seen.take(rows(&[(8, 102)], 110), now), None, "101 is lost");
    }

    #[test]
    fn a_standby_that_replays_an_hour_at_once_is_unknown() {
        let (mut seen, now) = started(100);
        let at = |newest| TransactionRows {
            newest: Some(newest),
            ..rows(&[], 100)
        };
        assert!(seen.take(at(5000), now).is_some());
        assert!(seen.take(at(5001), now).is_some());
        assert!(seen.take(at(9000), now).is_none());
    }

    #[test]
    fn changes_are_repeated_when_another_server_is_read() {
        let (mut seen, now) = started(100);
        seen.note_moves(0);
        seen.take(rows(&[(7, 100)], 101), now);
        assert!(seen.take_repeated().is_empty());
        seen.note_moves(1);
        let later = now + REPEATED;
        seen.take(rows(&[(8, 101)], 102), later - Duration::from_secs(1));
        assert_eq!(
            seen.take_repeated(),
            HashSet::new(),
            "the other one lacks 7: all"
        );
        seen.note_moves(2);
        seen.take(rows(&[(8, 102)], 103), later);
        seen.note_moves(3);
        let changed = zones(seen.take(rows(&[(8, 102), (9, 103)], 104), later));
        assert_eq!(changed, Some(vec![(9, 1)]));
        assert_eq!(seen.take_repeated(), HashSet::from([8]));
    }

    #[test]
    fn a_gap_before_the_first_look_is_unknown() {
        let mut seen = SeenTransactions::default();
        seen.note_gap();
        assert_eq!(seen.take(rows(&[], 5), Instant::now()), None);
    }
}
