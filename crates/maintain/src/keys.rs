//! DNSSEC keys: where they are stored and how policies roll them.
//!
//! [`rollover`] decides what is due for each zone and drives it, whichever storage its keys are in: [`local`] for zone
//! files and secondary zones (state store or a key directory), [`database`] for the `cryptokeys` rows of database zones.

pub mod database;
pub mod local;
pub mod rollover;
