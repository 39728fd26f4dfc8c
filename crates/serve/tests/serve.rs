//! Tests of the listeners and of the path from request to reply. All modules link into one binary.

mod conformance;
mod cookies;
mod keepalive;
mod live;
mod loopback;
mod notify;
mod query_keys;
mod rate_limit;
mod request_fuzz;
mod requests;
mod signing;
mod tcp;
mod transfers;
mod tsig;
mod udp;
