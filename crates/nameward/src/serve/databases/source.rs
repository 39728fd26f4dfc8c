//! Owns a database as the source of look-ups.

use nameward_answer::BackendFailure;
use nameward_serve::live::{Fetched, LiveSource, Lookup, LookupError, Wanted};
use nameward_store::sql::{LiveZone, SqlBackend, SqlError};

/// A database as a source of look-ups.
pub(super) struct SqlSource(pub(super) SqlBackend);

impl LiveSource for SqlSource {
    fn lookup<'a>(&'a self, wanted: &'a Wanted) -> Lookup<'a> {
        Box::pin(async move {
            let zone = LiveZone {
                id: wanted.zone,
                apex: wanted.apex,
            };
            match self.0.lookup(&zone, wanted.name.as_name()).await {
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
        })
    }

    fn is_blocking(&self) -> bool {
        self.0.is_blocking()
    }

    fn is_up(&self) -> bool {
        self.0.health().is_up
    }
}
