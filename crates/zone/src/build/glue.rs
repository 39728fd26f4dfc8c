//! Fast path for glue that follows its delegation: it is linked while it is packed.
//!
//! In most delegation-heavy zone files, such as those of registries, a delegation and the addresses of its servers are
//! adjacent. Linking them later would take a search with cache misses for each; here it is a comparison while both are
//! at hand. All other cases are left to [`super::connect`].

use super::advice::{ends_twice, starts_like_address};
use super::connect::ends_like;
use super::{PlacedNode, ZoneBuilder};
use crate::capacity::{ZoneFull, try_push};
use crate::draft::Draft;
use crate::node::{Node, RRSET_HEADER, flags};
use crate::packed::ALIGN;
use nameward_wire::zonefile::RecordLocation;
use nameward_wire::{Name, Type};
use std::collections::HashMap;

/// Maximum number of servers of a delegation that are handled here.
const HOSTS: usize = 8;

/// The delegation that was packed last.
#[derive(Default)]
pub(crate) struct LastCut {
    /// 0 means none.
    place: u32,
    hash: u64,
    from: RecordLocation,
    hosts: [Host; HOSTS],
    count: usize,
    /// In-zone hosts that are not packed yet.
    missing: usize,
}

/// A server of the delegation with a name in the zone.
#[derive(Clone, Copy, Default)]
struct Host {
    record_at: usize,
    name_at: usize,
    name_len: usize,
    /// Its node, once packed.
    place: u32,
}

impl LastCut {
    pub(crate) fn forget(&mut self) {
        (self.place, self.count, self.missing) = (0, 0, 0);
    }
}

impl ZoneBuilder {
    /// Remembers a delegation that was just packed, whose name has this hash. Returns false if it does not qualify for
    /// the fast path: its servers must then be resolved later.
    pub(crate) fn begin_cut(&mut self, place: u32, hash: u64, from: RecordLocation) -> bool {
        let is_child = self.current_key.labels() == self.apex_key().labels() + 1;
        if self.is_tolerant || !self.locations.are_plain() || !is_child {
            return false;
        }
        let base = place as usize * ALIGN;
        let node = Node::at(&self.arena[base..]);
        let apex = self.apex_name;
        let cut = &mut self.last_cut;
        (cut.place, cut.hash, cut.from) = (0, hash, from);
        (cut.count, cut.missing) = (0, 0);
        let mut elsewhere = [0; HOSTS];
        let mut others = 0;
        let mut at = base + node.rrsets_at();
        for rrset in node.rrsets() {
            at += RRSET_HEADER;
            if rrset.has_targets() && (rrset.rtype() != Type::NS || rrset.count() as usize > HOSTS)
            {
                return false;
            }
            for record in rrset.records().take_while(|_| rrset.has_targets()) {
                let name = Name::from_valid_wire(record.rdata);
                if ends_like(name, apex.as_name()) {
                    if ends_twice(name, apex.as_name()) {
                        return false;
                    }
                    cut.hosts[cut.count] = Host {
                        record_at: at,
                        name_at: at + record.stored_len() - record.rdata.len(),
                        name_len: record.rdata.len(),
                        place: 0,
                    };
                    cut.count += 1;
                } else if name.as_wire().len() <= 17 && starts_like_address(name) {
                    return false;
                } else {
                    elsewhere[others] = at;
                    others += 1;
                }
                at += record.stored_len();
            }
            if !rrset.has_targets() {
                at += rrset.records_len();
            }
        }
        (cut.place, cut.missing) = (place, cut.count);
        for &record_at in &elsewhere[..others] {
            self.set_target(record_at, 0);
        }
        true
    }

    /// Leaves the unresolved servers of the last delegation to the target search.
    pub(crate) fn end_cut(&mut self) -> Result<(), ZoneFull> {
        let LastCut {
            place,
            from,
            missing,
            ..
        } = self.last_cut;
        self.last_cut.place = 0;
        if missing == 0 || place == 0 {
            return Ok(());
        }
        try_push(&mut self.with_targets, PlacedNode { place, from })
    }

    /// Links the owner just packed at `place` to the last delegation, if it is glue directly below it.
    pub(crate) fn connect_glue(&mut self, place: u32, draft: &Draft) -> Result<bool, ZoneFull> {
        let (labels, apex_labels) = (self.current_key.labels(), self.apex_key().labels());
        let parent = labels - 1;
        // A name that may end in the zone name twice is checked later.
        let is_plain = parent == apex_labels + 1 && (apex_labels == 1 || labels < 2 * apex_labels);
        let is_address = |rtype| matches!(rtype, Type::A | Type::AAAA);
        if self.last_cut.place == 0
            || !is_plain
            || self.current_key.hash(parent) != self.last_cut.hash
            || !draft.entries.iter().all(|entry| is_address(entry.rtype))
            || self.current_name.as_name().is_wildcard()
        {
            return Ok(false);
        }
        let node = self.node(self.last_cut.place);
        if !node.has(flags::CUT) || node.name() != self.current_key.suffix(parent) {
            return Ok(false);
        }
        self.set_children(self.last_cut.place, node.children() + 1);
        let cut = &mut self.last_cut;
        if cut.missing == 0 {
            return Ok(true);
        }
        let owner = self.current_name.as_name();
        for host in &mut cut.hosts[..cut.count] {
            let name = &self.arena[host.name_at..host.name_at + host.name_len];
            if host.place == 0 && Name::from_valid_wire(name) == owner {
                host.place = place;
                cut.missing -= 1;
            }
        }
        if cut.missing == 0 {
            let (cut_place, hosts, count) = (cut.place, cut.hosts, cut.count);
            for host in &hosts[..count] {
                self.set_target(host.record_at, host.place);
            }
            try_push(&mut self.connected, cut_place)?;
        }
        Ok(true)
    }

    /// Updates links to nodes that moved after delegations were linked to them.
    pub(crate) fn follow_moved(&mut self, moved: &HashMap<u32, u32>) {
        for cut in std::mem::take(&mut self.connected) {
            if moved.contains_key(&cut) {
                continue;
            }
            let node = self.node(cut);
            let mut at = cut as usize * ALIGN + node.rrsets_at();
            let mut changed = Vec::new();
            for rrset in node.rrsets() {
                at += RRSET_HEADER;
                for record in rrset.records() {
                    if let Some(&place) = moved.get(&record.place)
                        && rrset.has_targets()
                    {
                        changed.push((at, place));
                    }
                    at += record.stored_len();
                }
            }
            for (at, place) in changed {
                self.set_target(at, place);
            }
        }
    }
}
