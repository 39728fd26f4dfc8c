//! Questions for zones that are looked up in a backend: caches, look-ups in flight, and answers that come later.
//!
//! ```text
//! worker, no waiting:   packet cache -> engine over the parts in the query cache -> answered in its batch
//!                                  a part is missing: the question joins its look-up (flights) and leaves the batch
//! look-up ended:        part into the query cache -> engine for each that waits -> answered, or joins the next look-up
//! ```
//! Look-ups of a blocking source (SQLite) run on threads of their own, others as tasks on the runtime. Bounds:
//! questions that wait, look-ups of one zone, entries of both caches, the time that a question waits.

mod answerer;
mod attempt;
mod flights;
mod job;
mod landing;
mod lanes;
mod packet_cache;
mod query_cache;
mod run;
mod source;
mod told;
mod view;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use nameward_dnssec::SignatureCache;
use nameward_stats::{Gauge, Stats};
use nameward_wire::Name;
use nameward_zone::Live;

pub(crate) use answerer::Answerer;
pub(crate) use attempt::{Attempt, Tried};
pub(crate) use flights::{Boarded, Flight, Flights};
pub(crate) use job::Job;
pub(crate) use packet_cache::{Fit, Hit, PacketCache};
pub(crate) use query_cache::{Cached, QueryCache, QueryCacheSettings};
pub(crate) use run::board;
pub use run::{Running, start};
pub use source::{
    Ended, Fetched, Kept, LiveSource, Lookup, LookupBatch, LookupError, Round, Wanted,
};
use told::Told;
pub(crate) use view::{Held, LiveView, Parts, Used};

/// Settings of the caches and of overload.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    /// Answers in the packet cache, in units of 512 octets; 0 turns it off.
    pub packet_entries: usize,
    /// How long an answer may come from the packet cache; 0 turns it off.
    pub packet_ttl: Duration,
    /// Names in the query cache, in units of 1024 octets; 0 turns it off.
    pub query_entries: usize,
    /// How long what a backend said is good.
    pub query_ttl: Duration,
    /// How long it is good that a name does not exist.
    pub negative_ttl: Duration,
    /// How much longer it may be served while the backend is down.
    pub stale_while_down: Duration,
    /// Questions that may wait for backends; more are dropped.
    pub overload_queue: usize,
    /// How long a question may wait.
    pub query_timeout: Duration,
    /// Look-ups of one zone that may be under way.
    pub lookups_per_zone: usize,
    /// Threads for look-ups in blocking sources.
    pub threads: usize,
    /// Questions that may wait for signatures to be made.
    pub signing_queue: usize,
    /// Share of all cores that making signatures may take.
    pub signing_cpu_percent: usize,
    /// Where the sources of signed zones keep signatures.
    pub signatures: Arc<SignatureCache>,
}

impl Default for LiveSettings {
    fn default() -> Self {
        LiveSettings {
            packet_entries: 100_000,
            packet_ttl: Duration::from_secs(20),
            query_entries: 100_000,
            query_ttl: Duration::from_secs(20),
            negative_ttl: Duration::from_secs(60),
            stale_while_down: Duration::from_secs(3600),
            overload_queue: 5000,
            query_timeout: Duration::from_millis(1500),
            lookups_per_zone: 1000,
            threads: 2,
            signing_queue: 4096,
            signing_cpu_percent: 50,
            signatures: Arc::default(),
        }
    }
}

/// A source, and what is known of it here.
struct Backend {
    source: Arc<dyn LiveSource>,
    /// What to call it in the log.
    name: String,
    lookups: AtomicUsize,
    lanes: lanes::Lanes,
    told: Mutex<Told>,
}

/// What all workers share for live zones.
pub struct LiveZones {
    settings: LiveSettings,
    pub(crate) packets: PacketCache,
    pub(crate) queries: QueryCache,
    pub(crate) flights: Flights,
    backends: RwLock<Vec<Arc<Backend>>>,
    crew: OnceLock<run::Crew>,
}

impl LiveZones {
    /// Empty caches, no sources.
    pub fn new(settings: LiveSettings) -> Self {
        let queries = QueryCacheSettings {
            entries: settings.query_entries,
            positive_ttl: settings.query_ttl,
            negative_ttl: settings.negative_ttl,
            stale: settings.stale_while_down,
        };
        let max_per_zone = u32::try_from(settings.lookups_per_zone).unwrap_or(u32::MAX);
        LiveZones {
            packets: PacketCache::new(settings.packet_entries, settings.packet_ttl),
            queries: QueryCache::new(queries),
            flights: Flights::new(settings.overload_queue, max_per_zone),
            backends: RwLock::default(),
            crew: OnceLock::new(),
            settings,
        }
    }

    /// Adds a source; the number is what [`nameward_zone::Live::backend`] has to be for its zones.
    pub fn add_source(&self, name: &str, source: Arc<dyn LiveSource>) -> u32 {
        let mut backends = self
            .backends
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        backends.push(Arc::new(Backend {
            source,
            name: name.into(),
            lookups: AtomicUsize::new(0),
            lanes: lanes::Lanes::default(),
            told: Mutex::default(),
        }));
        (backends.len() - 1) as u32
    }

    /// How long a question may wait.
    pub(crate) fn query_timeout(&self) -> Duration {
        self.settings.query_timeout
    }

    fn backend(&self, index: u32) -> Option<Arc<Backend>> {
        let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner);
        backends.get(index as usize).cloned()
    }

    /// Drops what a source keeps about a zone, and all signatures if `None` means all zones of all sources; returns how
    /// many entries that were.
    pub fn forget(&self, zone: Option<&Live>) -> usize {
        match zone {
            Some(zone) => self
                .backend(zone.backend)
                .map_or(0, |backend| backend.source.forget(Some(zone.id))),
            None => {
                let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner);
                let sources = backends.iter().map(|backend| backend.source.forget(None));
                self.settings.signatures.flush() + sources.sum::<usize>()
            }
        }
    }

    fn kept(&self, what: fn(Kept) -> usize) -> usize {
        let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner);
        let sources = backends.iter().map(|backend| what(backend.source.kept()));
        sources.sum()
    }

    /// Drops what both caches have for the names that `matches`; returns how many entries that were.
    pub fn flush(&self, matches: &dyn Fn(Name<'_>) -> bool) -> usize {
        self.queries.flush(matches) + self.packets.flush(matches)
    }

    /// Lets the page show sizes.
    pub(crate) fn show_sizes(shared: &Arc<crate::pipeline::Shared>, stats: &Stats) {
        let gauge = |gauge, size: fn(&LiveZones) -> usize| {
            // The statistics must not keep alive what holds them.
            let shared = Arc::downgrade(shared);
            stats.gauge_from(gauge, move || {
                shared
                    .upgrade()
                    .map_or(0, |shared| size(&shared.live) as u64)
            });
        };
        gauge(Gauge::PacketcacheSize, |live| live.packets.len());
        gauge(Gauge::QueryCacheSize, |live| live.queries.len());
        gauge(Gauge::QsizeQ, |live| live.flights.waiting());
        gauge(Gauge::KeyCacheSize, |live| live.kept(|kept| kept.keys));
        gauge(Gauge::MetaCacheSize, |live| live.kept(|kept| kept.metadata));
        gauge(Gauge::SignatureCacheSize, |live| {
            live.settings.signatures.len()
        });
    }
}

impl Backend {
    /// A question failed: said now and then, with how many there were since the last time.
    fn log_failure(&self, flight: &Flight, error: &LookupError) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(unsaid) = told.take(error.kind, &error.reason, Instant::now()) else {
            return;
        };
        let more = match unsaid {
            0 => String::new(),
            more => format!(" ({more} more failed since the last such message)"),
        };
        let (backend, name) = (&self.name, flight.name);
        tracing::error!("backend {backend}: no answer for {name}: {error}{more}");
    }

    /// Whether what is out of date has to do: the source is down, and somebody else is already trying it.
    fn is_given_up(&self) -> bool {
        !self.source.is_up() && self.lookups.load(Ordering::Relaxed) > 0
    }
}
