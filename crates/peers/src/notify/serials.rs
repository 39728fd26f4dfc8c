//! The serials that secondaries were last notified of, stored in the state store: after a restart,
//! only zones that have changed since are announced.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nameward_state::{Durable as _, StateChange, StateError, StateStore};
use nameward_wire::NameBuf;
use nameward_zone::Serial;

/// The item kind in the state store.
const KIND: &str = "notified";
/// How long serials are collected before they are written together. A lost one costs a superfluous
/// NOTIFY after the next start.
const WRITE_AFTER: Duration = Duration::from_secs(1);

/// The serials to be written.
#[derive(Default)]
pub(super) struct SentSerials {
    store: Option<StateStore>,
    unwritten: HashMap<NameBuf, Serial>,
    since: Option<Instant>,
}

impl SentSerials {
    /// Stores serials in `store`, if there is one.
    pub(super) fn new(store: Option<StateStore>) -> Self {
        SentSerials {
            store,
            unwritten: HashMap::new(),
            since: None,
        }
    }

    /// Records that the servers of a zone are notified of a serial.
    pub(super) fn record(&mut self, zone: NameBuf, serial: Serial) {
        if self.store.is_some() {
            self.unwritten.insert(zone, serial);
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Returns the time until serials must be written.
    pub(super) fn next_write(&self) -> Option<Duration> {
        let since = self.since?;
        Some(WRITE_AFTER.saturating_sub(since.elapsed()))
    }

    /// Writes the serials that are due, without waiting for the disk.
    pub(super) fn write_due(&mut self) {
        if self.next_write().is_none_or(|wait| !wait.is_zero()) {
            return;
        }
        let changes = self.take_unwritten();
        if let Some(store) = &self.store {
            store.submit(changes, Box::new(|written| log_failure(written.err())));
        }
    }

    /// Writes all serials, and waits for the disk.
    pub(super) fn write_all(&mut self) {
        let changes = self.take_unwritten();
        if let Some(store) = self.store.as_ref().filter(|_| !changes.is_empty()) {
            log_failure(store.write(changes).err());
        }
    }

    fn take_unwritten(&mut self) -> Vec<StateChange> {
        self.since = None;
        let unwritten = self.unwritten.drain();
        let changes = unwritten.map(|(zone, serial)| {
            StateChange::set_item(KIND, key(&zone), serial.0.to_be_bytes().to_vec())
        });
        changes.collect()
    }
}

fn log_failure(error: Option<StateError>) {
    match error {
        None => {}
        // Another process has taken over the store; it sends NOTIFY again for serials that are not
        // stored.
        Some(error @ StateError::Closed) => {
            tracing::debug!("cannot store the serials of sent NOTIFY messages: {error}");
        }
        Some(error) => {
            tracing::error!("cannot store the serials of sent NOTIFY messages: {error}");
        }
    }
}

/// The stored serials, by the zone's name in wire format and lower case.
pub(super) struct StoredSerials(HashMap<Vec<u8>, Serial>);

impl StoredSerials {
    /// Reads the serials; `None` if none are stored or they cannot be read.
    pub(super) fn read(store: &StateStore) -> Option<Self> {
        let items = match store.items(KIND) {
            Ok(items) => items,
            Err(error) => {
                tracing::error!(
                    "cannot send NOTIFY for zones that changed while the server was down: {error}"
                );
                return None;
            }
        };
        let serials = items.into_iter().filter_map(|(name, value)| {
            let octets = <[u8; 4]>::try_from(&value.reveal()[..]).ok()?;
            Some((name, Serial(u32::from_be_bytes(octets))))
        });
        Some(StoredSerials(serials.collect()))
    }

    /// Checks whether the servers of a zone were notified of a serial.
    pub(super) fn contains(&self, zone: &NameBuf, serial: Serial) -> bool {
        self.0.get(&key(zone)) == Some(&serial)
    }
}

/// Builds the state store change that makes the next start notify the servers of a zone, regardless of its serial.
pub fn forget_notified(zone: &NameBuf) -> StateChange {
    StateChange::remove_item(KIND, key(zone))
}

fn key(zone: &NameBuf) -> Vec<u8> {
    zone.as_name().as_wire().to_ascii_lowercase()
}
