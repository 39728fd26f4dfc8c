//! A zone's DS RRset, queried from its parent's servers.
//!
//! The servers listed in a policy are queried individually, because a rollover continues only when
//! all have the DS. If a policy lists none, the resolvers of `[recursor]` are queried: their caches
//! lag behind, and a rollover that continues late is safe.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nameward_keys::rollover::driver::KeyDriverHandle;
use nameward_keys::rollover::{ParentAnswer, ParentQuery, QueryParent};
use nameward_wire::message::{Message, MessageSection};
use nameward_wire::{Class, Name, NameBuf, Type, rcode_name};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use nameward_serve::pipeline::ServingState;
use nameward_serve::recursor::{ResolverSettings, Resolvers, UpstreamMessage};

/// Maximum number of zones whose parents are queried in parallel.
const QUERIES_MAX: usize = 32;
/// Maximum number of servers queried per parent.
const SERVERS_MAX: usize = 16;
/// Timeout for the answer of one server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Queries parents on a runtime.
pub struct ParentClient {
    shared: Arc<ServingState>,
    runtime: Handle,
    driver: KeyDriverHandle,
    slots: Arc<Semaphore>,
}

impl ParentClient {
    /// Creates a client that passes answers to the key driver.
    pub fn new(shared: Arc<ServingState>, runtime: Handle, driver: KeyDriverHandle) -> Self {
        ParentClient {
            shared,
            runtime,
            driver,
            slots: Arc::new(Semaphore::new(QUERIES_MAX)),
        }
    }
}

/// Returns a parent's servers, each as a resolver by itself, or else our resolvers; empty if there
/// are none.
fn servers_of(shared: &ServingState, servers: &[SocketAddr]) -> Vec<Arc<Resolvers>> {
    let aliases = shared.aliases();
    let resolvers = aliases.and_then(|aliases| aliases.resolvers());
    if servers.is_empty() {
        resolvers.into_iter().collect()
    } else {
        let servers = servers.iter().take(SERVERS_MAX);
        servers.map(|server| single_resolver(*server)).collect()
    }
}

/// Queries a zone's DS at once, for a waiting operator. Returns the key tags that each server has;
/// `None` for one that did not answer. Empty if there is no server to query.
pub async fn find_ds(
    shared: &ServingState,
    zone: NameBuf,
    servers: &[SocketAddr],
) -> Vec<Option<Vec<u16>>> {
    let tag = |ds: &Vec<u8>| match ds[..] {
        [high, low, ..] => u16::from_be_bytes([high, low]),
        _ => 0,
    };
    let mut answers = Vec::new();
    for server in servers_of(shared, servers) {
        let found = query_ds(&server, zone).await;
        answers.push(found.map(|records| records.iter().map(tag).collect()));
    }
    answers
}

impl QueryParent for ParentClient {
    fn ask(&mut self, query: ParentQuery) {
        let (driver, slots) = (self.driver.clone(), Arc::clone(&self.slots));
        let resolvers = servers_of(&self.shared, &query.servers);
        if resolvers.is_empty() {
            return;
        }
        self.runtime.spawn(async move {
            let _slot = slots.acquire_owned().await;
            let zone = query.zone;
            let mut servers = Vec::with_capacity(resolvers.len());
            for server in &resolvers {
                servers.push(query_ds(server, zone).await);
            }
            driver.answered(ParentAnswer { zone, servers });
        });
    }
}

/// Creates a resolver that queries one server only.
fn single_resolver(server: SocketAddr) -> Arc<Resolvers> {
    Arc::new(Resolvers::new(&ResolverSettings {
        addresses: vec![server],
        timeout: TIMEOUT,
        randomize_case: false,
    }))
}

async fn query_ds(server: &Arc<Resolvers>, zone: NameBuf) -> Option<Vec<Vec<u8>>> {
    // The parent has one delegation for all versions of a zone.
    let name = zone.as_name().zone();
    let query = UpstreamMessage::new(name, Type::DS);
    match server.resolve(query).await {
        Ok(reply) if matches!(reply.rcode(), 0 | 3) => read_ds(name, reply.octets()),
        Ok(reply) => {
            let rcode = rcode_name(reply.rcode() as u8);
            tracing::debug!("zone {zone}: DS query to the parent failed: {rcode}");
            None
        }
        Err(error) => {
            tracing::debug!("zone {zone}: DS query to the parent failed: {error}");
            None
        }
    }
}

/// Reads the DS records of a response. A negative answer is accepted from the parent only, whose
/// SOA it contains: a server of the zone itself answers the same query from the child (RFC 4035
/// section 3.1.4.1).
fn read_ds(zone: Name<'_>, octets: &[u8]) -> Option<Vec<Vec<u8>>> {
    let message = Message::parse(octets).ok()?;
    let (mut found, mut is_of_parent) = (Vec::new(), false);
    for record in message.records() {
        let record = record.ok()?;
        let owner = record.name();
        match (record.section, record.rtype, record.class) {
            (MessageSection::Answer, Type::DS, Class::IN) if owner == zone => {
                found.push(record.raw_data().to_vec());
            }
            (MessageSection::Authority, Type::SOA, Class::IN) => {
                is_of_parent |= zone.is_at_or_below(owner) && owner != zone;
            }
            _ => {}
        }
    }
    (!found.is_empty() || is_of_parent).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a response to a query for the DS of `a.test`, with one record.
    fn reply(section: usize, owner: &[u8], rtype: Type, data: &[u8]) -> Vec<u8> {
        let mut message = vec![0, 1, 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message[section * 2 + 5] = 1;
        message.extend_from_slice(b"\x01a\x04test\0\0\x2b\0\x01");
        message.extend_from_slice(owner);
        message.extend_from_slice(&rtype.0.to_be_bytes());
        message.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        message.extend_from_slice(data);
        message
    }

    #[test]
    fn a_negative_ds_answer_is_accepted_from_the_parent_only() {
        let zone: NameBuf = "a.test.".parse().unwrap();
        let read = |octets: &[u8]| read_ds(zone.as_name(), octets);
        let ds = [0, 7, 13, 2, 1, 2, 3, 4];
        let child = b"\x01a\x04test\0";
        assert_eq!(
            read(&reply(1, child, Type::DS, &ds)),
            Some(vec![ds.to_vec()])
        );
        let soa = [&[0, 0][..], &[0; 20]].concat();
        let parent = b"\x04test\0";
        assert_eq!(read(&reply(2, parent, Type::SOA, &soa)), Some(vec![]));
        assert_eq!(read(&reply(2, child, Type::SOA, &soa)), None);
        // A referral to the zone's own servers proves nothing.
        assert_eq!(read(&reply(2, child, Type::NS, b"\0")), None);
    }
}
