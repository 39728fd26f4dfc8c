//! Where zone data comes from (zone files and databases), and the state that this server keeps itself.

#![deny(unsafe_code)]

pub mod authorities;
pub mod file;
pub mod sql;
pub mod state;
