//! The sent versions of zones without a journal: online-signed zones, and zones looked up in a database.
//!
//! For each zone, the version sent last is stored with the differences that lead to it, so that a secondary with one
//! of the earlier versions gets the changes since (RFC 1995): records, RRSIG, NSEC and NSEC3. A difference only
//! applies to exactly the version it starts from, so if two versions were sent with one serial, it starts from
//! neither. After a restart nothing is stored; the first transfer of a zone is a whole one.

use nameward_base::sync::Mutex;
use nameward_maintain::table::lower_case;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use nameward_zone::change::Difference;
use nameward_zone::{Serial, Zone};

/// Differences up to this many octets are kept even for a smaller zone.
pub(super) const ALWAYS_SENT: usize = 16 << 10;
/// Maximum number of differences stored per zone.
const DIFFERENCES_MAX: usize = 200;

/// The versions of all zones, with a limit in octets.
pub(super) struct SentVersions {
    octets_max: usize,
    /// Serializes comparisons: no client gets a version that is about to be replaced.
    comparison: Mutex<()>,
    cache: Mutex<CachedVersions>,
}

/// By the zone's name in wire format and lower case.
#[derive(Default)]
struct CachedVersions {
    zones: HashMap<Box<[u8]>, SentZone>,
    octets: usize,
    /// Use counter, to find the least recently used zone.
    uses: u64,
}

struct SentZone {
    newest: Arc<Zone>,
    /// The differences that lead to the newest version, oldest first.
    differences: VecDeque<Difference>,
    /// Different versions were sent with the newest serial: no difference applies to all of them.
    is_ambiguous: bool,
    octets: usize,
    last_used: u64,
}

impl SentVersions {
    /// Creates an empty store limited to this many octets.
    pub(super) fn new(octets_max: usize) -> Self {
        SentVersions {
            octets_max,
            comparison: Mutex::default(),
            cache: Mutex::default(),
        }
    }

    /// Records a version that is about to be sent; returns the one to send, which is the previous one if it is equal.
    /// Compares both versions completely, so it is slow for a large zone.
    pub(super) fn record(&self, version: Arc<Zone>) -> Arc<Zone> {
        let _comparison = self.comparison.lock();
        let name = lower_case(version.id());
        let mut before = self.cache.lock().remove(&name);
        let sent = match before.take() {
            Some(before) => before.advance_to(version),
            None => SentZone::new(version),
        };
        let newest = Arc::clone(&sent.newest);
        self.cache.lock().insert(name, sent, self.octets_max);
        newest
    }

    /// Returns the limit in octets.
    pub(super) fn octets_max(&self) -> usize {
        self.octets_max
    }

    /// Returns the version of a zone that was sent last, if it is stored.
    pub(super) fn newest(&self, zone: &Zone) -> Option<Arc<Zone>> {
        let cache = self.cache.lock();
        let sent = cache.zones.get(&lower_case(zone.id()))?;
        Some(Arc::clone(&sent.newest))
    }

    /// Checks whether differences may lead from a serial to the next version of a zone.
    pub(super) fn leads_from(&self, zone: &Zone, since: Serial) -> bool {
        let cache = self.cache.lock();
        let sent = cache.zones.get(&lower_case(zone.id()));
        sent.is_some_and(|sent| sent.leads_from(since))
    }

    /// Checks whether a version is stored.
    pub(super) fn contains(&self, version: &Arc<Zone>) -> bool {
        let cache = self.cache.lock();
        let sent = cache.zones.get(&lower_case(version.id()));
        sent.is_some_and(|sent| Arc::ptr_eq(&sent.newest, version))
    }

    /// Returns the differences from a serial to a sent version; `None` if they are not stored.
    pub(super) fn differences(
        &self,
        version: &Arc<Zone>,
        since: Serial,
    ) -> Option<Vec<Difference>> {
        let cache = self.cache.lock();
        let sent = cache.zones.get(&lower_case(version.id()))?;
        if !Arc::ptr_eq(&sent.newest, version) {
            return None;
        }
        let first = sent.first_difference(since)?;
        Some(sent.differences.range(first..).cloned().collect())
    }
}

impl CachedVersions {
    fn remove(&mut self, name: &[u8]) -> Option<SentZone> {
        let sent = self.zones.remove(name)?;
        self.octets -= sent.octets;
        Some(sent)
    }

    /// Stores a zone, and evicts the least recently used ones if the limit is exceeded.
    fn insert(&mut self, name: Box<[u8]>, mut sent: SentZone, octets_max: usize) {
        if sent.octets > octets_max {
            return;
        }
        while self.octets + sent.octets > octets_max {
            let oldest = self.zones.iter().min_by_key(|(_, sent)| sent.last_used);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
                break;
            };
            self.remove(&oldest);
        }
        self.uses += 1;
        sent.last_used = self.uses;
        self.octets += sent.octets;
        self.zones.insert(name, sent);
    }
}

impl SentZone {
    fn new(version: Arc<Zone>) -> Self {
        SentZone {
            octets: version.heap_bytes(),
            newest: version,
            differences: VecDeque::new(),
            is_ambiguous: false,
            last_used: 0,
        }
    }

    fn first_difference(&self, since: Serial) -> Option<usize> {
        let starts_at_serial = |difference: &Difference| {
            let serials = difference.serials();
            serials.is_some_and(|(from, _)| from == since)
        };
        self.differences.iter().position(starts_at_serial)
    }

    fn leads_from(&self, since: Serial) -> bool {
        let is_newest = self.newest.serial() == since && !self.is_ambiguous;
        is_newest || self.first_difference(since).is_some()
    }

    /// Advances to another version.
    fn advance_to(mut self, version: Arc<Zone>) -> SentZone {
        if Arc::ptr_eq(&self.newest, &version) {
            return self;
        }
        let is_same_serial = self.newest.serial() == version.serial();
        if !is_same_serial
            && (self.is_ambiguous || !version.serial().is_after(self.newest.serial()))
        {
            return SentZone::new(version);
        }
        let difference = version.difference_from(&self.newest);
        if is_same_serial {
            if difference.is_empty() {
                return self;
            }
            return SentZone {
                is_ambiguous: true,
                ..SentZone::new(version)
            };
        }
        self.differences.push_back(difference);
        self.newest = version;
        self.drop_oldest();
        self
    }

    /// Drops the oldest differences if they exceed the size of the zone, which is then sent instead.
    fn drop_oldest(&mut self) {
        let whole = self.newest.heap_bytes();
        let mut octets: usize = self.differences.iter().map(Difference::octets).sum();
        while octets > whole.max(ALWAYS_SENT) || self.differences.len() > DIFFERENCES_MAX {
            let Some(oldest) = self.differences.pop_front() else {
                break;
            };
            octets -= oldest.octets();
        }
        self.octets = whole + octets;
    }
}

#[cfg(test)]
mod tests;
