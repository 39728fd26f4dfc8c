//! For tests only: a loopback server, a wire client, real peers.
//!
//! [`wire`] is a DNS client that shares no code with the server. [`conformance`] reads and runs the
//! text files of `tests/conformance`.

#![forbid(unsafe_code)]

pub mod conformance;
pub mod databases;
pub mod differential;
mod failure;
pub mod mesh;
mod missing;
pub mod peers;
pub mod server;
pub mod validator;
pub mod wire;

pub use failure::TestFailure;
pub use missing::require;
pub use server::{Setup, StartFailure, TestServer};
