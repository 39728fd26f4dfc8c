//! Administration of a running server over HTTP beyond what PowerDNS has: API keys with rights, the audit log.

mod api_keys;
mod audit;
mod client;
