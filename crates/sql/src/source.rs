//! A database as the lookup source for live zones.

use super::lookup::{Found, SqlLookupBatch};
use super::{LiveZone, SqlBackend, SqlError};
use nameward_wire::Type;
use nameward_zone::{
    BackendFailure, BatchRound, CacheSizes, LiveSource, LookupBatch, LookupEnd, LookupError,
    LookupFuture, LookupRequest, ZoneBuilder, ZoneFuture,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

impl LiveSource for SqlBackend {
    fn lookup<'a>(&'a self, request: LookupRequest<'a>) -> LookupFuture<'a> {
        Box::pin(async move {
            let fragment = self.lookup_alone(request).await;
            fragment.map_err(|error| lookup_error(&error))
        })
    }

    fn read_zone<'a>(&'a self, request: LookupRequest<'a>) -> ZoneFuture<'a> {
        Box::pin(async move {
            let mut builder = ZoneBuilder::new(request.apex);
            let zone = LiveZone {
                id: request.zone,
                apex: request.apex.into(),
            };
            let report = self.load_zone(&zone, &mut builder).await;
            let report = report.map_err(|error| lookup_error(&error))?;
            let (built, findings) = builder.finish();
            let first = findings.into_iter().next().map(|first| first.message);
            let mut built = built.ok_or_else(|| bad_data(first.unwrap_or_default()))?;
            if let Some(bad) = report.bad.first() {
                // RFC 5936 section 3: all records or none.
                return Err(bad_data(bad.to_string()));
            }
            let is_signed = report.signing.is_some() || built.apex().rrset(Type::RRSIG).is_some();
            let serial = built.serial().0;
            built.set_signing(report.signing);
            if is_signed || !built.has_stale_digest(serial) {
                return Ok(built);
            }
            let stale = &self.inner.stale_digests;
            stale.note(request.zone, built.apex_name(), serial);
            let without = Arc::new(built).without_digests();
            without.map_err(|error| bad_data(error.to_string()))
        })
    }

    fn batches(&self) -> usize {
        self.options().concurrency.batches
    }

    fn batch<'a>(&'a self, requests: &[LookupRequest<'a>]) -> Option<Box<dyn LookupBatch + 'a>> {
        let mut batch = SqlBackend::batch(self, requests.len());
        requests.iter().for_each(|request| batch.add(*request));
        Some(Box::new(batch))
    }

    fn is_blocking(&self) -> bool {
        SqlBackend::is_blocking(self)
    }

    fn is_up(&self) -> bool {
        self.inner.condition.is_up()
    }

    fn cache_sizes(&self) -> CacheSizes {
        CacheSizes {
            keys: self.inner.keys.len(),
            metadata: self.inner.metadata.len(),
        }
    }

    fn forget(&self, zone: Option<i64>) -> usize {
        SqlBackend::forget(self, zone)
    }
}

impl LookupBatch for SqlLookupBatch<'_> {
    fn round<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = BatchRound> + Send + 'a>> {
        Box::pin(async move {
            let round = SqlLookupBatch::round(self).await;
            let ended = round.found.into_iter().map(|(place, found)| {
                let end = match found {
                    Found::Ended(result) => {
                        LookupEnd::Done(result.map_err(|error| lookup_error(&error)))
                    }
                    Found::Alone => LookupEnd::Alone,
                };
                (place, end)
            });
            BatchRound {
                ended: ended.collect(),
                statements: round.statements,
            }
        })
    }
}

fn bad_data(reason: String) -> LookupError {
    let kind = BackendFailure::BadData;
    LookupError { kind, reason }
}

fn lookup_error(error: &SqlError) -> LookupError {
    LookupError {
        kind: match error {
            SqlError::Row(_) => BackendFailure::BadData,
            _ => BackendFailure::Unreachable,
        },
        reason: error.to_string(),
    }
}
