//! Reads the addresses of a target from the reply of a resolver.

use nameward_answer::AliasAddresses;
use nameward_wire::message::{Message, MessageError, MessageSection};
use nameward_wire::{Class, Type};

use crate::recursor::{Unanswered, UpstreamQuestion, UpstreamReply};

/// Addresses of one target that are kept: more than any client can use.
const ADDRESSES_MAX: usize = 256;
/// Bounds of the time for which addresses are kept: a target without a TTL must not be asked for with every question.
const TTL_MIN: u32 = 5;
const TTL_MAX: u32 = 86_400;
/// How long it is good that there are none, where the reply has no SOA (RFC 2308 section 5).
const NEGATIVE_TTL: u32 = 60;

/// Why the addresses of a target are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnresolvedTarget {
    /// No resolver answered.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    /// The resolver answered with a failure.
    #[error("the resolver answers with RCODE {0}")]
    Rcode(u16),
    /// The reply is no DNS message.
    #[error(transparent)]
    Malformed(#[from] MessageError),
}

/// Reads the addresses of a reply, which has some or says that there are none.
pub(crate) fn read_addresses(
    reply: &UpstreamReply,
    question: &UpstreamQuestion,
) -> Result<AliasAddresses, UnresolvedTarget> {
    if !matches!(reply.rcode(), 0 | 3) {
        return Err(UnresolvedTarget::Rcode(reply.rcode()));
    }
    let rtype = question.qtype();
    let message = Message::parse(reply.octets())?;
    let (mut records, mut ttl, mut negative) = (Vec::new(), TTL_MAX, NEGATIVE_TTL);
    for record in message.records() {
        let record = record?;
        if record.class != Class::IN {
            continue;
        }
        match (record.section, record.rtype) {
            // The whole chain is good only as long as its shortest link.
            (MessageSection::Answer, Type::CNAME | Type::DNAME) => ttl = ttl.min(record.ttl),
            (MessageSection::Answer, found) if found == rtype => {
                let data = record.raw_data();
                let octets = if rtype == Type::A { 4 } else { 16 };
                if data.len() == octets && records.len() < ADDRESSES_MAX {
                    records.push(data.to_vec());
                    ttl = ttl.min(record.ttl);
                }
            }
            (MessageSection::Authority, Type::SOA) => {
                // RFC 2308 section 5: the lesser of the SOA's TTL and its last field.
                let minimum = record
                    .raw_data()
                    .last_chunk()
                    .map(|last| u32::from_be_bytes(*last));
                negative = record.ttl.min(minimum.unwrap_or(NEGATIVE_TTL));
            }
            _ => {}
        }
    }
    records.sort_unstable();
    records.dedup();
    if records.is_empty() {
        ttl = ttl.min(negative);
    }
    Ok(AliasAddresses {
        target: question.name().into(),
        rtype,
        ttl: ttl.clamp(TTL_MIN, TTL_MAX),
        records,
    })
}
