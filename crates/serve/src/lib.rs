//! Listeners, the pipeline from packet to packet, limits.
//!
//! `listen` binds (before privileges are dropped), `udp` and `tcp` run what was bound. They know
//! nothing about answers: they call a [`udp::BatchHandler`] or a [`tcp::StreamHandler`]. `pipeline` answers,
//! `live` takes over the questions for zones that are looked up in a backend, `signing` those whose signatures have to be
//! made, `recursor` those for names that no zone here has, `alias` those for
//! ALIAS records whose targets are elsewhere. `zone_requests` decides transfers (`transfers`), NOTIFY and UPDATE
//! (`update`). `security_poll` asks whether this version has known problems. `outgoing` asks primaries and notifies
//! secondaries.

#![deny(unsafe_code)]

mod access;
pub mod alias;
pub mod dnstap;
pub mod listen;
pub mod live;
pub mod outgoing;
pub mod pipeline;
pub mod query_log;
pub mod recursor;
pub mod request;
pub mod security_poll;
mod signing;
mod sys;
pub mod tap;
pub mod tcp;
pub mod transfers;
pub mod udp;
pub mod update;
pub mod zone_requests;

pub use sys::raise_descriptor_limit;
