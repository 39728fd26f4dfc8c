//! Versions of zones in the table: those with a variant, and the views that have them.
//!
//! Each view has a small table of its own, so a query costs one selection and one more search, however many views there
//! are; without views it costs one comparison.

use super::{TableSlot, ZoneMatch, ZoneTable, shard_of};
use crate::key::{NameKey, lower_case};
use crate::view::{SelectedView, ViewClient, ViewId, ViewRule, ViewSelection};
use crate::zone::Zone;
use nameward_wire::{Name, NameBuf, Type};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All views, and the zones that each of them has.
#[derive(Clone)]
pub struct ViewTables {
    selection: Arc<ViewSelection>,
    /// By the numbers of the views.
    views: Vec<Option<Arc<ViewZones>>>,
    /// The views that a zone version belongs to, by its name in lower case.
    members: Arc<HashMap<Box<[u8]>, Vec<ViewId>>>,
}

/// The zones of one view.
#[derive(Clone)]
struct ViewZones {
    name: Arc<str>,
    /// The version of each zone, both in lower case.
    versions: Arc<HashMap<Box<[u8]>, NameBuf>>,
    /// By zone name. A version that no source offers is a placeholder: its clients must not get the common version.
    zones: ZoneTable,
    /// Requests that were in the view.
    requests: Arc<AtomicU64>,
}

impl ViewTables {
    /// Builds the views; their zones are placeholders until they are offered. Counters continue those of `before`.
    pub(super) fn new(rules: &[ViewRule], before: Option<&Self>) -> Self {
        let len = rules.iter().map(|rule| rule.id.0).max().unwrap_or(0);
        let mut views = vec![None; usize::from(len) + 1];
        let mut members: HashMap<Box<[u8]>, Vec<ViewId>> = HashMap::new();
        for rule in rules {
            let (mut versions, mut zones) = (HashMap::new(), ZoneTable::default());
            for version in &rule.zones {
                let name = version.as_name();
                members.entry(lower_case(name)).or_default().push(rule.id);
                versions.insert(lower_case(name.zone()), *version);
                zones.insert_apex(Arc::new(Zone::not_ready(name)), 0);
            }
            views[usize::from(rule.id.0)] = Some(Arc::new(ViewZones {
                name: rule.name.as_str().into(),
                versions: Arc::new(versions),
                zones,
                requests: before
                    .and_then(|before| before.view(rule.id))
                    .map(|view| Arc::clone(&view.requests))
                    .unwrap_or_default(),
            }));
        }
        ViewTables {
            selection: Arc::new(ViewSelection::new(rules)),
            views,
            members: Arc::new(members),
        }
    }

    /// Returns the views as they are configured.
    pub fn rules(&self) -> &[ViewRule] {
        self.selection.rules()
    }

    /// Finds the view of a request.
    pub fn select(&self, client: &ViewClient<'_>) -> SelectedView {
        self.selection.select(client)
    }

    /// Returns the zones of a view, if it exists.
    #[inline]
    fn zones(&self, view: ViewId) -> Option<&ZoneTable> {
        Some(&self.view(view)?.zones)
    }

    #[inline]
    fn view(&self, view: ViewId) -> Option<&ViewZones> {
        self.views.get(usize::from(view.0))?.as_deref()
    }

    /// Returns the name of a view.
    pub fn name(&self, view: ViewId) -> Option<&Arc<str>> {
        Some(&self.view(view)?.name)
    }

    /// Counts requests that were in a view.
    pub fn count_requests(&self, view: ViewId, number: u64) {
        if let Some(view) = self.view(view) {
            view.requests.fetch_add(number, Ordering::Relaxed);
        }
    }

    /// Returns how many requests were in a view.
    pub fn requests(&self, view: ViewId) -> u64 {
        let view = self.view(view);
        view.map_or(0, |view| view.requests.load(Ordering::Relaxed))
    }

    /// Returns the version of a zone that a view has.
    fn version(&self, view: ViewId, zone: Name<'_>) -> Option<NameBuf> {
        self.view(view)?.versions.get(&lower_case(zone)).copied()
    }

    /// Puts a version of a zone, with the number of its access list, into all views that have it.
    fn put(&mut self, zone: &Arc<Zone>, access: u32) {
        let members = Arc::clone(&self.members);
        for view in members.get(&lower_case(zone.id())).into_iter().flatten() {
            if let Some(view) = &mut self.views[usize::from(view.0)] {
                Arc::make_mut(view)
                    .zones
                    .insert_apex(Arc::clone(zone), access);
            }
        }
    }

    /// Puts placeholders in place of a version that is no longer offered.
    fn take(&mut self, version: Name<'_>) {
        if self.members.contains_key(&lower_case(version)) {
            self.put(&Arc::new(Zone::not_ready(version)), 0);
        }
    }
}

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
    fn insert_apex(&mut self, zone: Arc<Zone>, access: u32) {
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

#[cfg(test)]
mod tests;
