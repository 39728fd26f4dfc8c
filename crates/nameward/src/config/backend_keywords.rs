//! Keywords for backends in the configuration: their types, and how their zones are served.

use super::read::words;

words! {
    /// The type of a backend.
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
    /// Which of several database servers is read.
    BackendReads {
        /// The one that accepts changes.
        Primary = "primary",
        /// The first in the list that is in step.
        Nearest = "nearest",
    }
}

words! {
    /// How the zones of a database are served.
    BackendMode {
        /// Looked up at query time.
        Live = "live",
        /// Loaded into memory, following changes.
        Resident = "resident",
    }
}
