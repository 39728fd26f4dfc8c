//! How zones are signed: their keys and their metadata, together.

use super::dialect::{MAX_NAMES, Statement};
use super::error::SqlError;
use super::metadata::Metadata;
use super::row::Cells;
use super::{LiveZone, SqlBackend};
use nameward_dnssec::{Keys, Signing};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What was read about some zones.
pub(super) struct Facts {
    keys: HashMap<i64, Arc<Keys>>,
    metadata: HashMap<i64, Arc<Metadata>>,
    pub(super) statements: u32,
}

impl Facts {
    /// How a zone is signed, if it has keys and was among those that were read.
    pub(super) fn signing(&self, backend: &SqlBackend, zone: &LiveZone) -> Option<Arc<Signing>> {
        let (keys, metadata) = (self.keys.get(&zone.id)?, self.metadata.get(&zone.id)?);
        backend.combine(zone, keys.clone(), metadata)
    }
}

impl SqlBackend {
    /// How a zone is signed, if the caches tell.
    pub(super) fn known_signing(&self, zone: &LiveZone) -> Option<Option<Arc<Signing>>> {
        let keys = self.inner.keys.find(zone.id)?;
        let metadata = self.inner.metadata.find(zone.id)?;
        Some(self.combine(zone, keys, &metadata))
    }

    /// How a zone is signed; `None` if it has no keys.
    pub(super) async fn signing(&self, zone: &LiveZone) -> Result<Option<Arc<Signing>>, SqlError> {
        match self.known_signing(zone) {
            Some(signing) => Ok(signing),
            None => Ok(self.read_facts(&[zone.id]).await?.signing(self, zone)),
        }
    }

    /// Reads keys and metadata of zones, both at once: PostgreSQL takes them in one go.
    pub(super) async fn read_facts(&self, zones: &[i64]) -> Result<Facts, SqlError> {
        let (keys, metadata) = tokio::join!(self.read_keys(zones), self.read_metadata(zones));
        Ok(Facts {
            keys: keys?,
            metadata: metadata?,
            statements: 2 * zones.len().div_ceil(MAX_NAMES) as u32,
        })
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
        let keys = match metadata.is_broken {
            true => Arc::new(Keys::broken()),
            false => keys,
        };
        let cache = self.inner.options.security.signatures.clone();
        let signing = Signing::new(zone.apex.as_name(), keys, metadata.policy.clone(), cache);
        Some(Arc::new(signing))
    }

    /// Reads a table that an account may be kept from reading, since it holds secrets: then the zones are served
    /// without what it says, as ever before, and the log tells once.
    pub(super) async fn read_optional(
        &self,
        statement: Statement,
        zones: &[i64],
        each: &mut (dyn FnMut(&dyn Cells) + Send),
    ) -> Result<(), SqlError> {
        let texts: Vec<String> = zones.iter().map(i64::to_string).collect();
        let list: Vec<&str> = texts.iter().map(String::as_str).collect();
        for chunk in list.chunks(MAX_NAMES) {
            let mut take = |row: &dyn Cells| {
                each(row);
                Ok(())
            };
            let result = self
                .inner
                .reads
                .query(statement, None, chunk, &mut take)
                .await;
            let database = &self.inner.options.address;
            if let Err(SqlError::Refused(reason)) = &result {
                if !self.inner.told_unreadable.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%database, reason, "keys or metadata cannot be read: zones are not signed");
                }
                return Ok(());
            }
            self.inner.condition.note(&result, database);
            result?;
        }
        Ok(())
    }
}
