//! The thread that does what catalogs say: members of those that are followed appear and vanish as secondary zones, and
//! our own are made of the zones that say they are members.
//!
//! It is woken by commits and by changes of policies, looks at the versions that are served, and sets policies in turn; the
//! life of secondary zones does the rest. Contents of catalogs are durable like those of any zone that is transferred, so
//! nothing else is kept.

use super::owners::{Catalogs, IgnoredMember, Ownership};
use super::{make_catalog, read_catalog};
use crate::commit::{Commits, VersionSource};
use crate::policy::{
    CONFIGURED_RANK, Policies, PolicyPart, PolicySet, PolicySource, PolicyTable, UNCONFIGURED_RANK,
    ZoneKind, ZonePolicy,
};
use crate::read_contents;
use nameward_store::state::{JournalOrigin, StateChange, ZoneHome};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{Serial, TableChange, Zone};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often the versions of catalogs are looked at without a reason: those that a start takes from the state store are
/// not told of.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Members that are not taken, of which the log tells.
const LINES_MAX: usize = 100;

/// The parts that the thread works with.
pub struct CatalogParts {
    /// The way of new versions of zones.
    pub commits: Arc<Commits>,
    /// The policies, which say which zones are catalogs and which are members.
    pub policies: Arc<PolicyTable>,
    /// The terms of templates by name, for groups.
    pub templates: HashMap<String, PolicyPart>,
}

/// The way to the thread; clones are the same way.
#[derive(Clone, Default)]
pub struct CatalogHandle {
    shared: Arc<CatalogShared>,
}

#[derive(Default)]
struct CatalogShared {
    inbox: Mutex<CatalogInbox>,
    woken: Condvar,
}

#[derive(Default)]
struct CatalogInbox {
    templates: Option<HashMap<String, PolicyPart>>,
    has_policies: bool,
    is_woken: bool,
    has_ended: bool,
}

impl CatalogHandle {
    fn put(&self, put: impl FnOnce(&mut CatalogInbox)) {
        let mut inbox = lock(&self.shared.inbox);
        put(&mut inbox);
        inbox.is_woken = true;
        drop(inbox);
        self.shared.woken.notify_one();
    }

    /// Has catalogs looked at: a zone has a new version.
    pub fn wake(&self) {
        self.put(|_| ());
    }

    /// Replaces the terms of templates.
    pub fn set_templates(&self, templates: HashMap<String, PolicyPart>) {
        self.put(|inbox| inbox.templates = Some(templates));
    }

    /// Ends the thread.
    pub fn end(&self) {
        self.put(|inbox| inbox.has_ended = true);
    }
}

/// Starts the thread that a handle leads to.
pub fn start(parts: CatalogParts, handle: &CatalogHandle) -> io::Result<()> {
    let listener = handle.clone();
    parts.policies.on_change(move |change| {
        if !change.zones.is_empty() {
            listener.put(|inbox| inbox.has_policies = true);
        }
    });
    let mut follower = CatalogFollower {
        shared: Arc::clone(&handle.shared),
        parts,
        consumers: Vec::new(),
        producers: BTreeMap::new(),
        seen: HashMap::new(),
        catalogs: Catalogs::new(),
        ownership: Ownership::default(),
        resetting: HashSet::new(),
        ignored: HashSet::new(),
    };
    thread::Builder::new()
        .name("catalogs".into())
        .spawn(move || follower.run())?;
    Ok(())
}

/// A member of a producer's catalog with its group.
type ProducedMember = (Box<[u8]>, Option<String>);
/// The members of a producer's catalog, in order.
type ProducedMembers = Vec<ProducedMember>;

/// The thread's own. Names are in wire form and lower case.
struct CatalogFollower {
    shared: Arc<CatalogShared>,
    parts: CatalogParts,
    /// Catalogs that are followed.
    consumers: Vec<(Box<[u8]>, Arc<ZonePolicy>)>,
    /// Catalogs that are made here, with what was last made.
    producers: BTreeMap<Box<[u8]>, ProducedMembers>,
    /// The version of each consumer that was last looked at.
    seen: HashMap<Box<[u8]>, Arc<Zone>>,
    catalogs: Catalogs,
    ownership: Ownership,
    /// Members whose zones are to be gone before they are taken again.
    resetting: HashSet<Box<[u8]>>,
    /// Members that are not taken, as the log tells.
    ignored: HashSet<IgnoredMember>,
}

impl CatalogFollower {
    fn run(&mut self) {
        let mut has_policies = true;
        loop {
            let mut is_stale = false;
            if has_policies {
                is_stale |= self.list_catalogs();
            }
            is_stale |= self.look_at_versions() || self.look_at_resets();
            if is_stale {
                self.set_members();
            }
            let Some(inbox) = self.wait() else {
                return;
            };
            has_policies = inbox.has_policies;
            if let Some(templates) = inbox.templates {
                self.parts.templates = templates;
                self.set_members();
            }
        }
    }

    fn wait(&self) -> Option<CatalogInbox> {
        let is_idle = |inbox: &mut CatalogInbox| !inbox.is_woken;
        let inbox = lock(&self.shared.inbox);
        let waited = self
            .shared
            .woken
            .wait_timeout_while(inbox, LOOK_EVERY, is_idle);
        let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!inbox.has_ended).then(|| std::mem::take(&mut *inbox))
    }

    /// Finds the catalogs among the policies, and makes those of our own whose members changed. Returns whether
    /// those that are followed changed.
    fn list_catalogs(&mut self) -> bool {
        let policies = self.parts.policies.load();
        let mut consumers: Vec<(Box<[u8]>, Arc<ZonePolicy>)> = Vec::new();
        let mut producers: BTreeMap<Box<[u8]>, ProducedMembers> = BTreeMap::new();
        let mut members: Vec<(Box<[u8]>, ProducedMember)> = Vec::new();
        for (zone, policy) in policies.zones() {
            match policy.kind {
                ZoneKind::Consumer => consumers.push((zone.as_wire().into(), Arc::clone(policy))),
                ZoneKind::Producer => {
                    producers.insert(zone.as_wire().into(), Vec::new());
                }
                _ => {}
            }
            if let Some(catalog) = &policy.catalog {
                let catalog = catalog.as_name().as_wire().to_ascii_lowercase();
                let member = (zone.as_wire().into(), policy.catalog_group.clone());
                members.push((catalog.into(), member));
            }
        }
        for (catalog, member) in members {
            // A member of a catalog that is not made here is no member.
            if let Some(of) = producers.get_mut(&catalog) {
                of.push(member);
            }
        }
        let mut gone = std::mem::take(&mut self.producers);
        for (catalog, mut members) in producers {
            members.sort_unstable();
            let before = gone.remove(&catalog);
            if before.as_ref() == Some(&members) || self.produce(&catalog, &members) {
                self.producers.insert(catalog, members);
            }
        }
        gone.keys().for_each(|catalog| self.end_production(catalog));
        consumers.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let is_changed = self.consumers != consumers;
        self.consumers = consumers;
        let is_there = |catalog: &[u8]| self.consumers.iter().any(|(one, _)| **one == *catalog);
        self.seen.retain(|catalog, _| is_there(catalog));
        let before = self.catalogs.len();
        self.catalogs.retain(|catalog, _| is_there(catalog));
        is_changed || before != self.catalogs.len()
    }

    /// Reads catalogs that have a new version; returns whether there are some.
    fn look_at_versions(&mut self) -> bool {
        let table = self.parts.commits.table().load();
        let mut is_changed = false;
        for (catalog, _) in &self.consumers {
            let Some(zone) = table.exact(Name::from_valid_wire(catalog)) else {
                continue;
            };
            let is_seen = |seen: &Arc<Zone>| Arc::ptr_eq(seen, zone);
            if zone.is_stand_in() || !zone.is_ready() || self.seen.get(catalog).is_some_and(is_seen)
            {
                // One that has expired keeps its members.
                continue;
            }
            self.seen.insert(catalog.clone(), Arc::clone(zone));
            let (name, serial) = (zone.apex_name(), zone.serial());
            match read_catalog(zone) {
                Ok(read) => {
                    let members = read.members.len();
                    tracing::info!("catalog {name}: serial {serial}, {members} members");
                    self.catalogs.insert(catalog.clone(), read);
                    is_changed = true;
                }
                Err(error) => tracing::error!(
                    "catalog {name}: serial {serial} is broken and changes nothing: {error}"
                ),
            }
        }
        is_changed
    }

    /// Looks whether zones that are reset are gone, so that they may come again.
    fn look_at_resets(&mut self) -> bool {
        let (table, before) = (self.parts.commits.table().load(), self.resetting.len());
        self.resetting
            .retain(|zone| table.exact(Name::from_valid_wire(zone)).is_some());
        before != self.resetting.len()
    }

    /// Puts the members of all catalogs into force.
    fn set_members(&mut self) {
        let policies = self.parts.policies.load();
        let table = self.parts.commits.table().load();
        let is_taken = |zone: &[u8]| {
            let name = Name::from_valid_wire(zone);
            let declared_by = policies.own(name).map(|policy| policy.declared_by);
            declared_by.is_some_and(|source| source != PolicySource::Catalogs)
                || table
                    .exact(name)
                    .is_some_and(|zone| zone.rank() != UNCONFIGURED_RANK)
        };
        let change = self.ownership.update(&self.catalogs, is_taken);
        for zone in &change.resets {
            let name = Name::from_valid_wire(zone);
            tracing::info!("zone {name}: its label in the catalog changed: it begins anew");
        }
        self.resetting.extend(change.resets);
        self.log_ignored(change.ignored);
        let mut set = PolicySet::default();
        let mut parts: HashMap<(&[u8], Option<&str>), Arc<PolicyPart>> = HashMap::new();
        for (zone, owner) in &self.ownership.owners {
            if self.resetting.contains(zone) {
                continue;
            }
            let member = self.catalogs.get(&owner.catalog);
            let member = member.and_then(|catalog| catalog.members.get(zone));
            let groups = member.map_or(&[][..], |member| &member.groups[..]);
            let mut groups = groups.iter().map(String::as_str);
            let template = groups.find(|group| self.parts.templates.contains_key(*group));
            let make = || Arc::new(self.terms(&policies, &owner.catalog, template));
            let part = parts
                .entry((&*owner.catalog, template))
                .or_insert_with(make);
            set.zones.insert(zone.clone(), Arc::clone(part));
        }
        self.parts.policies.set(PolicySource::Catalogs, set);
    }

    /// The terms of members of a catalog: those of a template, and the catalog's primaries.
    fn terms(&self, policies: &Policies, catalog: &[u8], template: Option<&str>) -> PolicyPart {
        let own = policies.of(Name::from_valid_wire(catalog));
        let base = PolicyPart {
            primaries: Some(own.primaries.clone()),
            allow_notify: Some(own.allow_notify.clone()),
            ..PolicyPart::default()
        };
        let template = template.and_then(|name| self.parts.templates.get(name));
        PolicyPart {
            kind: Some(ZoneKind::Secondary),
            ..template.map_or_else(|| base.clone(), |template| template.or(&base))
        }
    }

    fn log_ignored(&mut self, ignored: Vec<IgnoredMember>) {
        let ignored: HashSet<IgnoredMember> = ignored.into_iter().collect();
        let new = ignored.difference(&self.ignored).take(LINES_MAX);
        for member in new {
            let [zone, catalog] =
                [&member.zone, &member.catalog].map(|name| Name::from_valid_wire(name));
            match &member.owner {
                Some(owner) => {
                    let owner = Name::from_valid_wire(owner);
                    tracing::warn!(
                        "catalog {catalog}: zone {zone} is a member of {owner}, which names no other: ignored"
                    );
                }
                None => {
                    tracing::warn!(
                        "catalog {catalog}: zone {zone} is served from elsewhere: ignored"
                    );
                }
            }
        }
        self.ignored = ignored;
    }

    /// Makes a catalog of our own and commits it, unless it is as it was; returns whether it is made.
    fn produce(&self, catalog: &[u8], members: &ProducedMembers) -> bool {
        let name = Name::from_valid_wire(catalog);
        let commits = &self.parts.commits;
        let Some(store) = commits.store() else {
            tracing::error!(
                "catalog {name}: not made: set state_directory, where its serial is kept"
            );
            return true;
        };
        let offered = commits.table().version(name, CONFIGURED_RANK);
        let before = match offered.filter(|zone| !zone.is_stand_in()) {
            Some(zone) => Some(zone),
            None => match read_contents(store, &name.into()) {
                Ok(kept) => {
                    let is_kept = kept.is_some();
                    let mut zone = kept.unwrap_or_else(|| Zone::not_ready(name));
                    zone.set_rank(CONFIGURED_RANK);
                    let zone = Arc::new(zone);
                    let offer = TableChange::Offer(Arc::clone(&zone));
                    commits.table().publish(&[offer]);
                    is_kept.then_some(zone)
                }
                Err(error) => {
                    tracing::error!("catalog {name}: not made: {error}");
                    return false;
                }
            },
        };
        let make = |serial| {
            let members = members.iter();
            let members =
                members.map(|(zone, group)| (Name::from_valid_wire(zone), group.as_deref()));
            make_catalog(name, members, serial)
        };
        let is_same = |before: &Arc<Zone>| {
            let same = make(before.serial());
            same.is_some_and(|same| same.difference_from(before).is_empty())
        };
        if before.as_ref().is_some_and(is_same) {
            return true;
        }
        let serial = next_serial(before.map(|zone| zone.serial()), now_seconds());
        let Some(zone) = make(serial) else {
            tracing::error!("catalog {name}: not made: its name is too long");
            return true;
        };
        let source = VersionSource {
            zone: name.into(),
            rank: CONFIGURED_RANK,
            home: ZoneHome::Store,
            origin: JournalOrigin::Change,
            confirmed: None,
        };
        let (owned, count) = (NameBuf::from(name), members.len());
        commits.version(source, zone, move |result| match result {
            Ok(_) => tracing::info!("catalog {owned}: made, serial {serial}, {count} members"),
            Err(error) => tracing::error!("catalog {owned}: not made: {error}"),
        });
        true
    }

    /// Takes a catalog away that is not made here any more.
    fn end_production(&self, catalog: &[u8]) {
        let name = Name::from_valid_wire(catalog);
        let commits = &self.parts.commits;
        let withdrawn = TableChange::Withdraw(catalog.into(), CONFIGURED_RANK);
        commits.table().publish(&[withdrawn]);
        let zone = NameBuf::from(name);
        commits.keep(zone, vec![StateChange::RemoveZone { zone }]);
        tracing::info!("catalog {name}: not made any more");
    }
}

/// The serial after a change: the time, or one more where that would not be forward (RFC 1982).
fn next_serial(before: Option<Serial>, now: u32) -> Serial {
    match before {
        Some(before) if !Serial(now).is_after(before) => Serial(before.0.wrapping_add(1)),
        _ => Serial(now),
    }
}

fn now_seconds() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // RFC 1982: serials go around, so may the time.
    since.map_or(0, |since| since.as_secs() as u32)
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
