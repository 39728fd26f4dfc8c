//! The serials that secondaries were last notified of, kept in the state store: after a start they are notified of zones that have
//! changed meanwhile, and of no others.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nameward_store::state::{StateChange, StateError, StateStore};
use nameward_wire::NameBuf;
use nameward_zone::Serial;

/// The kind of item of the state store.
const KIND: &str = "notified";
/// How long serials wait to be written together. One that is lost costs a NOTIFY too much after the next start.
const WRITE_AFTER: Duration = Duration::from_secs(1);

/// The serials that are to be kept.
#[derive(Default)]
pub(super) struct SentSerials {
    store: Option<StateStore>,
    unwritten: HashMap<NameBuf, Serial>,
    since: Option<Instant>,
}

impl SentSerials {
    /// Keeps serials in a store, if there is one.
    pub(super) fn new(store: Option<StateStore>) -> Self {
        SentSerials {
            store,
            unwritten: HashMap::new(),
            since: None,
        }
    }

    /// Takes note that the servers of a zone are notified of a serial.
    pub(super) fn note(&mut self, zone: NameBuf, serial: Serial) {
        if self.store.is_some() {
            self.unwritten.insert(zone, serial);
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Returns the time until serials are to be written.
    pub(super) fn next_write(&self) -> Option<Duration> {
        let since = self.since?;
        Some(WRITE_AFTER.saturating_sub(since.elapsed()))
    }

    /// Writes the serials that have waited long enough, without waiting for the disk.
    pub(super) fn write_due(&mut self) {
        if self.next_write().is_none_or(|wait| !wait.is_zero()) {
            return;
        }
        let changes = self.take_unwritten();
        if let Some(store) = &self.store {
            store.submit(changes, |written| note_failure(written.err()));
        }
    }

    /// Writes all serials, and waits for the disk.
    pub(super) fn write_all(&mut self) {
        let changes = self.take_unwritten();
        if let Some(store) = self.store.as_ref().filter(|_| !changes.is_empty()) {
            note_failure(store.write(changes).err());
        }
    }

    fn take_unwritten(&mut self) -> Vec<StateChange> {
        self.since = None;
        let unwritten = self.unwritten.drain();
        let changes = unwritten.map(|(zone, serial)| StateChange::SetItem {
            kind: KIND,
            name: key(&zone),
            value: serial.0.to_be_bytes().to_vec(),
        });
        changes.collect()
    }
}

fn note_failure(error: Option<StateError>) {
    if let Some(error) = error {
        tracing::error!("serials of sent NOTIFY messages are not stored: {error}");
    }
}

/// The serials that were kept, by the zone's name in wire form and lower case.
pub(super) struct KeptSerials(HashMap<Vec<u8>, Serial>);

impl KeptSerials {
    /// Reads all of them; `None` if nothing is kept here or it cannot be read.
    pub(super) fn read(store: &StateStore) -> Option<Self> {
        let items = match store.items(KIND) {
            Ok(items) => items,
            Err(error) => {
                tracing::error!(
                    "zones that changed while the server was down are not notified: {error}"
                );
                return None;
            }
        };
        let serials = items.into_iter().filter_map(|(name, value)| {
            let octets = <[u8; 4]>::try_from(&value[..]).ok()?;
            Some((name, Serial(u32::from_be_bytes(octets))))
        });
        Some(KeptSerials(serials.collect()))
    }

    /// Returns whether the servers of a zone were notified of a serial.
    pub(super) fn has(&self, zone: &NameBuf, serial: Serial) -> bool {
        self.0.get(&key(zone)) == Some(&serial)
    }
}

/// Makes the change of the state store that has the servers of a zone notified after the next start, whatever its serial is.
pub fn forget_notified(zone: &NameBuf) -> StateChange {
    StateChange::RemoveItem {
        kind: KIND,
        name: key(zone),
    }
}

fn key(zone: &NameBuf) -> Vec<u8> {
    zone.as_name().as_wire().to_ascii_lowercase()
}
