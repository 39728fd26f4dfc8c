//! Tests of the zone table's writers: commits, catalogs, followers. All modules link into one binary.

mod catalogs;
mod commit;
#[expect(dead_code, reason = "the tests of peers use the rest")]
mod common;
mod database_policies;
mod databases;
mod kill;
mod signature_watch;
