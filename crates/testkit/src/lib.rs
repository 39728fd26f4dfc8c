//! Test support: a loopback server, a wire client, real peers.
//!
//! [`wire`] is a DNS client that shares no code with the server. [`conformance`] parses and runs
//! the text files in `tests/conformance`.

#![forbid(unsafe_code)]

pub mod certificates;
pub mod conformance;
pub mod databases;
pub mod differential;
mod failure;
mod faulty_system;
pub mod golden;
pub mod mesh;
mod missing;
pub mod mmdb;
pub mod peers;
mod properties;
pub mod server;
mod small_disk;
pub mod validator;
mod wait;
pub mod wire;

pub use failure::TestFailure;
pub use faulty_system::{Fault, FaultySystem};
pub use missing::require;
pub use properties::property_cases;
pub use server::{Setup, StartFailure, TestServer};
pub use small_disk::run_on_small_disk;
pub use wait::{wait_until, wait_with_log};
