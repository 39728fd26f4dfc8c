//! Values derived from the shards of a table, and kept while a shard does not change: in a table of a million zones, a change to
//! one zone costs the work for one shard.

use super::{Shard, ZoneTable};
use std::sync::{Arc, Weak};

/// One value for each shard of a table, those of zone versions included.
pub(super) struct ShardValues<T> {
    /// Weak: an old shard is not kept alive for its value, and while the reference exists its address is not reused.
    values: Vec<(Weak<Shard>, T)>,
}

impl<T> Default for ShardValues<T> {
    fn default() -> Self {
        ShardValues { values: Vec::new() }
    }
}

impl<T: Default> ShardValues<T> {
    /// Returns the values for a table; shards unchanged since the last call keep theirs.
    pub(super) fn follow(
        &mut self,
        table: &ZoneTable,
        derive: impl Fn(&Shard) -> T,
    ) -> impl Iterator<Item = &T> {
        let variants = table.variants.iter().flat_map(|table| table.shards.iter());
        let shards: Vec<_> = table.shards.iter().chain(variants).collect();
        self.values.resize_with(shards.len(), Default::default);
        for (shard, (known, value)) in shards.into_iter().zip(&mut self.values) {
            if known.as_ptr() != Arc::as_ptr(shard) {
                *value = derive(shard);
                *known = Arc::downgrade(shard);
            }
        }
        self.values.iter().map(|(_, value)| value)
    }
}
