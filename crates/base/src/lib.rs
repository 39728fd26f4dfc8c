//! The lowest layer: small general mechanisms that every other crate uses and none defines again.
//!
//! No DNS, no tokio. A part moves here when a second crate needs it.

#![forbid(unsafe_code)]

pub mod calendar;
pub mod file;
pub mod memory;
pub mod networks;
pub mod panics;
pub mod sandbox;
pub mod secret;
pub mod sync;
pub mod text;
pub mod time;
pub mod worker;
