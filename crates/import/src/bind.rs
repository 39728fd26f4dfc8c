//! Owns the reading of BIND's `named.conf`: which zones it has, of which type, from which files.
//!
//! ```text
//! lex       words, braces, semicolons, comments
//! words     forms that statements share
//! syntax    statements and blocks, whatever they mean
//! acl       address match lists, lists with names; interfaces of this machine for localhost and localnets
//! remotes   primaries, also-notify, lists with names
//! read      options, views, zones, over all included files
//! terms     who may transfer, notify and update; for a move
//! dnssec_policy       policies by which BIND signs; for a move
//! server_statements   keys, listeners and other statements about the server; for a move
//! moving    a whole configuration in the terms of a move
//! settle    what depends on statements that may come later: the directory, lists, defaults
//! notes     what is not taken, with file and line
//! ```
//! A zone is taken as BIND serves it or not at all: to no client more than `allow-query`, `allow-query-on` and the
//! clients of its view let in, and never without the signatures that BIND makes. [`NamedConf::take`] says what is left out.
//! Errors have file, line and column; with any error nothing is taken, so that a mistake does not remove zones.

mod acl;
mod dnssec_policy;
pub mod fuzzing;
mod inherited;
pub(crate) mod interfaces;
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

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_wire::{Name, zonefile::Diagnostic};
use nameward_zone::AccessList;

use crate::Files;
use lex::TextPlace;
use notes::ImportNotes;
use settings::BindTerms;

pub use remotes::Remote;

/// The type of a zone. Old spellings are the same as new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneType {
    /// Its file is the truth.
    Primary,
    /// Its file is a copy of what another server has.
    Secondary,
    /// As secondary, of the root; checked by its signatures.
    Mirror,
    /// Addresses of the root servers.
    Hint,
    /// Sent to other servers.
    Forward,
    /// The name servers of a zone.
    Stub,
    /// The name servers of a zone, written down.
    StaticStub,
    /// Answers in place of NXDOMAIN.
    Redirect,
    /// Nothing but delegations is believed.
    DelegationOnly,
}

impl ZoneType {
    fn parse(word: &[u8]) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_slice() {
            // `native` is a word of PowerDNS, whose bind backend reads such files too.
            b"primary" | b"master" | b"native" => Self::Primary,
            b"secondary" | b"slave" => Self::Secondary,
            b"mirror" => Self::Mirror,
            b"hint" => Self::Hint,
            b"forward" => Self::Forward,
            b"stub" => Self::Stub,
            b"static-stub" => Self::StaticStub,
            b"redirect" => Self::Redirect,
            b"delegation-only" => Self::DelegationOnly,
            _ => return None,
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Mirror => "mirror",
            Self::Hint => "hint",
            Self::Forward => "forward",
            Self::Stub => "stub",
            Self::StaticStub => "static-stub",
            Self::Redirect => "redirect",
            Self::DelegationOnly => "delegation-only",
        }
    }
}

/// A zone of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindZone {
    /// Its name in wire form.
    name: Box<[u8]>,
    /// Its type; `None` where another view has the zone.
    pub kind: Option<ZoneType>,
    /// Its file.
    pub file: Option<PathBuf>,
    /// Where a secondary gets it from.
    pub primaries: Vec<Remote>,
    /// The servers to notify besides its name servers.
    pub also_notify: Vec<Remote>,
    /// The view that has the zone.
    in_view: Option<Box<str>>,
    is_internet: bool,
    is_from_database: bool,
    /// The statement that has BIND sign it.
    signed_by: Option<&'static str>,
    /// BIND keeps the signed zone in the file of the zone itself, and not in a copy beside it.
    is_signed_in_place: bool,
    /// It is changed by others than the one who writes its file.
    is_dynamic: bool,
    /// Index of the view it stands in; 0 for none.
    view: usize,
    spot: Spot,
    /// Who may ask it; `None` for everybody.
    allow_query: Result<Option<Arc<AccessList>>, NotTaken>,
    /// Who may do what else, for a move.
    terms: Option<Box<BindTerms>>,
}

/// A file, by its index, and a place in it.
type Spot = (usize, TextPlace);

/// Why a zone cannot be served to those who may ask it and nobody else.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NotTaken {
    spot: Spot,
    reason: String,
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

    /// Its name.
    pub fn name(&self) -> Name<'_> {
        Name::from_wire(&self.name).unwrap_or(Name::ROOT)
    }

    /// Whether its file is a copy of what another server has, and may be missing.
    pub fn is_copy(&self) -> bool {
        self.kind == Some(ZoneType::Secondary)
    }

    /// Returns whether its file is the zone as BIND signed it, which may be missing. Changes that are not in it yet stand in a
    /// journal, and without them it may be signed in part.
    pub fn is_signed_copy(&self) -> bool {
        self.signed_by.is_some()
    }

    /// Who may ask it; `None` for everybody.
    pub fn allow_query(&self) -> Option<&Arc<AccessList>> {
        self.allow_query.as_ref().ok()?.as_ref()
    }

    /// Where BIND keeps changes that are not in the file yet, if it does.
    pub fn journal(&self) -> Option<PathBuf> {
        let changes = self.is_dynamic || self.is_copy() || self.is_signed_copy();
        let file = self.file.as_ref().filter(|_| changes)?;
        Some(journal::path_of(file))
    }

    /// The zone with the file that BIND keeps it in as it serves it.
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

    /// The zone for those clients alone that are of the view.
    fn within(mut self, view: &View) -> Self {
        let clients = view.clients.as_ref().map(|clients| &clients.list);
        if let (Ok(clients), Ok(allowed)) = (clients, &mut self.allow_query)
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

/// A view.
#[derive(Debug, Clone, PartialEq, Eq)]
struct View {
    /// `None` for zones that stand in no view.
    name: Option<String>,
    is_internet: bool,
    spot: Spot,
    /// Whom it answers.
    clients: Result<ViewClients, NotTaken>,
}

/// The clients of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ViewClients {
    list: Arc<AccessList>,
    /// Everybody is among them, but for those that are left out by name.
    is_for_all: bool,
}

impl View {
    fn new(name: Option<String>, is_internet: bool, spot: Spot) -> Self {
        let clients = ViewClients {
            list: Arc::new(AccessList::any()),
            is_for_all: true,
        };
        Self {
            name,
            is_internet,
            spot,
            clients: Ok(clients),
        }
    }
}

/// A configuration that was read: its zones, views and lists.
#[derive(Debug)]
pub struct NamedConf {
    zones: Vec<BindZone>,
    views: Vec<View>,
    /// Every file that was read, or would have been if it were there.
    pub files: Vec<PathBuf>,
    /// Clients whose packets BIND drops.
    blackhole: Option<Arc<AccessList>>,
    /// Statements that are not taken.
    notes: Vec<(Spot, String)>,
    /// Mistakes, each with its place.
    pub diagnostics: Vec<Diagnostic>,
    /// Statements about the server, for a move.
    moved: Option<Box<server_statements::ServerStatements>>,
}

/// The zones of a configuration that can be served.
#[derive(Debug, Default)]
pub struct Taken {
    /// Primaries, and secondaries from the copies that are there.
    pub zones: Vec<BindZone>,
    /// Clients whose packets BIND drops.
    pub blackhole: Option<Arc<AccessList>>,
    /// A warning for everything that is not taken.
    pub notes: Vec<Diagnostic>,
}

/// Reads a configuration and all it includes.
pub fn read(path: &Path, files: &mut dyn Files) -> NamedConf {
    read::NamedConfReader::new(files).read(path)
}

impl NamedConf {
    /// All zones as `named-checkconf -l` lists them: name, class, view, type; in no order, types in new spelling.
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

    /// The zones that are served, each to the clients that BIND would answer, and a warning for all that is left out.
    ///
    /// Of several views the first one counts that is for everybody: a client that no other rule knows would be
    /// answered from it. A single view is taken for the clients that it has.
    pub fn take(self) -> Taken {
        let mut notes = ImportNotes::new(&self.files);
        let served = self.served_view();
        for (index, view) in self.views.iter().enumerate().skip(1) {
            if Some(index) != served {
                let zones = self.zones.iter().filter(|zone| zone.view == index).count();
                let served = served.and_then(|served| self.views[served].name.as_deref());
                notes.view(view, zones, served);
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
        for (spot, text) in self.notes {
            notes.add(spot, text);
        }
        Taken {
            zones,
            blackhole: self.blackhole,
            notes: notes.finish(),
        }
    }

    /// The one view whose zones are served.
    fn served_view(&self) -> Option<usize> {
        let views = self.views.iter().enumerate().skip(1);
        let mut views = views.filter(|(_, view)| view.is_internet);
        let is_for_all = |view: &View| view.clients.as_ref().is_ok_and(|own| own.is_for_all);
        match (views.clone().count(), views.clone().next()) {
            (1, Some((only, view))) => view.clients.is_ok().then_some(only),
            _ => views.find(|(_, view)| is_for_all(view)).map(|(at, _)| at),
        }
    }

    /// The zones of views that others refer to with `in-view`.
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
