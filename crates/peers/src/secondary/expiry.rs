//! The expiry times of secondary zones, for answers with the EXPIRE option (RFC 7314).

use crate::secondary::zone::SharedName;
use nameward_base::sync::RwLock;
use nameward_maintain::schedule::Moment;
use nameward_maintain::table::lower_case;
use nameward_wire::Name;
use std::collections::HashMap;

/// The expiry times of zones, written by the refresh thread and read by workers.
#[derive(Debug, Default)]
pub(super) struct ExpiryTimes {
    times: RwLock<HashMap<SharedName, Moment>>,
}

impl ExpiryTimes {
    /// Sets when a zone expires; `None` if it is not served.
    pub(super) fn set(&self, zone: &SharedName, at: Option<Moment>) {
        let mut times = self.times.write();
        match at {
            Some(at) => times.insert(zone.clone(), at),
            None => times.remove(zone),
        };
    }

    /// Returns the seconds until a zone expires.
    pub(super) fn seconds_left(&self, zone: Name<'_>, now: Moment) -> Option<u32> {
        let times = self.times.read();
        let at = times.get(&*lower_case(zone))?;
        let left = at.seconds().saturating_sub(now.seconds());
        Some(u32::try_from(left).unwrap_or(u32::MAX))
    }
}
