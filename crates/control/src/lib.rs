//! HTTP status page, metrics, control socket, and the operations on zones.

#![forbid(unsafe_code)]

pub mod api_keys;
pub mod operations;
mod secret_text;
pub mod socket;
pub mod web;
