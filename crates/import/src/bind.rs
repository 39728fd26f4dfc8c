//! The `named.conf` reader: which zones BIND has, of which type, from which files.
//!
//! ```text
//! lex       words, braces, semicolons, comments
//! keywords  forms that statements share
//! syntax    statements and blocks, whatever they mean
//! acl       address match lists, lists with names; interfaces of this machine for localhost and localnets
//! remotes   primaries, also-notify, lists with names
//! read      options, views, zones, over all included files
//! settings  access for transfers, NOTIFY and updates; for a migration
//! dnssec_policy       policies by which BIND signs; for a migration
//! server_statements   keys, listeners and other statements about the server; for a migration
//! views     several views, each with its clients and its versions of zones
//! migrate   a whole configuration as migration settings
//! resolve   what depends on statements that may follow later: the directory, lists, defaults
//! notes     what is not imported, with file and line
//! ```
//! A zone is imported as BIND serves it or not at all: to no client beyond those that `allow-query`, `allow-query-on`
//! and the clients of its view allow, and never without the signatures that BIND makes. [`NamedConf::take`] reports
//! what is left out. Errors have file, line and column; if there is any error, nothing is imported, so that a mistake
//! does not remove zones.

mod acl;
mod dnssec_policy;
pub mod fuzzing;
mod inherited;
pub mod interfaces;
pub mod journal;
mod keywords;
mod lex;
pub mod migrate;
mod notes;
pub mod raw;
mod read;
mod remotes;
mod resolve;
mod server_statements;
mod settings;
mod support;
mod syntax;
mod views;

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_wire::{Name, zonefile::Diagnostic};
use nameward_zone::{AccessList, ViewRule};

use crate::Files;
use lex::{ConfMistake, TextLocation};
use notes::ImportNotes;
use settings::BindSettings;

pub use remotes::Remote;

/// The type of a zone. Old spellings are equivalent to new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneType {
    /// The zone file is authoritative.
    Primary,
    /// The zone file is a copy from another server.
    Secondary,
    /// Like secondary, for the root zone, validated by its signatures.
    Mirror,
    /// Addresses of the root servers.
    Hint,
    /// Queries are forwarded to other servers.
    Forward,
    /// The name servers of a zone.
    Stub,
    /// The name servers of a zone, configured statically.
    StaticStub,
    /// Answers instead of NXDOMAIN.
    Redirect,
    /// Only delegations are accepted.
    DelegationOnly,
}

/// The keywords of zone types; the first one of each is the new spelling.
const ZONE_TYPES: [(&str, ZoneType); 12] = [
    ("primary", ZoneType::Primary),
    ("master", ZoneType::Primary),
    // A PowerDNS keyword, whose bind backend reads such files too.
    ("native", ZoneType::Primary),
    ("secondary", ZoneType::Secondary),
    ("slave", ZoneType::Secondary),
    ("mirror", ZoneType::Mirror),
    ("hint", ZoneType::Hint),
    ("forward", ZoneType::Forward),
    ("stub", ZoneType::Stub),
    ("static-stub", ZoneType::StaticStub),
    ("redirect", ZoneType::Redirect),
    ("delegation-only", ZoneType::DelegationOnly),
];

impl ZoneType {
    fn parse(word: &[u8]) -> Option<Self> {
        let is_it = |(known, _): &&(&str, Self)| word.eq_ignore_ascii_case(known.as_bytes());
        ZONE_TYPES.iter().find(is_it).map(|(_, kind)| *kind)
    }

    fn as_str(self) -> &'static str {
        let mut words = ZONE_TYPES.iter();
        words
            .find(|(_, kind)| *kind == self)
            .map_or("", |(word, _)| word)
    }
}

/// A zone in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindZone {
    /// The zone name in wire form.
    name: Box<[u8]>,
    /// The zone type; `None` if the zone is defined in another view.
    pub kind: Option<ZoneType>,
    /// The zone file.
    pub file: Option<PathBuf>,
    /// The primaries of a secondary.
    pub primaries: Vec<Remote>,
    /// Servers to notify in addition to the zone's name servers.
    pub also_notify: Vec<Remote>,
    /// The view that defines the zone.
    in_view: Option<Box<str>>,
    is_internet: bool,
    is_from_database: bool,
    /// The statement that makes BIND sign the zone.
    signed_by: Option<&'static str>,
    /// BIND stores the signed zone in the zone file itself, not in a separate copy.
    is_signed_in_place: bool,
    /// The zone is also changed by others than the author of its file.
    is_dynamic: bool,
    /// Index of the view that contains the zone; 0 for none.
    view: usize,
    spot: Spot,
    /// Clients that may query it; `None` for all.
    allow_query: Result<Option<Arc<AccessList>>, UnservableReason>,
    /// Further permissions, for a migration.
    terms: Option<Box<BindSettings>>,
}

/// A file index and a position in that file.
type Spot = (usize, TextLocation);

/// The reason why a zone cannot be restricted to exactly the clients that may query it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UnservableReason {
    spot: Spot,
    reason: String,
}

impl UnservableReason {
    fn new(file: usize, wrong: ConfMistake) -> Self {
        Self {
            spot: (file, wrong.location),
            reason: wrong.message,
        }
    }
}

impl BindZone {
    fn new(name: Name<'_>, is_internet: bool, spot: Spot) -> Self {
        Self {
            name: name.as_wire().into(),
            kind: None,
            file: None,
            primaries: Vec::new(),
            also_notify: Vec::new(),
            in_view: None,
            is_internet,
            is_from_database: false,
            signed_by: None,
            is_signed_in_place: false,
            is_dynamic: false,
            view: 0,
            spot,
            allow_query: Ok(None),
            terms: None,
        }
    }

    /// Returns the zone name.
    pub fn name(&self) -> Name<'_> {
        Name::from_wire(&self.name).unwrap_or(Name::ROOT)
    }

    /// Checks whether the file is a copy from another server, and may be missing.
    pub fn is_copy(&self) -> bool {
        self.kind == Some(ZoneType::Secondary)
    }

    /// Checks whether the file is the zone as signed by BIND, which may be missing. Changes that it does not contain
    /// yet are in a journal, and without them it may be partially signed.
    pub fn is_signed_copy(&self) -> bool {
        self.signed_by.is_some()
    }

    /// Returns the clients that may query the zone; `None` for all.
    pub fn allow_query(&self) -> Option<&Arc<AccessList>> {
        self.allow_query.as_ref().ok()?.as_ref()
    }

    /// Returns the path of the journal with changes that are not in the file yet, if BIND uses one.
    pub fn journal(&self) -> Option<PathBuf> {
        let changes = self.is_dynamic || self.is_copy() || self.is_signed_copy();
        let file = self.file.as_ref().filter(|_| changes)?;
        Some(journal::path_of(file))
    }

    /// Returns the zone with the file that holds the version BIND serves.
    fn into_served(mut self) -> Self {
        if self.is_signed_copy()
            && !self.is_signed_in_place
            && let Some(file) = self.file.take()
        {
            let mut copy = file.into_os_string();
            copy.push(".signed");
            self.file = Some(copy.into());
        }
        self
    }

    /// Restricts the zone to the clients of the view.
    fn within(mut self, view: &View) -> Self {
        if let (Ok(clients), Ok(allowed)) = (&view.clients, &mut self.allow_query)
            && !clients.is_any()
        {
            *allowed = Some(match allowed.take() {
                Some(list) => Arc::new(list.intersection(clients)),
                None => Arc::clone(clients),
            });
        }
        self
    }

    fn key(&self, view: usize) -> (usize, Vec<u8>) {
        (view, self.name.to_ascii_lowercase())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct View {
    /// `None` for zones outside all views.
    name: Option<String>,
    is_internet: bool,
    spot: Spot,
    clients: Result<Arc<AccessList>, UnservableReason>,
    /// Which requests are in it, for a migration of several views.
    requests: Result<ViewRequests, UnservableReason>,
}

/// The requests that are in a view: those of these clients, sent to these addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ViewRequests {
    clients: Arc<AccessList>,
    /// Empty for all.
    destinations: Vec<IpAddr>,
}

impl View {
    fn new(name: Option<String>, is_internet: bool, spot: Spot) -> Self {
        let anybody = Arc::new(AccessList::any());
        Self {
            name,
            is_internet,
            spot,
            clients: Ok(Arc::clone(&anybody)),
            requests: Ok(ViewRequests {
                clients: anybody,
                destinations: Vec::new(),
            }),
        }
    }
}

/// A parsed configuration: zones, views and lists.
#[derive(Debug)]
pub struct NamedConf {
    zones: Vec<BindZone>,
    views: Vec<View>,
    /// Every file that was read, or would have been if it existed.
    pub files: Vec<PathBuf>,
    /// Clients whose packets BIND drops.
    blackhole: Option<Arc<AccessList>>,
    /// Statements that are not imported.
    notes: Vec<(Spot, String)>,
    /// Errors, each with its location.
    pub diagnostics: Vec<Diagnostic>,
    /// Statements about the server, for a migration.
    moved: Option<Box<server_statements::ServerStatements>>,
}

/// The zones of a configuration that can be served.
#[derive(Debug, Default)]
pub struct Taken {
    /// Primaries, and secondaries whose copies exist.
    pub zones: Vec<BindZone>,
    /// The views, if there are several, in their order.
    pub views: Vec<ViewRule>,
    /// Clients whose packets BIND drops.
    pub blackhole: Option<Arc<AccessList>>,
    /// A warning for everything that is not imported.
    pub notes: Vec<Diagnostic>,
}

/// A view of a configuration with several, and its zones.
struct TakenView {
    view: View,
    zones: Vec<TakenZone>,
}

enum TakenZone {
    /// Defined there.
    Own(BindZone),
    /// The zone of another view, by the number of the view.
    InView(BindZone, usize),
}

/// Reads a configuration and all files it includes.
pub fn read(path: &Path, files: &mut dyn Files) -> NamedConf {
    read::NamedConfReader::new(files).read(path)
}

impl NamedConf {
    /// Returns all zones as `named-checkconf -l` lists them: name, class, view, type; in no particular order, with
    /// types in the new spelling.
    pub fn list(&self) -> Vec<String> {
        let lines = self.zones.iter().map(|zone| {
            let class = if zone.is_internet { "IN" } else { "CH" };
            let view = self.views[zone.view].name.as_deref().unwrap_or("_default");
            let kind = match (&zone.in_view, zone.kind) {
                (Some(view), _) => format!("in-view {view}"),
                (None, Some(kind)) => kind.as_str().to_string(),
                (None, None) => "?".into(),
            };
            format!("{} {class} {view} {kind}", zone.name())
        });
        lines.collect()
    }

    /// Returns the zones to serve, each with the clients that BIND would answer, and a warning for everything left out.
    ///
    /// If there are several views, each zone is a version for its view, with the view's name as its variant. A single view
    /// is used for the clients it has.
    pub fn take(self) -> Taken {
        if self.has_views() {
            return views::take(self);
        }
        let mut notes = ImportNotes::new(&self.files);
        let served = self.served_view();
        for (index, view) in self.views.iter().enumerate().skip(1) {
            if Some(index) != served {
                notes.view(view, self.zones_in(index));
            }
        }
        let others = self.referred_to();
        let mut zones = Vec::with_capacity(self.zones.len());
        for zone in &self.zones {
            let is_seen = zone.view == 0 || Some(zone.view) == served;
            let view = &self.views[zone.view];
            let zone = match &zone.in_view {
                None => Some(zone),
                Some(view) => {
                    let view = self.view_named(view);
                    view.and_then(|view| others.get(&zone.key(view)).copied())
                }
            };
            if let Some(zone) = zone.filter(|_| is_seen)
                && notes.is_taken(zone)
            {
                zones.push(zone.clone().within(view).into_served());
            }
        }
        Taken {
            zones,
            blackhole: self.blackhole,
            notes: notes.finish(self.notes),
            ..Taken::default()
        }
    }

    /// Checks whether there is more than one view.
    fn has_views(&self) -> bool {
        let views = self.views.iter().skip(1);
        views.filter(|view| view.is_internet).count() > 1
    }

    /// Returns all views with their zones, in order, and what is left of the configuration.
    fn take_views(self) -> (Vec<TakenView>, Taken) {
        let mut notes = ImportNotes::new(&self.files);
        let views = self.views.iter().map(|view| TakenView {
            view: view.clone(),
            zones: Vec::new(),
        });
        let mut taken: Vec<_> = views.collect();
        for zone in &self.zones {
            match zone.in_view.as_deref() {
                Some(view) => {
                    if let Some(other) = self.view_named(view) {
                        let other = TakenZone::InView(zone.clone(), other);
                        taken[zone.view].zones.push(other);
                    }
                }
                None if notes.is_taken(zone) => {
                    let own = TakenZone::Own(zone.clone().into_served());
                    taken[zone.view].zones.push(own);
                }
                None => {}
            }
        }
        let rest = Taken {
            blackhole: self.blackhole,
            notes: notes.finish(self.notes),
            ..Taken::default()
        };
        (taken, rest)
    }

    /// Returns the only view, if its clients are known.
    fn served_view(&self) -> Option<usize> {
        let views = self.views.iter().enumerate().skip(1);
        let mut views = views.filter(|(_, view)| view.is_internet);
        let only = views.next()?;
        only.1.clients.is_ok().then_some(only.0)
    }

    fn zones_in(&self, view: usize) -> usize {
        self.zones.iter().filter(|zone| zone.view == view).count()
    }

    /// Returns the zones of views that others refer to with `in-view`.
    fn referred_to(&self) -> HashMap<(usize, Vec<u8>), &BindZone> {
        let views = self.zones.iter().filter_map(|zone| zone.in_view.as_deref());
        let views: BTreeSet<usize> = views.filter_map(|view| self.view_named(view)).collect();
        let zones = self.zones.iter();
        zones
            .filter(|zone| zone.in_view.is_none() && views.contains(&zone.view))
            .map(|zone| (zone.key(zone.view), zone))
            .collect()
    }

    fn view_named(&self, name: &str) -> Option<usize> {
        let is_it = |view: &View| view.name.as_deref() == Some(name);
        self.views.iter().position(is_it)
    }
}
