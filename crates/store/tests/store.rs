//! Tests of zone files, databases and the state store. All modules link into one binary.

mod apex;
mod broken;
mod common;
mod databases;
mod failover;
mod fragment;
mod keys;
mod powerdns;
mod sqlite;
mod state_disk;
mod write;
