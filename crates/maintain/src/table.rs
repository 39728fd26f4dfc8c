//! The zone table that serving reads, and its only writer.
//!
//! Readers load a snapshot without a lock. Maintenance submits changes here; they are applied one group at a time,
//! each on the current table, and become visible together by swapping one pointer.
//!
//! Zones that are signed with this server's keys get their signing here when they are published, and lose it when
//! they are read back: maintenance code sees the contents as stored.

mod layers;

use crate::change_feed::ChangeFeed;
use arc_swap::ArcSwap;
use layers::LayeredVersions;
use nameward_base::sync::Mutex;
use nameward_dnssec::{DenialStyle, Signing, SoaEdit};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{
    AccessRules, AccessSource, Contest, ServedDigest, SigningState, TableChange, ViewId, ViewRule,
    ViewSource, Zone, ZoneTable, is_digest_of,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The snapshot of all zones that serving reads.
pub type Snapshot = Arc<ArcSwap<ZoneTable>>;

/// The zone table.
#[derive(Default)]
pub struct TableWriter {
    snapshot: Snapshot,
    writing: Mutex<ServedAdditions>,
    feed: Arc<ChangeFeed>,
    /// The sources whose zones are not known yet, by rank.
    pub(crate) unknown: Mutex<BTreeSet<u16>>,
}

/// The records that zones are served with and that their storage does not have, by zone name in lower case.
#[derive(Default)]
struct ServedAdditions {
    /// The signing of zones that this server has keys for.
    signings: HashMap<Box<[u8]>, Arc<Signing>>,
    /// Zone digests made here: ZONEMD data.
    digests: HashMap<Box<[u8]>, Vec<u8>>,
    /// The numbers of all views there have been, by name. They are kept: requests that wait have them.
    views: HashMap<String, u16>,
    /// The views of our configuration, and of other servers' configurations.
    configured_views: Vec<ViewRule>,
    imported_views: Vec<ViewRule>,
    /// The versions that are served over the common versions of their zones.
    layers: LayeredVersions,
}

impl ServedAdditions {
    fn is_empty(&self) -> bool {
        self.signings.is_empty() && self.digests.is_empty() && self.layers.is_empty()
    }

    fn rules_of(&mut self, source: ViewSource) -> &mut Vec<ViewRule> {
        match source {
            ViewSource::Configured => &mut self.configured_views,
            ViewSource::Imported => &mut self.imported_views,
        }
    }

    /// Returns the views of all sources, our own first, each with a name of its own.
    fn all_views(&self) -> Vec<ViewRule> {
        let mut names = HashSet::new();
        let mut all = Vec::new();
        for rule in self.configured_views.iter().chain(&self.imported_views) {
            let (mut rule, mut number) = (rule.clone(), 2);
            let name = rule.name.clone();
            while !names.insert(rule.name.clone()) {
                rule.name = format!("{name}-{number}");
                number += 1;
            }
            all.push(rule);
        }
        all
    }
}

impl TableWriter {
    /// Becomes the writer of a snapshot, which must have no other writer.
    pub fn over(snapshot: Snapshot) -> Self {
        TableWriter {
            snapshot,
            writing: Mutex::default(),
            feed: Arc::default(),
            unknown: Mutex::default(),
        }
    }

    /// Returns the snapshot that serving reads.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the feed of zone changes.
    pub fn feed(&self) -> &Arc<ChangeFeed> {
        &self.feed
    }

    /// Returns the current table.
    pub fn load(&self) -> Arc<ZoneTable> {
        self.snapshot.load_full()
    }

    /// Publishes changes, all at the same moment. Returns the published zones that another source has too.
    pub fn publish(&self, changes: &[TableChange]) -> Vec<Contest> {
        for change in changes {
            if let TableChange::Offer(zone) | TableChange::Move(zone, _) = change {
                self.prepare(zone);
            }
        }
        if changes.is_empty() {
            Vec::new()
        } else {
            self.write(changes, |table, additions| {
                if additions.is_empty() {
                    table.make(changes)
                } else {
                    let changes = changes.iter().cloned();
                    let served = |zone| served(zone, additions, table);
                    let signed: Vec<_> = changes
                        .map(|change| match change {
                            TableChange::Offer(zone) => TableChange::Offer(served(zone)),
                            TableChange::Move(zone, rank) => TableChange::Move(served(zone), rank),
                            withdraw => withdraw,
                        })
                        .collect();
                    table.make(&signed)
                }
            })
        }
    }

    /// Publishes a new version of a zone, unless its source has withdrawn the zone in the meantime; false if it has.
    pub fn replace(&self, zone: Arc<Zone>) -> bool {
        self.prepare(&zone);
        self.write(&[], |table, additions| {
            let is_there = table.offered_by(zone.id(), zone.rank()).is_some();
            if is_there {
                let name = NameBuf::from(zone.id());
                let version = served(zone, additions, table);
                layers::put(table, version);
                layers::renew(table, additions, name.as_name());
            }
            is_there
        })
    }

    /// Withdraws the version from the source with this rank, and returns it as it was published. A later commit finds
    /// no zone and fails.
    pub fn withdraw(&self, name: Name<'_>, rank: u16) -> Option<Arc<Zone>> {
        let changes = [TableChange::Withdraw(name.as_wire().into(), rank)];
        self.write(&changes, |table, _| {
            let last = table.offered_by(name, rank).map(Zone::stored);
            table.make(&changes);
            last
        })
    }

    /// Sets the signing of a zone, for its current and all future versions; `None` makes it unsigned.
    pub fn set_signing(&self, name: Name<'_>, signing: Option<Arc<Signing>>) {
        if let Some(signing) = &signing {
            for version in self.load().versions(name) {
                make_chain(&version.unsigned(), signing);
            }
        }
        self.serve_again(name, |additions, key| match signing {
            Some(signing) => drop(additions.signings.insert(key, signing)),
            None => drop(additions.signings.remove(&key)),
        });
    }

    /// Serves a zone with a digest (ZONEMD data) until another one replaces it; `None` serves it with its own.
    pub fn set_digest(&self, name: Name<'_>, zonemd: Option<Vec<u8>>) {
        self.serve_again(name, |additions, key| match zonemd {
            Some(zonemd) => drop(additions.digests.insert(key, zonemd)),
            None => drop(additions.digests.remove(&key)),
        });
    }

    /// Changes what a zone is served with, by its key, and serves its versions with that.
    fn serve_again(&self, name: Name<'_>, change: impl FnOnce(&mut ServedAdditions, Box<[u8]>)) {
        self.write(&[], |table, additions| {
            change(additions, lower_case(name));
            for version in table.versions(name) {
                table.offer(served(version, additions, table));
            }
        });
    }

    /// Applies access lists.
    pub fn set_access(&self, source: AccessSource, rules: AccessRules) {
        if **self.snapshot.load().access(source) != rules {
            self.write(&[], |table, _| table.set_access(source, Arc::new(rules)));
        }
    }

    /// Applies the views of one source; their numbers are assigned here.
    pub fn set_views(&self, source: ViewSource, rules: Vec<ViewRule>) {
        {
            let mut additions = self.writing.lock();
            let own = additions.rules_of(source);
            if *own == rules {
                return;
            }
            *own = rules;
        }
        self.write(&[], |table, additions| {
            let mut rules = additions.all_views();
            for rule in &mut rules {
                // Number 0 is for clients without a view.
                let next = u16::try_from(additions.views.len() + 1).unwrap_or_default();
                let known = additions.views.entry(rule.name.clone());
                rule.id = ViewId(*known.or_insert(next));
            }
            // More names than numbers in the life of a process: their clients get the common versions.
            rules.retain(|rule| rule.id != ViewId::DEFAULT);
            table.set_views(&rules);
        });
    }

    /// Sets the versions that have only the names that differ from the common versions of their zones.
    pub fn set_layers(&self, versions: &[NameBuf]) {
        let layers = LayeredVersions::new(versions);
        if layers == self.writing.lock().layers {
            return;
        }
        self.write(&[], |table, additions| {
            let before = std::mem::replace(&mut additions.layers, layers);
            for version in before.changed(&additions.layers) {
                for version in table.versions(version.as_name()) {
                    let version = served(version, additions, table);
                    layers::put(table, version);
                }
            }
        });
    }

    /// Returns the versions that are served over the common version of a zone.
    pub(crate) fn layers_over(&self, zone: Name<'_>) -> Vec<NameBuf> {
        self.writing.lock().layers.over(zone).to_vec()
    }

    /// Returns the version of a zone from the source with this rank, as it was published.
    pub fn version(&self, name: Name<'_>, rank: u16) -> Option<Arc<Zone>> {
        self.snapshot
            .load()
            .offered_by(name, rank)
            .map(Zone::stored)
    }

    /// Builds the chain of a zone that is signed here before others have to wait for it: for a large zone that takes
    /// a second, once.
    fn prepare(&self, zone: &Arc<Zone>) {
        let signing = {
            let additions = self.writing.lock();
            let name = zone.id().as_wire();
            if additions.signings.is_empty() || additions.layers.contains(zone.id()) {
                None
            } else {
                additions
                    .signings
                    .get(&name.to_ascii_lowercase()[..])
                    .cloned()
            }
        };
        if let Some(signing) = signing {
            make_chain(&zone.unsigned(), &signing);
        }
    }

    /// Publishes a new table; records in the feed which of the zones in `changes` have appeared or vanished.
    fn write<T>(
        &self,
        changes: &[TableChange],
        change: impl FnOnce(&mut ZoneTable, &mut ServedAdditions) -> T,
    ) -> T {
        let mut additions = self.writing.lock();
        let before = self.snapshot.load_full();
        let mut table = ZoneTable::clone(&before);
        let result = change(&mut table, &mut additions);
        if !additions.layers.is_empty() {
            for change in changes {
                layers::renew(&mut table, &additions, change.name());
            }
        }
        let after = Arc::new(table);
        self.snapshot.store(Arc::clone(&after));
        if self.feed.is_recording() {
            let mut names: Vec<_> = changes.iter().map(TableChange::name).collect();
            names.dedup();
            for name in names {
                self.feed
                    .record_table(name, before.exact(name), after.exact(name));
            }
        }
        result
    }
}

/// Returns the name of a zone in wire format and lower case, as a key.
pub fn lower_case(zone: Name<'_>) -> Box<[u8]> {
    zone.as_wire().to_ascii_lowercase().into()
}

/// Builds the denial of existence chain of a zone, if answers will need it.
fn make_chain(unsigned: &Zone, signing: &Signing) {
    let is_signed_here = !unsigned.is_stub() && !unsigned.signing().is_signed();
    if is_signed_here && signing.signs() && signing.style() == DenialStyle::Chain {
        unsigned.chain_for(signing);
    }
}

/// Returns the digest that a zone is served with: the one made here, if it belongs to this version, or the one in the
/// contents, unless a change has made it stale.
fn served_digest<'d>(
    unsigned: &Zone,
    signing: Option<&Arc<Signing>>,
    made: Option<&'d Vec<u8>>,
) -> ServedDigest<'d> {
    // A digest in a zone with stored signatures is signed with the rest.
    if matches!(unsigned.signing(), SigningState::Stored(_)) {
        return ServedDigest::AsStored;
    }
    let offset = signing.map_or(0, |signing| signing.serial_offset());
    let serial = unsigned.serial().0.wrapping_add(offset);
    let online = signing.or(unsigned.signing().online());
    let edit = online.map_or(SoaEdit::None, |signing| signing.soa_edit());
    match made {
        // If SOA-EDIT changes the serial, the digest is made again afterwards.
        Some(made) if edit != SoaEdit::None && edit != SoaEdit::Epoch => ServedDigest::Made(made),
        Some(made) if edit == SoaEdit::None && is_digest_of(made, serial) => {
            ServedDigest::Made(made)
        }
        Some(_) => ServedDigest::LeftOut,
        None if unsigned.has_stale_digest(serial) => ServedDigest::LeftOut,
        None => ServedDigest::AsStored,
    }
}

/// Returns the served version of a zone: signed, if this server has keys for it and it has no stored signatures, and
/// with its digest.
fn served(zone: Arc<Zone>, additions: &ServedAdditions, table: &ZoneTable) -> Arc<Zone> {
    let mut unsigned = zone.stored();
    if additions.layers.contains(unsigned.id()) {
        unsigned = layers::layered(&unsigned, table);
    }
    let name = unsigned.id().as_wire().to_ascii_lowercase();
    let signing = additions.signings.get(&name[..]);
    let brings_signatures = unsigned.signing().is_signed();
    if signing.is_none_or(|signing| !signing.signs()) && !brings_signatures {
        unsigned.forget_chain();
    }
    if unsigned.is_stub() {
        return unsigned;
    }
    let signing = signing.filter(|_| !brings_signatures);
    let digest = served_digest(&unsigned, signing, additions.digests.get(&name[..]));
    if signing.is_none() && digest == ServedDigest::AsStored {
        return unsigned;
    }
    match unsigned.served_with(signing, digest) {
        Ok(served) => Arc::new(served),
        Err(error) => {
            // Resolvers that know a DS of the zone would treat unsigned answers as forged.
            let name = unsigned.id();
            tracing::error!("zone {name}: not served: it cannot be signed: {error}");
            let mut stub = Zone::not_ready(name);
            stub.set_rank(unsigned.rank());
            Arc::new(stub)
        }
    }
}
