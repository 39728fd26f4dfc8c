//! HTTP status page, metrics, control socket, and what an operator does to zones.

#![forbid(unsafe_code)]

pub mod api_keys;
pub mod operations;
pub mod socket;
pub mod web;
