//! Tests of keys, signatures, rollovers and TSIG. All modules link into one binary.

mod key_files;
mod rollover;
mod tsig;
mod vectors;
