//! Database errors, classified so that answers, log lines and checks can tell them apart.

/// An unusable row: which one, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table {table}, id {id}: {reason}")]
pub struct RowError {
    /// The table name.
    pub table: &'static str,
    /// The row's `id`; 0 if it is about several rows.
    pub id: i64,
    /// States what was expected and what was found.
    pub reason: String,
}

impl RowError {
    pub(crate) fn new(table: &'static str, id: i64, reason: impl Into<String>) -> Self {
        RowError {
            table,
            id,
            reason: reason.into(),
        }
    }
}

/// The reason why a database request failed. Messages never contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// A row that the answer needs does not parse: only this answer fails.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The database cannot be reached; it is retried with back-off.
    #[error("cannot connect to the database: {0}")]
    Unavailable(String),
    /// The database did not respond in time.
    #[error("database query timed out after {0} ms")]
    Timeout(u128),
    /// The database cancelled a statement: a time limit of the server, or an administrator. The connection can still be used.
    #[error("the database cancelled a statement: {0}")]
    Cancelled(String),
    /// The database refused a statement: the schema is not as expected.
    #[error("the database rejected a statement: {0}; run `nameward db check` to check the schema")]
    Refused(String),
    /// The database could not run a statement at this time: a lock, a deadlock, a conflict with others.
    #[error("the database is busy: {0}")]
    Busy(String),
    /// The server accepts no changes: a standby, a replica, a server that an operator made read-only.
    #[error("the database server is read-only: {0}")]
    ReadOnly(String),
    /// The database URL is invalid.
    #[error("{0}")]
    Address(String),
}

impl SqlError {
    /// Checks whether the server is at fault and not the statement: another server, or a new connection, may work.
    pub(crate) fn is_of_server(&self) -> bool {
        matches!(
            self,
            SqlError::Unavailable(_)
                | SqlError::Timeout(_)
                | SqlError::Cancelled(_)
                | SqlError::ReadOnly(_)
        )
    }

    /// Returns the error text without its kind.
    pub(crate) fn reason(&self) -> String {
        match self {
            SqlError::Unavailable(text)
            | SqlError::Cancelled(text)
            | SqlError::Refused(text)
            | SqlError::Busy(text)
            | SqlError::ReadOnly(text)
            | SqlError::Address(text) => text.clone(),
            SqlError::Timeout(ms) => format!("timed out after {ms} ms"),
            SqlError::Row(error) => error.to_string(),
        }
    }

    pub(crate) fn row(table: &'static str, id: i64, reason: impl Into<String>) -> Self {
        SqlError::Row(RowError::new(table, id, reason))
    }
}
