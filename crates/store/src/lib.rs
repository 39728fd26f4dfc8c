//! Where zone data comes from: zone files and, later, databases.

pub mod file;
