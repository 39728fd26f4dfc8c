//! Catalogs produced by the other server: consumers identify a member by its label, and delete members that are
//! missing from the catalog.

use nameward_base::time::now_seconds_32;
use std::{collections::HashSet, path::Path};

use nameward_files::zone_from_file;
use nameward_import::migrate::{ImportRefusal, ImportVerdict, ImportedKind, ImportedServer};
use nameward_maintain::catalog::{Catalog, read_catalog};
use nameward_wire::NameBuf;
use nameward_zone::{ScriptCheck, Serial, Zone};

/// Maximum number of zones named in a report line.
const NAMES_MAX: usize = 5;

/// Gives members their existing labels. A catalog whose members are not all imported, or unknown, is left out.
pub fn convert(moved: &mut ImportedServer) {
    let producers: Vec<_> = moved
        .zones
        .iter()
        .filter(|zone| zone.kind == ImportedKind::Producer)
        .map(|zone| {
            (
                zone.name.clone(),
                zone.catalog_file.clone(),
                zone.location.clone(),
            )
        })
        .collect();
    for (name, file, place) in producers {
        let labels = read(&name, file.as_deref()).and_then(|found| labels(&name, &found, moved));
        match labels {
            Ok(labels) => {
                for zone in &mut moved.zones {
                    let label = labels.iter().find(|(member, _)| *member == zone.name);
                    if let Some((_, label)) = label {
                        zone.terms.catalog_label = Some(label.clone());
                    }
                }
            }
            Err(reason) => {
                let text = format!("catalog {name} omitted: {reason}");
                moved.report.add(ImportVerdict::Breaks, &place, text);
                moved.zones.retain(|zone| zone.name != name);
                for zone in &mut moved.zones {
                    if zone.terms.catalog.as_ref() == Some(&name) {
                        zone.terms.catalog = None;
                        zone.terms.catalog_group = None;
                    }
                }
            }
        }
    }
}

/// Reads the catalog as the other server has it.
fn read(name: &str, file: Option<&Path>) -> Result<(Catalog, Zone), ImportRefusal> {
    let file = file.ok_or(
        "its member file is unknown, and new member labels would make consumers reset all zones",
    )?;
    let apex: NameBuf = name.parse().map_err(|_| "its name is invalid")?;
    let (zone, _) =
        zone_from_file(apex.as_name(), file, &ScriptCheck::default()).map_err(|found| {
            let first = found.first().map(ToString::to_string).unwrap_or_default();
            format!("{first}: without its member labels consumers would reset all zones")
        })?;
    let catalog = read_catalog(&zone).map_err(|error| error.to_string())?;
    Ok((catalog, zone))
}

/// Returns the labels of the members with their names.
fn labels(
    name: &str,
    (catalog, zone): &(Catalog, Zone),
    moved: &ImportedServer,
) -> Result<Vec<(String, String)>, ImportRefusal> {
    let now = Serial(now_seconds_32());
    // The serial of a catalog produced here starts with the current time.
    if zone.serial().is_after(now) {
        return Err(format!(
            "its serial {} is ahead of the current time and would decrease",
            zone.serial().0
        )
        .into());
    }
    let mut here = HashSet::new();
    for zone in &moved.zones {
        if zone.terms.catalog.as_deref() == Some(name) {
            here.insert(zone.name.clone());
        }
    }
    let (mut labels, mut missing) = (Vec::new(), Vec::new());
    for (member, own) in &catalog.members {
        let Ok(member) = nameward_wire::Name::from_wire(member) else {
            continue;
        };
        let member = member.to_string();
        match (here.contains(&member), std::str::from_utf8(&own.label)) {
            (true, Ok(label)) => labels.push((member, label.to_string())),
            (true, Err(_)) => {
                return Err(format!("the member label of {member} is not text").into());
            }
            (false, _) => missing.push(member),
        }
    }
    missing.sort();
    match missing.len() {
        0 => Ok(labels),
        count => {
            let more = match count.saturating_sub(NAMES_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            missing.truncate(NAMES_MAX);
            let names = missing.join(", ");
            Err(format!(
                "consumers would delete {names}{more}: members that are not among the imported zones"
            )
            .into())
        }
    }
}
