//! Tests of the readers of other servers' configurations. All modules link into one binary.

mod bind;
mod bind_fuzz;
mod moving_fuzz;
