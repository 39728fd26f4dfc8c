//! Packing a changed zone anew, so that answering it costs again what a zone just loaded costs.
//!
//! Nodes are copied as they are, with all their flags, so nothing that is known of a name is lost. A small zone is
//! packed when a change has made it worth while. A large one takes a second for it, so a change does not wait: whoever
//! owns the zone packs a snapshot of it aside ([`Zone::is_worth_packing`], [`Zone::pack`]) and puts what has changed
//! meanwhile over the result ([`Zone::caught_up`]), in time of its own size.

use super::editor::Editor;
use crate::connect::{HostReference, is_below, list_targets};
use crate::key::NameKey;
use crate::packed::{ALIGN, Packed, put_slot, slots_for, tag};
use crate::zone::Zone;
use nameward_wire::Name;
use std::sync::Arc;

/// Changed names a base of any size may have before packing is worth while.
const ALWAYS_KEPT: usize = 256;
/// Names of a zone that is packed within a change: about a millisecond.
const SMALL: usize = 4096;

impl Zone {
    /// Whether enough names have changed since the zone was packed: an eighth of it, so that packing spread over the
    /// changes costs a few copied names for each.
    pub fn is_worth_packing(&self) -> bool {
        self.changed() > ALWAYS_KEPT.max(self.name_count() / 8)
    }

    /// Whether the version stands for itself, without a base.
    pub fn is_packed(&self) -> bool {
        self.changes().is_none()
    }

    fn changed(&self) -> usize {
        self.changes().map_or(0, |changes| changes.overlay.len())
    }

    /// Packs the zone if that takes no time to speak of, or if nobody has packed it for long.
    pub(super) fn pack_if_small(self) -> Zone {
        let is_due = match self.name_count() <= SMALL {
            true => self.is_worth_packing(),
            false => self.changed() > self.name_count(),
        };
        match is_due {
            true => self.pack().unwrap_or(self),
            false => self,
        }
    }

    /// Returns the same contents, packed; `None` if they do not fit.
    pub fn pack(&self) -> Option<Zone> {
        let mut packed = Packed {
            slots: vec![0; slots_for(self.name_count())].into_boxed_slice(),
            arena: Box::default(),
        };
        let mut arena = Vec::with_capacity(self.heap_bytes() + ALIGN);
        arena.resize(ALIGN, 0);
        let (mut key, mut with_targets) = (NameKey::default(), Vec::new());
        for node in self.nodes_in_order() {
            let place = u32::try_from(arena.len() / ALIGN).ok()?;
            arena.extend_from_slice(&node.bytes());
            arena.resize(arena.len().next_multiple_of(ALIGN), 0);
            key.set(node.name());
            put_slot(&mut packed.slots, tag(key.hash(key.labels())), place);
            if node.rrsets().any(|rrset| rrset.has_targets()) {
                with_targets.push(place);
            }
        }
        packed.arena = arena.into_boxed_slice();
        connect(&mut packed, &with_targets, self.apex_name());
        let mut summary = *self.summary();
        // The apex is the first in canonical order.
        summary.apex = 1;
        let mut zone = Zone::new(packed, summary);
        zone.inherit(self);
        Some(zone)
    }

    /// Puts what was changed meanwhile over this zone, which is an older version of `current` packed. `owners` are the
    /// owners of all records that went or came between the two. Returns the contents of `current`.
    pub fn caught_up<'n>(
        self: &Arc<Self>,
        current: &Zone,
        owners: impl Iterator<Item = Name<'n>>,
    ) -> Zone {
        let mut editor = Editor::new(self);
        for owner in owners {
            // A name that comes or goes changes those above it.
            let mut name = Some(owner);
            while let Some(next) = name.filter(|name| name.is_at_or_below(current.apex_name())) {
                let node = current.node_of(next);
                if node.is_some() || self.node_of(next).is_some() {
                    editor.put(next, node.map(|node| node.bytes()).as_deref());
                }
                name = next.parent();
            }
        }
        let apex = editor.summary.apex;
        editor.summary = *current.summary();
        editor.summary.apex = apex;
        editor.finish(current).pack_if_small()
    }
}

/// Notes where the hosts stand that records name. Places that were copied are those of the old zone.
fn connect(packed: &mut Packed, with_targets: &[u32], apex: Name<'_>) {
    let (mut key, mut targets) = (NameKey::default(), Vec::new());
    for &place in with_targets {
        list_targets(packed.node(place), place as usize * ALIGN, &mut targets);
        for HostReference {
            record_at,
            name_at,
            name_len,
            ..
        } in &targets
        {
            let name = Name::from_valid_wire(&packed.arena[*name_at..name_at + name_len]);
            let mut found = 0;
            if is_below(name, apex) {
                key.set(name);
                let tag = tag(key.hash(key.labels()));
                found = packed.place_of(tag, name).unwrap_or(0);
            }
            packed.arena[record_at + 2..record_at + 6].copy_from_slice(&found.to_le_bytes());
        }
    }
}
