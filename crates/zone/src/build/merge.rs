//! Records whose owner was already packed when they arrived: set aside, and merged once at the end.

use super::ZoneBuilder;
use crate::capacity::ZoneFull;
use crate::draft::{Draft, Keep};
use crate::node::flags;
use crate::packed::tag;
use nameward_wire::zonefile::RecordLocation;
use std::collections::HashMap;

impl ZoneBuilder {
    /// Merges the records that were set aside, rebuilding each name once however many there are.
    pub(super) fn merge_late(&mut self) {
        if self.is_full || self.late_of.is_empty() {
            return;
        }
        if let Err(full) = self.merge_each() {
            self.refuse(full, RecordLocation::NONE);
        }
    }

    fn merge_each(&mut self) -> Result<(), ZoneFull> {
        let (late, late_of) = (
            std::mem::take(&mut self.late),
            std::mem::take(&mut self.late_of),
        );
        let mut order: Vec<u32> = Vec::new();
        order
            .try_reserve_exact(late_of.len())
            .map_err(|_| ZoneFull::Memory)?;
        order.extend(0..late_of.len() as u32);
        order.sort_unstable_by_key(|&i| (late_of[i as usize], i));
        let mut moved = HashMap::new();
        self.is_merging = true;
        for group in order.chunk_by(|&a, &b| late_of[a as usize] == late_of[b as usize]) {
            let old = late_of[group[0] as usize];
            self.current_name = self.node(old).name().into();
            self.current_key.set(self.current_name.as_name());
            let mut draft = self.draft_of(old)?;
            for &i in group {
                let entry = &late.entries[i as usize];
                draft.try_push(entry.rtype, entry.ttl, late.rdata(entry), entry.from)?;
            }
            let hash = self.current_key.hash(self.current_key.labels());
            let keep = Keep::from_node(self.node(old));
            let place = self.pack(&mut draft, hash, keep)?;
            if let Ok(slot) = self.probe(hash, self.current_name.as_name()) {
                self.slots[slot] = (tag(hash) as u64) << 32 | place as u64;
            }
            moved.try_reserve(1).map_err(|_| ZoneFull::Memory)?;
            moved.insert(old, place);
            self.set_children(old, crate::walk::MOVED);
            self.check_octets()?;
        }
        self.with_targets
            .retain(|origin| !moved.contains_key(&origin.place));
        for origin in &mut self.deep {
            origin.place = *moved.get(&origin.place).unwrap_or(&origin.place);
        }
        self.follow_moved(&moved);
        Ok(())
    }

    /// Returns the records of a packed node. Their source locations are lost, except for records
    /// that name hosts.
    fn draft_of(&self, place: u32) -> Result<Draft, ZoneFull> {
        let mut draft = Draft::default();
        let node = self.node(place);
        // A delegation may already have its servers resolved, which overwrites the source
        // locations.
        let has_locations = self.locations.are_plain() && !node.has(flags::CUT);
        for rrset in node.rrsets() {
            for record in rrset.records() {
                let from = if has_locations && record.place != 0 {
                    self.locations.with_lower(record.place)
                } else {
                    RecordLocation::NONE
                };
                draft.try_push(rrset.rtype(), rrset.ttl(), record.rdata, from)?;
            }
        }
        Ok(draft)
    }
}
