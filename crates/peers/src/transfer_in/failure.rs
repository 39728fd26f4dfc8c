//! Why a transfer is rejected, worded for the log and for `nameward zone status`.

use nameward_dnssec::tsig::TsigFailure;
use nameward_wire::message::MessageError;
use nameward_wire::rdata::RdataError;
use nameward_wire::{Class, Type, rcode_name};
use nameward_zone::Serial;

/// Why a primary's response is rejected.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferFailure {
    #[error("malformed message from the primary: {0}")]
    Message(#[from] MessageError),
    #[error("malformed {0} record: {1}")]
    Rdata(Type, RdataError),
    #[error("the response ID does not match the query")]
    WrongId,
    /// The message is a request, or a response to another kind of request.
    #[error("the message is not a response to the query")]
    NotReply,
    #[error("the response does not match the question")]
    WrongQuestion,
    #[error("the primary answered {}", rcode_name(*.0))]
    Code(u8),
    #[error("the primary is not authoritative for the zone")]
    NotAuthoritative,
    /// The message is truncated although it came over TCP.
    #[error("the response is truncated")]
    Truncated,
    #[error("the response has no SOA record for the zone")]
    NoSoa,
    /// A transfer starts with something other than the SOA (RFC 5936 section 2.2).
    #[error("the transfer starts with {0} instead of the zone's SOA record")]
    FirstNotSoa(Type),
    #[error(
        "the transfer starts with serial {first} but ends with a different SOA record, serial {last}"
    )]
    LastSoaDiffers { first: Serial, last: Serial },
    #[error("the transfer has an SOA record at {0}, which is not the apex")]
    StraySoa(String),
    #[error("records after the final SOA record")]
    BehindEnd,
    #[error("the transfer has an out-of-zone record at {0}")]
    OutOfZone(String),
    #[error("the transfer has a record with class {0}")]
    WrongClass(Class),
    #[error("the transfer has a record of type {0}, which is not allowed in a zone")]
    MetaType(Type),
    /// Differences do not start at our version, or do not follow each other.
    #[error("the next difference starts at serial {found} instead of {expected}")]
    BrokenChain { expected: Serial, found: Serial },
    #[error("a difference goes backwards, from serial {from} to {to}")]
    Backward { from: Serial, to: Serial },
    #[error("the zone exceeds {} MiB (transfer_size_max_mb)", .0 >> 20)]
    TooLarge(u64),
    #[error("out of memory")]
    NoMemory,
    /// Too many consecutive messages have no records.
    #[error("the primary sends empty messages")]
    EmptyMessages,
    #[error("the transfer ended prematurely after {0} records")]
    Short(u64),
    /// A signature is missing or invalid.
    #[error("{0}")]
    Tsig(#[from] TsigFailure),
    #[error("invalid zone: {0}")]
    Invalid(String),
}

impl TransferFailure {
    /// Checks whether a datagram is ignored because anyone may have sent it: the genuine response may still
    /// arrive.
    pub fn is_forgeable(&self) -> bool {
        matches!(
            self,
            TransferFailure::Message(_)
                | TransferFailure::WrongId
                | TransferFailure::NotReply
                | TransferFailure::WrongQuestion
        )
    }
}
