//! Configurations of other name servers, read into our own terms: which zones there are, of which kind, from which
//! files, and who may ask them.
//!
//! [`bind`] reads BIND's `named.conf`; [`moving`] reads that, `pdns.conf`, `nsd.conf` and `knot.conf` for a move. [`Files`] is where the text comes from, so that a reader runs on files that are
//! watched, on texts in a test and on the input of a fuzzer. What is read is data: nothing is opened or served here.

#![deny(unsafe_code)]

pub mod bind;
mod echo_files;
mod files;
pub mod migrate;

pub use files::{Files, OnDisk, open_regular, reason_of};
