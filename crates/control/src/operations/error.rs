//! Errors of operations: a kind for programs, a sentence for people.

use nameward_sql::write::WriteError;
use nameward_wire::NameBuf;
use serde::{Deserialize, Serialize};

use super::OperationResult;

/// The kind of an error, which determines the exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The zone, record, counter or backend does not exist.
    NotFound,
    /// The zone already exists, or other changes interfered each time.
    Conflict,
    /// The request or the resulting zone is invalid.
    Invalid,
    /// The server does not do this, for this zone or now.
    Refused,
    /// A database or file failed.
    Backend,
    /// The API key does not permit this.
    Forbidden,
    /// The server of this configuration is not running.
    NotRunning,
    /// The server failed because of a bug; its log has more.
    Internal,
}

impl ErrorKind {
    /// All kinds, in the order of their exit codes.
    pub const ALL: [ErrorKind; 8] = [
        ErrorKind::Internal,
        ErrorKind::NotRunning,
        ErrorKind::NotFound,
        ErrorKind::Conflict,
        ErrorKind::Invalid,
        ErrorKind::Refused,
        ErrorKind::Backend,
        ErrorKind::Forbidden,
    ];

    /// Returns the exit code of a command that ends with this error. 2 is an invalid command line; 3 is the
    /// init script convention for a service that is not running.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Internal => 1,
            ErrorKind::NotRunning => 3,
            ErrorKind::NotFound => 4,
            ErrorKind::Conflict => 5,
            ErrorKind::Invalid => 6,
            ErrorKind::Refused => 7,
            ErrorKind::Backend => 8,
            ErrorKind::Forbidden => 9,
        }
    }
}

/// An operation that failed, completely or in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct OperationError {
    /// The kind, for programs.
    pub kind: ErrorKind,
    /// The zone or object, the reason and what to do, for people.
    pub message: String,
}

/// The outcome of an operation, or of a step of it.
pub type Outcome<T = OperationResult> = Result<T, OperationError>;

impl OperationError {
    /// Creates an error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        OperationError {
            kind,
            message: message.into(),
        }
    }

    /// Creates an error about something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Creates the error about a zone that does not exist.
    pub(crate) fn unknown_zone(name: &NameBuf) -> Self {
        Self::not_found(format!("zone {name} not found; see `nameward zone list`"))
    }

    /// Creates an error about a conflict.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// Creates an error about an invalid request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Creates an error about something that the server does not do.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// Creates an error about a failed database or file.
    pub fn backend(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Backend, message)
    }

    /// Creates the error of a failed change from the error of the database `address`.
    pub(super) fn from_write_error(address: &impl std::fmt::Display, error: &WriteError) -> Self {
        let named = || format!("{address}: {error}");
        match error {
            // These concern the request, not the database.
            WriteError::Invalid(_) => Self::invalid(error.to_string()),
            WriteError::ReadOnly(_) | WriteError::Refused(_) => Self::refused(error.to_string()),
            WriteError::NoCopy(_) => Self::refused(error.to_string()),
            WriteError::Keys(_) => Self::refused(error.to_string()),
            WriteError::Exists(_) => Self::conflict(error.to_string()),
            WriteError::NoSuchZone => Self::not_found(error.to_string()),
            WriteError::Conflict(_) => Self::conflict(named()),
            WriteError::Sql(_) | WriteError::Unknown(_) => Self::backend(named()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_distinct_exit_code() {
        let codes: std::collections::HashSet<u8> =
            ErrorKind::ALL.iter().map(|kind| kind.exit_code()).collect();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
        assert!(!codes.contains(&0) && !codes.contains(&2));
    }

    #[test]
    fn an_error_is_one_json_object_with_kind_and_message() {
        let error = OperationError::not_found("no zone a.test.");
        assert_eq!(
            serde_json::to_string(&error).unwrap(),
            r#"{"kind":"not_found","message":"no zone a.test."}"#
        );
    }
}
