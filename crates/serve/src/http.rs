//! Shared by all HTTP listeners (the API, DNS over HTTPS): a memory budget for bodies and
//! replies, and a guard against clients that stall.

mod memory;
mod stall;

pub use memory::{BodyMemory, Held, HeldBody};
pub use stall::StallGuard;
