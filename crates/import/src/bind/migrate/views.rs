//! Conversion of several views: each becomes a `[[view]]` with its clients in BIND's order, and versions of its zones.

use std::collections::HashSet;
use std::net::SocketAddr;

use nameward_wire::NameBuf;

use super::{BindImporter, spelled};
use crate::bind::views::view_names;
use crate::bind::{BindZone, TakenView, TakenZone};
use crate::migrate::{
    ImportVerdict::{Breaks, Changed, Taken},
    ImportedView,
};

impl BindImporter<'_> {
    /// Converts views, in their order: the first one whose clients and destinations match is a request's.
    pub(super) fn views(&mut self, taken: &[TakenView]) {
        let names = view_names(taken);
        for (at, TakenView { view, zones }) in taken.iter().enumerate() {
            let Some(own_name) = view.name.as_deref().filter(|_| view.is_internet) else {
                continue;
            };
            let requests = match &view.requests {
                Ok(requests) => requests,
                Err(refusal) => {
                    let text = format!("view {own_name:?} omitted: {}", refusal.reason);
                    self.note(Breaks, view.spot, text);
                    continue;
                }
            };
            let name = &names[at];
            let mut converted = ImportedView {
                name: name.clone(),
                match_clients: spelled(&requests.clients),
                listen: { requests.destinations.iter() }
                    .map(|address| SocketAddr::new(*address, 0).to_string())
                    .collect(),
                zones: Vec::new(),
                location: self.location(view.spot),
            };
            for zone in zones {
                match zone {
                    TakenZone::Own(zone) => {
                        let before = self.server.zones.len();
                        self.zone(zone, Some(name));
                        if self.server.zones.len() > before {
                            converted.zones.push(version_of(zone, name));
                        }
                    }
                    TakenZone::InView(zone, other) => {
                        converted.zones.push(version_of(zone, &names[*other]));
                    }
                }
            }
            let (verdict, text) = if own_name == name {
                (Taken, format!("view {own_name:?}"))
            } else {
                let text = format!("view {own_name:?}: named {name:?}");
                (Changed, text)
            };
            self.note(verdict, view.spot, text);
            self.server.views.push(converted);
        }
        // A zone that was left out of its view is left out of those that refer to it.
        let known: HashSet<_> = self
            .server
            .zones
            .iter()
            .map(|zone| zone.name.clone())
            .collect();
        for view in &mut self.server.views {
            view.zones.retain(|zone| known.contains(zone));
        }
    }
}

pub(super) fn version_of(zone: &BindZone, variant: &str) -> String {
    let version = NameBuf::with_variant(zone.name(), variant);
    version.map_or_else(|_| zone.name().to_string(), |version| version.to_string())
}
