//! Owns the words of backends in the configuration: their kinds, and how their zones are served.

use super::read::words;

words! {
    /// The kind of a backend.
    BackendType {
        /// Zone files, held in memory.
        File = "file",
        /// A SQLite database.
        Sqlite = "sqlite",
        /// A PostgreSQL database.
        Postgres = "postgres",
        /// A MySQL or MariaDB database.
        Mysql = "mysql",
    }
}

words! {
    /// How the zones of a database are served.
    BackendMode {
        /// Looked up when they are asked for.
        Live = "live",
        /// Loaded into memory, following changes.
        Resident = "resident",
    }
}
