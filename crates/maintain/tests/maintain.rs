//! Tests of the zone table's writers: commits, transfers, updates, catalogs. All modules link into one binary.

mod catalogs;
mod commit;
mod common;
mod database_policies;
mod databases;
mod kill;
mod signature_watch;
mod simulation;
mod transfer_in;
mod update;
