//! Resolvers behind the server: questions that are handed to them, and the poll of the security status.

#[path = "../status/page.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of the page, which use more of it"
)]
mod page;

mod browser;
mod hand_off;
mod hostile;
mod notify;
mod reload;
mod scripted;
mod security_poll;
mod unbound;
