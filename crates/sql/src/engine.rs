//! The kinds of databases.

/// A database engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlEngine {
    /// SQLite.
    Sqlite,
    /// PostgreSQL and compatible servers.
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
}
