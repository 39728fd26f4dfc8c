//! How long an HTTP cache may keep a response (RFC 8484 section 5.1).

use nameward_wire::message::{Message, MessageSection};
use nameward_wire::{Rcode, Type};

/// Returns the seconds for which a response is fresh: the smallest TTL of its answer, or that of a negative answer (RFC 2308
/// section 5: the lesser of the TTL and the last field of the SOA record). 0 if it must not be cached.
pub fn seconds(response: &[u8]) -> u32 {
    let Ok(message) = Message::parse(response) else {
        return 0;
    };
    let is_cached = [Rcode::NoError as u8, Rcode::NxDomain as u8].contains(&message.rcode());
    if !is_cached || message.is_truncated() {
        return 0;
    }
    let (mut answer, mut authority) = (None, None);
    let least = |so_far: Option<u32>, ttl: u32| Some(so_far.map_or(ttl, |least| least.min(ttl)));
    for record in message.records() {
        let Ok(record) = record else {
            return 0;
        };
        match record.section {
            MessageSection::Answer => answer = least(answer, record.ttl),
            MessageSection::Authority if record.rtype == Type::SOA => {
                let minimum = record.raw_data().last_chunk().copied();
                let minimum = minimum.map_or(0, u32::from_be_bytes);
                authority = least(authority, record.ttl.min(minimum));
            }
            MessageSection::Authority => authority = least(authority, record.ttl),
            _ => {}
        }
    }
    answer.or(authority).unwrap_or(0)
}
