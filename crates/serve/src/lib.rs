//! The network side of the server: listeners, the query pipeline, and its limits.
//!
//! `listen` binds sockets (before privileges are dropped); `udp` and `tcp` serve them. They know
//! nothing about DNS: they call a [`udp::BatchHandler`] or a [`tcp::StreamHandler`]. `pipeline`
//! answers. It hands over queries that it cannot answer at once: to `live` for zones that are
//! looked up in a backend, to `signing` for signatures that are not cached, to `recursor` for names
//! outside our zones, and to `alias` for ALIAS records whose targets are outside our zones.
//! Transfers, NOTIFY and UPDATE go to a [`request::ZoneRequests`]. `tls` has the certificates of
//! every listener that encrypts.

#![deny(unsafe_code)]

pub mod access;
pub mod alias;
mod client_shares;
pub mod cookies;
pub mod dnstap;
pub mod health_checks;
pub mod http;
pub mod https;
pub mod inherited;
pub mod listen;
pub mod listener;
pub mod live;
pub mod pipeline;
pub mod proxy;
pub mod query_log;
pub mod quic;
pub mod rate_limit;
pub mod recursor;
pub mod request;
mod run_now;
pub mod script_upkeep;
pub mod scripts;
pub mod signing;
mod sys;
pub mod tap;
pub mod tcp;
pub mod tls;
pub mod udp;
pub mod xdp;

pub use sys::{descriptors, give_way, raise_descriptor_limit, seconds_since_1970};
