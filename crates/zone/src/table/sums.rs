//! Totals over the zones of a table, for status output and metrics.

use super::shard_values::ShardValues;
use super::{NO_SOURCE, Shard, ZoneTable};
use nameward_wire::NameBuf;

/// Maximum number of zones without contents that are listed by name.
const NAMED_MAX: usize = 5;

/// Totals over the zones of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZoneSums {
    /// All zones.
    pub zones: usize,
    /// Zones that have no contents yet, or none that can be served.
    pub not_ready: usize,
    /// Zones in the table that are answered with signatures. Whether a looked-up zone has keys is not known here.
    pub signed: usize,
    /// The names of the first few zones that are not ready.
    pub not_ready_names: Vec<NameBuf>,
    /// Zones served by the source of each rank, sorted by rank.
    pub by_rank: Vec<RankSums>,
}

/// Totals over the zones of one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RankSums {
    /// Rank of the source.
    pub rank: u16,
    /// Number of zones it serves.
    pub zones: usize,
    /// Number of these zones that have no data to serve.
    pub not_ready: usize,
}

impl ZoneSums {
    fn from_shard(shard: &Shard) -> Self {
        let mut sums = ZoneSums::default();
        let zones = shard.slots.iter().filter_map(|slot| slot.zone.as_ref());
        for zone in zones.filter(|zone| zone.rank() != NO_SOURCE) {
            sums.zones += 1;
            sums.signed += usize::from(zone.signing().is_signed());
            sums.add_rank(RankSums {
                rank: zone.rank(),
                zones: 1,
                not_ready: usize::from(!zone.is_ready()),
            });
            if !zone.is_ready() {
                sums.not_ready += 1;
                if sums.not_ready_names.len() < NAMED_MAX {
                    sums.not_ready_names.push(zone.id().into());
                }
            }
        }
        sums
    }

    fn add_rank(&mut self, other: RankSums) {
        match self
            .by_rank
            .binary_search_by_key(&other.rank, |own| own.rank)
        {
            Ok(at) => {
                self.by_rank[at].zones += other.zones;
                self.by_rank[at].not_ready += other.not_ready;
            }
            Err(at) => self.by_rank.insert(at, other),
        }
    }

    fn add(&mut self, other: &ZoneSums) {
        self.zones += other.zones;
        self.not_ready += other.not_ready;
        self.signed += other.signed;
        let room = NAMED_MAX - self.not_ready_names.len();
        let names = other.not_ready_names.iter().take(room);
        self.not_ready_names.extend(names);
        for rank in &other.by_rank {
            self.add_rank(*rank);
        }
    }

    /// Returns the number of zones that the source with a rank serves.
    pub fn by_rank(&self, rank: u16) -> usize {
        self.rank(rank).map_or(0, |sums| sums.zones)
    }

    /// Checks whether the source with a rank serves zones, and none of them has data.
    pub fn is_rank_lost(&self, rank: u16) -> bool {
        let sums = self.rank(rank);
        sums.is_some_and(|sums| sums.zones > 0 && sums.not_ready == sums.zones)
    }

    fn rank(&self, rank: u16) -> Option<&RankSums> {
        self.by_rank.iter().find(|sums| sums.rank == rank)
    }
}

/// Cached totals, reused from one call to the next.
#[derive(Default)]
pub struct TableSums {
    shards: ShardValues<ZoneSums>,
}

impl TableSums {
    /// Returns the totals over a table; shards unchanged since the last call are not recounted.
    pub fn over(&mut self, table: &ZoneTable) -> ZoneSums {
        let mut all = ZoneSums::default();
        for sums in self.shards.follow(table, ZoneSums::from_shard) {
            all.add(sums);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Zone;
    use std::sync::Arc;

    fn stub(name: &str, rank: u16) -> Arc<Zone> {
        let name: NameBuf = name.parse().unwrap();
        let mut zone = Zone::not_ready(name.as_name());
        zone.set_rank(rank);
        Arc::new(zone)
    }

    #[test]
    fn sums_follow_a_table_that_changes() {
        let (mut sums, mut table) = (TableSums::default(), ZoneTable::default());
        assert_eq!(sums.over(&table), ZoneSums::default());
        for number in 0..1000 {
            table.insert(stub(&format!("z{number}.test."), 1 + number % 2));
        }
        let over = sums.over(&table);
        assert_eq!((over.zones, over.not_ready, over.signed), (1000, 1000, 0));
        let ranks: Vec<_> = over
            .by_rank
            .iter()
            .map(|one| (one.rank, one.zones))
            .collect();
        assert_eq!(ranks, [(1, 500), (2, 500)]);
        assert!(over.is_rank_lost(1) && !over.is_rank_lost(3));
        assert_eq!(over.not_ready_names.len(), NAMED_MAX);
        // An older version coexists with the new one, as a reader would keep it.
        let before = table.clone();
        let gone: NameBuf = "z7.test.".parse().unwrap();
        assert!(table.remove(gone.as_name()));
        assert_eq!(sums.over(&table).zones, 999);
        assert_eq!(sums.over(&table).by_rank(2), 499);
        assert_eq!(sums.over(&before).zones, 1000);
        assert_eq!(sums.over(&table), TableSums::default().over(&table));
    }
}
