//! Import of other name servers' configurations: which zones they have, of which kind, from which files, and who may
//! query them.
//!
//! [`bind`] reads BIND's `named.conf`; [`migrate`] reads that, `pdns.conf`, `nsd.conf` and `knot.conf` for a migration.
//! [`Files`] is the source of the text, so that a reader works on watched files, on texts in a test and on the input of
//! a fuzzer. The results are data: nothing is opened or served here.

#![deny(unsafe_code)]

pub mod bind;
mod echo_files;
mod files;
pub mod migrate;

pub use files::{Files, OnDisk, open_regular, reason_of};
