//! Phrases that several log messages share.

use crate::policy::{CONFIGURED_RANK, UNCONFIGURED_RANK};
use nameward_wire::Name;
use std::path::Path;

/// Returns the warning that two sources have a zone, by the numbers of their backends.
pub fn contested(name: Name<'_>, served: u16, other: u16) -> String {
    let [served, other] = [served, other].map(place_of_rank);
    format!("zone {name}: in both {served} and {other}; served from {served}")
}

/// Describes the position of a source in the configuration.
pub fn place_of_rank(rank: u16) -> String {
    match rank {
        CONFIGURED_RANK => "[[zone]]".into(),
        UNCONFIGURED_RANK => "state store".into(),
        number => format!("backend {number}"),
    }
}

/// Returns the message that a secondary has no copy.
pub fn waiting(name: Name<'_>, path: &Path) -> String {
    let place = if path.as_os_str().is_empty() {
        "no file configured".to_string()
    } else {
        format!("{} does not exist", path.display())
    };
    format!("zone {name}: secondary zone without data: {place}; answered SERVFAIL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rank_is_named_like_any_other() {
        let text = contested(Name::ROOT, 0, u16::MAX);
        let expected = "zone .: in both [[zone]] and backend 65535; served from [[zone]]";
        assert_eq!(text, expected);
    }
}
