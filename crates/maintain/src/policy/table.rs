//! The policies of all zones: the parts that sources set, and the snapshot that is made of them.
//!
//! Of the sources that have a zone the first one counts, and the zone's own table in the configuration goes before it,
//! term by term. A change of some zones costs their own number, however many there are.

use super::{Autoprimary, PolicyPart, ZonePolicy};
use arc_swap::ArcSwap;
use nameward_base::sync::{Mutex, MutexGuard};
use nameward_dnssec::tsig::{TsigKey, TsigKeys};
use nameward_wire::{Name, NameBuf};
use rpds::HashTrieMapSync;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// A place that sets policies; the earlier one counts where two have a zone or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicySource {
    /// The configuration.
    Configured,
    /// The backend of this rank.
    Backend(u16),
    /// Catalog zones that are followed.
    Catalogs,
    /// The state store.
    Kept,
}

/// The policies that one source sets.
#[derive(Debug, Default)]
pub struct PolicySet {
    /// The defaults for all zones; only those of the configuration count.
    pub default: PolicyPart,
    /// By the name of the zone, in wire form and lower case.
    pub zones: HashMap<Box<[u8]>, Arc<PolicyPart>>,
    /// Keys of TSIG.
    pub keys: Vec<Arc<TsigKey>>,
    /// Servers whose zones become secondaries here when they notify.
    pub autoprimaries: Vec<Autoprimary>,
}

impl PolicySet {
    /// Sets the part of a zone.
    pub fn set_zone(&mut self, zone: Name<'_>, part: Arc<PolicyPart>) {
        self.zones.insert(lower_case(zone), part);
    }
}

/// The policies of all zones at one moment.
#[derive(Clone)]
pub struct Policies {
    default: Arc<ZonePolicy>,
    zones: HashTrieMapSync<Box<[u8]>, Arc<ZonePolicy>>,
    keys: Arc<TsigKeys>,
    autoprimaries: Arc<[Autoprimary]>,
}

impl Policies {
    /// Returns the servers whose zones become secondaries here when they notify.
    pub fn autoprimaries(&self) -> &[Autoprimary] {
        &self.autoprimaries
    }

    /// Returns the policy of a zone: its own, or the one for all that have none.
    pub fn of(&self, zone: Name<'_>) -> &Arc<ZonePolicy> {
        let mut lower = NameBuf::from(zone);
        lower.make_lowercase();
        let found = self.zones.get(lower.as_name().as_wire());
        found.unwrap_or(&self.default)
    }

    /// Returns the keys of TSIG.
    pub fn keys(&self) -> &Arc<TsigKeys> {
        &self.keys
    }

    /// Lists the zones that have a policy of their own, their names in lower case.
    pub fn zones(&self) -> impl Iterator<Item = (Name<'_>, &Arc<ZonePolicy>)> {
        let zones = self.zones.iter();
        zones.map(|(name, policy)| (Name::from_valid_wire(name), policy))
    }

    /// Returns whether a policy of any zone is so.
    pub fn any(&self, is_so: impl Fn(&ZonePolicy) -> bool) -> bool {
        is_so(&self.default) || self.zones.values().any(|policy| is_so(policy))
    }

    /// Lists the directories that zones have their keys in.
    pub fn key_directories(&self) -> BTreeSet<&PathBuf> {
        let all = self.zones.values().chain([&self.default]);
        all.filter_map(|policy| policy.key_directory.as_ref())
            .collect()
    }

    /// Returns the policy of a zone that has one of its own.
    pub fn own(&self, zone: Name<'_>) -> Option<&Arc<ZonePolicy>> {
        let found = self.of(zone);
        (!Arc::ptr_eq(found, &self.default)).then_some(found)
    }
}

/// A change of policies, for whoever acts on it.
pub struct PolicyChange<'a> {
    /// The policies now.
    pub policies: &'a Arc<Policies>,
    /// The zones whose policies may have changed, in wire form and lower case.
    pub zones: &'a [Box<[u8]>],
    /// Whether keys of TSIG may have changed.
    pub has_keys: bool,
}

type PolicyListener = Box<dyn Fn(&PolicyChange<'_>) + Send + Sync>;

/// The policies of all zones, and the sources that they come from.
pub struct PolicyTable {
    snapshot: ArcSwap<Policies>,
    sources: Mutex<PolicySources>,
}

/// The sources and the listeners, which one writer at a time has.
#[derive(Default)]
struct PolicySources {
    sets: BTreeMap<PolicySource, PolicySet>,
    listeners: Vec<PolicyListener>,
}

impl Default for PolicyTable {
    /// Makes a table without any policy: nobody may do anything.
    fn default() -> Self {
        let default = Arc::new(PolicyPart::default().finish(PolicySource::Configured));
        PolicyTable {
            snapshot: ArcSwap::from_pointee(Policies {
                default,
                zones: HashTrieMapSync::new_sync(),
                keys: Arc::default(),
                autoprimaries: Arc::default(),
            }),
            sources: Mutex::default(),
        }
    }
}

impl PolicyTable {
    /// Returns the policies as they are now.
    pub fn load(&self) -> Arc<Policies> {
        self.snapshot.load_full()
    }

    /// Has a function called after every change, one change at a time. It must not change policies itself.
    pub fn on_change(&self, listener: impl Fn(&PolicyChange<'_>) + Send + Sync + 'static) {
        let mut sources = self.lock();
        sources.listeners.push(Box::new(listener));
    }

    /// Replaces all that a source has set.
    pub fn set(&self, source: PolicySource, set: PolicySet) {
        let mut sources = self.lock();
        let before = sources.sets.insert(source, set).unwrap_or_default();
        let now = &sources.sets[&source];
        let mut policies = Policies::clone(&self.snapshot.load());
        let mut changed: Vec<Box<[u8]>> = Vec::new();
        if source == PolicySource::Configured && before.default != now.default {
            policies.default = Arc::new(now.default.clone().finish(source));
            // Each may have got another default.
            let all = sources.sets.values().flat_map(|set| set.zones.keys());
            changed.extend(all.chain(before.zones.keys()).cloned());
            changed.sort_unstable();
            changed.dedup();
        } else {
            for (zone, part) in &now.zones {
                if before.zones.get(zone) != Some(part) {
                    changed.push(zone.clone());
                }
            }
            let gone = before.zones.keys();
            let gone = gone.filter(|zone| !now.zones.contains_key(*zone));
            changed.extend(gone.cloned());
        }
        let has_keys = !(before.keys.is_empty() && now.keys.is_empty());
        if has_keys {
            policies.keys = Arc::new(sources.keys());
        }
        if before.autoprimaries != now.autoprimaries {
            let all = sources.sets.values();
            let all = all.flat_map(|set| &set.autoprimaries).cloned();
            policies.autoprimaries = all.collect();
        }
        self.publish(&sources, policies, &changed, has_keys);
    }

    /// Sets or removes what a source says of some zones.
    pub fn change(
        &self,
        source: PolicySource,
        zones: impl IntoIterator<Item = (NameBuf, Option<Arc<PolicyPart>>)>,
    ) {
        let mut sources = self.lock();
        let set = sources.sets.entry(source).or_default();
        let mut changed = Vec::new();
        for (zone, part) in zones {
            let name = lower_case(zone.as_name());
            let before = match &part {
                Some(part) => set.zones.insert(name.clone(), Arc::clone(part)),
                None => set.zones.remove(&name),
            };
            if before != part {
                changed.push(name);
            }
        }
        let policies = Policies::clone(&self.snapshot.load());
        self.publish(&sources, policies, &changed, false);
    }

    /// Sets or removes the key of a name that a source has.
    pub fn change_key(&self, source: PolicySource, name: Name<'_>, key: Option<Arc<TsigKey>>) {
        let mut sources = self.lock();
        let set = sources.sets.entry(source).or_default();
        set.keys.retain(|known| known.name() != name);
        set.keys.extend(key);
        let mut policies = Policies::clone(&self.snapshot.load());
        policies.keys = Arc::new(sources.keys());
        self.publish(&sources, policies, &[], true);
    }

    /// Returns the keys of all sources, also those that do not count because an earlier source has the name.
    pub fn keys_by_source(&self) -> Vec<(PolicySource, Arc<TsigKey>)> {
        let sources = self.lock();
        let of = |(source, set): (&PolicySource, &PolicySet)| {
            let keys = set.keys.iter().cloned();
            let source = *source;
            keys.map(move |key| (source, key)).collect::<Vec<_>>()
        };
        sources.sets.iter().flat_map(of).collect()
    }

    /// Puts the policies of changed zones together, makes the snapshot visible and calls the listeners.
    fn publish(
        &self,
        sources: &PolicySources,
        mut policies: Policies,
        changed: &[Box<[u8]>],
        has_keys: bool,
    ) {
        let mut made = MadePolicies::default();
        for zone in changed {
            match sources.policy(zone, &mut made) {
                Some(policy) => policies.zones.insert_mut(zone.clone(), policy),
                None => {
                    policies.zones.remove_mut(zone);
                }
            }
        }
        let policies = Arc::new(policies);
        self.snapshot.store(Arc::clone(&policies));
        let change = PolicyChange {
            policies: &policies,
            zones: changed,
            has_keys,
        };
        sources
            .listeners
            .iter()
            .for_each(|listener| listener(&change));
    }

    fn lock(&self) -> MutexGuard<'_, PolicySources> {
        self.sources.lock()
    }
}

/// Policies that were made in one go, by the addresses of the parts they are made of: a hundred thousand zones with the
/// same parts share one.
type MadePolicies = HashMap<(usize, usize, PolicySource), Arc<ZonePolicy>>;

impl PolicySources {
    /// Puts the policy of a zone together; `None` if no source has the zone.
    fn policy(&self, zone: &[u8], made: &mut MadePolicies) -> Option<Arc<ZonePolicy>> {
        let configured = self.sets.get(&PolicySource::Configured);
        let own = configured.and_then(|set| set.zones.get(zone));
        let mut others = self.sets.iter().filter_map(|(source, set)| {
            let part = set.zones.get(zone)?;
            (*source != PolicySource::Configured).then_some((*source, part))
        });
        let other = others.next();
        // A table that says nothing about what the zone is leaves it to the source that has the zone.
        let declares = own.is_some_and(|own| own.kind.is_some());
        let declared_by = match other {
            Some((source, _)) if !declares => source,
            _ => PolicySource::Configured,
        };
        let place = |part: &Arc<PolicyPart>| Arc::as_ptr(part) as usize;
        let key = (
            own.map_or(0, place),
            other.map_or(0, |(_, part)| place(part)),
            declared_by,
        );
        if own.is_none() && other.is_none() {
            return None;
        }
        let make = || {
            let none = PolicyPart::default();
            let default = configured.map_or(&none, |set| &set.default);
            let own = own.map_or(&none, |part| part);
            let other = other.map_or(&none, |(_, part)| part);
            Arc::new(own.or(other).or(default).finish(declared_by))
        };
        Some(Arc::clone(made.entry(key).or_insert_with(make)))
    }

    /// Puts the keys of all sources together.
    fn keys(&self) -> TsigKeys {
        let mut keys = TsigKeys::default();
        for set in self.sets.values().rev() {
            for key in &set.keys {
                keys.insert_shared(Arc::clone(key));
            }
        }
        keys
    }
}

/// The name of a zone as it is looked up.
fn lower_case(zone: Name<'_>) -> Box<[u8]> {
    zone.as_wire().to_ascii_lowercase().into()
}
