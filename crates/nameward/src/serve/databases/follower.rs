//! Owns the life of a follower: it reads what is owed, waits for changes, and tries again when the database is down.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use nameward_serve::pipeline::Shared;
use nameward_store::sql::{Change, SqlBackend};
use nameward_wire::Name;
use nameward_zone::Live;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};

use crate::config::settings::BackendMode;

/// How soon a database that is down is asked for its zones again, at first and at the most.
const BACK_OFF: Duration = Duration::from_millis(250);
const MAX_BACK_OFF: Duration = Duration::from_secs(10);
/// Changes that are followed together.
const CHANGES_AT_ONCE: usize = 1000;
/// Lines about zones that one round writes to the log.
pub(super) const LINES_MAX: usize = 100;

/// A zone of the database that is in the table, or would be if no other source had it.
pub(super) struct Known {
    /// Its name in wire form.
    pub(super) name: Box<[u8]>,
    /// Set in live mode.
    pub(super) live: Option<Arc<Live>>,
    pub(super) served: bool,
}

impl Known {
    pub(super) fn name(&self) -> Name<'_> {
        Name::from_wire(&self.name).unwrap_or(Name::ROOT)
    }
}

/// Follows one database.
pub(super) struct Follower {
    pub(super) shared: Arc<Shared>,
    /// As the source of look-ups.
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) rank: u16,
    pub(super) mode: BackendMode,
    pub(super) backend: SqlBackend,
    pub(super) known: HashMap<i64, Known>,
    /// Zones of which was told that another source has them.
    pub(super) told: HashSet<i64>,
    pub(super) refresh: Arc<Notify>,
    pub(super) refresh_interval: Duration,
}

/// What is to be read again.
#[derive(Default)]
pub(super) struct Owed {
    pub(super) all: bool,
    /// Contents may have changed, not only the list.
    pub(super) contents: bool,
    pub(super) zones: HashSet<i64>,
}

impl Owed {
    fn is_nothing(&self) -> bool {
        !self.all && self.zones.is_empty()
    }

    fn note(&mut self, change: Change) {
        match change {
            Change::Zone(id) if self.zones.len() < CHANGES_AT_ONCE => {
                self.zones.insert(id);
            }
            Change::Zone(_) | Change::All => {
                self.all = true;
                self.contents = true;
            }
        }
    }
}

impl Follower {
    pub(super) async fn run(mut self, first: oneshot::Sender<()>) {
        // First, so that no change is missed between the list and the watching.
        let mut changes = self.backend.watch();
        let mut first = Some(first);
        let mut owed = Owed {
            all: true,
            ..Owed::default()
        };
        let mut back_off = BACK_OFF;
        loop {
            let result = self.settle(&mut owed).await;
            if let Some(first) = first.take() {
                let _ = first.send(());
            }
            let wait = match &result {
                Ok(()) => {
                    back_off = BACK_OFF;
                    self.refresh_interval
                }
                Err(error) => {
                    let name = &self.name;
                    tracing::warn!(
                        "{name}: the zones cannot be read: {error}; next try in {back_off:?}"
                    );
                    let wait = back_off;
                    back_off = (back_off * 2).min(MAX_BACK_OFF);
                    wait
                }
            };
            match self.next(&mut changes, &mut owed, wait).await {
                Some(()) => {}
                None => return,
            }
        }
    }

    /// Waits for something to do.
    async fn next(
        &mut self,
        changes: &mut mpsc::Receiver<Change>,
        owed: &mut Owed,
        wait: Duration,
    ) -> Option<()> {
        let refresh = Arc::clone(&self.refresh);
        let event = async {
            tokio::select! {
                change = changes.recv() => change.map(Some),
                () = refresh.notified() => Some(None),
            }
        };
        match timeout(wait, event).await {
            Ok(Some(Some(change))) => {
                self.take_note(change, owed);
                while let Ok(change) = changes.try_recv() {
                    self.take_note(change, owed);
                }
            }
            Ok(Some(None)) => {
                owed.note(Change::All);
                self.outdate(Change::All);
            }
            Ok(None) => return None,
            Err(_) => owed.all |= owed.is_nothing(),
        }
        Some(())
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
