//! Database administration: creates the schema, checks schema and rows, and finds PowerDNS content that is served
//! differently here.

mod check;
mod survey;

pub use check::{CheckReport, RowProblem, check};
pub use survey::{ForeignContent, ForeignKind, survey};

use super::SqlFuture;
use super::connection::{ConnectTarget, SqlConnection, Terms};
use super::dialect::SqlEngine;
use super::error::SqlError;
use super::schema::{CREATE_HEALTH, CREATE_LEASES, create, create_triggers};
use super::url::DatabaseAddress;
use super::write::create_history;
use std::time::Duration;

/// Timeout for an administrative statement that waits for others.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Opens an administrative connection, without a limit on statement time. Only `init` creates a file: one made by a
/// check would stand where an operator is about to put a database.
async fn open(address: &DatabaseAddress, creates_file: bool) -> Result<SqlConnection, SqlError> {
    let terms = Terms {
        creates_file,
        timeout: TIMEOUT,
        statement_time: None,
    };
    SqlConnection::open(&ConnectTarget::new(address)?, terms).await
}

/// Creates missing parts of the schema. Returns warnings: everything works without the triggers, but other servers see
/// changes later.
pub fn init(address: &DatabaseAddress) -> SqlFuture<'_, Result<Vec<String>, SqlError>> {
    Box::pin(async move {
        let mut admin = open(address, true).await?;
        if admin.engine() == SqlEngine::Sqlite {
            // Readers then never wait for a writer.
            admin.command("PRAGMA journal_mode = WAL").await?;
        }
        for statement in create(admin.engine()) {
            admin.command(&statement).await?;
        }
        admin.command(CREATE_LEASES).await?;
        for statement in CREATE_HEALTH {
            admin.command(statement).await?;
        }
        let mut warnings = Vec::new();
        let history = create_history(admin.engine());
        if let Err(error) = admin.command(&history).await.map_err(SqlError::from) {
            warnings.push(format!(
                "cannot create the table nameward_history: {error}; live zones have no history"
            ));
        }
        for statement in create_triggers(admin.engine()) {
            if let Err(error) = admin.command(&statement).await.map_err(SqlError::from) {
                warnings.push(format!(
                    "cannot create triggers: {error}; running servers notice changes with a delay"
                ));
                break;
            }
        }
        Ok(warnings)
    })
}
