//! The thread that applies catalogs: members of consumed ones appear and vanish as secondary zones, and produced ones
//! are built from the zones configured as members.
//!
//! It is woken by commits and by policy changes, reads the served versions, and sets policies in turn; the refresh of
//! secondary zones does the rest. Contents of catalogs are durable like those of any transferred zone, so nothing
//! else is stored.

use super::database::{StoredCatalogs, name_of, primaries_text};
use super::owners::{Catalogs, IgnoredMember, Ownership};
use super::read_catalog;
use crate::commit::Commits;
use crate::core::Core;
use crate::follow::databases::FollowedDatabase;
use crate::leases::{LeaseTask, Leases};
use crate::policy::{
    Policies, PolicyFragment, PolicySet, PolicySource, PolicyTable, RemoteServer,
    UNCONFIGURED_RANK, ZoneKind, ZonePolicy,
};
use crate::table::lower_case;
use nameward_base::text::counted;
use nameward_base::worker::{self, Mailbox, panic_guard};
use nameward_sql::CatalogProperties;
use nameward_sql::write::{CatalogMembers, StoredMember};
use nameward_wire::Name;
use nameward_zone::Zone;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Interval at which the versions of catalogs are checked without a wake-up: a start loads versions from the state
/// store without notice.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Delay before a produced catalog is built again after a failure: a full disk stays full for a while.
const MAKE_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Maximum number of log lines about ignored members.
const LINES_MAX: usize = 100;

/// The settings of templates by name, for groups.
type Templates = HashMap<String, PolicyFragment>;

/// The storage of catalogs in backends, by backend rank.
type CatalogStorages = HashMap<u16, Arc<StoredCatalogs>>;

/// The handle of the thread; clones share it.
#[derive(Clone, Default)]
pub struct CatalogHandle {
    mailbox: Mailbox<CatalogInbox>,
}

/// Requests to the thread: at most one commit for each catalog produced here, and the last state of the rest.
#[derive(Default)]
struct CatalogInbox {
    templates: Option<Templates>,
    has_policies: bool,
    /// This server now maintains the catalogs of a database.
    has_lease: bool,
    /// Produced catalogs whose commit has ended, and whether it succeeded.
    committed: Vec<(Box<[u8]>, bool)>,
}

impl CatalogHandle {
    /// Requests a check of catalogs: a zone has a new version.
    pub fn wake(&self) {
        self.mailbox.put(|_| ());
    }

    /// Requests that all catalogs are made and their members written: this server now does that for a database.
    pub fn take_over(&self) {
        self.mailbox.put(|inbox| inbox.has_lease = true);
    }

    /// Replaces the settings of templates.
    pub fn set_templates(&self, templates: Templates) {
        self.mailbox.put(|inbox| inbox.templates = Some(templates));
    }

    /// Records the result of committing a produced catalog.
    pub(super) fn end_commit(&self, catalog: Box<[u8]>, is_made: bool) {
        self.mailbox
            .put(|inbox| inbox.committed.push((catalog, is_made)));
    }

    /// Ends the thread.
    pub fn end(&self) {
        self.mailbox.stop();
    }
}

/// Starts the thread of a handle. Call within the runtime of the database connections.
pub fn start(core: &Core, handle: &CatalogHandle, templates: Templates) -> io::Result<()> {
    let storage = |database: &FollowedDatabase| {
        let storage = StoredCatalogs::start(database, &Handle::current())?;
        Ok((database.rank, Arc::new(storage)))
    };
    let databases = core.databases.all().iter();
    let storages = databases.map(storage).collect::<io::Result<_>>()?;
    let listener = handle.clone();
    core.policies.on_change(move |change| {
        if !change.zones.is_empty() {
            listener.mailbox.put(|inbox| inbox.has_policies = true);
        }
    });
    let mut follower = CatalogFollower {
        handle: handle.clone(),
        commits: Arc::clone(&core.commits),
        policies: Arc::clone(&core.policies),
        leases: core.leases.clone(),
        awaited: HashMap::new(),
        templates,
        consumers: Vec::new(),
        producers: BTreeMap::new(),
        committing: HashSet::new(),
        failed: HashSet::new(),
        make_again_at: None,
        has_postponed: false,
        seen: HashMap::new(),
        catalogs: Catalogs::new(),
        ownership: Ownership::default(),
        resetting: HashSet::new(),
        ignored: HashSet::new(),
        storages,
    };
    worker::start("catalogs", move || follower.run()).map(drop)
}

/// The thread's work, in the message about a bug.
const FOLLOWING: &str = "following catalogs";

/// A member of a produced catalog with its properties.
type ProducedMember = (Box<[u8]>, CatalogProperties);
/// The members of a produced catalog, in order.
pub(super) type ProducedMembers = Vec<ProducedMember>;

/// The state of the thread. Names are in wire format and lower case.
pub(super) struct CatalogFollower {
    pub(super) handle: CatalogHandle,
    pub(super) commits: Arc<Commits>,
    /// The policies, which determine the catalogs and their members.
    pub(super) policies: Arc<PolicyTable>,
    pub(super) leases: Leases,
    /// Produced catalogs whose next serial another server decides, and since when it is awaited.
    pub(super) awaited: HashMap<Box<[u8]>, Instant>,
    templates: Templates,
    /// Consumed catalogs.
    consumers: Vec<(Box<[u8]>, Arc<ZonePolicy>)>,
    /// Produced catalogs, with the last built members.
    producers: BTreeMap<Box<[u8]>, ProducedMembers>,
    /// Produced catalogs that are being committed. The next version of one waits: its serial depends on this one's.
    pub(super) committing: HashSet<Box<[u8]>>,
    /// Produced catalogs that could not be committed: they are built again.
    pub(super) failed: HashSet<Box<[u8]>>,
    /// When the first of them is built again.
    make_again_at: Option<Instant>,
    /// A catalog changed while it was being committed.
    has_postponed: bool,
    /// The last processed version of each consumed catalog.
    seen: HashMap<Box<[u8]>, Arc<Zone>>,
    catalogs: Catalogs,
    ownership: Ownership,
    /// Members whose zones must be removed before they are added again.
    resetting: HashSet<Box<[u8]>>,
    /// Ignored members that have been logged.
    ignored: HashSet<IgnoredMember>,
    storages: CatalogStorages,
}

impl CatalogFollower {
    fn run(&mut self) {
        let mut has_policies = true;
        loop {
            let is_done = panic_guard(FOLLOWING, || self.check(has_policies));
            let Some(inbox) = self.handle.mailbox.wait(Some(CHECK_INTERVAL)) else {
                return;
            };
            has_policies = inbox.has_policies | self.end_commits(inbox.committed) | !is_done;
            has_policies |= inbox.has_lease | !self.awaited.is_empty();
            if inbox.has_lease {
                panic_guard(FOLLOWING, || self.set_members());
            }
            if let Some(templates) = inbox.templates {
                self.templates = templates;
                panic_guard(FOLLOWING, || self.set_members());
            }
        }
    }

    /// Checks everything that may have changed.
    fn check(&mut self, has_policies: bool) {
        let mut is_stale = false;
        if has_policies {
            is_stale |= self.list_catalogs();
        }
        is_stale |= self.read_new_versions() || self.check_resets();
        if is_stale {
            self.set_members();
        }
    }

    /// Records finished commits; returns whether catalogs must be built again.
    fn end_commits(&mut self, committed: Vec<(Box<[u8]>, bool)>) -> bool {
        let has_ended = !committed.is_empty();
        for (catalog, is_made) in committed {
            self.committing.remove(&catalog);
            if !is_made {
                self.failed.insert(catalog);
                let again = Instant::now() + MAKE_AGAIN_AFTER;
                self.make_again_at.get_or_insert(again);
            }
        }
        let is_due = self.make_again_at.take_if(|at| *at <= Instant::now());
        is_due.is_some() || has_ended && std::mem::take(&mut self.has_postponed)
    }

    /// Finds the catalogs among the policies, and builds produced ones whose members changed. Returns whether
    /// consumed ones changed.
    fn list_catalogs(&mut self) -> bool {
        let policies = self.policies.load();
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
            // A catalog names zones, not their versions for views.
            if let Some(catalog) = policy.catalog.as_ref().filter(|_| zone.variant().is_none()) {
                let catalog = lower_case(catalog.as_name());
                let mut properties = policy.catalog_properties.clone();
                properties.groups.extend(policy.catalog_group.clone());
                if let Some(new) = &policy.catalog_moves_to {
                    properties.new_catalog = Some(lower_case(new.as_name()));
                }
                let member = (zone.as_wire().into(), properties);
                members.push((catalog, member));
            }
        }
        for (catalog, member) in members {
            // A member of a catalog that is not produced here is ignored.
            if let Some(of) = producers.get_mut(&catalog) {
                of.push(member);
            }
        }
        let mut gone = std::mem::take(&mut self.producers);
        for (catalog, mut members) in producers {
            members.sort_unstable();
            let before = gone.remove(&catalog);
            let is_same = before.as_ref() == Some(&members) && !self.failed.contains(&catalog);
            if !is_same && self.committing.contains(&catalog) {
                self.has_postponed = true;
                self.producers
                    .extend(before.map(|before| (catalog, before)));
            } else if is_same || self.produce(&catalog, &members) {
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

    /// Reads catalogs that have a new version; returns whether there are any.
    fn read_new_versions(&mut self) -> bool {
        let table = self.commits.table().load();
        let mut is_changed = false;
        for (catalog, _) in &self.consumers {
            let Some(zone) = table.exact(Name::from_valid_wire(catalog)) else {
                continue;
            };
            let is_seen = |seen: &Arc<Zone>| Arc::ptr_eq(seen, zone);
            if zone.is_stub() || !zone.is_ready() || self.seen.get(catalog).is_some_and(is_seen) {
                // An expired one keeps its members.
                continue;
            }
            self.seen.insert(catalog.clone(), Arc::clone(zone));
            let (name, serial) = (zone.id(), zone.serial());
            match read_catalog(zone) {
                Ok(read) => {
                    let members = counted(read.members.len(), "member");
                    tracing::info!("catalog {name}: serial {serial}, {members}");
                    self.catalogs.insert(catalog.clone(), read);
                    is_changed = true;
                }
                Err(error) => tracing::error!(
                    "catalog {name}: serial {serial} is invalid and ignored: {error}"
                ),
            }
        }
        is_changed
    }

    /// Checks whether reset zones have been removed, so that they may be added again.
    fn check_resets(&mut self) -> bool {
        let (table, before) = (self.commits.table().load(), self.resetting.len());
        self.resetting
            .retain(|zone| table.exact(Name::from_valid_wire(zone)).is_some());
        before != self.resetting.len()
    }

    /// Applies the members of all catalogs.
    fn set_members(&mut self) {
        let policies = self.policies.load();
        let table = self.commits.table().load();
        let is_taken = |zone: &[u8], catalog: &[u8]| {
            let (name, catalog) = (Name::from_valid_wire(zone), Name::from_valid_wire(catalog));
            let own = policies.own(name);
            let declared_by = own.map(|policy| policy.declared_by);
            // A row of the database that has the catalog.
            let is_row = own.is_some_and(|own| {
                own.catalog.as_ref().map(|of| of.as_name()) == Some(catalog)
                    && own.declared_by == policies.get(catalog).declared_by
            });
            let is_declared = || declared_by.is_some_and(|source| source != PolicySource::Catalogs);
            let served = || table.exact(name);
            let is_served = || served().is_some_and(|zone| zone.rank() != UNCONFIGURED_RANK);
            !is_row && (is_declared() || is_served())
        };
        let change = self.ownership.update(&self.catalogs, is_taken);
        for zone in change.resets {
            let name = Name::from_valid_wire(&zone);
            tracing::info!("zone {name}: reset: its catalog member label changed");
            let owner = self.ownership.owners.get(&zone);
            // Rows have their own label.
            if owner.is_some_and(|owner| self.storage_of(&policies, &owner.catalog).is_none()) {
                self.resetting.insert(zone);
            }
        }
        self.log_ignored(change.ignored);
        let mut set = PolicySet::default();
        let mut parts: HashMap<(&[u8], Option<&str>), Arc<PolicyFragment>> = HashMap::new();
        let mut rows = self.stored_catalogs(&policies);
        for (zone, owner) in &self.ownership.owners {
            if self.resetting.contains(zone) {
                continue;
            }
            if let Some((_, catalog)) = rows.get_mut(&owner.catalog) {
                catalog
                    .members
                    .extend(self.stored_member(&policies, zone, &owner.catalog));
                continue;
            }
            let member = self.catalogs.get(&owner.catalog);
            let member = member.and_then(|catalog| catalog.members.get(zone));
            let groups = member.map_or(&[][..], |member| &member.groups[..]);
            let mut groups = groups.iter().map(String::as_str);
            let template = groups.find(|group| self.templates.contains_key(*group));
            let make = || Arc::new(self.terms(&policies, &owner.catalog, template));
            let part = parts
                .entry((&*owner.catalog, template))
                .or_insert_with(make);
            set.zones.insert(zone.clone(), Arc::clone(part));
        }
        let mut by_rank: BTreeMap<u16, Vec<CatalogMembers>> = BTreeMap::new();
        for (rank, mut catalog) in rows.into_values() {
            catalog
                .members
                .sort_by(|a, b| a.zone.as_name().canonical_cmp(b.zone.as_name()));
            by_rank.entry(rank).or_default().push(catalog);
        }
        self.policies.set(PolicySource::Catalogs, set);
        for (rank, catalogs) in by_rank {
            let is_ours = self.leases.holds(rank, LeaseTask::Catalogs);
            if let Some(storage) = self.storages.get(&rank).filter(|_| is_ours) {
                storage.set_members(catalogs);
            }
        }
    }

    /// Returns the storage of a catalog in a backend, with its rank.
    pub(super) fn storage_of(
        &self,
        policies: &Policies,
        catalog: &[u8],
    ) -> Option<(u16, &Arc<StoredCatalogs>)> {
        let own = policies.get(Name::from_valid_wire(catalog));
        // A row has addresses only: members with encrypted transfers are kept in the state store, with the settings of the
        // catalog, unless these are configured for the address.
        let is_lost = |primary: &RemoteServer| {
            let named = RemoteServer::plain(primary.address);
            primary.tls != named.configured_by(&own.remotes).tls
        };
        match own.declared_by {
            _ if own.primaries.iter().any(is_lost) => None,
            PolicySource::Backend(rank) => Some((rank, self.storages.get(&rank)?)),
            _ => None,
        }
    }

    /// Lists the catalogs that were read and whose members are rows, with the ranks of their storage.
    fn stored_catalogs(&self, policies: &Policies) -> BTreeMap<Box<[u8]>, (u16, CatalogMembers)> {
        let mut stored = BTreeMap::new();
        for catalog in self.catalogs.keys() {
            if let Some((rank, _)) = self.storage_of(policies, catalog) {
                let members = CatalogMembers {
                    catalog: name_of(catalog),
                    members: Vec::new(),
                };
                stored.insert(catalog.clone(), (rank, members));
            }
        }
        stored
    }

    /// Returns the row that a member must have.
    fn stored_member(
        &self,
        policies: &Policies,
        zone: &[u8],
        catalog: &[u8],
    ) -> Option<StoredMember> {
        let member = self.catalogs.get(catalog)?.members.get(zone)?;
        let primaries = &policies.get(Name::from_valid_wire(catalog)).primaries;
        Some(StoredMember {
            zone: name_of(zone),
            primaries: primaries_text(primaries),
            key: primaries.first().and_then(|primary| primary.key),
            properties: CatalogProperties {
                label: Some(member.label.clone()),
                groups: member.groups.clone(),
                new_catalog: member.new_catalog.clone(),
            },
        })
    }

    /// Returns the settings of members of a catalog: those of a template, and the catalog's primaries.
    fn terms(&self, policies: &Policies, catalog: &[u8], template: Option<&str>) -> PolicyFragment {
        let own = policies.get(Name::from_valid_wire(catalog));
        let base = PolicyFragment {
            primaries: Some(own.primaries.clone()),
            allow_notify: Some(own.allow_notify.clone()),
            ..PolicyFragment::default()
        };
        let template = template.and_then(|name| self.templates.get(name));
        PolicyFragment {
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
                        "catalog {catalog}: member zone {zone} ignored: it belongs to catalog {owner}, which has no \
                         coo property for it"
                    );
                }
                None => {
                    tracing::warn!(
                        "catalog {catalog}: member zone {zone} ignored: it is already served from another source"
                    );
                }
            }
        }
        self.ignored = ignored;
    }
}
