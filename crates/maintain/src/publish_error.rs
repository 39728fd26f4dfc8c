//! Why a change in a database is not in this server's answers.

/// A change that is in the database, but not in this server's answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The thread that follows the database has ended.
    #[error("the database follower has stopped")]
    FollowerEnded,
    /// The zone was not read in time.
    #[error("reading the zone timed out")]
    Timeout,
    /// The database could not be read.
    #[error("{0}")]
    Database(String),
}
