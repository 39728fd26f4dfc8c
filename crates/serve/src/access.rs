//! Access control for queries: the zones that one client is allowed to query, in its view.
//!
//! A zone whose access list does not include the client exists, but not for that client: a query for it gets REFUSED,
//! and a CNAME chain that leads into it ends there, as at the edge of what we serve. Caches are behind this step, so
//! they do not depend on the client.

use nameward_answer::{EffectiveClient, PreparedAddresses, Zones};
use nameward_steering::pools::{PreparedPools, pool_name};
use nameward_wire::Type;
use nameward_wire::message::Query;
use nameward_zone::{AccessClient, NameKey, ViewId, Zone, ZoneMatch, ZoneTable};

use crate::scripts::to_pool_client;
use std::sync::Arc;

/// A zone table as one client sees it.
#[derive(Clone, Copy)]
pub struct ClientZones<'t> {
    /// The published zones.
    pub table: &'t ZoneTable,
    /// The client, for access lists.
    pub client: AccessClient<'t>,
    /// The view from which it is answered.
    pub view: ViewId,
    /// The answers of pools, if LUA records may name them.
    pub pools: Option<&'t PreparedPools>,
}

impl<'t> ClientZones<'t> {
    /// Returns the zone that answers a query, if the client is allowed to query it.
    #[inline]
    pub fn find(&self, key: &NameKey, qtype: Type) -> Option<&'t Arc<Zone>> {
        let found = self.matching(key, qtype)?;
        self.allows(found).then_some(found.zone)
    }

    /// Returns the zone of the client's view that matches a query.
    #[inline]
    pub fn matching(&self, key: &NameKey, qtype: Type) -> Option<ZoneMatch<'t>> {
        if self.view == ViewId::DEFAULT {
            self.table.match_for(key, qtype)
        } else {
            self.table.match_in(self.view, key, qtype)
        }
    }

    /// Checks whether a zone matches the query but the client is not allowed to query it.
    pub fn denies(&self, key: &NameKey, qtype: Type) -> bool {
        let found = self.matching(key, qtype);
        found.is_some_and(|found| !self.allows(found))
    }

    /// Checks whether the client is allowed to query a zone.
    #[inline]
    pub fn allows(&self, found: ZoneMatch<'_>) -> bool {
        self.table.allows(found, &self.client)
    }
}

impl Zones for ClientZones<'_> {
    type View = Zone;

    #[inline]
    fn zone_for(&self, key: &NameKey, qtype: Type) -> Option<&Zone> {
        self.find(key, qtype).map(|zone| &**zone)
    }

    /// Chooses from a pool. A record that names no pool, or one that fails, is left to [`crate::scripts`], which reports it.
    fn prepared(&self, script: &[u8], query: &Query<'_>) -> Option<PreparedAddresses<'_>> {
        let (rtype, name) = pool_name(script)?;
        let client = EffectiveClient::new(query, self.client.address);
        let choice = self.pools?.choose(name, rtype, to_pool_client(client))?;
        Some(PreparedAddresses {
            octets: choice.records?.octets,
            client_bits: choice.bits,
        })
    }
}
