//! Questions for zones that are looked up in a backend: caches, look-ups under way, and answers that come later.
//!
//! ```text
//! worker, no waiting:   packet cache -> engine over the parts in the query cache -> answered in its batch
//!                       a part is missing: the question joins its look-up and leaves the batch
//! look-up complete:     part into the query cache -> engine for each that waits -> answered, or joins the next look-up
//! sweep:                a part that is out of date, where the query cache has one, before the client gives up
//! ```
//! Look-ups of a blocking source (SQLite) run on threads of that source, others as tasks on the runtime. Bounds: the
//! questions that wait for one source, look-ups of one zone, entries of both caches, the time that a question waits.

mod answerer;
mod attempt;
mod batch_queue;
mod completion;
mod log_throttle;
mod lookups;
mod packet_cache;
mod query_cache;
mod question;
mod run;
mod thread_queue;
mod view;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use nameward_dnssec::SignatureCache;
use nameward_stats::{Gauge, Stats};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{CacheSizes, Live, LiveSource, LookupError, LookupRequest, Zone};
use tokio::runtime::Handle;

pub(crate) use answerer::Answerer;
pub(crate) use attempt::{Attempt, Keeping, Lacking, Tried};
use batch_queue::BatchQueue;
use log_throttle::FailureThrottle;
pub(crate) use lookups::{Admission, Lookup};
use lookups::{Lookups, WaitingCount};
pub(crate) use packet_cache::{Fit, Hit, PacketCache};
pub(crate) use query_cache::{Cached, QueryCache, QueryCacheSettings};
pub(crate) use question::WaitingQuestion;
pub use run::{Running, start};
pub(crate) use run::{answer_all, join_lookup};
use thread_queue::ThreadQueue;
pub(crate) use view::{FetchedPart, LiveView, Parts, Used};

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
    /// How long a question waits for a backend before it is served such data.
    pub stale_after: Duration,
    /// Questions that may wait for one backend; more are dropped.
    pub overload_queue: usize,
    /// How long a question may wait.
    pub query_timeout: Duration,
    /// Look-ups of one zone that may be under way.
    pub lookups_per_zone: usize,
    /// Threads for the look-ups of each blocking source.
    pub threads: usize,
    /// Questions that may wait for signatures to be made.
    pub signing_queue: usize,
    /// Share of all cores that making signatures may take.
    pub signing_cpu_percent: usize,
    /// Where the sources of signed zones keep signatures.
    pub signatures: Arc<SignatureCache>,
}

impl LiveSettings {
    /// Makes settings for tests and examples. A server takes each of them from its configuration.
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
            signatures: Arc::new(SignatureCache::new(10_000)),
        }
    }
}

/// A source with the queues, bounds and threads that belong to it alone.
struct Backend {
    source: Arc<dyn LiveSource>,
    /// Its name in the log.
    name: String,
    /// Look-ups under way.
    lookups: AtomicUsize,
    waiting: WaitingCount,
    /// A question waits for it for longer than data that is out of date is held back.
    is_late: AtomicBool,
    batches: BatchQueue,
    threads: ThreadQueue<Arc<Lookup>>,
    log_throttle: Mutex<FailureThrottle>,
}

/// The caches, look-ups and sources of live zones, which all workers share.
pub struct LiveZones {
    settings: LiveSettings,
    pub(crate) packets: PacketCache,
    pub(crate) queries: QueryCache,
    lookups: Lookups,
    backends: RwLock<Vec<Arc<Backend>>>,
    runner: OnceLock<run::LookupRunner>,
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
            lookups: Lookups::new(max_per_zone),
            backends: RwLock::default(),
            runner: OnceLock::new(),
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
            waiting: WaitingCount::new(self.settings.overload_queue),
            is_late: AtomicBool::new(false),
            batches: BatchQueue::default(),
            threads: ThreadQueue::new(),
            log_throttle: Mutex::default(),
        }));
        (backends.len() - 1) as u32
    }

    /// How long a question may wait.
    pub(crate) fn query_timeout(&self) -> Duration {
        self.settings.query_timeout
    }

    /// Returns how many threads sign a whole zone, and the share of a core that each may take.
    pub(crate) fn signing_threads(&self) -> (usize, f64) {
        crate::signing::threads_and_share(self.settings.signing_cpu_percent)
    }

    /// Returns the source of a live zone by [`nameward_zone::Live::backend`].
    pub(crate) fn source(&self, index: u32) -> Option<Arc<dyn LiveSource>> {
        self.backend(index)
            .map(|backend| Arc::clone(&backend.source))
    }

    /// Hands over the contents of a zone that a name needs, from memory or from its backend, past the caches. The thread waits
    /// for a backend. Returns `None` if there is none any more.
    pub(crate) fn with_contents<T>(
        &self,
        (zone, name): (&Zone, NameBuf),
        runtime: &Handle,
        look: impl FnOnce(&Zone) -> T,
    ) -> Result<Option<T>, LookupError> {
        let Some(live) = zone.live() else {
            return Ok(Some(look(zone)));
        };
        let Some(source) = self.source(live.backend) else {
            return Ok(None);
        };
        let mut apex = NameBuf::from(zone.apex_name());
        apex.make_lowercase();
        let request = LookupRequest {
            zone: live.id,
            apex,
            name,
        };
        let part = runtime.block_on(source.lookup(&request))?;
        Ok(Some(look(&part.zone)))
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

    /// How many questions wait, for all sources together.
    fn waiting(&self) -> usize {
        let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner);
        backends.iter().map(|backend| backend.waiting.get()).sum()
    }

    /// How old a waiting question is at least when it is taken out.
    fn first_sweep(&self) -> Duration {
        self.settings.stale_after.min(self.settings.query_timeout)
    }

    fn close_threads(&self) {
        let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner);
        backends.iter().for_each(|backend| backend.threads.close());
    }

    fn cache_size(&self, of: fn(CacheSizes) -> usize) -> usize {
        let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner);
        let sources = backends
            .iter()
            .map(|backend| of(backend.source.cache_sizes()));
        sources.sum()
    }

    /// Drops what both caches have for the names that `matches`; returns how many entries that were.
    pub fn flush(&self, matches: &dyn Fn(Name<'_>) -> bool) -> usize {
        self.queries.flush(matches) + self.packets.flush(matches)
    }

    /// Lets the page show sizes.
    pub(crate) fn show_sizes(shared: &Arc<crate::pipeline::ServingState>, stats: &Stats) {
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
    /// Logs that a look-up failed, now and then, with how many did since the last time.
    fn log_failure(&self, lookup: &Lookup, error: &LookupError) {
        let mut throttle = self
            .log_throttle
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(unlogged) = throttle.admit(error.kind, &error.reason, Instant::now()) else {
            return;
        };
        let more = match unlogged {
            0 => String::new(),
            more => format!(" ({more} more failed since the last such message)"),
        };
        let (backend, name) = (&self.name, lookup.request.name);
        tracing::error!("backend {backend}: no answer for {name}: {error}{more}");
    }

    /// Notes that a look-up was answered.
    fn note_in_time(&self) {
        // Mostly nothing is late: then no worker writes to what all read.
        if self.is_late.load(Ordering::Relaxed) {
            self.is_late.store(false, Ordering::Relaxed);
        }
    }

    /// Whether data that is out of date is served at once: the source is down or hangs, and a look-up is trying it
    /// already (RFC 8767 section 5).
    fn serves_stale(&self) -> bool {
        let is_down = self.is_late.load(Ordering::Relaxed) || !self.source.is_up();
        is_down && self.lookups.load(Ordering::Relaxed) > 0
    }
}
