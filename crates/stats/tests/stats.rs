//! Tests of counters and rings. All modules link into one binary.

mod rings;
mod settled;
