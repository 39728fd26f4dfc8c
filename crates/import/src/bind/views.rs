//! The zones of several views: each is a version of the zone for its view.
//!
//! BIND puts a request into the first view whose clients and destinations match. If those of a view are unknown, it
//! is also unknown which requests are in the views after it, so none of them is served: no client gets the zones of a
//! view that BIND would not answer it from.

use std::collections::HashSet;
use std::net::SocketAddr;

use nameward_wire::name::MAX_VARIANT;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{ViewId, ViewRule};

use super::notes::ignored;
use super::{NamedConf, Taken, TakenView, TakenZone};

/// Returns the zones of all views that can be served.
pub(super) fn take(mut conf: NamedConf) -> Taken {
    let served = served_views(&mut conf);
    let (views, mut taken) = conf.take_views();
    let names = view_names(&views);
    let version = |zone: Name<'_>, view: usize| NameBuf::with_variant(zone, &names[view]).ok();
    for (at, TakenView { view, zones }) in views.into_iter().enumerate() {
        let Some(requests) = view.requests.ok().filter(|_| served.contains(&at)) else {
            continue;
        };
        let mut rule = ViewRule {
            id: ViewId::DEFAULT,
            name: names[at].clone(),
            networks: Vec::new(),
            keys: Vec::new(),
            listen: { requests.destinations.iter() }
                .map(|address| SocketAddr::new(*address, 0))
                .collect(),
            match_clients: Some((*requests.clients).clone()),
            zones: Vec::new(),
        };
        for zone in zones {
            match zone {
                TakenZone::Own(mut zone) => {
                    if let Some(version) = version(zone.name(), at) {
                        zone.name = version.as_name().as_wire().into();
                        rule.zones.push(version);
                        taken.zones.push(zone);
                    }
                }
                TakenZone::InView(zone, other) => rule.zones.extend(version(zone.name(), other)),
            }
        }
        taken.views.push(rule);
    }
    // A zone that its view does not have is left out of those that refer to it.
    let known: HashSet<&[u8]> = taken.zones.iter().map(|zone| &zone.name[..]).collect();
    for view in &mut taken.views {
        view.zones
            .retain(|zone| known.contains(zone.as_name().as_wire()));
    }
    taken
}

/// Returns the views that can be served, and notes the others.
fn served_views(conf: &mut NamedConf) -> HashSet<usize> {
    let (mut served, mut unknown) = (HashSet::new(), None);
    for at in 1..conf.views.len() {
        let view = &conf.views[at];
        let name = view.name.clone().unwrap_or_default();
        let reason = match (&view.requests, &unknown) {
            _ if !view.is_internet => "class is not IN".to_string(),
            (_, Some(before)) => format!("its clients depend on those of view {before:?}"),
            (Err(refusal), None) => {
                unknown = Some(name);
                refusal.reason.clone()
            }
            (Ok(_), None) => {
                served.insert(at);
                continue;
            }
        };
        let note = (view.spot, ignored(view, conf.zones_in(at), &reason));
        conf.notes.push(note);
    }
    served
}

/// Returns the names of the views in our form, each unique.
pub(super) fn view_names(taken: &[TakenView]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for TakenView { view, .. } in taken {
        let letters = view.name.as_deref().unwrap_or_default().chars();
        let letters = letters.map(|c| match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9' | '-' | '_') => c,
            _ => '-',
        });
        // Room for a number.
        let base: String = letters.take(MAX_VARIANT - 6).collect();
        let base = if base.is_empty() { "view".into() } else { base };
        let mut name = base.clone();
        for number in 2.. {
            if !names.contains(&name) {
                break;
            }
            name = format!("{base}-{number}");
        }
        names.push(name);
    }
    names
}
