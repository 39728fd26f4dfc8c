//! Repacking of a changed zone, so that answering is as fast as for a freshly loaded zone.
//!
//! Nodes are copied verbatim with all their flags, so no information is lost. A small zone is packed as soon as a
//! change makes it worthwhile. A large one takes about a second, so changes do not wait for it: the owner of the zone
//! packs a snapshot in a background job ([`Zone::is_worth_packing`], [`Zone::pack`]) and applies the changes made in
//! the meantime to the result ([`Zone::caught_up`]), in time proportional to those changes.

use super::editor::Editor;
use crate::build::{HostReference, is_below, list_targets};
use crate::key::NameKey;
use crate::packed::{ALIGN, Packed, put_slot, slots_for, tag};
use crate::zone::Zone;
use nameward_wire::Name;
use std::sync::Arc;

/// Changed names a base of any size may have before packing is worthwhile.
const ALWAYS_KEPT: usize = 256;
/// Largest number of names of a zone that is packed within a change: about a millisecond.
const SMALL: usize = 4096;

impl Zone {
    /// Checks whether enough names have changed since the zone was packed: an eighth of it, so that the amortised cost
    /// is a few copied names per change.
    pub fn is_worth_packing(&self) -> bool {
        self.changed() > ALWAYS_KEPT.max(self.name_count() / 8)
    }

    /// Checks whether the version is packed, without an overlay over a base.
    pub fn is_packed(&self) -> bool {
        self.changes().is_none()
    }

    fn changed(&self) -> usize {
        self.changes().map_or(0, |changes| changes.overlay.len())
    }

    /// Packs the zone if that is fast, or if a background repack is long overdue.
    pub(super) fn pack_if_small(self) -> Zone {
        let is_due = if self.name_count() <= SMALL {
            self.is_worth_packing()
        } else {
            self.changed() > self.name_count()
        };
        if is_due {
            self.pack().unwrap_or(self)
        } else {
            self
        }
    }

    /// Returns the same contents, packed; `None` if they do not fit.
    pub fn pack(&self) -> Option<Zone> {
        let mut slots = vec![0; slots_for(self.name_count())].into_boxed_slice();
        let mut arena = Vec::with_capacity(self.heap_bytes() + ALIGN);
        arena.resize(ALIGN, 0);
        let (mut key, mut with_targets) = (NameKey::default(), Vec::new());
        for node in self.nodes_in_order() {
            let place = u32::try_from(arena.len() / ALIGN).ok()?;
            arena.extend_from_slice(&node.bytes());
            arena.resize(arena.len().next_multiple_of(ALIGN), 0);
            key.set(node.name());
            put_slot(&mut slots, tag(key.hash(key.labels())), place);
            if node.rrsets().any(|rrset| rrset.has_targets()) {
                with_targets.push(place);
            }
        }
        let mut packed = Packed {
            slots,
            arena: arena.into_boxed_slice(),
        };
        connect(&mut packed, &with_targets, self.apex_name());
        let mut summary = *self.summary();
        // The apex is the first node in canonical order.
        summary.apex = 1;
        let mut zone = Zone::new(packed, summary);
        zone.inherit(self);
        Some(zone)
    }

    /// Applies the changes made since this zone was packed, where this zone is an older version of `current`. `owners`
    /// are the owners of all records added or removed between the two. Returns the contents of `current`.
    pub fn caught_up<'n>(
        self: &Arc<Self>,
        current: &Zone,
        owners: impl Iterator<Item = Name<'n>>,
    ) -> Zone {
        let mut editor = Editor::new(self);
        for owner in owners {
            // Adding or removing a name changes its ancestors.
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

/// Sets the locations of the hosts that records name. The copied locations are those of the old zone.
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
