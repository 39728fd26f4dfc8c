//! Owns the reading of BIND's `named.conf`: which zones it has, of which type, from which files.
//!
//! ```text
//! lex       words, braces, semicolons, comments
//! syntax    statements and blocks, whatever they mean
//! include   files and patterns, with bounds
//! read      options, views, zones, over all included files
//! remotes   primaries, also-notify, lists with names
//! ```
//! Statements that say nothing about where zones come from are passed over. Zones that cannot be served from a
//! file are not taken, and [`Found::take`] says which. Errors have file, line and column; with any error
//! nothing is taken, so that a mistake does not remove zones.

pub mod fuzzing;
mod include;
mod lex;
mod read;
mod remotes;
mod syntax;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use nameward_wire::{Name, zonefile::Diagnostic};

pub use include::{Files, OnDisk};
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
            b"primary" | b"master" => Self::Primary,
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
pub struct Zone {
    /// Its name in wire form.
    name: Box<[u8]>,
    /// Its type; `None` where another view has the zone.
    pub kind: Option<ZoneType>,
    /// Its file.
    pub file: Option<PathBuf>,
    /// Where a secondary gets it from.
    pub primaries: Vec<Remote>,
    /// Whom to tell of changes besides its name servers.
    pub also_notify: Vec<Remote>,
    /// The view that has the zone.
    in_view: Option<Box<str>>,
    is_internet: bool,
    is_from_database: bool,
    is_signed: bool,
    /// It is changed by others than the one who writes its file.
    is_dynamic: bool,
    /// Index of the view it stands in; 0 for none.
    view: usize,
}

impl Zone {
    fn new(name: Name<'_>, is_internet: bool) -> Self {
        Self {
            name: name.as_wire().into(),
            kind: None,
            file: None,
            primaries: Vec::new(),
            also_notify: Vec::new(),
            in_view: None,
            is_internet,
            is_from_database: false,
            is_signed: false,
            is_dynamic: false,
            view: 0,
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

    /// Where BIND keeps changes that are not in the file yet, if it does.
    pub fn journal(&self) -> Option<PathBuf> {
        let changes = self.is_dynamic || self.is_signed || self.is_copy();
        let file = self.file.as_ref().filter(|_| changes)?;
        let mut journal = file.clone().into_os_string();
        journal.push(".jnl");
        Some(journal.into())
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
    /// Anybody is answered from it.
    is_open: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            name: None,
            is_internet: true,
            is_open: true,
        }
    }
}

/// What a configuration has.
#[derive(Debug)]
pub struct Found {
    zones: Vec<Zone>,
    views: Vec<View>,
    /// Every file that was read, or would have been if it were there.
    pub files: Vec<PathBuf>,
    /// Zones are added while the server runs, and kept elsewhere.
    adds_zones: bool,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

/// The zones of a configuration that can be served.
#[derive(Debug, Default)]
pub struct Taken {
    /// Primaries, and secondaries from the copies that are there.
    pub zones: Vec<Zone>,
    /// What was not taken, and what is other than it was: one line each.
    pub notes: Vec<String>,
}

/// Reads a configuration and all it includes.
pub fn read(path: &Path, files: &mut dyn Files) -> Found {
    read::Reader::new(files).read(path)
}

impl Found {
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

    /// The zones that anybody would get an answer for, and a line for whatever that leaves out.
    ///
    /// Of several views the first one counts that is for everybody: a client that no other rule knows would be
    /// answered from it, and nobody sees what was meant for some only.
    pub fn take(self) -> Taken {
        let mut notes = Notes::default();
        let is_for_all = |view: &View| view.name.is_some() && view.is_internet && view.is_open;
        let open = self.views.iter().position(is_for_all);
        for (index, view) in self.views.iter().enumerate().skip(1) {
            if Some(index) != open {
                let zones = self.zones.iter().filter(|zone| zone.view == index).count();
                notes.view(
                    view,
                    zones,
                    open.and_then(|open| self.views[open].name.as_deref()),
                );
            }
        }
        if self.adds_zones {
            let note = "zones that were added with rndc addzone are not taken: they are not in the configuration";
            notes.lines.push(note.into());
        }
        let others = self.referred_to();
        let mut zones = Vec::with_capacity(self.zones.len());
        for zone in &self.zones {
            let is_seen = zone.view == 0 || Some(zone.view) == open;
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
                zones.push(zone.clone());
            }
        }
        Taken {
            zones,
            notes: notes.finish(),
        }
    }

    /// The zones of views that others refer to with `in-view`.
    fn referred_to(&self) -> HashMap<(usize, Vec<u8>), &Zone> {
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

/// Counts zones by why they are not taken, or not as they were.
#[derive(Default)]
struct Notes {
    lines: Vec<String>,
    /// How many, and the first.
    counts: BTreeMap<&'static str, (usize, String)>,
}

impl Notes {
    fn view(&mut self, view: &View, zones: usize, served: Option<&str>) {
        let name = view.name.as_deref().unwrap_or_default();
        let reason = match served {
            _ if !view.is_internet => "its class is not IN".to_string(),
            _ if !view.is_open => {
                "it is for some clients only, and there are no views here".to_string()
            }
            Some(served) => format!("the view {served:?} comes first, and there is one view here"),
            None => "there are no views here".to_string(),
        };
        let noun = if zones == 1 { "zone" } else { "zones" };
        let line = format!("the view {name:?} with {zones} {noun} is not taken: {reason}");
        self.lines.push(line);
    }

    fn is_taken(&mut self, zone: &Zone) -> bool {
        let reason = match zone.kind {
            _ if !zone.is_internet => Some("class other than IN"),
            _ if zone.is_from_database => Some("database"),
            Some(ZoneType::Primary | ZoneType::Secondary) => None,
            Some(other) => Some(other.as_str()),
            None => Some("type missing"),
        };
        if let Some(reason) = reason {
            self.count(reason, zone);
        } else if zone.is_signed {
            self.count("", zone);
        }
        reason.is_none()
    }

    fn count(&mut self, reason: &'static str, zone: &Zone) {
        let first = || (0, zone.name().to_string());
        self.counts.entry(reason).or_insert_with(first).0 += 1;
    }

    fn finish(self) -> Vec<String> {
        let mut lines = self.lines;
        for (reason, (count, first)) in self.counts {
            let zones = match count {
                1 => format!("the zone {first}"),
                count => format!("{count} zones, {first} the first of them,"),
            };
            let verb = if count == 1 { "is" } else { "are" };
            lines.push(match reason {
                "" => {
                    format!("{zones} {verb} served as in the file: the keys of BIND are not used")
                }
                reason => format!("{zones} {verb} not taken: {}", explain(reason)),
            });
        }
        lines
    }
}

fn explain(reason: &str) -> String {
    match reason {
        "class other than IN" | "type missing" => reason.to_string(),
        "database" => "the contents are in no file".into(),
        kind => format!("type {kind}"),
    }
}
