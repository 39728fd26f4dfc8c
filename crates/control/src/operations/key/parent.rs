//! Checks the parent for a DS of a zone before signing ends: while resolvers know a DS, an unsigned zone is bogus for
//! them.

use std::net::SocketAddr;

use nameward_keys::storage::KeyStorage;
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::RecordsAt as _;

use crate::operations::{OperationError, Operations, Outcome};

/// The key tags of the DS records at each server of a parent; `None` for one that did not answer.
pub type DsLookup = Vec<Option<Vec<u16>>>;

/// Queries the servers of a parent for the DS of a zone, or the resolvers of this server if there are none.
pub type FindDs = Box<dyn Fn(&NameBuf, &[SocketAddr]) -> Result<DsLookup, NoParent> + Send + Sync>;

/// Why no server can be queried for the DS of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoParent(pub &'static str);

impl Operations {
    /// Refuses to continue while the parent of a zone has a DS, or may have one.
    pub(crate) fn check_no_ds(&self, name: &NameBuf, storage: &dyn KeyStorage) -> Outcome<()> {
        let refused = |reason: String| {
            Err(OperationError::refused(format!(
                "zone {name}: {reason}; while the parent has a DS, resolvers treat the unsigned zone as bogus. Remove \
                 the DS at the parent, wait until its TTL has passed, and try again; --force stops signing now"
            )))
        };
        let lookup = match self.ds_in_own_parent(name) {
            Some(tags) => Ok(vec![Some(tags)]),
            None => {
                let settings = storage.settings().ok();
                let managed = settings.and_then(|settings| settings.managed);
                let servers = managed.map(|managed| managed.parent.servers);
                (self.find_ds)(name, &servers.unwrap_or_default())
            }
        };
        let answers = match lookup {
            Ok(answers) => answers,
            Err(reason) => return refused(format!("cannot check its parent for a DS: {reason}")),
        };
        let mut tags: Vec<u16> = answers.iter().flatten().flatten().copied().collect();
        tags.sort_unstable();
        tags.dedup();
        if !tags.is_empty() {
            let tags: Vec<String> = tags.iter().map(u16::to_string).collect();
            let noun = if tags.len() == 1 { "tag" } else { "tags" };
            return refused(format!(
                "its parent has a DS (key {noun} {})",
                tags.join(", ")
            ));
        }
        if answers.is_empty() || answers.contains(&None) {
            refused(
                "cannot check its parent for a DS: no server answered for the parent zone".into(),
            )
        } else {
            Ok(())
        }
    }

    /// Returns the DS records in the parent zone, if that is served here from memory.
    fn ds_in_own_parent(&self, name: &NameBuf) -> Option<Vec<u16>> {
        let table = self.commits.table().load();
        let mut above = name.as_name().parent();
        while let Some(candidate) = above {
            if let Some(zone) = table.exact(candidate) {
                if zone.is_stub() || !zone.is_ready() {
                    return None;
                }
                return Some(tags_in(&zone.unsigned(), name.as_name()));
            }
            above = candidate.parent();
        }
        None
    }
}

fn tags_in(zone: &nameward_zone::Zone, name: Name<'_>) -> Vec<u16> {
    let mut tags = Vec::new();
    zone.each_record(name, &mut |rtype, _, rdata| {
        if let (Type::DS, [high, low, ..]) = (rtype, rdata) {
            tags.push(u16::from_be_bytes([*high, *low]));
        }
    });
    tags
}
