//! Administration of a running server over HTTP beyond the API of PowerDNS: API keys with permissions, the audit log,
//! TLS, commands on a remote server.

mod api_keys;
mod audit;
pub mod client;
mod conditional;
mod events;
mod hostile;
mod long_list;
mod openapi;
mod remote;
pub mod tls;
mod views;
mod zones;
