//! Owns the words for keys of zones.

use nameward_control::operations::ListedZoneKey;

use super::zone_text;

/// A key as one line: zone, number, tag, part, algorithm, use.
pub fn line(key: &ListedZoneKey) -> String {
    let usage = match (key.published, key.active) {
        (true, true) => "active",
        (true, false) => "published",
        (false, true) => "active, not published",
        (false, false) => "unused",
    };
    let ListedZoneKey {
        zone,
        key: number,
        tag,
        role,
        algorithm,
        ..
    } = key;
    format!("{zone} {number} {tag} {role} {algorithm} {usage}")
}

/// The first key of a zone, and the DS that its parent needs.
pub fn secured(zone: &str, key: &ListedZoneKey) -> String {
    let (short, algorithm, tag) = (zone_text(zone), &key.algorithm, key.tag);
    let ds = key.ds.as_deref().unwrap_or_default();
    format!(
        "zone {short}: signed with a new key, {algorithm}, key tag {tag}\n\
         for the parent, when all servers of the zone have the signed version:\n{zone} IN DS {ds}\n"
    )
}
