//! HTTP status page, metrics and API.

pub mod socket;
pub mod web;
