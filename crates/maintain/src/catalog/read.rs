//! Reads a catalog zone: its version, its members and their properties.

use nameward_wire::{Name, Type};
use nameward_zone::{Node, Rrset, Zone};
use std::collections::HashMap;

/// Maximum number of members in a catalog; more are a mistake or an attack.
const MEMBERS_MAX: usize = 1_000_000;
/// Maximum number of groups read per member.
const GROUPS_MAX: usize = 16;

/// The contents of a catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// Its members by name, in wire format and lower case.
    pub members: HashMap<Box<[u8]>, CatalogMember>,
}

/// A member of a catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogMember {
    /// The label of its node, in lower case. Another one means another zone of the same name (RFC 9432 section 5.4).
    pub label: Box<[u8]>,
    /// Its groups (RFC 9432 section 4.4.2).
    pub groups: Vec<String>,
    /// The catalog that it may move to (RFC 9432 section 4.4.1), in wire format and lower case.
    pub new_catalog: Option<Box<[u8]>>,
}

/// Why a catalog is not followed.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    #[error("no TXT record at version.{0}")]
    NoVersion(String),
    /// Its version is not that of RFC 9432.
    #[error("unsupported schema version {0:?}: expected 2")]
    Version(String),
    #[error("{0} has more than one {1} record")]
    NotSingle(String, &'static str),
    #[error("zone {0} is a member more than once")]
    Repeated(String),
    #[error("it is a member of itself")]
    Itself,
    #[error("it has more than {MEMBERS_MAX} members")]
    TooMany,
}

/// Reads the contents of a catalog zone. A broken one must not be processed at all (RFC 9432 section 5.1).
pub fn read_catalog(zone: &Zone) -> Result<Catalog, CatalogError> {
    let apex = zone.apex_name();
    let depth = apex.label_count();
    let mut has_version = false;
    let mut members: HashMap<Box<[u8]>, CatalogMember> = HashMap::new();
    // By label: the properties of a member may appear before or after it.
    let mut properties: HashMap<Box<[u8]>, CatalogMember> = HashMap::new();
    for node in zone.nodes_in_order() {
        let name = node.name();
        let mut labels = name.labels();
        let below = name.label_count().saturating_sub(depth);
        let mut next = || labels.next().unwrap_or_default();
        match below {
            1 if next().eq_ignore_ascii_case(b"version") => {
                check_version(node)?;
                has_version = true;
            }
            2 => {
                let (label, zones) = (next(), next());
                let Some(pointer) = single(node, Type::PTR)?.filter(|_| is_zones(zones)) else {
                    continue;
                };
                if pointer == apex {
                    return Err(CatalogError::Itself);
                }
                if members.len() >= MEMBERS_MAX {
                    return Err(CatalogError::TooMany);
                }
                let member = CatalogMember {
                    label: lower(label),
                    ..CatalogMember::default()
                };
                if members.insert(lower(pointer.as_wire()), member).is_some() {
                    return Err(CatalogError::Repeated(pointer.to_string()));
                }
            }
            3 => {
                let (property, label, zones) = (next(), next(), next());
                if !is_zones(zones) {
                    continue;
                }
                if property.eq_ignore_ascii_case(b"coo") {
                    let target = single(node, Type::PTR)?;
                    let own = properties.entry(lower(label)).or_default();
                    own.new_catalog = target.map(|target| lower(target.as_wire()));
                } else if property.eq_ignore_ascii_case(b"group")
                    && let Some(texts) = node.rrset(Type::TXT)
                {
                    let groups = texts.records().take(GROUPS_MAX);
                    let groups = groups.map(|record| text(record.rdata));
                    properties.entry(lower(label)).or_default().groups = groups.collect();
                }
            }
            _ => {}
        }
    }
    if !has_version {
        return Err(CatalogError::NoVersion(apex.to_string()));
    }
    let with_properties = members.into_iter().map(|(zone, mut member)| {
        if let Some(own) = properties.remove(&member.label) {
            (member.groups, member.new_catalog) = (own.groups, own.new_catalog);
        }
        (zone, member)
    });
    Ok(Catalog {
        members: with_properties.collect(),
    })
}

/// Checks the version: one TXT record with "2" (RFC 9432 section 4.3.1).
fn check_version(node: Node<'_>) -> Result<(), CatalogError> {
    let name = || node.name().to_string();
    let texts = node.rrset(Type::TXT);
    let texts = texts.ok_or_else(|| CatalogError::NoVersion(name()))?;
    if texts.count() != 1 {
        return Err(CatalogError::NotSingle(name(), "TXT"));
    }
    let version = first_text(texts);
    match version.as_str() {
        "2" => Ok(()),
        _ => Err(CatalogError::Version(version)),
    }
}

fn first_text(texts: Rrset<'_>) -> String {
    let record = texts.records().next();
    record.map_or_else(String::new, |record| text(record.rdata))
}

/// Returns the target of the single record of a type at a node; `None` if there is none.
fn single<'z>(node: Node<'z>, rtype: Type) -> Result<Option<Name<'z>>, CatalogError> {
    let Some(rrset) = node.rrset(rtype) else {
        return Ok(None);
    };
    if rrset.count() != 1 {
        return Err(CatalogError::NotSingle(node.name().to_string(), "PTR"));
    }
    let record = rrset.records().next();
    Ok(record.and_then(|record| Name::from_wire(record.rdata).ok()))
}

/// Joins the strings of a TXT record.
fn text(mut rdata: &[u8]) -> String {
    let mut octets = Vec::new();
    while let Some((&length, rest)) = rdata.split_first() {
        let (string, rest) = rest.split_at(usize::from(length).min(rest.len()));
        octets.extend_from_slice(string);
        rdata = rest;
    }
    String::from_utf8_lossy(&octets).into()
}

fn is_zones(label: &[u8]) -> bool {
    label.eq_ignore_ascii_case(b"zones")
}

fn lower(octets: &[u8]) -> Box<[u8]> {
    octets.to_ascii_lowercase().into()
}
