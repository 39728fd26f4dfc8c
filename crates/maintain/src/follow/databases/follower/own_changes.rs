//! Changes that this server made in a database: applied to resident zones, so that they cost their own size.
//!
//! The committing code passes on the difference. The database sends a change notice too, which is ignored if its
//! change was passed on or is about to be. If anything does not fit, because others changed the zone at the same
//! time, the whole zone is read.

use super::DatabaseFollower;
use crate::change_feed::LiveChange;
use crate::commit::{CommitError, VersionSource};
use crate::follow::databases::{
    followed_zones::ReadContents,
    own_change::{Done, OwnChange},
};
use nameward_sql::{Change, SqlError, write::CommitMark};
use nameward_state::{JournalOrigin, ZoneStorage};
use nameward_wire::NameBuf;
use nameward_zone::change::Difference;
use std::{
    collections::HashMap,
    sync::mpsc::sync_channel,
    time::{Duration, Instant},
};

/// How long the difference of a commit is waited for after its notice arrived.
const AWAITED: Duration = Duration::from_secs(5);

/// Changes of this server that are not followed yet.
#[derive(Default)]
pub(super) struct OwnChanges {
    /// Changes for which the whole zone is read.
    waiting: Vec<(i64, Done)>,
    /// Changes that arrived before their predecessors.
    early: Vec<OwnChange>,
    /// Zones with a notice that arrived before the difference, until when that is waited for, and the version of the
    /// notice.
    awaited: HashMap<i64, (Instant, i64)>,
}

impl OwnChanges {
    /// Returns the time until an awaited difference is given up.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let first = self.awaited.values().map(|(due, _)| *due).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }
}

/// The outcome of a difference that was passed on.
enum OwnOutcome {
    /// It is in the zone, and `done` is called when it is in the journal.
    Applied,
    /// An earlier difference has not arrived yet.
    Early(OwnChange),
    /// The zone must be read.
    Unfit(Done),
}

impl DatabaseFollower {
    /// Checks whether a notice is about a change of this server that is followed, or will be, without reading the
    /// zone.
    pub(super) fn is_own(&mut self, change: Change) -> bool {
        let (id, version) = match change {
            Change::All | Change::List => return false,
            Change::Own(id) => (id, None),
            Change::Zone(_, None) => return false,
            Change::Zone(id, version) => (id, version),
        };
        let Some(zone) = self.zones.get(id) else {
            return false;
        };
        if !zone.is_in_memory() {
            // Nothing of a live zone is in memory, and its records alone have changed: perhaps its SOA.
            let is_own = version.is_none();
            if is_own {
                self.soa_check.request();
            }
            return is_own;
        }
        if version.is_some_and(|version| version <= zone.version()) {
            return true;
        }
        if self.backend.unfollowed_commits(id) == 0 {
            // A PostgreSQL commit that was already followed; a version that another server made.
            return version.is_none();
        }
        let until = Instant::now() + AWAITED;
        let awaited = self.own.awaited.entry(id).or_insert((until, 0));
        awaited.1 = awaited.1.max(version.unwrap_or(0));
        true
    }

    /// Follows a change that this server made.
    pub(super) fn accept_own(&mut self, own: OwnChange) {
        let zone = own.zone;
        if own.mark.is_some() {
            self.backend.note_followed(zone);
        }
        self.follow_own(own);
        // Changes that arrived too early may fit now.
        let early = self.own.early.extract_if(.., |own| own.zone == zone);
        for own in early.collect::<Vec<_>>() {
            self.follow_own(own);
        }
        if self.backend.unfollowed_commits(zone) == 0
            && let Some((_, version)) = self.own.awaited.remove(&zone)
            && self
                .zones
                .get(zone)
                .is_none_or(|zone| zone.version() < version)
        {
            self.pending.add(Change::Zone(zone, Some(version)));
        }
    }

    fn follow_own(&mut self, own: OwnChange) {
        let (zone, mark) = (own.zone, own.mark);
        let serials = own.difference.as_ref().and_then(Difference::serials);
        let report = (!own.is_gone).then(|| LiveChange {
            serial: serials.map(|(_, serial)| serial.0),
            author: own.author.clone(),
            origin: own.difference.as_ref().map(|_| JournalOrigin::Change),
        });
        match self.apply_own(own) {
            OwnOutcome::Applied => {}
            OwnOutcome::Early(own) => self.own.early.push(own),
            OwnOutcome::Unfit(done) => {
                let version = match mark {
                    Some(CommitMark::Versions { after, .. }) => Some(after),
                    _ => None,
                };
                let change = Change::Zone(zone, version);
                if let Some(version) = version {
                    self.link.reported.note(zone, version);
                }
                self.outdate_zone(zone, report);
                self.pending.add(change);
                self.own.waiting.push((zone, done));
            }
        }
    }

    /// Applies a change of this server to a resident zone, so that it need not be read again.
    fn apply_own(&mut self, own: OwnChange) -> OwnOutcome {
        let OwnChange {
            zone: id,
            difference,
            mark,
            is_gone,
            author,
            done,
        } = own;
        let known = self.zones.get(id);
        let (Some(known), Some(difference)) = (known, difference) else {
            return OwnOutcome::Unfit(done);
        };
        let version = self.commits.table().version(known.name(), self.rank);
        let is_whole =
            version.is_some_and(|version| !version.is_stub() && !version.is_broken_at(&difference));
        let zone = NameBuf::from(known.name());
        let is_fit = is_whole && !self.pending.include(id);
        let Some(known) = self.zones.in_memory(id).filter(|_| is_fit) else {
            return OwnOutcome::Unfit(done);
        };
        let (storage, origin) = (ZoneStorage::Database, JournalOrigin::Change);
        let source = VersionSource {
            author: author.clone(),
            ..VersionSource::new(zone, self.rank, storage, origin)
        };
        // A difference that does not fit is refused before this returns; one that does waits for the disk elsewhere.
        let (refused, refusal) = sync_channel(1);
        let kept = difference.clone();
        self.commits
            .difference(source, difference, move |result| match result {
                // The caller may have disconnected.
                Ok(_) => drop(done.send(Ok(()))),
                Err(error) => drop(refused.try_send((error, done))),
            });
        let Ok((error, done)) = refusal.try_recv() else {
            known.contents = ReadContents::Changed;
            if let Some(CommitMark::Versions { before, after }) = mark
                && known.version == before
            {
                known.version = after;
            }
            return OwnOutcome::Applied;
        };
        match error {
            CommitError::Stale { have, from }
                if from.is_after(have) && self.backend.unfollowed_commits(id) > 0 =>
            {
                OwnOutcome::Early(OwnChange {
                    zone: id,
                    difference: Some(kept),
                    mark,
                    is_gone,
                    author,
                    done,
                })
            }
            error => {
                tracing::debug!("zone {zone}: reading it again: {error}");
                OwnOutcome::Unfit(done)
            }
        }
    }

    /// Reads zones whose differences did not arrive in time: the committing code may have failed.
    pub(super) fn give_up_awaited(&mut self) {
        let now = Instant::now();
        let late = self.own.awaited.extract_if(|_, (due, _)| *due <= now);
        for (zone, (_, version)) in late.collect::<Vec<_>>() {
            tracing::debug!(
                "{}: zone {zone}: own change did not arrive, reading the zone",
                self.name
            );
            self.backend.abandon_commits(zone);
            self.pending.add(Change::Zone(zone, Some(version)));
            let early = self.own.early.extract_if(.., |own| own.zone == zone);
            let early = early.map(|own| (zone, own.done));
            self.own.waiting.extend(early);
        }
    }

    /// Reports to the callers that wait for changes that are followed now.
    pub(super) fn finish_waiting(&mut self) {
        for (zone, done) in std::mem::take(&mut self.own.waiting) {
            if self.pending.include(zone) {
                self.own.waiting.push((zone, done))
            } else {
                // The caller may have disconnected.
                drop(done.send(Ok(())))
            }
        }
    }

    /// Reports to waiting callers that the database cannot be read.
    pub(super) fn fail_waiting(&mut self, error: &SqlError) {
        for (_, done) in self.own.waiting.drain(..) {
            let _ = done.send(Err(error.clone()));
        }
    }
}
