//! The names of a zone that have descendants, so that empty non-terminals are known (RFC 8020).
//!
//! PowerDNS stores empty non-terminals as rows without a type, but only after a "rectify", and they are not removed
//! when rows are edited by hand, so they are derived instead. No index in the schema finds names by suffix: the names
//! of a zone are read once, and again after a change, for at most one twentieth of the time. Only hashes are kept:
//! eight octets per name, and flat zones have few.
//!
//! The denial chain of a zone with slow keys is built from the same names ([`super::listing`]) and kept with them.

use super::error::SqlError;
use super::row::read_name;
use nameward_base::sync::Mutex;
use nameward_dnssec::Signing;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{ListedChain, NameKey};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of names with descendants kept for one zone; beyond that, further names are dropped, and the zone
/// relies on the rows that PowerDNS wrote for them.
const MAX_NAMES: usize = 4_000_000;
/// Maximum number of zones whose sets are kept.
const MAX_ZONES: usize = 10_000;
/// Reading takes at most this fraction (1/20) of the time.
const REST: u32 = 20;
/// Memory for denial chains over all zones, in octets; when they take more, the ones read first are dropped.
const CHAIN_BYTES_MAX: usize = 256 << 20;

/// Uses a hash as its own hash.
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

/// The names of one zone that have descendants.
#[derive(Default)]
pub(crate) struct AncestorSet {
    names: HashSet<u64, BuildHasherDefault<Same>>,
    /// Some names are missing.
    pub(crate) is_partial: bool,
}

impl AncestorSet {
    /// Checks whether the suffix with `labels` labels has descendants.
    pub(crate) fn contains(&self, key: &NameKey, labels: usize) -> bool {
        self.names.contains(&key.hash(labels))
    }
}

/// Collects the names while they are read.
pub(crate) struct Collector {
    pub(crate) ancestors: AncestorSet,
    apex_labels: usize,
    key: NameKey,
    name: NameBuf,
    last: Vec<u8>,
    is_valid: bool,
}

impl Collector {
    pub(crate) fn new(apex: &NameBuf) -> Self {
        Collector {
            ancestors: AncestorSet::default(),
            apex_labels: apex.as_name().label_count(),
            key: NameKey::default(),
            name: NameBuf::root(),
            last: Vec::new(),
            is_valid: false,
        }
    }

    /// Adds one name, and returns it parsed. An invalid name cannot be queried and has no ancestors.
    pub(crate) fn take(&mut self, text: &[u8]) -> Option<Name<'_>> {
        if text != self.last {
            self.last.clear();
            self.last.extend_from_slice(text);
            self.is_valid = read_name(text, &mut self.name).is_ok();
            if self.is_valid {
                self.add_ancestors();
            }
        }
        self.is_valid.then(|| self.name.as_name())
    }

    fn add_ancestors(&mut self) {
        self.key.set(self.name.as_name());
        // From the bottom up: if a name is known already, so are its ancestors.
        for labels in (self.apex_labels..self.key.labels()).rev() {
            if self.ancestors.names.len() >= MAX_NAMES {
                self.ancestors.is_partial = true;
                return;
            }
            if !self.ancestors.names.insert(self.key.hash(labels)) {
                return;
            }
        }
    }
}

pub(crate) struct NamesRead {
    pub(crate) ancestors: AncestorSet,
    pub(crate) chain: ChainProgress,
}

/// How far the chain of a zone is known.
pub(crate) enum ChainProgress {
    /// None was requested when the names were read, or it is outdated.
    NotRequested,
    /// It takes too much memory.
    TooLarge,
    /// It is available.
    Made(Arc<ListedChain>),
}

/// The chain of a zone for one answer.
pub(crate) enum ChainFound {
    /// It can be used.
    Usable(Arc<ListedChain>),
    /// It can be used when the names have been read again.
    Later,
    /// There is none.
    Never,
}

impl ChainProgress {
    /// Drops an outdated chain.
    pub(crate) fn forget(&mut self) {
        if let ChainProgress::Made(_) = self {
            *self = ChainProgress::NotRequested;
        }
    }

    /// Keeps the previous chain if it is identical, so that fragments using it remain valid.
    pub(crate) fn share_with(&mut self, before: &ChainProgress) {
        if let (ChainProgress::Made(own), ChainProgress::Made(before)) = (&mut *self, before)
            && **own == **before
        {
            *own = Arc::clone(before);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            ChainProgress::Made(chain) => chain.heap_bytes(),
            ChainProgress::NotRequested | ChainProgress::TooLarge => 0,
        }
    }
}

struct CachedAncestors {
    ancestors: Arc<AncestorSet>,
    chain: ChainProgress,
    read_at: Instant,
    took: Duration,
    is_stale: bool,
}

/// The turn to read the names of a zone.
#[derive(Default)]
struct ReadTurn {
    reader: tokio::sync::Mutex<()>,
    /// The zone changed while its names were read: the result may be outdated.
    has_changed: AtomicBool,
}

/// The sets of all queried zones. For each zone, names are read by one query at a time.
pub(crate) struct AncestorSets {
    zones: Mutex<HashMap<i64, CachedAncestors>>,
    turns: Mutex<HashMap<i64, Arc<ReadTurn>>>,
    /// A set is read again after this time, even without a change notification.
    max_age: Duration,
}

impl AncestorSets {
    pub(crate) fn new(max_age: Duration) -> Self {
        AncestorSets {
            zones: Mutex::default(),
            turns: Mutex::default(),
            max_age,
        }
    }

    /// Marks a zone as changed; `None`: any zone.
    pub(crate) fn forget(&self, zone: Option<i64>) {
        let is_meant = |id: &i64| zone.is_none_or(|zone| *id == zone);
        // Turns first, and a reader holds their lock while it stores its set: a change is recorded in one of both.
        for (_, turn) in self.turns.lock().iter().filter(|(id, _)| is_meant(id)) {
            turn.has_changed.store(true, Ordering::Relaxed);
        }
        for (_, entry) in self.zones.lock().iter_mut().filter(|(id, _)| is_meant(id)) {
            entry.is_stale = true;
            entry.chain.forget();
        }
    }

    /// Returns the denial chain of a zone with listed names, if the names were read since the last change.
    pub(crate) fn chain(&self, zone: i64, signing: &Signing) -> ChainFound {
        let mut zones = self.zones.lock();
        let Some(entry) = zones.get_mut(&zone).filter(|entry| !entry.is_stale) else {
            return ChainFound::Later;
        };
        // As long as the names themselves are used, and until they are read again.
        let limit = self.max_age.max(entry.took * REST) + entry.took * 3;
        match &entry.chain {
            ChainProgress::TooLarge => ChainFound::Never,
            ChainProgress::Made(chain) if chain.fits(signing) => {
                if entry.read_at.elapsed() <= limit {
                    ChainFound::Usable(Arc::clone(chain))
                } else {
                    ChainFound::Later
                }
            }
            // Keys or metadata have changed since the names were read.
            ChainProgress::Made(_) | ChainProgress::NotRequested => {
                entry.is_stale = true;
                ChainFound::Later
            }
        }
    }

    /// Checks whether the chain of a zone was too large the last time.
    pub(crate) fn is_too_large(&self, zone: i64) -> bool {
        let zones = self.zones.lock();
        let entry = zones.get(&zone);
        entry.is_some_and(|entry| matches!(entry.chain, ChainProgress::TooLarge))
    }

    /// Returns the set if it is usable; the second value is an outdated one to fall back to.
    fn cached(&self, zone: i64) -> (Option<Arc<AncestorSet>>, Option<Arc<AncestorSet>>) {
        let zones = self.zones.lock();
        let Some(entry) = zones.get(&zone) else {
            return (None, None);
        };
        let age = entry.read_at.elapsed();
        let wants_new = entry.is_stale || age > self.max_age;
        if wants_new && age > entry.took * REST {
            (None, Some(entry.ancestors.clone()))
        } else {
            (Some(entry.ancestors.clone()), None)
        }
    }

    /// Returns the set of a zone if nothing has to be read for it.
    pub(crate) fn usable(&self, zone: i64) -> Option<Arc<AncestorSet>> {
        let (current, old) = self.cached(zone);
        // Another reader is working: the outdated set can be used a little longer.
        current.or_else(|| old.filter(|_| self.is_being_read(zone)))
    }

    /// Checks whether the names of a zone are being read. A reader that gave up leaves the turn behind, but does not
    /// hold it.
    fn is_being_read(&self, zone: i64) -> bool {
        let turns = self.turns.lock();
        let turn = turns.get(&zone);
        turn.is_some_and(|turn| turn.reader.try_lock().is_err())
    }

    /// Returns the set of a zone, reading it with `read` if there is none or it is outdated.
    pub(crate) async fn get_or_read<F>(
        &self,
        zone: i64,
        read: F,
    ) -> Result<Arc<AncestorSet>, SqlError>
    where
        F: AsyncFnOnce() -> Result<NamesRead, SqlError>,
    {
        let (current, old) = self.cached(zone);
        if let Some(ancestors) = current {
            return Ok(ancestors);
        }
        let turn = self.turns.lock().entry(zone).or_default().clone();
        let reader = match old {
            None => turn.reader.lock().await,
            Some(old) => match turn.reader.try_lock() {
                Ok(reader) => reader,
                // Another reader is working: the outdated set can be used a little longer.
                Err(_) => return Ok(old),
            },
        };
        if let (Some(ancestors), _) = self.cached(zone) {
            end_turn(&mut self.turns.lock(), zone, &turn);
            return Ok(ancestors);
        }
        turn.has_changed.store(false, Ordering::Relaxed);
        let started = Instant::now();
        let result = read().await;
        let took = started.elapsed();
        let mut turns = self.turns.lock();
        end_turn(&mut turns, zone, &turn);
        let NamesRead { ancestors, chain } = result?;
        let ancestors = Arc::new(ancestors);
        let entry = CachedAncestors {
            ancestors: ancestors.clone(),
            chain,
            read_at: Instant::now(),
            took,
            is_stale: turn.has_changed.load(Ordering::Relaxed),
        };
        self.insert(zone, entry);
        drop(turns);
        drop(reader);
        Ok(ancestors)
    }

    fn insert(&self, zone: i64, mut entry: CachedAncestors) {
        let mut zones = self.zones.lock();
        if let Some(before) = zones.get(&zone) {
            entry.chain.share_with(&before.chain);
        }
        if zones.len() >= MAX_ZONES && !zones.contains_key(&zone) {
            let oldest = zones.iter().min_by_key(|(_, entry)| entry.read_at);
            if let Some(id) = oldest.map(|(id, _)| *id) {
                zones.remove(&id);
            }
        }
        let has_chain = entry.chain.heap_bytes() > 0;
        zones.insert(zone, entry);
        if has_chain {
            bound_chains(&mut zones);
        }
    }
}

/// Removes a turn unless others wait for it: they continue with it, so a change must find it.
fn end_turn(turns: &mut HashMap<i64, Arc<ReadTurn>>, zone: i64, turn: &Arc<ReadTurn>) {
    // One reference is in the map, one is the caller's.
    if Arc::strong_count(turn) == 2 {
        turns.remove(&zone);
    }
}

/// Drops the chains that were read first, as long as all together take too much memory.
fn bound_chains(zones: &mut HashMap<i64, CachedAncestors>) {
    let mut bytes: usize = zones.values().map(|entry| entry.chain.heap_bytes()).sum();
    while bytes > CHAIN_BYTES_MAX {
        let with_chain = zones.values_mut();
        let with_chain = with_chain.filter(|entry| entry.chain.heap_bytes() > 0);
        let Some(oldest) = with_chain.min_by_key(|entry| entry.read_at) else {
            return;
        };
        bytes -= oldest.chain.heap_bytes();
        oldest.chain = ChainProgress::TooLarge;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> AncestorSet {
        let mut collector = Collector::new(&"example.org".parse().unwrap());
        for name in names {
            collector.take(name.as_bytes());
        }
        collector.ancestors
    }

    fn read(names: &[&str]) -> NamesRead {
        NamesRead {
            ancestors: of(names),
            chain: ChainProgress::NotRequested,
        }
    }

    fn has(ancestors: &AncestorSet, name: &str) -> bool {
        let name: NameBuf = name.parse().unwrap();
        ancestors.contains(&NameKey::new(name.as_name()), name.as_name().label_count())
    }

    /// Waits until names may be read again after a read that just ended: reading takes at most one twentieth of the
    /// time.
    async fn rest_after(begin: Instant) {
        tokio::time::sleep((REST + 1) * begin.elapsed()).await;
    }

    #[test]
    fn names_with_something_below_are_known_and_no_others() {
        let ancestors = of(&[
            "example.org",
            "a.b.example.org",
            "c.example.org",
            "*.d.example.org",
            "x..y",
        ]);
        for name in ["example.org", "b.example.org", "D.example.org"] {
            assert!(has(&ancestors, name), "{name}");
        }
        for name in [
            "org",
            "a.b.example.org",
            "c.example.org",
            "*.d.example.org",
            "e.example.org",
        ] {
            assert!(!has(&ancestors, name), "{name}");
        }
    }

    #[tokio::test]
    async fn a_reader_that_gives_up_leaves_the_set_out_of_date() {
        let sets = AncestorSets::new(Duration::from_secs(3600));
        let begin = Instant::now();
        sets.get_or_read(1, async || Ok(read(&["a.b.example.org"])))
            .await
            .unwrap();
        sets.forget(Some(1));
        rest_after(begin).await;
        let never = sets.get_or_read(1, async || std::future::pending().await);
        let given_up = tokio::time::timeout(Duration::from_millis(20), never).await;
        assert!(given_up.is_err());
        assert!(sets.usable(1).is_none());
        let new = sets
            .get_or_read(1, async || Ok(read(&["a.c.example.org"])))
            .await
            .unwrap();
        assert!(has(&new, "c.example.org") && !has(&new, "b.example.org"));
    }

    #[tokio::test]
    async fn a_change_while_one_who_waited_reads_has_them_read_again() {
        let sets = AncestorSets::new(Duration::from_secs(3600));
        let begin = Instant::now();
        let fails = sets.get_or_read(1, async || {
            tokio::task::yield_now().await;
            Err(SqlError::Unavailable("down".into()))
        });
        let waits = sets.get_or_read(1, async || {
            sets.forget(Some(1));
            Ok(read(&["a.b.example.org"]))
        });
        let (failed, waited) = tokio::join!(fails, waits);
        assert!(failed.is_err() && waited.is_ok());
        rest_after(begin).await;
        let new = sets.get_or_read(1, async || Ok(read(&["a.c.example.org"])));
        assert!(has(&new.await.unwrap(), "c.example.org"));
    }

    #[tokio::test]
    async fn a_change_while_names_are_read_has_them_read_again() {
        let sets = AncestorSets::new(Duration::from_secs(3600));
        let begin = Instant::now();
        let first = sets.get_or_read(1, async || {
            sets.forget(Some(1));
            Ok(read(&["a.b.example.org"]))
        });
        first.await.unwrap();
        rest_after(begin).await;
        let new = sets
            .get_or_read(1, async || Ok(read(&["a.c.example.org"])))
            .await
            .unwrap();
        assert!(has(&new, "c.example.org"));
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let sets = AncestorSets::new(Duration::from_secs(3600));
        let failed = sets
            .get_or_read(1, async || Err(SqlError::Unavailable("down".into())))
            .await;
        assert!(failed.is_err());
        assert!(sets.get_or_read(1, async || Ok(read(&[]))).await.is_ok());
    }
}
