//! Resolvers behind the server: forwarded queries, and the poll of the security status.

mod browser;
mod hand_off;
mod hostile;
mod notify;
mod reload;
pub mod scripted;
mod security_poll;
mod unbound;
