//! The names of a zone that have something below them, so that empty non-terminals are known (RFC 8020).
//!
//! PowerDNS stores empty non-terminals as rows without a type, but only after a "rectify", and forgets to remove
//! them when they are edited by hand, so they are derived instead. No index of the schema finds names by their end:
//! the names of a zone are read once, and again after a change, at most one twentieth of the time. Only hashes are
//! kept: eight octets a name, and flat zones have few.

use super::error::SqlError;
use super::row::read_name;
use nameward_wire::NameBuf;
use nameward_zone::NameKey;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Names with something below them that are kept for one zone; a zone with more has its last ones forgotten and
/// relies on the rows that PowerDNS wrote for them.
const MAX_NAMES: usize = 4_000_000;
/// Zones whose sets are kept.
const MAX_ZONES: usize = 10_000;
/// Reading takes at most this part of the time.
const REST: u32 = 20;

/// A hash is its own hash.
#[derive(Default)]
pub(crate) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// The names of one zone that have something below them.
#[derive(Default)]
pub(crate) struct Above {
    names: HashSet<u64, BuildHasherDefault<Same>>,
    /// Some names are missing here.
    pub(crate) is_partial: bool,
}

impl Above {
    /// Whether something stands below the suffix of `labels` labels.
    pub(crate) fn contains(&self, key: &NameKey, labels: usize) -> bool {
        self.names.contains(&key.hash(labels))
    }
}

/// Collects the names while they are read.
pub(crate) struct Collector {
    above: Above,
    apex_labels: usize,
    key: NameKey,
    name: NameBuf,
    last: Vec<u8>,
}

impl Collector {
    pub(crate) fn new(apex: &NameBuf) -> Self {
        Collector {
            above: Above::default(),
            apex_labels: apex.as_name().label_count(),
            key: NameKey::default(),
            name: NameBuf::root(),
            last: Vec::new(),
        }
    }

    /// Takes one name. One that is not valid cannot be asked for and stands below nothing.
    pub(crate) fn take(&mut self, text: &[u8]) {
        if text == self.last {
            return;
        }
        self.last.clear();
        self.last.extend_from_slice(text);
        if read_name(text, &mut self.name).is_err() {
            return;
        }
        self.key.set(self.name.as_name());
        // From below: where a name is known already, those above it are too.
        for labels in (self.apex_labels..self.key.labels()).rev() {
            if self.above.names.len() >= MAX_NAMES {
                self.above.is_partial = true;
                return;
            }
            if !self.above.names.insert(self.key.hash(labels)) {
                return;
            }
        }
    }

    pub(crate) fn finish(self) -> Above {
        self.above
    }
}

struct Entry {
    above: Arc<Above>,
    read_at: Instant,
    took: Duration,
    is_stale: Arc<AtomicBool>,
}

/// The sets of all zones that were asked for. Names are read by one question at a time for each zone.
pub(crate) struct AboveSets {
    zones: Mutex<HashMap<i64, Entry>>,
    reading: Mutex<HashMap<i64, Arc<tokio::sync::Mutex<()>>>>,
    /// After this a set is read again even if nobody told of a change.
    max_age: Duration,
}

impl AboveSets {
    pub(crate) fn new(max_age: Duration) -> Self {
        AboveSets {
            zones: Mutex::default(),
            reading: Mutex::default(),
            max_age,
        }
    }

    /// Something in the zone changed; `None`: in any zone.
    pub(crate) fn forget(&self, zone: Option<i64>) {
        let zones = lock(&self.zones);
        for (_, entry) in zones
            .iter()
            .filter(|(id, _)| zone.is_none_or(|zone| **id == zone))
        {
            entry.is_stale.store(true, Ordering::Relaxed);
        }
    }

    /// The set if it may be used; the second is an old one to fall back to.
    fn cached(&self, zone: i64) -> (Option<Arc<Above>>, Option<Arc<Above>>) {
        let zones = lock(&self.zones);
        let Some(entry) = zones.get(&zone) else {
            return (None, None);
        };
        let age = entry.read_at.elapsed();
        let wants_new = entry.is_stale.load(Ordering::Relaxed) || age > self.max_age;
        if wants_new && age > entry.took * REST {
            (None, Some(entry.above.clone()))
        } else {
            (Some(entry.above.clone()), None)
        }
    }

    /// The set of a zone, read with `read` if there is none or the one there is out of date.
    pub(crate) async fn of<F>(&self, zone: i64, read: F) -> Result<Arc<Above>, SqlError>
    where
        F: AsyncFnOnce() -> Result<Above, SqlError>,
    {
        let (current, old) = self.cached(zone);
        if let Some(above) = current {
            return Ok(above);
        }
        let turn = lock(&self.reading).entry(zone).or_default().clone();
        let guard = match old {
            None => turn.lock().await,
            Some(old) => match turn.try_lock() {
                Ok(guard) => guard,
                // Somebody reads it right now: the old one is good for a moment more.
                Err(_) => return Ok(old),
            },
        };
        if let (Some(above), _) = self.cached(zone) {
            return Ok(above);
        }
        let started = Instant::now();
        let is_stale = Arc::new(AtomicBool::new(false));
        // A change that comes while the names are read makes the new set out of date at once.
        if let Some(entry) = lock(&self.zones).get_mut(&zone) {
            entry.is_stale = is_stale.clone();
        }
        let result = read().await;
        if result.is_err() {
            is_stale.store(true, Ordering::Relaxed);
        }
        let above = Arc::new(result?);
        let mut zones = lock(&self.zones);
        if zones.len() >= MAX_ZONES && !zones.contains_key(&zone) {
            let oldest = zones.iter().min_by_key(|(_, entry)| entry.read_at);
            if let Some(id) = oldest.map(|(id, _)| *id) {
                zones.remove(&id);
            }
        }
        let entry = Entry {
            above: above.clone(),
            read_at: Instant::now(),
            took: started.elapsed(),
            is_stale,
        };
        zones.insert(zone, entry);
        drop(zones);
        drop(guard);
        lock(&self.reading).remove(&zone);
        Ok(above)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
