//! Owns a database as the source of look-ups.

use std::future::Future;
use std::pin::Pin;

use nameward_answer::BackendFailure;
use nameward_serve::live::{
    Ended, Fetched, Kept, LiveSource, Lookup, LookupBatch, LookupError, Round, Wanted,
};
use nameward_store::sql::{Batch, Found, Fragment, LiveZone, SqlBackend, SqlError};

/// A database as a source of look-ups.
pub(super) struct SqlSource(pub(super) SqlBackend);

impl LiveSource for SqlSource {
    fn lookup<'a>(&'a self, wanted: &'a Wanted) -> Lookup<'a> {
        Box::pin(async move {
            let zone = zone(wanted);
            fetched(self.0.lookup_alone(&zone, wanted.name.as_name()).await)
        })
    }

    fn batches(&self) -> usize {
        self.0.options().batches
    }

    fn batch<'a>(&'a self, wanted: &[Wanted]) -> Option<Box<dyn LookupBatch + 'a>> {
        let mut batch = self.0.batch();
        for wanted in wanted {
            batch.add(&zone(wanted), wanted.name.as_name());
        }
        Some(Box::new(SqlBatch(batch)))
    }

    fn is_blocking(&self) -> bool {
        self.0.is_blocking()
    }

    fn is_up(&self) -> bool {
        self.0.health().is_up
    }

    fn kept(&self) -> Kept {
        Kept {
            keys: self.0.key_cache_len(),
            metadata: self.0.metadata_cache_len(),
        }
    }

    fn forget(&self, zone: Option<i64>) -> usize {
        self.0.forget(zone)
    }
}

struct SqlBatch<'b>(Batch<'b>);

impl LookupBatch for SqlBatch<'_> {
    fn round<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = Round> + Send + 'a>> {
        Box::pin(async move {
            let round = self.0.round().await;
            let ended = round.found.into_iter().map(|(place, found)| {
                let ended = match found {
                    Found::Ended(result) => Ended::Done(fetched(result)),
                    Found::Alone => Ended::Alone,
                };
                (place, ended)
            });
            Round {
                ended: ended.collect(),
                statements: round.statements,
            }
        })
    }
}

fn zone(wanted: &Wanted) -> LiveZone {
    LiveZone {
        id: wanted.zone,
        apex: wanted.apex,
    }
}

fn fetched(result: Result<Fragment, SqlError>) -> Result<Fetched, LookupError> {
    match result {
        Ok(fragment) => Ok(Fetched {
            zone: fragment.zone,
            statements: fragment.statements,
        }),
        Err(error) => Err(LookupError {
            kind: match error {
                SqlError::Row(_) => BackendFailure::BadData,
                _ => BackendFailure::Unreachable,
            },
            reason: error.to_string(),
        }),
    }
}
