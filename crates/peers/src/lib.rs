//! Exchange of zones with other name servers: a folder for each feature, with its state machine and its sockets.
//!
//! ```text
//! zone_requests  decides requests other than queries: transfers, NOTIFY, UPDATE
//! transfer_out   transfers to secondaries: access, the version to send, limits; `encode` makes the messages
//! transfer_in    transfers from primaries: requests, and the reader of replies
//! secondary      secondary zones: refresh, transfer, expiry, storage
//! primaries      queries to primaries for serials and transfers, and autoprimaries
//! notify         NOTIFY to secondaries, and NOTIFY received
//! update         DNS UPDATE: requests, queues, forwarding to a primary
//! connections    TCP, TLS and QUIC connections to other servers
//! parent         DS records at parents
//! security_poll  whether this version has known problems
//! ```
//! `transfer_in`, `transfer_out::encode`, `update` without its requests and `notify::pending` have neither sockets nor a clock.

#![forbid(unsafe_code)]

pub mod connections;
pub mod notify;
pub mod parent;
pub mod primaries;
pub mod secondary;
pub mod security_poll;
pub mod transfer_in;
pub mod transfer_out;
pub mod update;
pub mod zone_requests;
