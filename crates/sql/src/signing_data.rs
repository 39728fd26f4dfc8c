//! The signing state of zones: their keys and metadata combined.
//!
//! A zone without keys is served unsigned, so "there are none" and "they could not be read" must never be confused:
//! resolvers that know the zone's DS would treat every answer as forged, and without `domainmetadata` a zone with NSEC3
//! would reveal its names through NSEC. Anything the database refuses is an error here. Lookups continue with the data
//! last read about the zone and fail if there is none; a load fails, and the previous version is kept.

pub(super) mod keys;
pub(super) mod metadata;

use super::dialect::{MAX_NAMES, Statement};
use super::error::{RowError, SqlError};
use super::row::Cells;
use super::zone_cache::ZoneCache;
use super::{LiveZone, SqlBackend};
use metadata::Metadata;
use nameward_dnssec::{Keys, Signing};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Facts of one kind by zone ID.
type ByZoneId<T> = HashMap<i64, Arc<T>>;

/// The keys and metadata read for several zones.
pub(super) struct SigningData {
    keys: ByZoneId<Keys>,
    metadata: ByZoneId<Metadata>,
    /// Why data is missing for the other zones.
    failed: Option<SqlError>,
    pub(super) statements: u32,
}

impl SigningData {
    /// Returns how a zone is signed; `None` if it has no keys.
    pub(super) fn signing(
        &self,
        backend: &SqlBackend,
        zone: &LiveZone,
    ) -> Result<Option<Arc<Signing>>, SqlError> {
        match (self.keys.get(&zone.id), self.metadata.get(&zone.id)) {
            (Some(keys), Some(metadata)) => Ok(backend.combine(zone, keys.clone(), metadata)),
            _ => Err(self.failed.clone().unwrap_or_else(|| {
                SqlError::Unavailable("keys and metadata were not requested".into())
            })),
        }
    }
}

impl SqlBackend {
    /// Returns how a zone is signed, if cached.
    pub(super) fn known_signing(&self, zone: &LiveZone) -> Option<Option<Arc<Signing>>> {
        if !self.inner.options.security.is_read {
            return Some(None);
        }
        let keys = self.inner.keys.find(zone.id)?;
        let metadata = self.inner.metadata.find(zone.id)?;
        Some(self.combine(zone, keys, &metadata))
    }

    /// Returns how a zone is currently signed; `None` if it has no keys.
    pub(super) async fn signing(&self, zone: &LiveZone) -> Result<Option<Arc<Signing>>, SqlError> {
        if let Some(signing) = self.known_signing(zone) {
            return Ok(signing);
        }
        let zones = [*zone];
        let (keys, metadata) = self.read_both(&zones).await;
        let data = SigningData {
            keys: keys?,
            metadata: metadata?,
            failed: None,
            statements: 2,
        };
        data.signing(self, zone)
    }

    /// Returns how zones are currently signed, in order.
    pub(super) async fn signings(
        &self,
        zones: &[LiveZone],
    ) -> Result<Vec<Option<Arc<Signing>>>, SqlError> {
        let is_unknown = |zone: &&LiveZone| self.known_signing(zone).is_none();
        let unknown: Vec<LiveZone> = zones.iter().filter(is_unknown).copied().collect();
        let (keys, metadata) = if unknown.is_empty() {
            (Ok(HashMap::new()), Ok(HashMap::new()))
        } else {
            self.read_both(&unknown).await
        };
        let data = SigningData {
            keys: keys?,
            metadata: metadata?,
            failed: None,
            statements: 2,
        };
        let signing = |zone: &LiveZone| {
            if data.keys.contains_key(&zone.id) {
                return data.signing(self, zone);
            }
            // It may have been dropped from the cache in the meantime.
            self.known_signing(zone).ok_or_else(|| {
                SqlError::Busy("keys and metadata changed while they were read".into())
            })
        };
        zones.iter().map(signing).collect()
    }

    /// Reads keys and metadata of zones for lookups. If the database refuses, the data last read is used.
    pub(super) async fn read_signing_data(&self, zones: &[LiveZone]) -> SigningData {
        let generations = (
            self.inner.keys.generation(),
            self.inner.metadata.generation(),
        );
        let (keys, metadata) = self.read_both(zones).await;
        let mut failed = None;
        let keys = or_last(keys, &self.inner.keys, zones, generations.0, &mut failed);
        let metadata = or_last(
            metadata,
            &self.inner.metadata,
            zones,
            generations.1,
            &mut failed,
        );
        SigningData {
            keys,
            metadata,
            failed,
            statements: 2 * zones.len().div_ceil(MAX_NAMES) as u32,
        }
    }

    /// Reads both concurrently: PostgreSQL handles them in one round trip.
    async fn read_both(
        &self,
        zones: &[LiveZone],
    ) -> (
        Result<ByZoneId<Keys>, SqlError>,
        Result<ByZoneId<Metadata>, SqlError>,
    ) {
        let (keys, metadata) = tokio::join!(self.read_keys(zones), self.read_metadata(zones));
        let result = keys.as_ref().map(|_| ()).and(metadata.as_ref().map(|_| ()));
        let failure = result.err();
        self.inner
            .readable
            .note(failure, &self.inner.options.address);
        (keys, metadata)
    }

    fn combine(
        &self,
        zone: &LiveZone,
        keys: Arc<Keys>,
        metadata: &Metadata,
    ) -> Option<Arc<Signing>> {
        if keys.is_empty() || metadata.policy.is_presigned {
            return None;
        }
        let keys = if metadata.is_broken {
            Arc::new(Keys::broken())
        } else {
            keys
        };
        let cache = self.inner.options.security.signatures.clone();
        let signing = Signing::new(zone.apex.as_name(), keys, metadata.policy.clone(), cache);
        Some(Arc::new(signing))
    }

    /// Reads a table for several zones. A refused table does not mean that the database is down.
    pub(super) async fn read_about(
        &self,
        statement: Statement,
        zones: &[LiveZone],
        each: &mut (dyn FnMut(&dyn Cells) + Send),
    ) -> Result<(), SqlError> {
        let texts: Vec<String> = zones.iter().map(|zone| zone.id.to_string()).collect();
        let list: Vec<&str> = texts.iter().map(String::as_str).collect();
        for chunk in list.chunks(MAX_NAMES) {
            let mut take = |row: &dyn Cells| {
                each(row);
                Ok(())
            };
            let reads = &self.inner.reads;
            let result = reads.query(statement, None, chunk, &mut take).await;
            if !matches!(result, Err(SqlError::Refused(_) | SqlError::Busy(_))) {
                let database = &self.inner.options.address;
                self.inner.condition.note(&result, database);
            }
            result?;
        }
        Ok(())
    }
}

/// Returns the data read, or else the data last known about each zone.
fn or_last<T>(
    read: Result<ByZoneId<T>, SqlError>,
    cache: &ZoneCache<T>,
    zones: &[LiveZone],
    generation: u64,
    failed: &mut Option<SqlError>,
) -> ByZoneId<T> {
    match read {
        Ok(data) => data,
        Err(error) => {
            *failed = Some(error);
            let last = |zone: &LiveZone| Some((zone.id, cache.fall_back(zone, generation)?));
            zones.iter().filter_map(last).collect()
        }
    }
}

impl<T: Default> ZoneCache<T> {
    /// Caches what was read about zones. One with an unusable row has what was last read, or else `broken`.
    fn take_over(
        &self,
        zones: &[LiveZone],
        mut read: HashMap<i64, Result<T, RowError>>,
        broken: fn() -> T,
        generation: u64,
    ) -> ByZoneId<T> {
        let fact = |zone: &LiveZone| match read.remove(&zone.id) {
            None => Arc::default(),
            Some(Ok(fact)) => {
                let fact = Arc::new(fact);
                self.insert(zone, fact.clone(), generation);
                fact
            }
            Some(Err(error)) => {
                let last = self.fall_back(zone, generation);
                log_unusable(zone, &error, last.is_some());
                last.unwrap_or_else(|| Arc::new(broken()))
            }
        };
        let facts = zones.iter().map(fact);
        zones.iter().map(|zone| zone.id).zip(facts).collect()
    }
}

/// Logs a row that signing needs but cannot use; once per read, so not for every query.
fn log_unusable(zone: &LiveZone, error: &RowError, has_last: bool) {
    let apex = &zone.apex;
    if has_last {
        tracing::error!(
            "zone {apex}: cannot use the new keys or metadata, signing with the previous ones: {error}"
        )
    } else {
        tracing::error!("zone {apex}: cannot sign, queries with DO are answered SERVFAIL: {error}")
    }
}

/// Whether keys and metadata can be read, as reported in the log.
#[derive(Default)]
pub(super) struct Readable {
    has_failed: AtomicBool,
}

impl Readable {
    fn note(&self, failure: Option<&SqlError>, database: &super::DatabaseAddress) {
        if self.has_failed.load(Ordering::Relaxed) == failure.is_some() {
            return;
        }
        self.has_failed.store(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(reason) => tracing::error!(
                %database, %reason,
                "cannot read cryptokeys and domainmetadata: known zones are signed with their previous keys, others \
                 are answered SERVFAIL; if no zone in this database is signed, set dnssec = false"
            ),
            None => tracing::info!(%database, "reading cryptokeys and domainmetadata works again"),
        }
    }
}
