//! Owns the life of a follower: it reads what is owed, waits for changes, and tries again when the database is down.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use nameward_maintain::{Commits, VersionSource};
use nameward_store::sql::{Change, SqlBackend, SqlError};
use nameward_store::state::{JournalOrigin, ZoneHome};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{Live, change::Difference};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};

use super::{owed::Owed, remembered::Remembered};
use crate::config::settings::BackendMode;

/// How soon a database that is down is asked for its zones again, at first and at the most.
const BACK_OFF: Duration = Duration::from_millis(250);
const MAX_BACK_OFF: Duration = Duration::from_secs(2);
/// How often it is told that it is still down.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// How long the first list is waited for until the zones known from before are used.
const PATIENCE: Duration = Duration::from_millis(250);
/// Lines about zones that one round writes to the log.
pub(super) const LINES_MAX: usize = 100;

/// A zone of the database that is in the table, or would be if no other source had it.
pub(super) struct Known {
    /// Its name in wire form.
    pub(super) name: Box<[u8]>,
    /// Set in live mode.
    pub(super) live: Option<Arc<Live>>,
    /// Of the rows that its contents in memory were made of.
    pub(super) fingerprint: Option<u64>,
}

impl Known {
    pub(super) fn name(&self) -> Name<'_> {
        Name::from_wire(&self.name).unwrap_or(Name::ROOT)
    }
}

/// Something that this server changed, and who waits until its answers show it.
pub struct OwnChange {
    pub(super) zone: i64,
    /// The records that went and came, if the change could tell.
    pub(super) difference: Option<Difference>,
    pub(super) done: oneshot::Sender<Result<(), SqlError>>,
}

/// Follows one database.
pub(super) struct Follower {
    pub(super) commits: Arc<Commits>,
    /// As the source of look-ups.
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) rank: u16,
    pub(super) mode: BackendMode,
    pub(super) backend: SqlBackend,
    pub(super) known: HashMap<i64, Known>,
    /// Why the zones could not be read, and when that was told.
    pub(super) failure: Option<(Instant, String)>,
    /// The list was read once.
    pub(super) is_listed: bool,
    /// Zones of which was told that another source has them.
    pub(super) told: HashSet<i64>,
    pub(super) remembered: Remembered,
    pub(super) refresh: Arc<Notify>,
    pub(super) refresh_interval: Duration,
    pub(super) own_changes: mpsc::Receiver<OwnChange>,
    /// Own changes that are not followed yet.
    pub(super) waiting: Vec<OwnChange>,
}

impl Follower {
    pub(super) async fn run(mut self, first: oneshot::Sender<()>) {
        let (mut changes, has_begun) = self.backend.watch_from_now();
        let mut first = Some(first);
        let mut owed = Owed::default();
        let mut result = self.begin(has_begun, &mut owed, &mut first).await;
        let mut back_off = BACK_OFF;
        loop {
            if result.is_ok() {
                result = self.settle(&mut owed, &mut changes).await;
            }
            tell_asked(&mut first);
            let wait = match &result {
                Ok(()) => {
                    back_off = BACK_OFF;
                    self.failure = None;
                    let known = self.known.iter();
                    let zones = known.map(|(id, known)| (*id, &known.name[..]));
                    self.remembered.write_if_due(zones);
                    self.refresh_interval
                }
                Err(error) => {
                    self.tell_waiting(&owed);
                    self.fail_waiting(error);
                    self.tell_failure(error);
                    let wait = back_off;
                    back_off = (back_off * 2).min(MAX_BACK_OFF);
                    wait
                }
            };
            if self.next(&mut changes, &mut owed, wait).await.is_none() {
                return;
            }
            result = Ok(());
        }
    }

    /// Reads the list for the first time. Where the database does not answer at once, the zones that are known from
    /// before stand in the table meanwhile.
    async fn begin(
        &mut self,
        has_begun: oneshot::Receiver<()>,
        owed: &mut Owed,
        first: &mut Option<oneshot::Sender<()>>,
    ) -> Result<(), SqlError> {
        let backend = self.backend.clone();
        let mut listing = pin!(async {
            // A change between the list and the first look for changes would be missed.
            let _ = has_begun.await;
            backend.zones().await
        });
        let listed = match timeout(PATIENCE, &mut listing).await {
            Ok(Ok(list)) => Ok(list),
            Ok(Err(error)) => {
                self.recall();
                Err(error)
            }
            Err(_) => {
                if self.recall() {
                    tell_asked(first);
                }
                listing.await
            }
        };
        match listed {
            Ok(list) => {
                self.take_list(&list, owed);
                Ok(())
            }
            Err(error) => {
                owed.list = true;
                Err(error)
            }
        }
    }

    /// Tells why the zones cannot be read, and then only now and then that it is still so.
    fn tell_failure(&mut self, error: &SqlError) {
        let reason = error.to_string();
        let is_told = |(at, told): &(Instant, String)| *told == reason && at.elapsed() < TOLD_AGAIN;
        if !self.failure.as_ref().is_some_and(is_told) {
            tracing::warn!(
                "{}: the zones cannot be read: {reason}; tried again",
                self.name
            );
            self.failure = Some((Instant::now(), reason));
        }
    }

    /// Waits for something to do.
    async fn next(
        &mut self,
        changes: &mut mpsc::Receiver<Change>,
        owed: &mut Owed,
        wait: Duration,
    ) -> Option<()> {
        let due = self.remembered.due_in();
        let (refresh, own_changes) = (&self.refresh, &mut self.own_changes);
        let event = async {
            tokio::select! {
                change = changes.recv() => change.map_or(Event::End, Event::Change),
                Some(own) = own_changes.recv() => Event::Own(own),
                () = refresh.notified() => Event::Change(Change::All),
            }
        };
        match timeout(due.map_or(wait, |due| due.min(wait)), event).await {
            Ok(Event::Change(change)) => {
                self.take_note(change, owed);
                self.take_notes(changes, owed);
            }
            Ok(Event::Own(own)) => self.take_own(own, owed),
            Ok(Event::End) => return None,
            Err(_) if due.is_some_and(|due| due < wait) => {}
            Err(_) => owed.list |= owed.is_nothing(),
        }
        Some(())
    }

    /// Takes note of all changes that were told.
    pub(super) fn take_notes(&mut self, changes: &mut mpsc::Receiver<Change>, owed: &mut Owed) {
        while let Ok(own) = self.own_changes.try_recv() {
            self.take_own(own, owed);
        }
        while let Ok(change) = changes.try_recv() {
            self.take_note(change, owed);
        }
    }

    fn take_own(&mut self, mut own: OwnChange, owed: &mut Owed) {
        let is_owed = owed.list || owed.zones.contains(&own.zone);
        if let Some(difference) = own.difference.take()
            && !is_owed
            && self.apply_own(own.zone, difference)
        {
            // The one who asked may have gone.
            let _ = own.done.send(Ok(()));
            return;
        }
        self.take_note(Change::Zone(own.zone), owed);
        self.waiting.push(own);
    }

    /// Applies a change of this server to a zone in memory, so that it need not be read again; false if it must be.
    fn apply_own(&mut self, id: i64, difference: Difference) -> bool {
        let Some(known) = self.known.get(&id) else {
            return false;
        };
        let (zone, table) = (NameBuf::from(known.name()), self.commits.table());
        let version = table.version(known.name(), self.rank);
        let is_whole = version
            .is_some_and(|version| !version.is_stand_in() && !version.is_broken_at(&difference));
        if self.mode != BackendMode::Resident || !is_whole {
            return false;
        }
        let source = VersionSource {
            zone,
            rank: self.rank,
            home: ZoneHome::Database,
            origin: JournalOrigin::Change,
            confirmed: None,
        };
        match self.commits.difference_and_wait(source, difference) {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!("zone {zone}: read again: {error}");
                false
            }
        }
    }

    /// Tells those who wait for changes that are followed now.
    pub(super) fn tell_waiting(&mut self, owed: &Owed) {
        let is_owed = |own: &OwnChange| owed.list || owed.zones.contains(&own.zone);
        for own in std::mem::take(&mut self.waiting) {
            match is_owed(&own) {
                true => self.waiting.push(own),
                // The one who asked may have gone.
                false => drop(own.done.send(Ok(()))),
            }
        }
    }

    fn fail_waiting(&mut self, error: &SqlError) {
        for own in self.waiting.drain(..) {
            let _ = own.done.send(Err(error.clone()));
        }
    }

    fn take_note(&self, change: Change, owed: &mut Owed) {
        self.outdate(change);
        owed.note(change);
    }

    /// What the caches have of a zone is out of date at once, before anything is read.
    fn outdate(&self, change: Change) {
        let advance = |known: &Known| {
            if let Some(live) = &known.live {
                live.advance();
            }
        };
        match change {
            Change::Zone(id) => {
                if let Some(known) = self.known.get(&id) {
                    advance(known);
                }
            }
            Change::All => self.known.values().for_each(advance),
        }
    }
}

/// What a follower waits for.
enum Event {
    Change(Change),
    Own(OwnChange),
    /// Nobody tells of changes any more.
    End,
}

/// The server waits for the first question to a database, whatever came of it.
fn tell_asked(first: &mut Option<oneshot::Sender<()>>) {
    if let Some(first) = first.take() {
        let _ = first.send(());
    }
}
