//! Where zone data comes from: zone files and databases.

pub mod file;
pub mod sql;
