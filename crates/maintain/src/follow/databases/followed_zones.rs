//! The zones that a follower has found in its database, by ID.

use nameward_wire::Name;
use nameward_zone::{Live, Zone};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Zones in one piece of the list; an insertion moves half of them.
const PIECE_MAX: usize = 1024;

/// The source of answers for one zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneServing {
    /// Look-ups.
    Lookups,
    /// Contents in memory.
    Memory,
    /// A catalog built from its members: its rows are not read.
    Made,
}

/// The zones of a database that are in the table, or would be if no other source had them.
///
/// There may be a million that are looked up. Their stubs in the table have the ID and the name, so a pointer to each is
/// enough: a map would take three times as much.
#[derive(Default)]
pub(super) struct FollowedZones {
    /// Looked-up zones, by ID, in pieces that are not empty.
    live: Vec<Vec<Arc<Zone>>>,
    others: BTreeMap<i64, FollowedContents>,
}

/// A zone of the database.
#[derive(Clone, Copy)]
pub(super) enum FollowedZone<'a> {
    /// Looked up; its stub in the table.
    Live(&'a Arc<Zone>),
    /// In memory, made of members, or withheld.
    Other(&'a FollowedContents),
}

pub(super) enum FoundZone {
    Live(Arc<Zone>),
    Other(FollowedContents),
}

/// A zone whose contents are not looked up.
pub(super) struct FollowedContents {
    /// Its name in wire format.
    name: Box<[u8]>,
    serving: ZoneServing,
    /// The contents in memory.
    pub(super) contents: ReadContents,
    /// The minimum version, in the change table, of the contents in memory.
    pub(super) version: i64,
    /// It is answered SERVFAIL whatever the database has.
    is_withheld: bool,
}

/// The rows that the contents of a resident zone were built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadContents {
    /// Nothing was read, or it is not trusted.
    None,
    /// Rows with this fingerprint.
    Rows(u64),
    /// Rows that this server has changed since.
    Changed,
}

impl FollowedContents {
    /// Returns a zone of which nothing is in memory yet.
    pub(super) fn new(name: Name<'_>, serving: ZoneServing, is_withheld: bool) -> Self {
        FollowedContents {
            name: name.as_wire().into(),
            serving,
            contents: ReadContents::None,
            version: 0,
            is_withheld,
        }
    }
}

impl<'a> FollowedZone<'a> {
    /// Checks whether its contents are in memory.
    pub(super) fn is_in_memory(self) -> bool {
        self.serving() == ZoneServing::Memory
    }

    pub(super) fn serving(self) -> ZoneServing {
        match self {
            FollowedZone::Live(_) => ZoneServing::Lookups,
            FollowedZone::Other(zone) => zone.serving,
        }
    }

    pub(super) fn is_withheld(self) -> bool {
        matches!(self, FollowedZone::Other(zone) if zone.is_withheld)
    }

    /// Returns the version in the change table that the contents in memory have at least.
    pub(super) fn version(self) -> i64 {
        match self {
            FollowedZone::Live(_) => 0,
            FollowedZone::Other(zone) => zone.version,
        }
    }

    pub(super) fn live(self) -> Option<&'a Live> {
        match self {
            FollowedZone::Live(zone) => zone.live(),
            FollowedZone::Other(_) => None,
        }
    }

    pub(super) fn name(self) -> Name<'a> {
        match self {
            FollowedZone::Live(zone) => zone.id(),
            FollowedZone::Other(zone) => Name::from_wire(&zone.name).unwrap_or(Name::ROOT),
        }
    }
}

impl FollowedZones {
    pub(super) fn len(&self) -> usize {
        self.others.len() + self.live.iter().map(Vec::len).sum::<usize>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.live.is_empty()
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.get(id).is_some()
    }

    pub(super) fn get(&self, id: i64) -> Option<FollowedZone<'_>> {
        if let Ok((piece, at)) = self.place(id) {
            return Some(FollowedZone::Live(&self.live[piece][at]));
        }
        self.others.get(&id).map(FollowedZone::Other)
    }

    /// Returns the state of a zone whose contents are in memory.
    pub(super) fn in_memory(&mut self, id: i64) -> Option<&mut FollowedContents> {
        let zone = self.others.get_mut(&id);
        zone.filter(|zone| zone.serving == ZoneServing::Memory)
    }

    /// Returns the states of all zones whose contents are in memory, with their IDs in order.
    pub(super) fn all_in_memory(&mut self) -> impl Iterator<Item = (i64, &mut FollowedContents)> {
        let others = self.others.iter_mut().map(|(id, zone)| (*id, zone));
        others.filter(|(_, zone)| zone.serving == ZoneServing::Memory)
    }

    /// Returns all zones with their IDs, those that are looked up first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, FollowedZone<'_>)> {
        let others = self.others.iter();
        let others = others.map(|(id, zone)| (*id, FollowedZone::Other(zone)));
        let live = self.live.iter().flatten();
        live.map(|zone| (id_of(zone), FollowedZone::Live(zone)))
            .chain(others)
    }

    /// Adds a zone, or replaces the one with this ID.
    pub(super) fn insert(&mut self, id: i64, zone: FoundZone) {
        match zone {
            FoundZone::Live(zone) => {
                self.others.remove(&id);
                self.insert_live(zone);
            }
            FoundZone::Other(zone) => {
                self.remove(id);
                self.others.insert(id, zone);
            }
        }
    }

    fn insert_live(&mut self, zone: Arc<Zone>) {
        let (piece, at) = match self.place(id_of(&zone)) {
            Ok((piece, at)) => {
                self.live[piece][at] = zone;
                return;
            }
            Err(place) => place,
        };
        let Some(zones) = self.live.get_mut(piece) else {
            self.live.push(vec![zone]);
            return;
        };
        if zones.len() < PIECE_MAX {
            zones.insert(at, zone);
        } else if at == zones.len() {
            // IDs usually grow: pieces are then full.
            self.live.insert(piece + 1, vec![zone]);
        } else {
            let later = zones.split_off(PIECE_MAX / 2);
            self.live.insert(piece + 1, later);
            self.insert_live(zone);
        }
    }

    /// Removes a zone.
    pub(super) fn remove(&mut self, id: i64) {
        if let Ok((piece, at)) = self.place(id) {
            self.live[piece].remove(at);
            if self.live[piece].is_empty() {
                self.live.remove(piece);
            }
        }
        self.others.remove(&id);
    }

    /// Finds a looked-up zone, or the place where it would be inserted: its piece, and its position there.
    fn place(&self, id: i64) -> Result<(usize, usize), (usize, usize)> {
        let begins_after =
            |zones: &Vec<Arc<Zone>>| zones.first().is_none_or(|zone| id_of(zone) > id);
        let later = self.live.partition_point(|zones| !begins_after(zones));
        let piece = later.saturating_sub(1);
        let Some(zones) = self.live.get(piece) else {
            return Err((0, 0));
        };
        match zones.binary_search_by_key(&id, id_of) {
            Ok(at) => Ok((piece, at)),
            Err(at) => Err((piece, at)),
        }
    }
}

/// Returns the ID of a looked-up zone.
fn id_of(zone: &Arc<Zone>) -> i64 {
    zone.live().map_or(0, Live::id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(id: i64, is_live: bool) -> FoundZone {
        if is_live {
            FoundZone::Live(Arc::new(Zone::stub(Name::ROOT, 0, id)))
        } else {
            let zone = FollowedContents::new(Name::ROOT, ZoneServing::Memory, false);
            FoundZone::Other(zone)
        }
    }

    proptest! {
        #[test]
        fn it_holds_the_same_zones_as_a_map(steps in prop::collection::vec((0i64..5000, 0u8..4), 1..4000)) {
            let mut zones = FollowedZones::default();
            let mut map = BTreeMap::new();
            for (id, what) in steps {
                match what {
                    0 => {
                        zones.remove(id);
                        map.remove(&id);
                    }
                    what => {
                        zones.insert(id, found(id, what > 1));
                        map.insert(id, what > 1);
                    }
                }
                let is_live = |zone: FollowedZone<'_>| zone.live().is_some();
                prop_assert_eq!(zones.get(id).map(is_live), map.get(&id).copied());
            }
            let mut all: Vec<_> = zones.iter().map(|(id, zone)| (id, zone.live().is_some())).collect();
            all.sort_unstable();
            prop_assert_eq!(zones.len(), all.len());
            prop_assert_eq!(zones.is_empty(), all.is_empty());
            prop_assert_eq!(all, map.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn growing_ids_fill_pieces_and_others_split_them() {
        let mut zones = FollowedZones::default();
        for id in 0..3 * PIECE_MAX as i64 {
            zones.insert(2 * id, found(2 * id, true));
        }
        assert!(zones.live.iter().all(|piece| piece.len() == PIECE_MAX));
        zones.insert(1, found(1, true));
        assert_eq!(zones.live.len(), 4);
        let ids: Vec<i64> = zones.iter().map(|(id, _)| id).collect();
        assert!(ids.is_sorted() && ids.len() == zones.len());
    }
}
