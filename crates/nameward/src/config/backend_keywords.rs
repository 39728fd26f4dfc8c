//! Keywords for backends in the configuration: their types, and how their zones are served.

pub use nameward_maintain::follow::databases::ServedFrom;
pub use nameward_sql::ReadPreference;

use super::read::{keywords, words};

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

keywords! {
    ReadPreference {
        "primary" => ReadPreference::Primary,
        "nearest" => ReadPreference::Nearest,
    }
}

keywords! {
    ServedFrom {
        "live" => ServedFrom::Lookups,
        "resident" => ServedFrom::Memory,
    }
}

/// Returns the keyword for how the zones of a database are served.
pub fn mode_word(served_from: ServedFrom) -> &'static str {
    match served_from {
        ServedFrom::Lookups => "live",
        ServedFrom::Memory => "resident",
    }
}
