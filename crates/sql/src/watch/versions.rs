//! Which zones changed, by the table of changes of MySQL, without a clock.
//!
//! The table has a version for each zone, and counters that advance with every version: `sum(versions) - sum(counters)` never
//! changes. A quick look reads what was written lately, by the newest time in the table itself, and adds up. If the sums do not
//! match, something was written with an older time (a clock that is behind, a long transaction, a gap), and all versions
//! are compared. Without counters (triggers of an older `db init`) all versions are compared every minute.

use super::super::Driver;
use super::super::dialect::Statement;
use super::super::error::SqlError;
use super::super::schema::COUNTING;
use super::{Change, REPEATED};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Seconds before the newest time in the table that a quick look reads.
const WINDOW: i64 = 60;
/// Interval at which all versions are compared although nothing suggests that it is necessary.
const COMPARE_INTERVAL: Duration = Duration::from_secs(60);

/// The versions of zones that were seen last.
#[derive(Default)]
pub(super) struct ZoneVersions {
    /// `None` before the first poll.
    versions: Option<HashMap<i64, i64>>,
    counters: CounterSum,
    /// The newest time in the table.
    newest: i64,
    /// When all versions are compared next; `None`: at once.
    compare_at: Option<Instant>,
    /// Changes were possible before the first poll.
    has_missed: bool,
    /// How often another server was read than before.
    moves: u64,
    /// Zones that changed lately, and when that was seen.
    recent: HashMap<i64, Instant>,
}

/// The rows of the table that belong to no zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CounterSum {
    sum: i64,
    /// The triggers advance the counters.
    is_counting: bool,
}

/// Rows of the table, as one statement read them.
#[derive(Default)]
struct VersionRows {
    zones: HashMap<i64, i64>,
    counters: CounterSum,
    newest: i64,
}

impl VersionRows {
    async fn read(
        driver: &Driver,
        statement: Statement,
        since: Option<i64>,
    ) -> Result<Self, SqlError> {
        let mut rows = VersionRows::default();
        driver
            .query(statement, since, &[], &mut |row| {
                if let (Some(zone), Some(version)) = (row.int(0), row.int(1)) {
                    rows.newest = rows.newest.max(row.int(2).unwrap_or(0));
                    rows.add(zone, version);
                }
                Ok(())
            })
            .await?;
        Ok(rows)
    }

    fn add(&mut self, zone: i64, version: i64) {
        match zone {
            COUNTING => self.counters.is_counting = true,
            counter if counter < 0 => self.counters.sum = self.counters.sum.wrapping_add(version),
            zone => drop(self.zones.insert(zone, version)),
        }
    }
}

impl ZoneVersions {
    /// Notes that changes may have been missed: the next poll compares all versions.
    pub(super) fn note_gap(&mut self) {
        self.compare_at = None;
        self.has_missed |= self.versions.is_none();
    }

    /// Returns what changed since the last poll, and what changed shortly before another server was read: contents
    /// may have been read there before it had the change.
    pub(super) async fn poll(&mut self, driver: &Driver) -> Result<Vec<Change>, SqlError> {
        // Before the poll: another connection may move while it runs, and then read contents there that lack what it finds.
        let moves = driver.moves();
        let changes = self.poll_once(driver).await?;
        Ok(self.repeat(changes, moves, Instant::now()))
    }

    fn repeat(&mut self, mut changes: Vec<Change>, moves: u64, now: Instant) -> Vec<Change> {
        self.recent.retain(|_, seen_at| now - *seen_at < REPEATED);
        if std::mem::replace(&mut self.moves, moves) != moves {
            changes.extend(self.recent.keys().map(|zone| Change::Zone(*zone, None)));
        }
        let seen = changes.iter().filter_map(|change| match change {
            Change::Zone(zone, Some(_)) => Some((*zone, now)),
            _ => None,
        });
        self.recent.extend(seen);
        changes
    }

    async fn poll_once(&mut self, driver: &Driver) -> Result<Vec<Change>, SqlError> {
        let is_due = self.compare_at.is_none_or(|at| Instant::now() >= at);
        if is_due || self.versions.is_none() {
            return self.compare(driver).await;
        }
        if self.counters.is_counting {
            let counters = VersionRows::read(driver, Statement::Counters, None).await?;
            if counters.counters == self.counters {
                return Ok(Vec::new());
            }
        }
        let since = self.newest.saturating_sub(WINDOW);
        let recent = VersionRows::read(driver, Statement::Changes, Some(since)).await?;
        match self.advance(recent) {
            Some(changes) => Ok(changes),
            None => self.compare(driver).await,
        }
    }

    /// Takes over recent versions; `None` if they do not explain the counters.
    fn advance(&mut self, recent: VersionRows) -> Option<Vec<Change>> {
        let versions = self.versions.as_mut()?;
        let mut changed = Vec::new();
        let mut steps = 0_i64;
        for (zone, version) in recent.zones {
            let before = versions.get(&zone).copied().unwrap_or(0);
            if version < before {
                return None;
            }
            if version > before {
                steps = steps.wrapping_add(version - before);
                changed.push((zone, version));
            }
        }
        let counted = recent.counters.sum.wrapping_sub(self.counters.sum);
        let is_counting = recent.counters.is_counting;
        if is_counting != self.counters.is_counting || is_counting && counted != steps {
            return None;
        }
        versions.extend(changed.iter().copied());
        self.counters = recent.counters;
        self.newest = self.newest.max(recent.newest);
        let change = |(zone, version)| Change::from_row(zone, Some(version));
        Some(changed.into_iter().map(change).collect())
    }

    async fn compare(&mut self, driver: &Driver) -> Result<Vec<Change>, SqlError> {
        let rows = VersionRows::read(driver, Statement::Versions, None).await?;
        Ok(self.replace(rows))
    }

    /// Takes over all versions.
    fn replace(&mut self, rows: VersionRows) -> Vec<Change> {
        self.compare_at = Some(Instant::now() + COMPARE_INTERVAL);
        self.counters = rows.counters;
        self.newest = rows.newest;
        let new = rows.zones;
        let Some(old) = &self.versions else {
            self.versions = Some(new);
            return Change::before_first(std::mem::take(&mut self.has_missed));
        };
        // Versions only grow, unless the database has been replaced by an older one.
        let is_older = |(zone, old): (&i64, &i64)| new.get(zone).is_none_or(|new| new < old);
        let changes = if old.iter().any(is_older) {
            vec![Change::All]
        } else {
            let changed = new
                .iter()
                .filter(|(zone, version)| old.get(zone) != Some(version));
            changed
                .map(|(zone, version)| Change::from_row(*zone, Some(*version)))
                .collect()
        };
        if !changes.is_empty() {
            self.versions = Some(new);
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(zones: &[(i64, i64)], counter: i64) -> VersionRows {
        let mut rows = VersionRows::default();
        rows.add(COUNTING, 1);
        rows.add(-1, counter);
        zones
            .iter()
            .for_each(|(zone, version)| rows.add(*zone, *version));
        rows
    }

    fn started(zones: &[(i64, i64)], counter: i64) -> ZoneVersions {
        let mut versions = ZoneVersions::default();
        assert_eq!(versions.replace(rows(zones, counter)), []);
        versions
    }

    #[test]
    fn recent_versions_that_explain_the_counters_are_the_changes() {
        let mut versions = started(&[(1, 5), (2, 7)], 3);
        let changes = versions.advance(rows(&[(2, 9)], 5));
        assert_eq!(changes, Some(vec![Change::Zone(2, Some(9))]));
        assert_eq!(versions.advance(rows(&[(2, 9)], 5)), Some(Vec::new()));
    }

    #[test]
    fn a_counted_change_that_is_not_recent_is_found_by_comparing_all() {
        let mut versions = started(&[(1, 5), (2, 7)], 3);
        assert_eq!(versions.advance(rows(&[(2, 8)], 5)), None);
        let mut changes = versions.replace(rows(&[(1, 6), (2, 8)], 5));
        changes.sort_by_key(|change| match change {
            Change::Zone(zone, _) => *zone,
            _ => 0,
        });
        let expected = [Change::Zone(1, Some(6)), Change::Zone(2, Some(8))];
        assert_eq!(changes, expected);
    }

    #[test]
    fn an_older_or_missing_version_means_another_database() {
        let mut versions = started(&[(1, 5), (2, 7)], 3);
        assert_eq!(versions.advance(rows(&[(2, 6)], 2)), None);
        assert_eq!(versions.replace(rows(&[(1, 5)], 3)), [Change::All]);
        let mut versions = started(&[(1, 5)], 3);
        assert_eq!(versions.replace(rows(&[(1, 4)], 3)), [Change::All]);
    }

    #[test]
    fn changes_are_repeated_when_another_server_is_read() {
        let (mut versions, now) = (ZoneVersions::default(), Instant::now());
        let change = Change::Zone(7, Some(5));
        assert_eq!(versions.repeat(vec![change], 0, now), [change]);
        assert_eq!(versions.repeat(vec![], 0, now), []);
        let repeated = Change::Zone(7, None);
        let later = now + REPEATED - Duration::from_secs(1);
        assert_eq!(versions.repeat(vec![], 1, later), [repeated]);
        assert_eq!(versions.repeat(vec![], 1, later), [], "once for each move");
        assert_eq!(versions.repeat(vec![], 2, now + REPEATED), [], "long ago");
    }

    #[test]
    fn a_gap_before_the_first_look_means_that_everything_may_have_changed() {
        let mut versions = ZoneVersions::default();
        versions.note_gap();
        assert_eq!(versions.replace(rows(&[(1, 5)], 3)), [Change::All]);
        versions.note_gap();
        let changes = versions.replace(rows(&[(1, 6)], 4));
        assert_eq!(changes, [Change::Zone(1, Some(6))]);
    }
}
