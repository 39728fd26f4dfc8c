//! A walk over all nodes with records, in memory order, for zone transfers.
//!
//! Reading memory sequentially is several times as fast as following the hash table, and needs no sorted names. Packed
//! nodes come first, without the names that have changed; these follow. Positions are plain values, so a walk can stop
//! anywhere and resume later, as fast as the transfer client reads.

use crate::node::{Node, flags};
use crate::packed::{ALIGN, Packed};
use crate::zone::Zone;
use std::sync::Arc;

/// Child count that marks a node whose records have moved elsewhere.
pub(crate) const MOVED: u32 = u32::MAX;

/// One version of a zone, prepared for walking.
pub struct ZoneWalk {
    zone: Arc<Zone>,
    /// Locations of packed nodes that have changed since, in order.
    replaced: Box<[u32]>,
    /// The nodes that replace them, and new ones.
    changed: Box<[Arc<[u8]>]>,
}

/// The position of a node in a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkPosition {
    /// Offset of a packed node, or index of a changed one.
    at: usize,
    /// How many of the replaced locations have been passed.
    passed: usize,
    is_changed: bool,
}

impl ZoneWalk {
    /// Prepares a walk; the cost is the size of the changes over the packed base.
    pub fn new(zone: Arc<Zone>) -> Self {
        let (mut replaced, mut changed) = (Vec::new(), Vec::new());
        if let Some(changes) = zone.changes() {
            let packed = zone.packed();
            for (tag, name, node) in changes.overlay.shared_nodes() {
                replaced.extend(packed.place_of(tag, name));
                changed.extend(node.cloned());
            }
            replaced.sort_unstable();
        }
        ZoneWalk {
            replaced: replaced.into_boxed_slice(),
            changed: changed.into_boxed_slice(),
            zone,
        }
    }

    /// Returns the zone being walked.
    pub fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// Returns the position of the first node; `None` if there is none.
    pub fn first(&self) -> Option<WalkPosition> {
        self.advance(WalkPosition {
            at: ALIGN,
            passed: 0,
            is_changed: false,
        })
    }

    /// Returns the node at a position of this walk.
    #[inline]
    pub fn node(&self, place: WalkPosition) -> Node<'_> {
        if !place.is_changed {
            Node::at(&self.packed().arena[place.at..])
        } else {
            Node::at(&self.changed[place.at])
        }
    }

    /// Returns the position of the next node.
    #[inline]
    pub fn next(&self, place: WalkPosition) -> Option<WalkPosition> {
        let at = if !place.is_changed {
            place.at + octets_at(&self.packed().arena[place.at..])
        } else {
            place.at + 1
        };
        self.advance(WalkPosition { at, ..place })
    }

    fn packed(&self) -> &Packed {
        self.zone.packed()
    }

    /// Advances to a node that has records and is not replaced.
    fn advance(&self, mut place: WalkPosition) -> Option<WalkPosition> {
        let arena = &self.packed().arena;
        while !place.is_changed {
            let Some(bytes) = arena.get(place.at..).filter(|bytes| !bytes.is_empty()) else {
                place = WalkPosition {
                    at: 0,
                    is_changed: true,
                    ..place
                };
                break;
            };
            let number = (place.at / ALIGN) as u32;
            let is_replaced = self.replaced.get(place.passed) == Some(&number);
            place.passed += usize::from(is_replaced);
            let node = Node::at(bytes);
            if !is_replaced && is_walked(node) && node.children() != MOVED {
                return Some(place);
            }
            // Every node in a chain of empty non-terminals may have been replaced.
            let behind = place.at + octets_at(bytes);
            let end = (behind / ALIGN) as u32;
            while self
                .replaced
                .get(place.passed)
                .is_some_and(|&next| next < end)
            {
                place.passed += 1;
            }
            place.at = behind;
        }
        while !is_walked(Node::at(self.changed.get(place.at)?)) {
            place.at += 1;
        }
        Some(place)
    }
}

/// Checks whether a node is part of a walk: it has records, readable or not.
fn is_walked(node: Node<'_>) -> bool {
    !node.is_empty() || node.flags() & flags::ANY_BROKEN != 0
}

/// Returns the octets from the start of a packed node, or of a chain of empty non-terminals, to the next one.
#[inline]
fn octets_at(bytes: &[u8]) -> usize {
    let octets = match bytes[Node::FLAGS_AT] & flags::SHARED_NAME {
        0 => Node::at(bytes).octets(),
        _ => Node::at(bytes).chain_octets(),
    };
    octets.next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ZoneBuilder;
    use crate::change::{ChangeOrigin, Edit, NewRecord, RrsetData, ZoneChange};
    use nameward_wire::zonefile::{Options, parse_bytes};
    use nameward_wire::{NameBuf, Type};
    use proptest::prelude::*;
    use std::time::SystemTime;

    fn zone(text: &str) -> Arc<Zone> {
        let origin: NameBuf = "example.".parse().unwrap();
        let mut builder = ZoneBuilder::new(origin.as_name());
        let options = Options::new(origin);
        parse_bytes("zone", text.as_bytes(), &options, &mut builder);
        let (zone, findings) = builder.finish();
        Arc::new(zone.unwrap_or_else(|| panic!("{findings:?}")))
    }

    fn walked(zone: &Arc<Zone>) -> Vec<String> {
        let walk = ZoneWalk::new(Arc::clone(zone));
        let places = std::iter::successors(walk.first(), |place| walk.next(*place));
        places.flat_map(|place| listed(walk.node(place))).collect()
    }

    fn listed(node: Node<'_>) -> Vec<String> {
        let owner = node.name().to_string();
        let rrsets = node.rrsets();
        let records = rrsets.flat_map(|rrset| {
            let head = format!("{owner} {} {}", rrset.rtype(), rrset.ttl());
            let data = rrset.records().map(|record| record.rdata);
            data.map(move |data| format!("{head} {data:?}"))
                .collect::<Vec<_>>()
        });
        records.collect()
    }

    fn in_order(zone: &Arc<Zone>) -> Vec<String> {
        let mut all: Vec<String> = zone.nodes_in_order().flat_map(listed).collect();
        all.sort();
        all
    }

    proptest! {
        /// Owners that reappear later are moved within the memory of a zone, deep ones create chains of empty
        /// non-terminals, and changes are stored separately: a walk still visits every record exactly once.
        #[test]
        fn a_walk_meets_every_record_once(
            owners in proptest::collection::vec("([a-c]\\.){0,4}[a-c]", 1..60),
            changes in proptest::collection::vec(("([a-d]\\.){0,3}[a-d]", any::<bool>()), 0..30),
        ) {
            let mut text = String::from("@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns.elsewhere.\n");
            for (n, owner) in owners.iter().enumerate() {
                text += &format!("{owner} 60 TXT \"{n}\"\n{owner} 60 A 192.0.2.{}\n", n % 3);
            }
            let mut zone = zone(&text);
            let check = |zone: &Arc<Zone>| {
                let mut walked = walked(zone);
                walked.sort();
                (walked, in_order(zone))
            };
            let (met, expected) = check(&zone);
            prop_assert_eq!(met, expected);
            for (owner, is_added) in changes {
                let name: NameBuf = format!("{owner}.example.").parse().unwrap();
                let edit = if is_added { Edit::Replace(RrsetData {
                    name,
                    rtype: Type::TXT,
                    ttl: 60,
                    records: vec![NewRecord { text: None, rdata: b"\x03new".to_vec(), disabled: false }],
                }) } else { Edit::DeleteName { name } };
                let change = ZoneChange {
                    edits: vec![edit],
                    origin: ChangeOrigin::Operator,
                    now: SystemTime::UNIX_EPOCH,
                    serial: crate::SerialRule::default(),
                };
                if let Ok(difference) = zone.difference_of(&change) {
                    zone = Arc::new(zone.apply(&difference).unwrap());
                }
                let (met, expected) = check(&zone);
                prop_assert_eq!(met, expected);
            }
        }
    }
}
