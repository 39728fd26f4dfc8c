//! The packet cache: complete responses, for queries that are equal in everything the response depends on.
//!
//! | of the query | in the cache |
//! |---|---|
//! | view, name (case-insensitive), type, DO, EDNS or not, maximum response size, transport | the key |
//! | ID, RD, letter case of the name | copied from the query at each hit |
//! | TSIG (RFC 8945) | responses are cached unsigned, and signed for each client |
//! | COOKIE (RFC 7873), edns-tcp-keepalive (RFC 7828) | whether there is one is in the key; that of the reply is patched in at each hit |
//! | client subnet (RFC 7871) | its length is in the key; it is patched in at each hit: answers that depend on it are not cached |
//! | unknown options | do not affect the response and are ignored |
//! | anything else: other opcodes and classes, NSID, EXPIRE, records other than OPT and TSIG | bypasses the cache |
//!
//! A response is cached only if all of it came from one live zone and none of it depends on the letter case of the
//! query (DNAME), so only the patched fields differ. It is valid while the zone has the same generation.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::CachedName;
use crate::request::ViewId;
use nameward_answer::{Medium, Reply};
use nameward_wire::message::{HEADER, Query};
use nameward_wire::name::same_octets;
use nameward_wire::{Class, Name, Opcode, Type};
use nameward_zone::{Live, NameKey};
use quick_cache::{Equivalent, Weighter, sync::Cache};

/// Bytes that count as one entry: a larger one counts as several.
const ENTRY_BYTES: usize = 512;
/// Larger responses are not cached.
const ANSWER_MAX: usize = 4096;
/// RD in the third octet of the header: the only flag that a response copies from its query.
const RD: u8 = 0x01;

/// The properties of a query that its response depends on, besides the name.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) struct Fit {
    view: u16,
    qtype: u16,
    limit: u16,
    edns: bool,
    dnssec_ok: bool,
    compact_ok: bool,
    cookie: bool,
    keepalive: bool,
    /// 0 without a client subnet, otherwise the octets of its address and one.
    subnet: u8,
    stream: bool,
}

impl Fit {
    /// Returns the properties that the response to this query depends on; `None` if it is not cacheable.
    pub(crate) fn from_query(
        query: &Query<'_>,
        view: ViewId,
        limit: usize,
        medium: Medium,
    ) -> Option<Fit> {
        let packet = query.packet();
        let count = |at: usize| u32::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        let (answers, additional) = (count(6) + count(8), count(10));
        let is_plain = query.opcode == Opcode::QUERY
            && query.qclass == Class::IN
            && (!query.qtype.is_meta() || query.qtype == Type::ANY)
            && answers == 0
            && additional == u32::from(query.edns.is_some()) + u32::from(query.is_signed);
        let options = query.reply_options;
        let edns_is_plain = query
            .edns
            .is_none_or(|edns| edns.version == 0 && !edns.nsid && !edns.expire);
        (is_plain && edns_is_plain).then_some(Fit {
            view: view.0,
            qtype: query.qtype.0,
            limit: limit.min(u16::MAX.into()) as u16,
            edns: query.edns.is_some(),
            dnssec_ok: query.edns.is_some_and(|edns| edns.dnssec_ok),
            compact_ok: query.edns.is_some_and(|edns| edns.compact_ok),
            cookie: options.cookie.is_some(),
            keepalive: options.keepalive.is_some(),
            subnet: (options.subnet).map_or(0, |subnet| 1 + subnet.address_octets() as u8),
            stream: medium == Medium::Stream,
        })
    }
}

#[derive(PartialEq, Eq)]
struct PacketKey {
    hash: u64,
    fit: Fit,
    name: CachedName,
}

struct BorrowedPacketKey<'a> {
    hash: u64,
    fit: Fit,
    name: &'a [u8],
}

// The name was hashed with a random seed when the query was parsed.
impl Hash for PacketKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hash for BorrowedPacketKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

fn hash_of(key: &NameKey, fit: Fit) -> u64 {
    let flags = u64::from(fit.edns) | u64::from(fit.dnssec_ok) << 1 | u64::from(fit.stream) << 2;
    let flags = flags | u64::from(fit.compact_ok) << 3 | u64::from(fit.cookie) << 4;
    let flags = flags | u64::from(fit.keepalive) << 5 | u64::from(fit.subnet) << 6;
    let view = u64::from(fit.view);
    let fit = u64::from(fit.qtype) | u64::from(fit.limit) << 16 | flags << 32 | view << 48;
    key.hash(key.labels()) ^ fit.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Equivalent<PacketKey> for BorrowedPacketKey<'_> {
    fn equivalent(&self, key: &PacketKey) -> bool {
        self.fit == key.fit && same_octets(self.name, key.name.as_name().as_wire())
    }
}

#[derive(Clone)]
struct CachedPacket(Arc<Answer>);

struct Answer {
    zone: u64,
    generation: u32,
    expires: Instant,
    reply: Reply,
    packet: Box<[u8]>,
}

#[derive(Clone)]
struct PacketWeight;

impl Weighter<PacketKey, CachedPacket> for PacketWeight {
    fn weight(&self, key: &PacketKey, entry: &CachedPacket) -> u64 {
        let bytes = size_of::<PacketKey>()
            + key.name.heap_bytes()
            + size_of::<Answer>()
            + entry.0.packet.len();
        bytes.div_ceil(ENTRY_BYTES) as u64
    }
}

/// The result of a cache look-up.
pub(crate) enum Hit {
    /// The response has been written.
    Answered(Reply),
    Nothing,
    /// Another thread holds the lock of this cache shard.
    Busy,
}

pub(crate) struct PacketCache {
    ttl: Duration,
    answers: Option<Cache<PacketKey, CachedPacket, PacketWeight>>,
}

impl PacketCache {
    pub(crate) fn new(entries: usize, ttl: Duration) -> Self {
        let is_on = entries > 0 && !ttl.is_zero();
        PacketCache {
            ttl,
            answers: is_on.then(|| Cache::with_weighter(entries, entries as u64, PacketWeight)),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.answers.is_some()
    }

    /// Writes the response to a query, if a matching one is cached.
    pub(crate) fn answer(
        &self,
        query: &Query<'_>,
        (key, fit): (&NameKey, Fit),
        live: &Live,
        now: Instant,
        out: &mut [u8],
    ) -> Hit {
        let Some(answers) = &self.answers else {
            return Hit::Nothing;
        };
        let name = key.suffix(key.labels()).as_wire();
        let hash = hash_of(key, fit);
        let answer = match answers.try_get(&BorrowedPacketKey { hash, fit, name }) {
            Ok(Some(CachedPacket(answer))) => answer,
            Ok(None) => return Hit::Nothing,
            Err(_) => return Hit::Busy,
        };
        let is_good = answer.zone == live.number()
            && answer.generation == live.generation()
            && now < answer.expires;
        let Some(out) = out.get_mut(..answer.packet.len()).filter(|_| is_good) else {
            return Hit::Nothing;
        };
        out.copy_from_slice(&answer.packet);
        let request = query.packet();
        out[..2].copy_from_slice(&request[..2]);
        out[2] = out[2] & !RD | request[2] & RD;
        let end = HEADER + name.len();
        out[HEADER..end].copy_from_slice(&request[HEADER..end]);
        patch_options(query, out);
        Hit::Answered(answer.reply)
    }

    /// Caches a response that was built from the zone at this generation; false if it was skipped because the cache
    /// shard is locked.
    pub(crate) fn insert(
        &self,
        (key, fit): (&NameKey, Fit),
        (live, generation): (&Live, u32),
        now: Instant,
        (reply, packet): (Reply, &[u8]),
    ) -> bool {
        let Some(answers) = &self.answers else {
            return true;
        };
        if packet.len() > ANSWER_MAX {
            return true;
        }
        let answer = Answer {
            zone: live.number(),
            generation,
            expires: now + self.ttl,
            reply,
            packet: packet.into(),
        };
        let key = PacketKey {
            hash: hash_of(key, fit),
            fit,
            name: key.suffix(key.labels()).into(),
        };
        answers
            .try_insert(key, CachedPacket(Arc::new(answer)))
            .is_ok()
    }

    /// Drops the entries whose names `matches`; returns their number.
    pub(crate) fn flush(&self, matches: &dyn Fn(Name<'_>) -> bool) -> usize {
        let Some(answers) = &self.answers else {
            return 0;
        };
        let count = Cell::new(0);
        answers.retain(|key, _| {
            let is_match = matches(key.name.as_name());
            count.set(count.get() + usize::from(is_match));
            !is_match
        });
        count.get()
    }

    pub(crate) fn len(&self) -> usize {
        self.answers.as_ref().map_or(0, Cache::len)
    }
}

/// Writes the values of the options that differ between equal queries. The OPT record ends the message, with the COOKIE
/// option as the last one, edns-tcp-keepalive before it, and the client subnet before both.
fn patch_options(query: &Query<'_>, reply: &mut [u8]) {
    let options = query.reply_options;
    let mut end = reply.len();
    if let Some(cookie) = options.cookie
        && let Some(octets) = reply.last_chunk_mut()
    {
        *octets = cookie.octets;
        end = end.saturating_sub(cookie.octets.len() + 4);
    }
    if let Some(timeout) = options.keepalive
        && let Some(octets) = reply[..end].last_chunk_mut()
    {
        *octets = timeout.to_be_bytes();
        end = end.saturating_sub(octets.len() + 4);
    }
    if let Some(subnet) = options.subnet
        && let Some(start) = end.checked_sub(subnet.octets())
    {
        subnet.write(&mut reply[start..end]);
    }
}
