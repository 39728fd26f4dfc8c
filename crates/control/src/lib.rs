//! HTTP status page, metrics, control socket, and what an operator does to zones.

pub mod operations;
pub mod socket;
pub mod web;
