//! Reads a target's addresses, or the records that a script needs, from a resolver's response.

use nameward_answer::AliasAddresses;
use nameward_wire::message::{Message, MessageError, MessageSection};
use nameward_wire::{Class, Type, rcode_name, rdata};

use crate::recursor::{Unanswered, UpstreamMessage, UpstreamReply};

/// Maximum number of addresses cached per target: more than any client can use.
const ADDRESSES_MAX: usize = 256;
/// Limits for the time that addresses are cached: a target with a TTL of 0 must not be resolved for every query.
const TTL_MIN: u32 = 5;
const TTL_MAX: u32 = 86_400;
/// Negative TTL if the response has no SOA (RFC 2308 section 5).
const NEGATIVE_TTL: u32 = 60;

/// Why a target's addresses are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedTarget {
    /// No resolver answered.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    /// The resolver returned an error.
    #[error("the resolver answered {}", rcode_name(*.0 as u8))]
    Rcode(u16),
    /// The response is not a valid DNS message.
    #[error(transparent)]
    Malformed(#[from] MessageError),
}

/// Reads the addresses from a response. A negative response yields no addresses and is not an error.
pub fn read_addresses(
    reply: &UpstreamReply,
    query: &UpstreamMessage,
) -> Result<AliasAddresses, UnresolvedTarget> {
    if !matches!(reply.rcode(), 0 | 3) {
        return Err(UnresolvedTarget::Rcode(reply.rcode()));
    }
    let rtype = query.qtype();
    let message = Message::parse(reply.octets())?;
    let (mut records, mut ttl, mut negative) = (Vec::new(), TTL_MAX, NEGATIVE_TTL);
    for record in message.records() {
        let record = record?;
        if record.class != Class::IN {
            continue;
        }
        match (record.section, record.rtype) {
            (MessageSection::Answer, found) if found == rtype => {
                let mut data = Vec::new();
                if records.len() < ADDRESSES_MAX && record.expand_data(&mut data).is_ok() {
                    // Compressed names may point into the question, whose letter case is random.
                    rdata::canonicalise(rtype, &mut data);
                    records.push(data);
                    ttl = ttl.min(record.ttl);
                }
            }
            // The whole chain is valid only as long as its shortest link.
            (MessageSection::Answer, Type::CNAME | Type::DNAME) => ttl = ttl.min(record.ttl),
            (MessageSection::Authority, Type::SOA) => {
                // RFC 2308 section 5: the lesser of the SOA's TTL and its MINIMUM field.
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
        target: query.name().into(),
        rtype,
        ttl: ttl.clamp(TTL_MIN, TTL_MAX),
        records,
        // A response without the option is valid for all clients (RFC 7871 section 7.3).
        client_bits: query.has_subnet().then(|| reply.scope().unwrap_or(0)),
    })
}
