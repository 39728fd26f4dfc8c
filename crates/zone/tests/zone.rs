//! Tests of zone contents, changes and chains. All modules link into one binary.

mod again;
mod chain;
mod change;
mod common;
mod glue;
mod layered;
mod model;
mod stored;
mod warnings;
mod zone_digest;
