//! The parts that every HTTP listener needs (the API, DNS over HTTPS): memory that bodies and replies take, and clients that stall.

mod memory;
mod stall;

pub use memory::{BodyMemory, Held, HeldBody};
pub use stall::StallGuard;
