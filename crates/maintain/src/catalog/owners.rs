//! The catalog that a member belongs to, if several catalogs list it.
//!
//! A member stays with the catalog that had it first. It moves when that catalog names the other one in its `coo`
//! property and the other one has the member (RFC 9432 section 4.4.1), or when it leaves the first one.

use super::Catalog;
use std::collections::{BTreeMap, HashMap};

/// Catalogs by name, in wire format and lower case.
pub(super) type Catalogs = BTreeMap<Box<[u8]>, Catalog>;

/// The catalog and the label of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemberOwner {
    pub(super) catalog: Box<[u8]>,
    pub(super) label: Box<[u8]>,
}

#[derive(Default)]
pub(super) struct Ownership {
    pub(super) owners: HashMap<Box<[u8]>, MemberOwner>,
}

/// The result of a change of catalogs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OwnershipChange {
    /// Members with another label than before: all state of the zone must be deleted (RFC 9432 section 5.4).
    pub(super) resets: Vec<Box<[u8]>>,
    /// Members that are ignored, with the catalog that lists them and the one that has them; `None` if the zone is
    /// served from elsewhere.
    pub(super) ignored: Vec<IgnoredMember>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct IgnoredMember {
    pub(super) zone: Box<[u8]>,
    pub(super) catalog: Box<[u8]>,
    pub(super) owner: Option<Box<[u8]>>,
}

impl Ownership {
    /// Updates the owners from the catalogs; `is_taken` checks whether a zone is served from elsewhere than a
    /// catalog.
    pub(super) fn update(
        &mut self,
        catalogs: &Catalogs,
        is_taken: impl Fn(&[u8], &[u8]) -> bool,
    ) -> OwnershipChange {
        let mut change = OwnershipChange::default();
        let before = std::mem::take(&mut self.owners);
        // Members with an owner first: a new catalog does not take a zone away from it.
        for (zone, owner) in &before {
            if let Some(owner) = owner_after_moves(catalogs, zone, &owner.catalog) {
                self.owners.insert(zone.clone(), owner);
            }
        }
        for (name, catalog) in catalogs {
            for zone in catalog.members.keys() {
                let ignored = |owner: Option<&MemberOwner>| IgnoredMember {
                    zone: zone.clone(),
                    catalog: name.clone(),
                    owner: owner.map(|owner| owner.catalog.clone()),
                };
                match self.owners.get(zone) {
                    Some(owner) if owner.catalog == *name => {}
                    Some(owner) if owner.is_moving_from(catalogs, zone, name) => {}
                    Some(owner) => change.ignored.push(ignored(Some(owner))),
                    None if is_taken(zone, name) => change.ignored.push(ignored(None)),
                    None => {
                        let owner = owner_after_moves(catalogs, zone, name);
                        self.owners.extend(owner.map(|owner| (zone.clone(), owner)));
                    }
                }
            }
        }
        for (zone, owner) in &self.owners {
            if before
                .get(zone)
                .is_some_and(|before| before.label != owner.label)
            {
                change.resets.push(zone.clone());
            }
        }
        change
    }
}

impl MemberOwner {
    /// Checks whether a catalog still lists a member that has moved to this owner, as it should for a while.
    fn is_moving_from(&self, catalogs: &Catalogs, zone: &[u8], from: &[u8]) -> bool {
        let member = catalogs
            .get(from)
            .and_then(|catalog| catalog.members.get(zone));
        member.is_some_and(|member| member.new_catalog.as_ref() == Some(&self.catalog))
    }
}

/// Returns the owner of a member of a catalog, after moves; `None` if the catalog does not have it.
fn owner_after_moves(catalogs: &Catalogs, zone: &[u8], catalog: &[u8]) -> Option<MemberOwner> {
    let member = catalogs.get(catalog)?.members.get(zone)?;
    let moved = member.new_catalog.as_ref().and_then(|new| {
        let member = catalogs.get(new)?.members.get(zone)?;
        Some((new, member))
    });
    let (name, member) = match moved {
        Some((new, member)) => (&**new, member),
        None => (catalog, member),
    };
    Some(MemberOwner {
        catalog: name.into(),
        label: member.label.clone(),
    })
}
