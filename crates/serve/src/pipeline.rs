//! The path of every request, independent of the transport: from the received packet to a verdict, and to the
//! counters.
//!
//! ```text
//! packet -> recent: the reply to an equal query of this second               recent, over UDP
//!        -> read: parse, hash the name, find its zone                        udp (in batches), tcp
//!        -> verify: the TSIG record, if there is one                              signed
//!        -> decide: policy, opcode, view, cache, engine -> verdict            path
//!        -> sign: the reply, or each message of a stream, if the request was      signed, late
//!        -> reply, drop, later, or a stream of messages                       udp, tcp, late
//!        -> this worker's counters and rings                                  record
//! ```
//! A worker takes no lock and allocates nothing: it reads the zone table and the engine through a cached pointer that
//! is refreshed once per batch, so every answer of a batch comes from one snapshot.

mod cookies;
mod late;
mod limit;
mod path;
mod recent;
mod record;
mod signed;
mod tcp;
mod udp;
mod views;
mod waiting;

pub use late::{LateReply, ReplyPath};
pub use tcp::TcpPipeline;
pub use udp::UdpPipeline;

pub(crate) use late::{LateReplies, LateRequest, ReplyTo};
pub(crate) use path::Turn;
pub(crate) use record::record_signatures;

use crate::alias::AliasResolver;
use crate::cookies::Cookies;
use crate::live::{LiveSettings, LiveZones};
use crate::proxy::HeaderLog;
use crate::rate_limit::RateLimiter;
use crate::recursor::RecursorForwarder;
use crate::request::{NoZoneRequests, ZoneRequests};
use crate::scripts::Scripts;
use crate::signing::SigningQueue;
use crate::tap::ExchangeTap;
use arc_swap::{ArcSwap, ArcSwapOption, Cache};
use late::LateSender;
use nameward_answer::Engine;
use nameward_base::sync::Mutex;
use nameward_dnssec::tsig::TsigKeys;
use nameward_stats::{Gauge, Stats};
use nameward_steering::pools::PreparedPools;
use nameward_zone::ZoneTable;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, OnceLock};

/// State that all workers answer from. Maintenance swaps the pointers; workers follow with their next batch.
pub struct ServingState {
    /// The zones; written by maintenance only.
    pub zones: Arc<ArcSwap<ZoneTable>>,
    /// Policy and identity.
    pub engine: ArcSwap<Engine>,
    /// The TSIG keys that requests may be signed with (RFC 8945).
    pub tsig_keys: ArcSwap<TsigKeys>,
    /// Counters and rings.
    pub stats: Arc<Stats>,
    /// The sinks for exchanges: query log and dnstap.
    pub tap: Arc<ExchangeTap>,
    /// Makes and verifies DNS cookies, if they are enabled.
    pub cookies: ArcSwapOption<Cookies>,
    /// Limits answers over UDP, if any rate is set.
    pub rate_limiter: ArcSwapOption<RateLimiter>,
    /// Caches and look-ups for zones that are not in memory.
    pub live: LiveZones,
    /// Logs proxies that send no valid PROXY header.
    pub(crate) proxy_log: HeaderLog,
    /// Queries that wait for signatures.
    pub(crate) signing: Arc<SigningQueue>,
    /// Forwards queries outside our zones to the recursor.
    hand_off: ArcSwapOption<RecursorForwarder>,
    /// Resolves the targets of ALIAS records.
    aliases: OnceLock<Arc<AliasResolver>>,
    /// Runs the scripts of LUA records.
    scripts: OnceLock<Arc<Scripts>>,
    /// Decides NOTIFY, UPDATE and transfers.
    zone_requests: OnceLock<Arc<dyn ZoneRequests>>,
    /// Sends late replies of components without a thread of their own.
    late: Mutex<Option<Box<LateSender>>>,
}

impl ServingState {
    /// Starts without zones.
    pub fn new(engine: Engine, stats: Arc<Stats>) -> Arc<Self> {
        Self::with_live(engine, stats, LiveSettings::for_tests())
    }

    /// Starts without zones, with these caches and limits for live zones.
    pub fn with_live(engine: Engine, stats: Arc<Stats>, live: LiveSettings) -> Arc<Self> {
        let shared = Arc::new(ServingState {
            zones: Arc::default(),
            engine: ArcSwap::from_pointee(engine),
            tsig_keys: ArcSwap::default(),
            stats,
            tap: Arc::default(),
            cookies: ArcSwapOption::empty(),
            rate_limiter: ArcSwapOption::empty(),
            proxy_log: HeaderLog::default(),
            signing: Arc::new(SigningQueue::new(live.signing_queue)),
            live: LiveZones::new(live),
            hand_off: ArcSwapOption::empty(),
            aliases: OnceLock::new(),
            scripts: OnceLock::new(),
            zone_requests: OnceLock::new(),
            late: Mutex::new(None),
        });
        LiveZones::show_sizes(&shared, &shared.stats);
        let signing = Arc::clone(&shared.signing);
        let waiting = move || signing.len() as u64;
        shared.stats.gauge_from(Gauge::SigningQueue, waiting);
        shared
    }

    /// Sets the forwarder for queries outside our zones; without one they are refused. Queries already forwarded stay
    /// with the previous one.
    pub fn set_hand_off(&self, hand_off: Option<Arc<RecursorForwarder>>) {
        self.hand_off.store(hand_off);
    }

    /// Sets the resolver for the targets of ALIAS records, once, before the workers start: it resolves targets in our
    /// zones with this state, so it can only be created after it. Without one, targets outside our zones fail.
    pub fn set_aliases(&self, aliases: Arc<AliasResolver>) {
        let _ = self.aliases.set(aliases);
    }

    /// Returns the resolver for the targets of ALIAS records.
    pub fn aliases(&self) -> Option<&Arc<AliasResolver>> {
        self.aliases.get()
    }

    /// Sets the runner of LUA records, once, before the workers start. Without one they compute nothing.
    pub fn set_scripts(&self, scripts: Arc<Scripts>) {
        let _ = self.scripts.set(scripts);
    }

    /// Returns the runner of LUA records.
    pub fn scripts(&self) -> Option<&Arc<Scripts>> {
        self.scripts.get()
    }

    /// Checks whether a client's queries outside our zones are forwarded.
    pub(crate) fn recurses_for(&self, client: IpAddr) -> bool {
        let hand_off = self.hand_off.load();
        hand_off
            .as_ref()
            .is_some_and(|hand_off| hand_off.serves(client))
    }

    /// Sets the handler of NOTIFY, UPDATE and transfers, once, before the workers start: it reads zones and counters of
    /// this state, so it can only be created after it. Without one they are not supported.
    pub fn set_zone_requests(&self, requests: Arc<dyn ZoneRequests>) {
        let _ = self.zone_requests.set(requests);
    }

    fn zone_requests(&self) -> &dyn ZoneRequests {
        self.zone_requests
            .get()
            .map_or(&NoZoneRequests, |requests| &**requests)
    }
}

/// Cached pointers into [`ServingState`], refreshed every turn.
pub(crate) struct Snapshots {
    zones: Cache<SharedZones, Arc<ZoneTable>>,
    pools: Cache<SharedPools, Arc<PreparedPools>>,
    engine: Cache<SharedEngine, Arc<Engine>>,
    hand_off: Cache<SharedForwarder, Option<Arc<RecursorForwarder>>>,
    cookies: Cache<SharedCookies, Option<Arc<Cookies>>>,
    rate_limiter: Cache<SharedLimiter, Option<Arc<RateLimiter>>>,
}

/// The zone table in a form that a cache can watch.
struct SharedZones(Arc<ServingState>);

impl std::ops::Deref for SharedZones {
    type Target = ArcSwap<ZoneTable>;

    fn deref(&self) -> &Self::Target {
        &self.0.zones
    }
}

/// The answers of pools in a form that a cache can watch.
struct SharedPools(Arc<ServingState>);

impl std::ops::Deref for SharedPools {
    type Target = ArcSwap<PreparedPools>;

    fn deref(&self) -> &Self::Target {
        static NONE: LazyLock<ArcSwap<PreparedPools>> = LazyLock::new(ArcSwap::default);
        let scripts = self.0.scripts.get();
        scripts.map_or(&*NONE, |scripts| scripts.pools())
    }
}

/// The engine in a form that a cache can watch.
struct SharedEngine(Arc<ServingState>);

impl std::ops::Deref for SharedEngine {
    type Target = ArcSwap<Engine>;

    fn deref(&self) -> &Self::Target {
        &self.0.engine
    }
}

/// The hand-off in a form that a cache can watch.
struct SharedForwarder(Arc<ServingState>);

impl std::ops::Deref for SharedForwarder {
    type Target = ArcSwapOption<RecursorForwarder>;

    fn deref(&self) -> &Self::Target {
        &self.0.hand_off
    }
}

/// The cookies in a form that a cache can watch.
struct SharedCookies(Arc<ServingState>);

impl std::ops::Deref for SharedCookies {
    type Target = ArcSwapOption<Cookies>;

    fn deref(&self) -> &Self::Target {
        &self.0.cookies
    }
}

/// The rate limiter in a form that a cache can watch.
struct SharedLimiter(Arc<ServingState>);

impl std::ops::Deref for SharedLimiter {
    type Target = ArcSwapOption<RateLimiter>;

    fn deref(&self) -> &Self::Target {
        &self.0.rate_limiter
    }
}

impl Snapshots {
    pub(crate) fn new(shared: &Arc<ServingState>) -> Self {
        Snapshots {
            zones: Cache::new(SharedZones(Arc::clone(shared))),
            pools: Cache::new(SharedPools(Arc::clone(shared))),
            engine: Cache::new(SharedEngine(Arc::clone(shared))),
            hand_off: Cache::new(SharedForwarder(Arc::clone(shared))),
            cookies: Cache::new(SharedCookies(Arc::clone(shared))),
            rate_limiter: Cache::new(SharedLimiter(Arc::clone(shared))),
        }
    }

    /// Releases an old zone table even if no requests arrive.
    fn renew(&mut self) {
        self.zones.load();
        self.pools.load();
        self.engine.load();
        self.hand_off.load();
        self.cookies.load();
        self.rate_limiter.load();
    }
}
