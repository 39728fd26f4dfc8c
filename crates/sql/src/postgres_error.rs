//! Classifies the errors of PostgreSQL.

use std::error::Error;

use super::error::SqlError;

/// Classifies an error by SQLSTATE.
pub(crate) fn failure(error: &tokio_postgres::Error) -> SqlError {
    let Some(refusal) = error.as_db_error() else {
        let cause = error
            .source()
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        return SqlError::Unavailable(format!("{error}{cause}"));
    };
    let message = refusal.message().to_owned();
    match refusal.code().code() {
        // A time limit of the server, an administrator, or the cancellation of a statement before it on the connection.
        "57014" => SqlError::Cancelled(message),
        // Lock timeout, serialisation failure, deadlock.
        code if code == "55P03" || code.starts_with("40") => SqlError::Busy(message),
        // A standby, or a server whose transactions are read-only by default.
        "25006" => SqlError::ReadOnly(message),
        // Connection, resources, shutting down or starting up, login, no such database.
        code if ["08", "53", "57", "28", "3D"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            SqlError::Unavailable(message)
        }
        _ => SqlError::Refused(message),
    }
}
