//! The metadata cache: zone metadata (`domainmetadata`), read for many zones at once.

use super::super::dialect::Statement;
use super::super::error::{RowError, SqlError};
use super::super::{LiveZone, SqlBackend};
use super::ByZoneId;
use nameward_base::sync::Mutex;
use nameward_dnssec::{Denial, PolicyItemError, SigningPolicy};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of zones whose iterations are remembered, so that each is logged once.
const WARNED_MAX: usize = 100_000;

/// Zones found with NSEC3 iterations, and how many.
#[derive(Default)]
pub(crate) struct IterationWarnings(Mutex<HashMap<i64, u16>>);

impl IterationWarnings {
    /// Logs NSEC3 iterations of a zone once (RFC 9276 section 3.1: they cost CPU time and protect nothing).
    fn note(&self, zone: &LiveZone, policy: &SigningPolicy) {
        let mut warned = self.0.lock();
        let iterations = match &policy.denial {
            Denial::Nsec3(hashing) => hashing.iterations,
            Denial::Nsec => 0,
        };
        if iterations == 0 {
            warned.remove(&zone.id);
            return;
        }
        if warned.len() < WARNED_MAX && warned.insert(zone.id, iterations) != Some(iterations) {
            let apex = &zone.apex;
            tracing::warn!(
                "zone {apex}: NSEC3PARAM has {iterations} iterations; set it to '1 0 0 -' (RFC 9276)"
            );
        }
    }
}

#[derive(Default)]
pub(crate) struct Metadata {
    pub(crate) policy: Arc<SigningPolicy>,
    /// An item about signing is invalid: guessing would mean signing in a way that was not requested.
    pub(crate) is_broken: bool,
}

impl Metadata {
    fn broken() -> Self {
        Metadata {
            policy: Arc::default(),
            is_broken: true,
        }
    }
}

impl SqlBackend {
    /// Reads the metadata of zones; every zone is in the result, even those without any. A zone with an invalid item
    /// has the metadata that was last read, or is broken.
    pub(crate) async fn read_metadata(
        &self,
        zones: &[LiveZone],
    ) -> Result<ByZoneId<Metadata>, SqlError> {
        let cache = &self.inner.metadata;
        let generation = cache.generation();
        let default = SigningPolicy {
            soa_edit: self.inner.options.security.soa_edit,
            ..SigningPolicy::default()
        };
        let mut read: HashMap<i64, Result<SigningPolicy, RowError>> = zones
            .iter()
            .map(|zone| (zone.id, Ok(default.clone())))
            .collect();
        self.read_about(Statement::Metadata, zones, &mut |row| {
            let of = row.int(3).and_then(|zone| read.get_mut(&zone));
            let Some(of) = of else { return };
            let text = |column| String::from_utf8_lossy(row.text(column).unwrap_or_default());
            if let Ok(policy) = of
                && let Err(PolicyItemError::Unusable(reason)) = policy.take(&text(1), &text(2))
            {
                let id = row.int(0).unwrap_or(0);
                *of = Err(RowError::new("domainmetadata", id, reason.to_string()));
            }
        })
        .await?;
        for zone in zones {
            if let Some(Ok(policy)) = read.get(&zone.id) {
                self.inner.iterations.note(zone, policy);
            }
        }
        let metadata = |policy: SigningPolicy| Metadata {
            policy: policy.into(),
            is_broken: false,
        };
        let read = read.into_iter();
        let read = read.map(|(zone, policy)| (zone, policy.map(metadata)));
        Ok(cache.take_over(zones, read.collect(), Metadata::broken, generation))
    }
}
