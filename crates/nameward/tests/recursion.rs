//! Resolvers behind the server: questions that are handed to them, and the poll of the security status.

mod browser;
mod hand_off;
mod hostile;
mod notify;
mod reload;
pub mod scripted;
mod security_poll;
mod unbound;
