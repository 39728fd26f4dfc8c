//! Tests of the listeners and of the path from request to reply. All modules link into one binary.

mod conformance;
mod cookies;
mod keepalive;
mod live;
#[expect(dead_code, reason = "the tests of peers use the rest")]
mod loopback;
mod query_keys;
mod rate_limit;
mod repeated;
mod request_fuzz;
mod requests;
mod signing;
mod tcp;
mod tsig;
mod udp;
