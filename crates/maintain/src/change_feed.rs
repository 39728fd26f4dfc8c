//! Owns the feed of zone changes: what the server serves differently, in order, for clients that follow it.
//!
//! One bounded list for all readers: a reader has a position and no queue of its own, so a slow one costs no memory. A reader whose
//! position is no longer in the list learns that it has missed events, and continues with the oldest that is left.
//!
//! The zone table records zones that appear and vanish, the commit path records new versions, and the database followers record changes
//! of live zones; operations and key policies record what they change besides records. Zones that are loaded at start are not recorded.

use crate::commit::outcome::CommittedVersion;
use nameward_base::sync::Mutex;
use nameward_base::time::{now_milliseconds, now_seconds};
use nameward_state::JournalOrigin;
use nameward_wire::{Name, NameBuf};
use nameward_zone::change::ChangeAuthor;
use nameward_zone::{NO_SOURCE, Zone};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// Events in the list: about a megabyte. Readers that are further behind have missed some.
const EVENTS_MAX: usize = 4096;

/// A change of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEvent {
    /// Its number: one more than that of the event before.
    pub number: u64,
    /// When it was recorded, in seconds since 1970.
    pub time: u64,
    /// The kind of event.
    pub kind: FeedKind,
}

/// The kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedKind {
    /// A zone was added, changed or removed.
    Zone(Box<FeedZoneChange>),
    /// Settings or keys were changed.
    Setting(Box<FeedSettingChange>),
    /// Any live zone may have changed: the connection that reports changes of its database was interrupted.
    Unknown,
}

/// The change of one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedZoneChange {
    /// The name of the zone.
    pub zone: NameBuf,
    /// Whether it was added, changed or removed.
    pub change: ChangeKind,
    /// The serial after the change; `None` if the zone has no contents here, or they are in its database only.
    pub serial: Option<u32>,
    /// Whether the change came through this server, from its primary, or was found in its file or database; `None` if unknown.
    pub origin: Option<JournalOrigin>,
    /// The author, if known.
    pub author: Option<Arc<ChangeAuthor>>,
}

/// A change of settings or keys through this server, which may leave the records of a zone as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedSettingChange {
    /// The zone; `None` if it concerns the server.
    pub zone: Option<NameBuf>,
    /// The subject of the change.
    pub subject: SettingSubject,
    /// The operation, as in the audit log, or the step that a key was taken by its policy.
    pub operation: String,
    /// The author; `None` for the server itself.
    pub author: Option<Arc<ChangeAuthor>>,
}

/// The subject of a change besides records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingSubject {
    /// Settings of a zone or of the server.
    Settings,
    /// DNSSEC keys, TSIG keys, API keys and other secrets.
    Keys,
}

/// The kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The server did not have the zone before.
    Created,
    /// The zone has another version.
    Changed,
    /// The server no longer has the zone.
    Deleted,
}

/// A change of a live zone, whose contents are in its database.
#[derive(Default)]
pub struct LiveChange {
    /// The serial after the change, if known.
    pub serial: Option<u32>,
    /// The author, if known.
    pub author: Option<Arc<ChangeAuthor>>,
    /// Whether it came through this server or was found in the database.
    pub origin: Option<JournalOrigin>,
}

/// Events from a position on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FeedBatch {
    /// Events before the first one here are no longer in the list.
    pub has_gap: bool,
    /// The events, the oldest first.
    pub events: Vec<FeedEvent>,
}

/// The feed.
pub struct ChangeFeed {
    /// The oldest first; their numbers are consecutive.
    events: Mutex<VecDeque<FeedEvent>>,
    /// The number of the newest event; 0 before the first.
    newest: watch::Sender<u64>,
    /// Tells the numbers of this run of the server from those of others: its start in milliseconds since 1970.
    epoch: u64,
    is_recording: AtomicBool,
}

impl Default for ChangeFeed {
    fn default() -> Self {
        ChangeFeed {
            events: Mutex::default(),
            newest: watch::Sender::new(0),
            epoch: now_milliseconds(),
            is_recording: AtomicBool::new(false),
        }
    }
}

impl ChangeFeed {
    /// Starts recording; call it when the zones are loaded.
    pub fn start(&self) {
        self.is_recording.store(true, Ordering::Relaxed);
    }

    /// Returns whether events are recorded.
    pub fn is_recording(&self) -> bool {
        self.is_recording.load(Ordering::Relaxed)
    }

    /// Returns the mark that distinguishes the numbers of this run of the server from those of others.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns a receiver of the number of the newest event.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Returns up to `max` events after the one with this number.
    pub fn after(&self, number: u64, max: usize) -> FeedBatch {
        let events = self.events.lock();
        let Some(oldest) = events.front().map(|event| event.number) else {
            return FeedBatch::default();
        };
        let skipped = (number + 1).saturating_sub(oldest);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        FeedBatch {
            has_gap: number + 1 < oldest,
            events: events.iter().skip(skipped).take(max).cloned().collect(),
        }
    }

    pub(crate) fn record_commit(&self, committed: &CommittedVersion) {
        self.record_zone(|| FeedZoneChange {
            zone: committed.zone.id().into(),
            change: ChangeKind::Changed,
            serial: Some(committed.zone.serial().0),
            origin: Some(committed.origin),
            author: committed.author.clone(),
        });
    }

    pub(crate) fn record_live(&self, zone: Name<'_>, change: LiveChange) {
        self.record_zone(|| FeedZoneChange {
            zone: zone.into(),
            change: ChangeKind::Changed,
            serial: change.serial,
            origin: change.origin,
            author: change.author,
        });
    }

    /// Records a change of settings or keys.
    pub fn record_setting(&self, change: FeedSettingChange) {
        self.record(|| FeedKind::Setting(Box::new(change)));
    }

    /// Records that any live zone may have changed.
    pub(crate) fn record_unknown(&self) {
        self.record(|| FeedKind::Unknown);
    }

    /// Records what has become of a name in the zone table: `before` and `after` are its zones.
    pub(crate) fn record_table(
        &self,
        name: Name<'_>,
        before: Option<&Arc<Zone>>,
        after: Option<&Arc<Zone>>,
    ) {
        // A placeholder for zones that are not known yet is not a zone.
        let is_zone = |zone: &&Arc<Zone>| zone.rank() != NO_SOURCE;
        let (before, after) = (before.filter(is_zone), after.filter(is_zone));
        let change = match (before, after) {
            (None, Some(_)) => ChangeKind::Created,
            (Some(_), None) => ChangeKind::Deleted,
            (Some(before), Some(after)) if is_other(before, after) => ChangeKind::Changed,
            _ => return,
        };
        let with_contents = after.filter(|zone| !zone.is_stub());
        self.record_zone(|| FeedZoneChange {
            zone: name.into(),
            change,
            serial: with_contents.map(|zone| zone.serial().0),
            origin: None,
            author: None,
        });
    }

    fn record_zone(&self, change: impl FnOnce() -> FeedZoneChange) {
        self.record(|| FeedKind::Zone(Box::new(change())));
    }

    fn record(&self, kind: impl FnOnce() -> FeedKind) {
        if !self.is_recording() {
            return;
        }
        let mut events = self.events.lock();
        let number = *self.newest.borrow() + 1;
        if events.len() >= EVENTS_MAX {
            events.pop_front();
        }
        let (time, kind) = (now_seconds(), kind());
        events.push_back(FeedEvent { number, time, kind });
        // Under the lock, so that the numbers follow each other.
        self.newest.send_replace(number);
    }
}

/// Whether a name is answered from another source or has contents now; versions of one source are commits.
fn is_other(before: &Zone, after: &Zone) -> bool {
    before.rank() != after.rank() || (before.is_stub() && !after.is_stub())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(count: usize) -> ChangeFeed {
        let feed = ChangeFeed::default();
        feed.record_unknown(); // not recorded: the zones are not loaded yet
        feed.start();
        for _ in 0..count {
            feed.record_live(Name::ROOT, LiveChange::default());
        }
        feed
    }

    fn numbers(batch: &FeedBatch) -> Vec<u64> {
        batch.events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn readers_get_the_events_after_their_position_in_order() {
        let feed = feed(5);
        assert_eq!(numbers(&feed.after(0, 3)), [1, 2, 3]);
        assert_eq!(numbers(&feed.after(3, 3)), [4, 5]);
        assert_eq!(feed.after(5, 3), FeedBatch::default());
        assert_eq!(*feed.newest().borrow(), 5);
    }

    #[test]
    fn the_list_is_bounded_and_a_reader_that_is_too_far_behind_learns_of_the_gap() {
        let feed = feed(EVENTS_MAX + 10);
        assert_eq!(feed.events.lock().len(), EVENTS_MAX);
        let late = feed.after(9, 2);
        assert!(late.has_gap);
        assert_eq!(numbers(&late), [11, 12]);
        let in_time = feed.after(10, 2);
        assert!(!in_time.has_gap);
        assert_eq!(numbers(&in_time), [11, 12]);
    }
}
