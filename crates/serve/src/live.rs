//! Queries for zones that are looked up in a backend: caches, look-ups in progress, and late answers.
//!
//! ```text
//! worker, no waiting:   packet cache -> engine over the fragments in the query cache -> answered in its batch
//!                       a fragment is missing: the query joins its look-up and leaves the batch
//! look-up complete:     fragment into the query cache -> engine for each waiting query -> answered, or joins the next look-up
//! sweep:                a stale fragment, where the query cache has one, before the client gives up
//! ```
//! Look-ups in a blocking source (SQLite) run on that source's threads, others as tasks on the runtime. Limits:
//! waiting queries per source, look-ups per zone, entries in both caches, and the time that a query waits.

mod answerer;
mod attempt;
mod batch_queue;
mod completion;
mod log_throttle;
mod lookups;
mod packet_cache;
mod query_cache;
mod run;
mod thread_queue;
mod view;

use nameward_base::sync::{Mutex, RwLock};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nameward_dnssec::SignatureCache;
use nameward_stats::{Gauge, Stats};
use nameward_wire::name::InlineName;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{CacheSizes, Live, LiveSource, LookupError, LookupRequest, Zone};
use tokio::runtime::Handle;

use crate::client_shares::ClientShares;
pub(crate) use answerer::Answerer;
pub(crate) use attempt::{Attempt, AttemptOutcome, MissingInput, PacketCaching};
use batch_queue::BatchQueue;
use log_throttle::FailureThrottle;
pub(crate) use lookups::{Admission, Lookup, WaitingQuery};
use lookups::{Lookups, WaitingCount};
pub(crate) use packet_cache::{Fit, Hit, PacketCache};
pub(crate) use query_cache::{Cached, QueryCache};
pub use run::{Running, start};
pub(crate) use run::{answer_all, join_lookup};
use thread_queue::ThreadQueue;
pub(crate) use view::Used;
pub use view::{FetchedFragment, LiveView, Parts};

/// A name in a cache or a look-up: most have up to 38 octets.
type CachedName = InlineName<38>;

/// Settings for the caches and for overload.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    /// Size of the packet cache, in units of 512 octets; 0 turns it off.
    pub packet_entries: usize,
    /// How long an answer may be served from the packet cache; 0 turns it off.
    pub packet_ttl: Duration,
    /// Size of the query cache, in units of 512 octets; 0 turns it off.
    pub query_entries: usize,
    /// How long data from a backend is fresh.
    pub query_ttl: Duration,
    /// How long the non-existence of a name is fresh.
    pub negative_ttl: Duration,
    /// How much longer data may be served while the backend is down.
    pub stale_while_down: Duration,
    /// How long a query waits for a backend before it is answered from stale data.
    pub stale_after: Duration,
    /// Maximum number of queries that wait for one backend; more are dropped.
    pub overload_queue: usize,
    /// Maximum time a query may wait.
    pub query_timeout: Duration,
    /// Maximum number of concurrent look-ups per zone.
    pub lookups_per_zone: usize,
    /// Number of look-up threads for each blocking source.
    pub threads: usize,
    /// Maximum number of queries that wait for signatures.
    pub signing_queue: usize,
    /// Share of all cores that signing may use.
    pub signing_cpu_percent: usize,
    /// Share of the queues for look-ups and signatures that one client may hold.
    pub client_percent: usize,
    /// The signature cache that the sources of signed zones use.
    pub signatures: Arc<SignatureCache>,
}

impl LiveSettings {
    /// Returns settings for tests and examples. A server takes all of them from its configuration.
    pub fn for_tests() -> Self {
        LiveSettings {
            packet_entries: 100_000,
            packet_ttl: Duration::from_secs(20),
            query_entries: 100_000,
            query_ttl: Duration::from_secs(20),
            negative_ttl: Duration::from_secs(60),
            stale_while_down: Duration::from_secs(3600),
            stale_after: Duration::from_millis(300),
            overload_queue: 5000,
            query_timeout: Duration::from_millis(1500),
            lookups_per_zone: 1000,
            threads: 2,
            signing_queue: 4096,
            signing_cpu_percent: 50,
            client_percent: 100,
            signatures: Arc::new(SignatureCache::new(10_000)),
        }
    }
}

/// A source with its own queues, limits and threads.
struct Backend {
    source: Arc<dyn LiveSource>,
    /// Its name in the log.
    name: String,
    /// Look-ups in progress.
    lookups: AtomicUsize,
    waiting: WaitingCount,
    /// The slots of clients among them.
    client_shares: Arc<ClientShares>,
    /// A query has waited for it longer than `stale_after`.
    is_late: AtomicBool,
    batches: BatchQueue,
    threads: ThreadQueue<Arc<Lookup>>,
    log_throttle: Mutex<FailureThrottle>,
}

/// The caches, look-ups and sources of live zones, shared by all workers.
pub struct LiveZones {
    settings: LiveSettings,
    pub(crate) packets: PacketCache,
    pub(crate) queries: QueryCache,
    lookups: Lookups,
    /// The slots of clients among the queries that wait for signatures.
    pub(crate) signing_shares: Arc<ClientShares>,
    backends: RwLock<Vec<Arc<Backend>>>,
    runner: OnceLock<run::LookupRunner>,
}

impl LiveZones {
    /// Creates empty caches without sources.
    pub fn new(settings: LiveSettings) -> Self {
        let max_per_zone = u32::try_from(settings.lookups_per_zone).unwrap_or(u32::MAX);
        LiveZones {
            packets: PacketCache::new(settings.packet_entries, settings.packet_ttl),
            queries: QueryCache::new(&settings),
            lookups: Lookups::new(max_per_zone),
            signing_shares: ClientShares::new(settings.signing_queue, settings.client_percent),
            backends: RwLock::default(),
            runner: OnceLock::new(),
            settings,
        }
    }

    /// Adds a source; returns the value of [`nameward_zone::Live::backend`] for its zones.
    pub fn add_source(&self, name: &str, source: Arc<dyn LiveSource>) -> u32 {
        let (most, percent) = (self.settings.overload_queue, self.settings.client_percent);
        // With a share of the look-ups of one zone, other clients find room in that zone, too.
        let slots = match percent {
            100 => most,
            _ => most.min(self.settings.lookups_per_zone),
        };
        let mut backends = self.backends.write();
        backends.push(Arc::new(Backend {
            source,
            name: name.into(),
            client_shares: ClientShares::new(slots, percent),
            lookups: AtomicUsize::new(0),
            waiting: WaitingCount::new(self.settings.overload_queue),
            is_late: AtomicBool::new(false),
            batches: BatchQueue::default(),
            threads: ThreadQueue::new(),
            log_throttle: Mutex::default(),
        }));
        (backends.len() - 1) as u32
    }

    /// Returns the maximum time a query may wait.
    pub(crate) fn query_timeout(&self) -> Duration {
        self.settings.query_timeout
    }

    /// Returns the number of threads that sign a whole zone, and the share of a core that each may use.
    pub fn signing_threads(&self) -> (usize, f64) {
        crate::signing::threads_and_share(self.settings.signing_cpu_percent)
    }

    /// Returns the source of a live zone by [`nameward_zone::Live::backend`].
    pub fn source(&self, index: u32) -> Option<Arc<dyn LiveSource>> {
        self.backend(index)
            .map(|backend| Arc::clone(&backend.source))
    }

    /// Passes the zone data that a name needs to `look`, from memory or from its backend, bypassing the caches. The
    /// calling thread blocks for a backend. Returns `None` if the backend no longer exists.
    pub fn with_contents<T>(
        &self,
        (zone, name): (&Zone, NameBuf),
        runtime: &Handle,
        look: impl FnOnce(&Zone) -> T,
    ) -> Result<Option<T>, LookupError> {
        let Some(live) = zone.live() else {
            return Ok(Some(look(zone)));
        };
        let Some(source) = self.source(live.backend()) else {
            return Ok(None);
        };
        let mut apex = NameBuf::from(zone.apex_name());
        apex.make_lowercase();
        let request = LookupRequest {
            zone: live.id(),
            apex: apex.as_name(),
            name: name.as_name(),
        };
        let part = runtime.block_on(source.lookup(request))?;
        Ok(Some(look(&part.zone)))
    }

    fn backend(&self, index: u32) -> Option<Arc<Backend>> {
        let backends = self.backends.read();
        backends.get(index as usize).cloned()
    }

    /// Drops what a source caches for a zone; `None` means all zones of all sources, and all signatures. Returns the
    /// number of dropped entries.
    pub fn forget(&self, zone: Option<&Live>) -> usize {
        match zone {
            Some(zone) => self
                .backend(zone.backend())
                .map_or(0, |backend| backend.source.forget(Some(zone.id()))),
            None => {
                let backends = self.backends.read();
                let sources = backends.iter().map(|backend| backend.source.forget(None));
                self.settings.signatures.flush() + sources.sum::<usize>()
            }
        }
    }

    /// Returns the number of waiting queries over all sources.
    fn waiting(&self) -> usize {
        let backends = self.backends.read();
        backends.iter().map(|backend| backend.waiting.get()).sum()
    }

    /// Returns the minimum age of a waiting query at which a sweep takes it out.
    fn first_sweep(&self) -> Duration {
        self.settings.stale_after.min(self.settings.query_timeout)
    }

    fn close_threads(&self) {
        let backends = self.backends.read();
        backends.iter().for_each(|backend| backend.threads.close());
    }

    fn cache_size(&self, of: fn(CacheSizes) -> usize) -> usize {
        let backends = self.backends.read();
        let sources = backends
            .iter()
            .map(|backend| of(backend.source.cache_sizes()));
        sources.sum()
    }

    /// Drops the entries of both caches whose names `matches`; returns their number.
    pub fn flush(&self, matches: &dyn Fn(Name<'_>) -> bool) -> usize {
        self.queries.flush(matches) + self.packets.flush(matches)
    }

    /// Registers the gauges for the cache sizes.
    pub(crate) fn show_sizes(shared: &Arc<crate::pipeline::ServingState>, stats: &Stats) {
        let gauge = |gauge, size: fn(&LiveZones) -> usize| {
            // The statistics must not keep their owner alive.
            let shared = Arc::downgrade(shared);
            stats.gauge_from(gauge, move || {
                shared
                    .upgrade()
                    .map_or(0, |shared| size(&shared.live) as u64)
            });
        };
        gauge(Gauge::PacketcacheSize, |live| live.packets.len());
        gauge(Gauge::QueryCacheSize, |live| live.queries.len());
        gauge(Gauge::QsizeQ, LiveZones::waiting);
        gauge(Gauge::KeyCacheSize, |live| {
            live.cache_size(|sizes| sizes.keys)
        });
        gauge(Gauge::MetaCacheSize, |live| {
            live.cache_size(|sizes| sizes.metadata)
        });
        gauge(Gauge::SignatureCacheSize, |live| {
            live.settings.signatures.len()
        });
    }
}

impl Backend {
    /// Logs a failed look-up, rate-limited, with the number of failures since the last log line.
    fn log_failure(&self, lookup: &Lookup, error: &LookupError) {
        let mut throttle = self.log_throttle.lock();
        let Some(unlogged) = throttle.admit(error.kind, &error.reason, Instant::now()) else {
            return;
        };
        let more = match unlogged {
            0 => String::new(),
            more => format!(" ({more} more failures since the last message)"),
        };
        let (backend, name) = (&self.name, lookup.name.as_name());
        tracing::error!("backend {backend}: look-up of {name} failed: {error}{more}");
    }

    /// Records that a look-up was answered.
    fn note_in_time(&self) {
        // Usually nothing is late: then no worker writes to shared memory.
        if self.is_late.load(Ordering::Relaxed) {
            self.is_late.store(false, Ordering::Relaxed);
        }
    }

    /// Checks whether stale data is served at once: the source is down or hangs, and a look-up is already trying it
    /// (RFC 8767 section 5).
    fn serves_stale(&self) -> bool {
        let is_down = self.is_late.load(Ordering::Relaxed) || !self.source.is_up();
        is_down && self.lookups.load(Ordering::Relaxed) > 0
    }
}
