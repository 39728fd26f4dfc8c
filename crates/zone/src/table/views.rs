//! Versions of zones in the table: those with a variant, and the views that have them.

use super::{TableSlot, ZoneMatch, ZoneTable, shard_of};
use crate::key::NameKey;
use crate::view::{ViewId, ViewRule, ViewTables};
use crate::zone::Zone;
use nameward_wire::{Name, NameBuf, Type};
use std::sync::Arc;

impl ZoneTable {
    /// Returns the views; `None` if there are none, which is all that they cost then.
    #[inline]
    pub fn views(&self) -> Option<&ViewTables> {
        self.views.as_deref()
    }

    /// Replaces the views.
    pub fn set_views(&mut self, rules: &[ViewRule]) {
        let views = ViewTables::new(rules, self.views.as_deref());
        self.views = (!rules.is_empty()).then(|| Arc::new(views));
        self.fill_views();
    }

    /// Puts the current versions into the views.
    pub(super) fn fill_views(&mut self) {
        let (Some(views), Some(variants)) = (&mut self.views, &self.variants) else {
            return;
        };
        let views = Arc::make_mut(views);
        for slot in variants.shards.iter().flat_map(|shard| shard.slots.iter()) {
            if let Some(zone) = &slot.zone {
                views.put(zone, slot.access);
            }
        }
    }

    /// Returns the zone that answers a query in a view: the longest match of its own versions and the common ones, as for
    /// [`ZoneTable::match_for`].
    pub fn match_in(&self, view: ViewId, key: &NameKey, qtype: Type) -> Option<ZoneMatch<'_>> {
        let own = self.views.as_ref().and_then(|views| views.zones(view));
        let Some(own) = own else {
            return self.match_for(key, qtype);
        };
        let labels = key.labels();
        let longest = |labels: usize| {
            let depth = |slot: &TableSlot| slot.zone.as_ref().map(|zone| zone.apex_labels());
            let (own, common) = (
                own.longest_match(key, labels),
                self.longest_match(key, labels),
            );
            if own.and_then(depth) >= common.and_then(depth) {
                own
            } else {
                common
            }
        };
        let mut found = longest(labels)?;
        if qtype == Type::DS
            && labels > 0
            && found.zone.as_ref()?.apex_labels() == labels
            && let Some(parent) = longest(labels - 1)
        {
            found = parent;
        }
        Some(ZoneMatch {
            zone: found.zone.as_ref()?,
            access: found.access,
        })
    }

    /// Returns the name of the version of a zone that a view has: its own, or the common one. `None` for a name that a
    /// client cannot mean.
    pub fn version_in(&self, view: ViewId, zone: Name<'_>) -> Option<NameBuf> {
        if zone.variant().is_some() {
            return None;
        }
        let own = self
            .views
            .as_ref()
            .and_then(|views| views.version(view, zone));
        Some(own.unwrap_or_else(|| zone.into()))
    }

    /// Adds a version with a variant.
    pub(super) fn insert_variant(&mut self, key: &NameKey, zone: Arc<Zone>, access: u32) {
        if let Some(views) = &mut self.views {
            Arc::make_mut(views).put(&zone, access);
        }
        let variants = self.variants.get_or_insert_default();
        Arc::make_mut(variants).put(key, zone, access);
    }

    /// Removes a version with a variant.
    pub(super) fn remove_variant(&mut self, id: Name<'_>) -> bool {
        if let Some(views) = &mut self.views {
            Arc::make_mut(views).take(id);
        }
        let variants = self.variants.as_mut();
        variants.is_some_and(|variants| Arc::make_mut(variants).take(id))
    }

    /// Adds a version by the name of its zone: in the table of a view.
    pub(crate) fn insert_apex(&mut self, zone: Arc<Zone>, access: u32) {
        let key = NameKey::new(zone.apex_name());
        self.put(&key, zone, access);
    }

    /// Returns the slot of the version with the name of this key.
    pub(super) fn probe_id(&self, key: &NameKey) -> Option<&TableSlot> {
        let (labels, hash) = (key.labels(), key.hash(key.labels()));
        let shard = &self.shards[shard_of(hash)];
        shard.find(hash as u32, |zone| zone.id() == key.suffix(labels))
    }
}
