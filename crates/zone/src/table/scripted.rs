//! The zones of a table that have LUA records.

use super::shard_values::ShardValues;
use super::{NO_SOURCE, Shard, ZoneTable};
use crate::zone::Zone;
use std::sync::{Arc, Weak};

/// The zones with LUA records, kept from one call to the next.
#[derive(Default)]
pub struct ScriptedZones {
    /// Weak: old versions of zones are not kept alive.
    shards: ShardValues<Vec<Weak<Zone>>>,
}

impl ScriptedZones {
    /// Returns the zones of a table that have LUA records, or had some; shards unchanged since the last call are not searched.
    pub fn over(&mut self, table: &ZoneTable) -> Vec<Arc<Zone>> {
        let scripted = self.shards.follow(table, scripted_in);
        scripted.flatten().filter_map(Weak::upgrade).collect()
    }
}

fn scripted_in(shard: &Shard) -> Vec<Weak<Zone>> {
    let zones = shard.slots.iter().filter_map(|slot| slot.zone.as_ref());
    zones
        .filter(|zone| zone.has_scripts() && zone.rank() != NO_SOURCE)
        .map(Arc::downgrade)
        .collect()
}
