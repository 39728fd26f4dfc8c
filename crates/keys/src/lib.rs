//! DNSSEC keys: where they are stored and how policies roll them.
//!
//! [`storage`] is the interface to the keys of a zone, and [`storages`] decides where they are: [`local`] for zone files and
//! secondary zones (state store, with private keys in files if there is a key directory), [`database`] for the
//! `cryptokeys` rows of database zones. [`rollover`] decides what is due for each zone and drives it.

#![forbid(unsafe_code)]

pub mod database;
pub mod local;
pub mod rollover;
pub mod storage;
pub mod storages;
