//! For tests only: a loopback server, a wire client, real peers.

pub mod peers;
pub mod server;

pub use server::{Setup, StartFailure, TestServer};
