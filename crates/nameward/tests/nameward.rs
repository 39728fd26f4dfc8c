//! Tests of the whole server, as its users and peers see it. All modules link into one binary.

mod admin;
mod api;
mod catalogs;
mod conformance;
mod databases;
mod differential;
mod encrypted;
mod lua;
mod mesh;
mod moving;
mod operation;
mod recursion;
mod secondary;
mod status;
mod tools;
mod transfers_out;
mod zone_check;
