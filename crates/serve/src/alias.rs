//! Addresses of ALIAS targets outside our zones: resolved in the background, and cached.
//!
//! ```text
//! worker:   engine reports the name it needs -> cache ── known: answered at once; nearly expired: refreshed in the background
//!                                                     ├── not known: the query waits, as for a look-up
//!                                                     └── no resolver, or it just failed: SERVFAIL
//! runtime:  resolvers -> cache -> the engine again for each waiting query
//! ```
//! A query with a client subnet (RFC 7871) is resolved for that subnet, and cached for all subnets
//! if the resolver declares that its answer does not depend on the client. Addresses are cached for
//! their TTL; while resolvers fail, they are served for a day longer with a TTL of 30 seconds (RFC
//! 8767 sections 4 and 5).
//! The numbers of cached targets, of concurrent resolutions and of waiting queries are limited.

mod answer;

use nameward_base::sync::Mutex;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use nameward_answer::AliasAddresses;
use nameward_stats::LogThrottle;
use nameward_wire::Name;
use quick_cache::sync::Cache;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::live::{WaitingQuery, answer_all};
use crate::pipeline::ServingState;
use crate::recursor::{
    ForwarderFull, Joined, Resolvers, UpstreamMessage, WaitingClients, WaitingLimits,
};
pub use answer::{UnresolvedTarget, read_addresses};

/// Maximum number of cached targets, counted per type.
const TARGETS_MAX: usize = 20_000;
/// Maximum number of concurrent resolutions for queries.
const IN_FLIGHT_MAX: usize = 500;
/// Maximum number of concurrent resolutions for transfers, in addition.
const TRANSFER_RESOLUTIONS_MAX: usize = 100;
/// Addresses are refreshed after this many quarters of their TTL.
const REFRESH_QUARTERS: u32 = 3;
/// How long a failed resolution is cached, and the interval between retries.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long addresses are served while resolvers fail, and the TTL that they then have.
const STALE_FOR: Duration = Duration::from_secs(86_400);
const STALE_TTL: u32 = 30;
/// Interval between two log lines about the same failure.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of different failures logged per interval.
const LOG_LINES_MAX: usize = 10;

/// Cache entry of one target.
struct ResolvedTarget {
    /// `None`: it could not be resolved.
    addresses: Option<Arc<AliasAddresses>>,
    /// From this time on, a query for the entry triggers a refresh.
    refresh_at: Instant,
    /// Until this time the entry is served.
    valid_until: Instant,
    /// Until this time the addresses are served while resolvers fail.
    stale_until: Instant,
}

impl ResolvedTarget {
    /// Checks whether a resolver declared the addresses to be the same for all clients.
    fn is_for_all_subnets(&self) -> bool {
        let addresses = self.addresses.as_ref();
        addresses.is_some_and(|addresses| addresses.client_bits == Some(0))
    }
}

/// The result of a cache look-up.
pub(crate) enum TargetFound {
    /// Its addresses, possibly none.
    Known(Arc<AliasAddresses>),
    /// It must be resolved first.
    Missing,
    /// It cannot be resolved.
    Failed,
}

/// Resolves the targets of ALIAS records.
pub struct AliasResolver {
    shared: Weak<ServingState>,
    resolvers: ArcSwapOption<Resolvers>,
    targets: Cache<UpstreamMessage, Arc<ResolvedTarget>>,
    waiting: WaitingClients<WaitingQuery>,
    /// Bounds the resolutions for transfers, which wait by themselves.
    transfer_resolutions: Semaphore,
    log_throttle: Mutex<LogThrottle>,
    runtime: Handle,
}

impl AliasResolver {
    /// Creates a resolver for ALIAS targets; without `resolvers`, targets outside our zones cannot be resolved.
    pub fn new(
        shared: &Arc<ServingState>,
        resolvers: Option<Arc<Resolvers>>,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(AliasResolver {
            shared: Arc::downgrade(shared),
            resolvers: ArcSwapOption::new(resolvers),
            transfer_resolutions: Semaphore::new(TRANSFER_RESOLUTIONS_MAX),
            targets: Cache::new(TARGETS_MAX),
            waiting: WaitingClients::new(WaitingLimits {
                queries: IN_FLIGHT_MAX,
                // The clients are resolvers, and a few large ones may send all queries.
                per_client: usize::MAX,
            }),
            log_throttle: Mutex::new(LogThrottle::by_text(LOG_INTERVAL, LOG_LINES_MAX)),
            runtime,
        })
    }

    /// Returns the current resolvers.
    pub fn resolvers(&self) -> Option<Arc<Resolvers>> {
        self.resolvers.load_full()
    }

    /// Sets the resolvers; without any, targets outside our zones cannot be resolved. Targets that failed before are
    /// resolved again.
    pub fn set_resolvers(&self, resolvers: Option<Arc<Resolvers>>) {
        self.resolvers.store(resolvers);
        self.targets.retain(|_, target| target.addresses.is_some());
    }

    /// Looks up a target in the cache; starts to refresh it if it is about to expire.
    pub(crate) fn find(self: &Arc<Self>, query: &UpstreamMessage, now: Instant) -> TargetFound {
        if self.resolvers.load().is_none() {
            let target = query.name();
            self.log(format!(
                "ALIAS target {target}: not in a zone of this server, and no resolver is configured; set \
                 recursor.address"
            ));
            return TargetFound::Failed;
        }
        let Some(target) = self.target_of(query) else {
            return TargetFound::Missing;
        };
        if now >= target.valid_until {
            return TargetFound::Missing;
        }
        if now >= target.refresh_at && matches!(self.waiting.begin(query), Ok(Joined::Started)) {
            self.resolve(query.clone());
        }
        match &target.addresses {
            Some(addresses) => TargetFound::Known(Arc::clone(addresses)),
            None => TargetFound::Failed,
        }
    }

    /// Finds the cache entry for a query: one that is valid for all subnets, or one for its own.
    fn target_of(&self, query: &UpstreamMessage) -> Option<Arc<ResolvedTarget>> {
        if query.has_subnet() {
            let common = self.targets.get(&query.without_subnet());
            let common = common.filter(|target| target.is_for_all_subnets());
            if common.is_some() {
                return common;
            }
        }
        self.targets.get(query)
    }

    /// Lets a query wait for its target; returns it if too many wait.
    pub(crate) fn wait(
        self: &Arc<Self>,
        target: UpstreamMessage,
        query: WaitingQuery,
    ) -> Result<(), WaitingQuery> {
        let client = query.request.client();
        let mut query = Some(query);
        match self.waiting.join(&target, client, || query.take()) {
            Ok(Joined::Started) => self.resolve(target),
            Ok(Joined::InProgress) => {}
            Err(ForwarderFull) => return query.map_or(Ok(()), Err),
        }
        Ok(())
    }

    fn resolve(self: &Arc<Self>, query: UpstreamMessage) {
        let resolver = Arc::clone(self);
        let pending = PendingTarget { resolver, query };
        self.runtime.spawn(pending.resolve());
    }

    /// Resolves a target for a transfer, which can wait; `None` if it cannot be resolved.
    pub async fn resolve_now(
        self: &Arc<Self>,
        query: &UpstreamMessage,
    ) -> Option<Arc<AliasAddresses>> {
        match self.find(query, Instant::now()) {
            TargetFound::Known(addresses) => return Some(addresses),
            TargetFound::Failed => return None,
            TargetFound::Missing => {}
        }
        let _permit = self.transfer_resolutions.acquire().await.ok()?;
        let result = self.query_resolvers(query).await?;
        self.insert(query, result).addresses.clone()
    }

    /// Queries the resolvers; `None` if there are none.
    async fn query_resolvers(
        &self,
        query: &UpstreamMessage,
    ) -> Option<Result<AliasAddresses, UnresolvedTarget>> {
        let resolvers = self.resolvers.load_full()?;
        let reply = resolvers.resolve(query.clone()).await;
        let reply = reply.map_err(UnresolvedTarget::from);
        Some(reply.and_then(|reply| read_addresses(&reply, query)))
    }

    /// Stores the result of a resolution in the cache.
    fn insert(
        &self,
        query: &UpstreamMessage,
        result: Result<AliasAddresses, UnresolvedTarget>,
    ) -> Arc<ResolvedTarget> {
        let now = Instant::now();
        let target = match result {
            Ok(addresses) => {
                let valid_for = Duration::from_secs(addresses.ttl.into());
                ResolvedTarget {
                    addresses: Some(Arc::new(addresses)),
                    refresh_at: now + valid_for * REFRESH_QUARTERS / 4,
                    valid_until: now + valid_for,
                    stale_until: now + valid_for + STALE_FOR,
                }
            }
            Err(reason) => {
                let (name, rtype) = (query.name(), query.qtype());
                self.log(format!("ALIAS target {name}: no {rtype} records: {reason}"));
                self.after_failure(query, now)
            }
        };
        let target = Arc::new(target);
        let key = if target.is_for_all_subnets() {
            query.without_subnet()
        } else {
            query.clone()
        };
        self.targets.insert(key, Arc::clone(&target));
        target
    }

    /// Creates the entry of a target that could not be resolved: with the previous addresses, or none.
    fn after_failure(&self, query: &UpstreamMessage, now: Instant) -> ResolvedTarget {
        let previous = self.target_of(query);
        let retry_at = now + RETRY_AFTER;
        let stale = previous.filter(|previous| now < previous.stale_until);
        let stale =
            stale.and_then(|previous| Some((previous.addresses.clone()?, previous.stale_until)));
        match stale {
            Some((addresses, stale_until)) => ResolvedTarget {
                addresses: Some(Arc::new(AliasAddresses {
                    ttl: addresses.ttl.min(STALE_TTL),
                    ..(*addresses).clone()
                })),
                refresh_at: retry_at,
                valid_until: stale_until,
                stale_until,
            },
            None => ResolvedTarget {
                addresses: None,
                refresh_at: retry_at,
                valid_until: retry_at,
                stale_until: now,
            },
        }
    }

    fn log(&self, message: String) {
        let mut throttle = self.log_throttle.lock();
        if throttle.admit(&message, Instant::now()).is_some() {
            tracing::warn!("{message}");
        }
    }

    /// Drops the entries whose names `matches`; returns their number.
    pub fn flush(&self, matches: &dyn Fn(Name<'_>) -> bool) -> usize {
        let before = self.targets.len();
        self.targets.retain(|query, _| !matches(query.name()));
        before.saturating_sub(self.targets.len())
    }
}

/// A target being resolved. The queries that wait for it are answered even if the task fails.
struct PendingTarget {
    resolver: Arc<AliasResolver>,
    query: UpstreamMessage,
}

impl PendingTarget {
    async fn resolve(self) {
        let query = &self.query;
        if let Some(result) = self.resolver.query_resolvers(query).await {
            self.resolver.insert(query, result);
        }
    }
}

impl Drop for PendingTarget {
    fn drop(&mut self) {
        // If the task ended early, the cache has no entry: record the failure, so that it is not
        // retried at once.
        if self.resolver.target_of(&self.query).is_none() {
            let failed = self.resolver.after_failure(&self.query, Instant::now());
            let query = self.query.clone();
            self.resolver.targets.insert(query, Arc::new(failed));
        }
        let queries = self.resolver.waiting.take(&self.query);
        if let Some(shared) = self.resolver.shared.upgrade() {
            answer_all(&shared, queries);
        }
    }
}

#[cfg(test)]
mod tests;
