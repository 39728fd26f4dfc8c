//! DNS messages: requests as a server needs them ([`Query`]), arbitrary messages with all sections ([`Message`]), and
//! two writers: [`MessageWriter`] for any message, [`BulkWriter`] for zone transfers.
//!
//! [`Query::parse`] reads the header, the question and the OPT record (RFC 6891), and skips all other records with
//! bounds checks. It never allocates, and its cost is linear in the packet size: names of other records are skipped,
//! not expanded, so compression cannot multiply work.

mod bulk;
mod client_subnet;
mod edns;
pub mod extended_error;
mod opt;
mod query;
mod reader;
mod writer;

pub use bulk::{BulkWriter, WrittenOwner};
pub use client_subnet::ClientSubnet;
pub use edns::{Edns, KeepaliveOption, ReplyCookie, ReplyOptions};
pub use opt::{OptRecord, PADDING_BLOCK, pad_reply};
pub use query::{Malformed, Query, QueryBuf};
pub use reader::{Message, MessageError, MessageQuestion, MessageRecords, RecordView};
pub use writer::{
    MAX_POINTER, Mark, MessageFull, MessageSection, MessageWriter, OwnerForm, WrittenName,
};

/// Octets of the message header.
pub const HEADER: usize = 12;
/// Octets of an OPT record without options.
pub const OPT_FIXED: usize = 11;

const QR: u8 = 0x80;
const AA: u8 = 0x04;
const TC: u8 = 0x02;
/// RD (recursion desired) in the third octet of the header.
pub const RD: u8 = 0x01;

/// Returns the octets that the name at `at` takes in the packet; a compression pointer ends it.
fn skip_name(packet: &[u8], at: usize) -> Option<usize> {
    let mut read = at;
    loop {
        match *packet.get(read)? {
            0 => return Some(read + 1 - at),
            len @ 1..=63 => read += 1 + len as usize,
            0xc0..=0xff => {
                let low = *packet.get(read + 1)?;
                let target = ((packet[read] & 0x3f) as usize) << 8 | low as usize;
                return (target < at).then_some(read + 2 - at);
            }
            _ => return None,
        }
        if read - at >= crate::name::MAX_NAME {
            return None;
        }
    }
}

/// The flags of a reply that are not copied from the request.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplyFlags {
    /// The AA (authoritative answer) bit.
    pub aa: bool,
    /// The TC (truncated) bit.
    pub tc: bool,
    /// The low four bits of the response code.
    pub rcode: u8,
}

/// Writes the header of a reply: ID, opcode and RD from the request (RFC 1035 section 4.1.1), CD clear as an
/// authoritative server should (RFC 4035 section 3.1.6), and the given counts.
#[inline]
pub fn write_reply_header(request: &[u8], reply: &mut [u8], flags: ReplyFlags, counts: [u16; 4]) {
    let Some(reply) = reply.first_chunk_mut::<HEADER>() else {
        return;
    };
    let Some(request) = request.first_chunk::<HEADER>() else {
        return;
    };
    reply[0] = request[0];
    reply[1] = request[1];
    reply[2] = QR
        | request[2] & (0x78 | RD)
        | if flags.aa { AA } else { 0 }
        | if flags.tc { TC } else { 0 };
    reply[3] = flags.rcode & 0x0f;
    for (i, count) in counts.iter().enumerate() {
        reply[4 + 2 * i..6 + 2 * i].copy_from_slice(&count.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
