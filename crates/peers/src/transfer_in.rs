//! Transfers of zones from primaries, without sockets and without a clock: queries, and the readers of responses.
//!
//! ```text
//! question   the SOA, AXFR, IXFR and NOTIFY messages that a secondary or primary sends
//! reply      the checks that every response must pass; the response to an SOA query
//! records    the records of one message, expanded without an allocation for each
//! stream     the messages of a transfer: a whole zone (RFC 5936), differences (RFC 1995), or neither
//! memory     what all transfers together may hold
//! ```
//! A peer is hostile until its last message was read: a transfer is accepted as a whole or not at all, whatever
//! it sends costs no more memory than the limit of its zone, and no message makes the reader wait forever.

mod chain;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod memory;
mod question;
mod records;
mod reply;
mod stream;

pub use failure::TransferFailure;
pub use memory::{MemoryRefused, MemoryShare, TransferMemory};
pub use question::{SentRequest, notify_message};
pub use reply::{SoaReply, read_name_servers, read_notify_reply, read_soa_reply};
pub use stream::{TransferAnswer, TransferReader, TransferStep, WholeZone};
