//! Why a transfer is rejected, worded for the log and for `nameward zone status`.

use nameward_dnssec::tsig::TsigFailure;
use nameward_wire::message::MessageError;
use nameward_wire::rdata::RdataError;
use nameward_wire::{Class, Type, rcode_name};
use nameward_zone::Serial;

/// Why a primary's response is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferFailure {
    /// A message is malformed.
    #[error("malformed message from the primary: {0}")]
    Message(#[from] MessageError),
    /// The data of a record is malformed.
    #[error("malformed {0} record: {1}")]
    Rdata(Type, RdataError),
    /// The message has another ID than the query.
    #[error("the response ID does not match the query")]
    WrongId,
    /// The message is a request, or a response to another kind of request.
    #[error("the message is not a response to the query")]
    NotReply,
    /// The message has another question.
    #[error("the response does not match the question")]
    WrongQuestion,
    /// The primary returned an error.
    #[error("the primary answered {}", rcode_name(*.0))]
    Code(u8),
    /// The primary is not authoritative for the zone.
    #[error("the primary is not authoritative for the zone")]
    NotAuthoritative,
    /// The message is truncated although it came over TCP.
    #[error("the response is truncated")]
    Truncated,
    /// The response has no SOA of the zone.
    #[error("the response has no SOA record for the zone")]
    NoSoa,
    /// A transfer starts with something other than the SOA (RFC 5936 section 2.2).
    #[error("the transfer starts with {0} instead of the zone's SOA record")]
    FirstNotSoa(Type),
    /// A transfer ends with another SOA than it started with.
    #[error(
        "the transfer starts with serial {first} but ends with a different SOA record, serial {last}"
    )]
    LastSoaDiffers {
        /// The serial of the first SOA.
        first: Serial,
        /// The serial of the last one.
        last: Serial,
    },
    /// There is an SOA at a name other than the apex.
    #[error("the transfer has an SOA record at {0}, which is not the apex")]
    StraySoa(String),
    /// Records follow the last SOA.
    #[error("records after the final SOA record")]
    BehindEnd,
    /// A record is not at or below the apex.
    #[error("the transfer has an out-of-zone record at {0}")]
    OutOfZone(String),
    /// A record has a class other than IN.
    #[error("the transfer has a record with class {0}")]
    WrongClass(Class),
    /// A record has a type that is not allowed in a zone.
    #[error("the transfer has a record of type {0}, which is not allowed in a zone")]
    MetaType(Type),
    /// Differences do not start at our version, or do not follow each other.
    #[error("the next difference starts at serial {found} instead of {expected}")]
    BrokenChain {
        /// The serial that a difference had to start with.
        expected: Serial,
        /// The serial that it starts with.
        found: Serial,
    },
    /// A difference does not lead to a newer serial.
    #[error("a difference goes backwards, from serial {from} to {to}")]
    Backward {
        /// The serial before.
        from: Serial,
        /// The serial after.
        to: Serial,
    },
    /// The zone exceeds its memory limit.
    #[error("the zone exceeds {} MiB (transfer_size_max_mb)", .0 >> 20)]
    TooLarge(u64),
    /// The system has no memory for the zone.
    #[error("out of memory")]
    NoMemory,
    /// Too many consecutive messages have no records.
    #[error("the primary sends empty messages")]
    EmptyMessages,
    /// The stream ends before the transfer does.
    #[error("the transfer ended prematurely after {0} records")]
    Short(u64),
    /// A signature is missing or invalid.
    #[error("{0}")]
    Tsig(#[from] TsigFailure),
    /// The records are not a valid zone.
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
