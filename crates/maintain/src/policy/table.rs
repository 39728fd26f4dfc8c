//! The policies of all zones: the fragments from each source, and the snapshot built from them.
//!
//! Of the sources that have a zone the first one is used, and the zone's own table in the configuration takes
//! precedence over it, setting by setting. Changing some zones costs time in proportion to their number, however many
//! there are in total.

use super::{
    Autoprimary, PolicyFragment, RemoteServer, RolledCookieSecret, SharedApiKey, ZonePolicy,
};
use crate::table::lower_case;
use arc_swap::ArcSwap;
use nameward_base::sync::Mutex;
use nameward_dnssec::tsig::{TsigKey, TsigKeys};
use nameward_wire::{Name, NameBuf};
use rpds::HashTrieMapSync;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// A source of policies; the earlier one is used if two have a zone or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicySource {
    /// The configuration.
    Configured,
    /// The backend of this rank.
    Backend(u16),
    /// Followed catalog zones.
    Catalogs,
    /// The state store.
    Kept,
}

/// The policies from one source.
#[derive(Debug, Clone, Default)]
pub struct PolicySet {
    /// The defaults for all zones; only those of the configuration are used.
    pub default: PolicyFragment,
    /// Settings for servers that other sources name by address only; only those of the configuration are used.
    pub remotes: Arc<[RemoteServer]>,
    /// By the name of the zone, in wire format and lower case.
    pub zones: HashMap<Box<[u8]>, Arc<PolicyFragment>>,
    /// TSIG keys.
    pub keys: Vec<Arc<TsigKey>>,
    /// Servers whose zones become secondaries here when they send NOTIFY.
    pub autoprimaries: Vec<Autoprimary>,
    /// Secrets for DNS cookies.
    pub cookies: Vec<RolledCookieSecret>,
    /// Keys of the HTTP API.
    pub api_keys: Vec<SharedApiKey>,
}

impl PolicySet {
    /// Sets the fragment of a zone.
    pub fn set_zone(&mut self, zone: Name<'_>, part: Arc<PolicyFragment>) {
        self.zones.insert(lower_case(zone), part);
    }
}

/// A snapshot of the policies of all zones.
#[derive(Clone)]
pub struct Policies {
    default: Arc<ZonePolicy>,
    zones: HashTrieMapSync<Box<[u8]>, Arc<ZonePolicy>>,
    keys: Arc<TsigKeys>,
    autoprimaries: Arc<[Autoprimary]>,
    cookies: Arc<[RolledCookieSecret]>,
    api_keys: Arc<[(PolicySource, SharedApiKey)]>,
}

impl Policies {
    /// Returns the secrets for DNS cookies, of the first source that has any.
    pub fn cookies(&self) -> &Arc<[RolledCookieSecret]> {
        &self.cookies
    }

    /// Returns the keys of the HTTP API in databases, with their sources.
    pub fn api_keys(&self) -> &Arc<[(PolicySource, SharedApiKey)]> {
        &self.api_keys
    }

    /// Returns the servers whose zones become secondaries here when they send NOTIFY.
    pub fn autoprimaries(&self) -> &[Autoprimary] {
        &self.autoprimaries
    }

    /// Returns the settings for servers that are known by their addresses only.
    pub fn remotes(&self) -> &[RemoteServer] {
        &self.default.remotes
    }

    /// Returns the policy of a zone: its own, or the default.
    pub fn get(&self, zone: Name<'_>) -> &Arc<ZonePolicy> {
        let mut lower = NameBuf::from(zone);
        lower.make_lowercase();
        let found = self.zones.get(lower.as_name().as_wire());
        found.unwrap_or(&self.default)
    }

    /// Returns the TSIG keys.
    pub fn keys(&self) -> &Arc<TsigKeys> {
        &self.keys
    }

    /// Lists the zones that have their own policy, with names in lower case.
    pub fn zones(&self) -> impl Iterator<Item = (Name<'_>, &Arc<ZonePolicy>)> {
        let zones = self.zones.iter();
        zones.map(|(name, policy)| (Name::from_valid_wire(name), policy))
    }

    /// Checks whether the policy of any zone meets a condition.
    pub fn any(&self, is_so: impl Fn(&ZonePolicy) -> bool) -> bool {
        is_so(&self.default) || self.zones.values().any(|policy| is_so(policy))
    }

    /// Lists the directories with the keys of zones.
    pub fn key_directories(&self) -> BTreeSet<&PathBuf> {
        let all = self.zones.values().chain([&self.default]);
        all.filter_map(|policy| policy.key_directory.as_ref())
            .collect()
    }

    /// Returns the policy of a zone that has its own.
    pub fn own(&self, zone: Name<'_>) -> Option<&Arc<ZonePolicy>> {
        let found = self.get(zone);
        (!Arc::ptr_eq(found, &self.default)).then_some(found)
    }
}

/// A change of policies, for listeners.
pub struct PolicyChange<'a> {
    /// The new policies.
    pub policies: &'a Arc<Policies>,
    /// The zones whose policies may have changed, in wire format and lower case.
    pub zones: &'a [Box<[u8]>],
    /// Whether TSIG keys may have changed.
    pub has_keys: bool,
}

type PolicyListener = Box<dyn Fn(&PolicyChange<'_>) + Send + Sync>;

/// The policies of all zones, and the sources that they come from.
pub struct PolicyTable {
    snapshot: ArcSwap<Policies>,
    sources: Mutex<PolicySources>,
}

/// The sources and the listeners, for one writer at a time.
#[derive(Default)]
struct PolicySources {
    sets: BTreeMap<PolicySource, PolicySet>,
    listeners: Vec<PolicyListener>,
}

impl Default for PolicyTable {
    /// Creates a table without policies, which denies everything.
    fn default() -> Self {
        let default = Arc::new(PolicyFragment::default().finish(PolicySource::Configured));
        PolicyTable {
            snapshot: ArcSwap::from_pointee(Policies {
                default,
                zones: HashTrieMapSync::new_sync(),
                keys: Arc::default(),
                autoprimaries: Arc::default(),
                cookies: Arc::default(),
                api_keys: Arc::default(),
            }),
            sources: Mutex::default(),
        }
    }
}

impl PolicyTable {
    /// Returns the current policies.
    pub fn load(&self) -> Arc<Policies> {
        self.snapshot.load_full()
    }

    /// Registers a function that is called after every change, one change at a time. It must not change policies
    /// itself.
    pub fn on_change(&self, listener: impl Fn(&PolicyChange<'_>) + Send + Sync + 'static) {
        let mut sources = self.sources.lock();
        sources.listeners.push(Box::new(listener));
    }

    /// Replaces everything from a source.
    pub fn set(&self, source: PolicySource, set: PolicySet) {
        let mut sources = self.sources.lock();
        let before = sources.sets.insert(source, set).unwrap_or_default();
        let now = &sources.sets[&source];
        let mut policies = Policies::clone(&self.snapshot.load());
        let mut changed: Vec<Box<[u8]>> = Vec::new();
        let is_same = before.default == now.default && before.remotes == now.remotes;
        if source == PolicySource::Configured && !is_same {
            let mut default = now.default.clone().finish(source);
            default.remotes = Arc::clone(&now.remotes);
            policies.default = Arc::new(default);
            // All of them may have a new default.
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
        if before.cookies != now.cookies {
            policies.cookies = sources.cookies();
        }
        if before.api_keys != now.api_keys {
            policies.api_keys = sources.api_keys();
        }
        self.publish(&sources, policies, &changed, has_keys);
    }

    /// Sets or removes the fragments of some zones from a source.
    pub fn change(
        &self,
        source: PolicySource,
        zones: impl IntoIterator<Item = (NameBuf, Option<Arc<PolicyFragment>>)>,
    ) {
        let mut sources = self.sources.lock();
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

    /// Sets or removes a source's key with this name.
    pub fn change_key(&self, source: PolicySource, name: Name<'_>, key: Option<Arc<TsigKey>>) {
        let mut sources = self.sources.lock();
        let set = sources.sets.entry(source).or_default();
        set.keys.retain(|known| known.name() != name);
        set.keys.extend(key);
        let mut policies = Policies::clone(&self.snapshot.load());
        policies.keys = Arc::new(sources.keys());
        self.publish(&sources, policies, &[], true);
    }

    /// Replaces the secrets for DNS cookies of a source.
    pub fn change_cookies(&self, source: PolicySource, cookies: Vec<RolledCookieSecret>) {
        let mut sources = self.sources.lock();
        sources.sets.entry(source).or_default().cookies = cookies;
        let mut policies = Policies::clone(&self.snapshot.load());
        policies.cookies = sources.cookies();
        self.publish(&sources, policies, &[], false);
    }

    /// Sets or removes a source's API key with this ID.
    pub fn change_api_key(&self, source: PolicySource, id: &str, key: Option<SharedApiKey>) {
        let mut sources = self.sources.lock();
        let set = sources.sets.entry(source).or_default();
        set.api_keys.retain(|known| known.id != id);
        set.api_keys.extend(key);
        let mut policies = Policies::clone(&self.snapshot.load());
        policies.api_keys = sources.api_keys();
        self.publish(&sources, policies, &[], false);
    }

    /// Returns the source of the secrets for DNS cookies, with them; `None` if no source has any.
    pub fn cookies_with_source(&self) -> Option<(PolicySource, Vec<RolledCookieSecret>)> {
        let sources = self.sources.lock();
        let mut sets = sources.sets.iter();
        let (source, set) = sets.find(|(_, set)| !set.cookies.is_empty())?;
        Some((*source, set.cookies.clone()))
    }

    /// Returns the keys of all sources, including those that are hidden by an earlier source.
    pub fn keys_by_source(&self) -> Vec<(PolicySource, Arc<TsigKey>)> {
        let sources = self.sources.lock();
        let of = |(source, set): (&PolicySource, &PolicySet)| {
            let keys = set.keys.iter().cloned();
            let source = *source;
            keys.map(move |key| (source, key)).collect::<Vec<_>>()
        };
        sources.sets.iter().flat_map(of).collect()
    }

    /// Assembles the policies of changed zones, publishes the snapshot and calls the listeners.
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
}

/// Policies built in one go, by the addresses of their fragments: a hundred thousand zones with the same fragments
/// share one.
type MadePolicies = HashMap<(usize, usize, PolicySource), Arc<ZonePolicy>>;

impl PolicySources {
    /// Assembles the policy of a zone; `None` if no source has the zone.
    fn policy(&self, zone: &[u8], made: &mut MadePolicies) -> Option<Arc<ZonePolicy>> {
        let configured = self.sets.get(&PolicySource::Configured);
        let own = configured.and_then(|set| set.zones.get(zone));
        let mut others = self.sets.iter().filter_map(|(source, set)| {
            let part = set.zones.get(zone)?;
            (*source != PolicySource::Configured).then_some((*source, part))
        });
        let other = others.next();
        // A table that does not declare the zone's kind leaves that to the source that has the zone.
        let declares = own.is_some_and(|own| own.kind.is_some());
        let declared_by = match other {
            Some((source, _)) if !declares => source,
            _ => PolicySource::Configured,
        };
        let place = |part: &Arc<PolicyFragment>| Arc::as_ptr(part) as usize;
        let key = (
            own.map_or(0, place),
            other.map_or(0, |(_, part)| place(part)),
            declared_by,
        );
        if own.is_none() && other.is_none() {
            return None;
        }
        let make = || {
            let none = PolicyFragment::default();
            let default = configured.map_or(&none, |set| &set.default);
            let remotes = configured.map(|set| Arc::clone(&set.remotes));
            let remotes = remotes.unwrap_or_default();
            let own = own.map_or(&none, |part| part);
            let other = other.map_or(&none, |(_, part)| part);
            let other = other.with_remotes(&remotes);
            let mut policy = own.or(&other).or(default).finish(declared_by);
            policy.remotes = remotes;
            Arc::new(policy)
        };
        Some(Arc::clone(made.entry(key).or_insert_with(make)))
    }

    fn api_keys(&self) -> Arc<[(PolicySource, SharedApiKey)]> {
        let sets = self.sets.iter();
        sets.flat_map(|(source, set)| set.api_keys.iter().map(|key| (*source, key.clone())))
            .collect()
    }

    /// Returns the secrets for DNS cookies of the first source that has any.
    fn cookies(&self) -> Arc<[RolledCookieSecret]> {
        let mut sets = self.sets.values();
        let set = sets.find(|set| !set.cookies.is_empty());
        set.map(|set| set.cookies[..].into()).unwrap_or_default()
    }

    /// Merges the keys of all sources.
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
