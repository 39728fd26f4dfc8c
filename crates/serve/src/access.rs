//! The policy step of a request: the zones as one client may ask them.
//!
//! A zone whose access list does not have the client is there, but not for this client: a question for it is answered
//! REFUSED, and an alias that leads into it ends before it, as at the edge of what we serve. Caches are behind this
//! step, so none of them has to know who asks.

use std::net::IpAddr;

use nameward_answer::Zones;
use nameward_wire::Type;
use nameward_zone::{NameKey, Zone, ZoneTable};

/// The zones of a table, for one client.
#[derive(Clone, Copy)]
pub(crate) struct ClientZones<'t> {
    pub(crate) table: &'t ZoneTable,
    pub(crate) client: IpAddr,
}

impl<'t> ClientZones<'t> {
    /// The zone that answers a question, if the client may ask it.
    #[inline]
    pub(crate) fn find(&self, key: &NameKey, qtype: Type) -> Option<&'t Zone> {
        let found = self.table.match_for(key, qtype)?;
        self.table.allows(found, self.client).then_some(found.zone)
    }

    /// Whether there is a zone for a question, and the client may not ask it.
    pub(crate) fn denies(&self, key: &NameKey, qtype: Type) -> bool {
        let found = self.table.match_for(key, qtype);
        found.is_some_and(|found| !self.table.allows(found, self.client))
    }
}

impl Zones for ClientZones<'_> {
    type View = Zone;

    #[inline]
    fn zone_for(&self, key: &NameKey, qtype: Type) -> Option<&Zone> {
        self.find(key, qtype)
    }
}
