//! Messages of transfers to secondaries (AXFR of RFC 5936, IXFR of RFC 1995), without sockets and without a clock.
//!
//! A transfer sends one version of a zone, message by message as the client reads them: each is packed into the room
//! it is given, and only a position is kept between two messages, not records. A record that does not fit into a
//! message of its own ends the transfer with an error that names it.

mod axfr;
mod condense;
mod ixfr;
mod progress;
mod signed;
mod unsigned;

pub use axfr::AxfrMessages;
pub use condense::condense;
pub use ixfr::IxfrMessages;
pub use signed::{
    CopyDigest, SignedCopy, SignedCopyError, SignedMessages, SignedReady, signed_copy,
};
pub use unsigned::unsigned_copy;

use nameward_wire::message::{
    BulkWriter, MessageFull, OptRecord, Query, QueryBuf, ReplyFlags, WrittenOwner,
};
use nameward_wire::{Name, NameBuf, Rcode, Type};
use nameward_zone::node::flags;
use nameward_zone::{CompressibleNames, Node, Rrset};

/// Flags of names with records that could not be read.
const BROKEN: u8 = flags::BROKEN | flags::BROKEN_ABOVE | flags::BROKEN_HOST;

/// Why a transfer cannot be completed.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutgoingFault {
    #[error("{owner} {rtype}: the record does not fit in a DNS message")]
    TooLarge { owner: Box<NameBuf>, rtype: Type },
    /// A name has records that could not be read from its source.
    #[error("{0} has invalid records")]
    Broken(Box<NameBuf>),
    #[error("the zone has no SOA record")]
    NoSoa,
}

/// The request for a transfer, and the OPT record of its reply.
#[derive(Debug, Clone)]
pub struct TransferRequest {
    query: QueryBuf,
    opt: Option<TransferOpt>,
}

/// The OPT record of a transfer's first message.
#[derive(Debug, Clone)]
struct TransferOpt {
    payload: u16,
    dnssec_ok: bool,
    nsid: Box<[u8]>,
    expire: Option<u32>,
}

impl TransferRequest {
    /// Copies what the messages need from a request. `opt` is the OPT record of the reply, if the request had one.
    pub fn new(query: &Query<'_>, opt: Option<OptRecord<'_>>) -> Self {
        TransferRequest {
            query: QueryBuf::from(query),
            opt: opt.map(|opt| TransferOpt {
                payload: opt.payload,
                dnssec_ok: opt.dnssec_ok,
                nsid: opt.nsid.unwrap_or_default().into(),
                expire: opt.expire,
            }),
        }
    }

    fn opt(&self) -> Option<OptRecord<'_>> {
        let options = *self.query().reply_options;
        self.opt.as_ref().map(|opt| OptRecord {
            payload: opt.payload,
            dnssec_ok: opt.dnssec_ok,
            compact_ok: false,
            nsid: Some(&opt.nsid[..]).filter(|id| !id.is_empty()),
            error: None,
            expire: opt.expire,
            subnet: None,
            keepalive: options.keepalive,
            cookie: options.cookie.map(|cookie| cookie.octets),
        })
    }

    /// Returns the query.
    pub fn query(&self) -> Query<'_> {
        self.query.as_query()
    }

    /// Returns the OPT record of a message: only the first one needs it (RFC 5936 section 2.2.5), but a client that got a
    /// cookie expects one in every reply (RFC 7873 section 5.3; dig warns).
    fn opt_of(&self, is_first: bool) -> Option<OptRecord<'_>> {
        self.opt().filter(|opt| is_first || opt.cookie.is_some())
    }

    /// Starts a message: the first has the question (RFC 5936 section 2.2.1).
    fn begin<'n, 'b>(
        &self,
        query: &Query<'n>,
        is_first: bool,
        out: &'b mut [u8],
    ) -> Result<BulkWriter<'n, 'b>, MessageFull> {
        let mut writer = if is_first {
            BulkWriter::reply(query, out)?
        } else {
            BulkWriter::without_question(out)?
        };
        writer.reserve(self.opt_of(is_first).map_or(0, |opt| opt.octets()));
        Ok(writer)
    }

    /// Finishes a message and returns its length in octets.
    fn finish(&self, mut writer: BulkWriter<'_, '_>, is_first: bool) -> usize {
        if let Some(opt) = self.opt_of(is_first) {
            // Room was reserved, so it fits.
            let _ = writer.opt(&opt, Rcode::NoError);
        }
        let flags = ReplyFlags {
            // RFC 5936 section 2.2: AA is set in every message.
            aa: true,
            ..ReplyFlags::default()
        };
        writer.finish(self.query().packet(), flags)
    }
}

/// The fields that the records of an RRset share.
#[derive(Clone, Copy)]
struct RecordHead<'n> {
    owner: &'n [u8],
    rtype: Type,
    ttl: u32,
    form: CompressibleNames,
}

impl<'n> RecordHead<'n> {
    fn new(owner: &'n [u8], rtype: Type, ttl: u32) -> Self {
        RecordHead {
            owner,
            rtype,
            ttl,
            form: CompressibleNames::for_type(rtype),
        }
    }

    fn for_rrset(owner: Name<'n>, rrset: Rrset<'_>) -> Self {
        RecordHead {
            owner: owner.as_wire(),
            rtype: rrset.rtype(),
            ttl: rrset.ttl(),
            form: rrset.form(),
        }
    }

    /// Sets the TTL of an RRSIG to that of the covered RRset (RFC 4034 section 3). In memory all RRSIGs of a name
    /// share one.
    fn with_ttl_of_covered(mut self, node: Node<'_>, rdata: &[u8]) -> Self {
        let covered = rdata
            .first_chunk()
            .map(|octets| Type(u16::from_be_bytes(*octets)));
        if let Some(covered) = covered.and_then(|covered| node.rrset(covered)) {
            self.ttl = covered.ttl();
        }
        self
    }

    /// Returns the error for a record that does not fit into a message of its own.
    fn too_large(&self) -> OutgoingFault {
        OutgoingFault::TooLarge {
            owner: Box::new(Name::from_valid_wire(self.owner).into()),
            rtype: self.rtype,
        }
    }

    /// Writes a record, all of it or nothing. `written` is its owner, if the previous record has the same.
    #[inline]
    fn write(
        &self,
        rdata: &'n [u8],
        written: Option<WrittenOwner>,
        writer: &mut BulkWriter<'n, '_>,
    ) -> Result<WrittenOwner, MessageFull> {
        let before = writer.len();
        let result = self.write_parts(rdata, written, writer);
        if result.is_err() {
            writer.take_back(before);
        }
        result
    }

    #[inline]
    fn write_parts(
        &self,
        rdata: &'n [u8],
        written: Option<WrittenOwner>,
        writer: &mut BulkWriter<'n, '_>,
    ) -> Result<WrittenOwner, MessageFull> {
        let owner = writer.owner(self.owner, written)?;
        let length_at = writer.fixed(self.rtype, self.ttl)?;
        match self.form {
            CompressibleNames::Opaque => writer.bytes(rdata)?,
            CompressibleNames::NameAt(offset) => {
                let (head, name) = rdata.split_at(usize::from(offset).min(rdata.len()));
                writer.bytes(head)?;
                write_name(name, writer)?;
            }
            CompressibleNames::TwoNames => match Name::split_from(rdata) {
                Ok((first, rest)) => {
                    writer.name(first.as_wire())?;
                    write_name(rest, writer)?;
                }
                Err(_) => writer.bytes(rdata)?,
            },
        }
        writer.end_record(length_at)?;
        Ok(owner)
    }
}

/// Writes data that starts with a name.
fn write_name<'n>(data: &'n [u8], writer: &mut BulkWriter<'n, '_>) -> Result<(), MessageFull> {
    match Name::split_from(data) {
        Ok((name, rest)) => {
            writer.name(name.as_wire())?;
            writer.bytes(rest)
        }
        // Zone data was checked when it was read; anything else is sent as it is.
        Err(_) => writer.bytes(data),
    }
}

#[cfg(test)]
mod tests;
