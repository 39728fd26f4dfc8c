//! The metadata of zones (`domainmetadata`), read for many zones at once and kept for a while: the metadata cache.

use super::SqlBackend;
use super::dialect::Statement;
use super::error::{RowError, SqlError};
use nameward_dnssec::Policy;
use std::collections::HashMap;
use std::sync::Arc;

/// What the metadata of a zone says.
#[derive(Default)]
pub(crate) struct Metadata {
    pub(super) policy: Arc<Policy>,
    /// An item about signing makes no sense: to guess would be to sign in a way that nobody asked for.
    pub(super) is_broken: bool,
}

impl SqlBackend {
    /// Reads the metadata of zones; every one is in the result, also those without any.
    pub(super) async fn read_metadata(
        &self,
        zones: &[i64],
    ) -> Result<HashMap<i64, Arc<Metadata>>, SqlError> {
        let cache = &self.inner.metadata;
        let generation = cache.generation();
        let mut read: HashMap<i64, (Policy, bool)> = zones
            .iter()
            .map(|zone| (*zone, Default::default()))
            .collect();
        self.read_optional(Statement::Metadata, zones, &mut |row| {
            let of = row.int(3).and_then(|zone| read.get_mut(&zone));
            let Some((policy, is_broken)) = of else {
                return;
            };
            let text = |column| String::from_utf8_lossy(row.text(column).unwrap_or_default());
            if let Err(reason) = policy.take(&text(1), &text(2)) {
                *is_broken = true;
                let error = RowError {
                    table: "domainmetadata",
                    id: row.int(0).unwrap_or(0),
                    reason,
                };
                tracing::error!("answers with DNSSEC fail: {error}");
            }
        })
        .await?;
        let finished = read.into_iter().map(|(zone, (policy, is_broken))| {
            let metadata = Arc::new(Metadata {
                policy: policy.into(),
                is_broken,
            });
            cache.keep(zone, metadata.clone(), generation);
            (zone, metadata)
        });
        Ok(finished.collect())
    }
}
