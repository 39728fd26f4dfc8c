//! Recognises a connection pooler in transaction mode (pgbouncer) in front of PostgreSQL.
//!
//! Such a pooler gives each transaction to any of its own connections. Prepared statements, settings and `LISTEN` belong to a
//! connection: a statement prepared there may be missing later, or be another one of the same name. Behind it, statements are sent
//! with their text, settings are made within transactions, and changes are found by the table of changes alone.
//!
//! Two of our connections that are open at the same time have different server processes, unless a pooler is in between.

use super::error::SqlError;
use super::postgres_error;
use super::postgres_role::single_value;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::OnceCell;
use tokio_postgres::{Client, Error};

/// Number of comparisons of two connections. Another client may have had a pooler's connection in between.
const COMPARISONS: usize = 4;

/// Whether there is a pooler.
#[derive(Default)]
pub(super) struct Pooler {
    is_found: AtomicBool,
    checked: OnceCell<()>,
}

impl Pooler {
    pub(super) fn is_found(&self) -> bool {
        self.is_found.load(Ordering::Relaxed)
    }

    /// Checks for a pooler, once, by means of a second connection to the same server.
    pub(super) async fn detect(
        &self,
        client: &Client,
        second: impl Future<Output = Result<Client, Error>>,
    ) {
        let check = || async {
            if let Ok(second) = second.await
                && has_shared_process(client, &second).await
            {
                self.note();
            }
        };
        self.checked.get_or_init(check).await;
    }

    /// Classifies an error. A prepared statement that is missing, or that exists although it was never made here, shows a pooler.
    pub(super) fn failure(&self, error: &Error) -> SqlError {
        let code = error.as_db_error().map(|refusal| refusal.code().code());
        if matches!(code, Some("26000" | "42P05")) {
            self.note();
            // The statement is repeated on a new connection.
            return SqlError::Unavailable(error.to_string());
        }
        postgres_error::failure(error)
    }

    fn note(&self) {
        if !self.is_found.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "connection pooler in transaction mode found: no prepared statements, no LISTEN"
            );
        }
    }
}

/// Checks whether two connections that are open have the same server process.
async fn has_shared_process(client: &Client, other: &Client) -> bool {
    let sql = "SELECT pg_backend_pid()";
    for _ in 0..COMPARISONS {
        let (first, second) = (
            single_value(client, sql).await,
            single_value(other, sql).await,
        );
        if first.is_some() && first == second {
            return true;
        }
    }
    false
}
