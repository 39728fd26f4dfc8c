//! The location where the contents of a zone are read and changed: a database, or memory with a journal.

use std::sync::Arc;

use nameward_sql::ZoneRow;
use nameward_wire::NameBuf;
use nameward_zone::change::{RecordsAt as _, SignedBy};
use nameward_zone::{SigningState, Zone, ZoneKind};

use crate::operations::{Database, ErrorKind, OperationError, Operations, Outcome};

/// The location of a zone's contents.
pub(crate) enum ZoneLocation<'o> {
    /// Rows of a database.
    Database(&'o Database, Box<ZoneRow>),
    /// A version in memory: from a file, from a primary, or produced here.
    Memory(MemoryZone),
}

/// A zone whose contents are in memory.
pub(crate) struct MemoryZone {
    /// The served version, without the records added by signing.
    pub(crate) version: Arc<Zone>,
    /// The signer of the served DNSSEC records.
    pub(crate) signed_by: SignedBy,
}

impl MemoryZone {
    /// Returns the name of the zone.
    pub(crate) fn name(&self) -> NameBuf {
        self.version.id().into()
    }
}

impl ZoneLocation<'_> {
    /// Returns the name of the zone.
    pub(crate) fn name(&self) -> NameBuf {
        match self {
            ZoneLocation::Database(_, row) => row.name,
            ZoneLocation::Memory(zone) => zone.name(),
        }
    }
}

impl Operations {
    /// Finds the location of a zone's contents.
    pub(crate) fn location(&self, name: &NameBuf) -> Outcome<ZoneLocation<'_>> {
        let served = self.commits.table().load();
        match served.exact(name.as_name()) {
            Some(zone) if !self.is_database(zone.rank()) => {
                if !zone.is_ready() || zone.live().is_some() {
                    return Err(OperationError::refused(format!(
                        "zone {name} has no data to serve"
                    )));
                }
                Ok(ZoneLocation::Memory(MemoryZone {
                    signed_by: zone.signed_by(),
                    version: zone.stored(),
                }))
            }
            _ => {
                let (database, row) = self.locate(name)?;
                Ok(ZoneLocation::Database(database, Box::new(row)))
            }
        }
    }

    /// Checks whether a database has a zone, served or not.
    pub(crate) fn has_row(&self, name: &NameBuf) -> Outcome<bool> {
        if let Some(rank) = (self.rank_of)(name.as_name()) {
            return Ok(self.is_database(rank));
        }
        if self.databases.is_empty() {
            return Ok(false);
        }
        match self.locate(name) {
            Ok(_) => Ok(true),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Refuses a zone in memory that an operator cannot change, with the reason.
    pub(crate) fn check_changeable(&self, zone: &MemoryZone) -> Outcome<()> {
        let name = zone.name();
        let refused = |reason: &str| Err(OperationError::refused(format!("zone {name} {reason}")));
        match self.policies.load().get(name.as_name()).kind {
            ZoneKind::Secondary | ZoneKind::Consumer => {
                return refused("is a secondary zone: change it at its primary");
            }
            ZoneKind::Producer => {
                return refused("is a catalog generated from its members: change those");
            }
            ZoneKind::Native | ZoneKind::Primary => {}
        }
        if matches!(zone.version.signing(), SigningState::Stored(_)) {
            return refused("is presigned: change it at its signer");
        }
        if (self.is_frozen)(name.as_name()) {
            return refused("is frozen: run `nameward zone thaw` first");
        }
        if self.commits.store().is_none() {
            return refused(
                "is loaded from a file, and changes need a state store: set server.state_directory, or change the file \
                 and run `nameward reload`",
            );
        }
        Ok(())
    }
}
