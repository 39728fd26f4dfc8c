//! Tests of the listener.

mod time_limits;
