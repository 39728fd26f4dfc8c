//! Tests of databases. All modules link into one binary.

mod apex;
mod broken;
mod common;
mod databases;
mod failover;
mod fragment;
mod keys;
mod powerdns;
mod sqlite;
mod write;
