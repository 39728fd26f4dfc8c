//! Recognises a connection pooler in transaction mode (pgbouncer) in front of PostgreSQL.
//!
//! Such a pooler gives each transaction to any of its own connections. Prepared statements, settings and `LISTEN` belong to a
//! connection: a statement prepared there may be missing later, or be another one of the same name. Behind it, statements are sent
//! with their text, settings are made within transactions, and changes are found by the table of changes alone.
//!
//! Two of our connections that are open at the same time have different server processes, unless a pooler is in between.

use super::error::SqlError;
use super::hosts::Server;
use super::postgres::PostgresTarget;
use super::postgres_error;
use super::postgres_role::single_value;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::OnceCell;
use tokio_postgres::Client;

/// Comparisons of two connections. Another client may have had a pooler's connection in between.
const LOOKS: usize = 4;

/// Whether there is a pooler.
#[derive(Default)]
pub(super) struct Pooler {
    is_there: AtomicBool,
    looked: OnceCell<()>,
}

impl Pooler {
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// Looks for a pooler, once, by means of a second connection to the same server.
    pub(super) async fn find(&self, target: &PostgresTarget, server: &Server, client: &Client) {
        let look = || async {
            if has_shared_process(target, server, client).await {
                self.note();
            }
        };
        self.looked.get_or_init(look).await;
    }

    /// Classifies an error. A prepared statement that is missing, or that exists although it was never made here, shows a pooler.
    pub(super) fn failure(&self, error: &tokio_postgres::Error) -> SqlError {
        let code = error.as_db_error().map(|refusal| refusal.code().code());
        if matches!(code, Some("26000" | "42P05")) {
            self.note();
            // The statement is repeated on a new connection.
            return SqlError::Unavailable(error.to_string());
        }
        postgres_error::failure(error)
    }

    fn note(&self) {
        if !self.is_there.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "connection pooler in transaction mode found: no prepared statements, no LISTEN"
            );
        }
    }
}

async fn has_shared_process(target: &PostgresTarget, server: &Server, client: &Client) -> bool {
    let Ok((other, connection)) = target.open_polled(server).await else {
        return false;
    };
    tokio::spawn(connection);
    let sql = "SELECT pg_backend_pid()";
    for _ in 0..LOOKS {
        let (first, second) = (
            single_value(client, sql).await,
            single_value(&other, sql).await,
        );
        if first.is_some() && first == second {
            return true;
        }
    }
    false
}
