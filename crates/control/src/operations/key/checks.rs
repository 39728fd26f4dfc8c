//! Checks for manual key changes: refuses those after which a zone would be signed in part, or no longer.

use nameward_dnssec::KeyUse;
use nameward_dnssec::rollover::KeyRole;
use nameward_maintain::keys::local::ZoneKey;
use nameward_wire::NameBuf;

use super::database::DatabaseZone;
use super::zone_keys::of_keys;
use crate::operations::{OperationError, Operations};

impl Operations {
    /// Refuses a new key that signs only the keys or only the zone, if no other key signs the rest.
    pub(in crate::operations) fn check_completes(
        &self,
        name: &NameBuf,
        home: Option<&DatabaseZone<'_>>,
        key: &ZoneKey,
    ) -> Result<(), OperationError> {
        let keys = match home {
            Some(home) => self.database_keys(home)?,
            None => self
                .keeper
                .keys()
                .keys(name.as_name())
                .map_err(of_keys(name))?,
        };
        if keys.iter().any(|other| other.usage.is_active()) {
            return Ok(());
        }
        let (role, other) = match key.role {
            KeyRole::KeySigning => ("KSK", "zsk"),
            _ => ("ZSK", "ksk"),
        };
        Err(OperationError::refused(format!(
            "zone {name} is not signed, and a {role} alone cannot sign it: use `nameward zone secure {name}` to sign \
             it with one key; for two keys add one with --inactive, the other ({other}) with --force, and activate the \
             first"
        )))
    }

    /// Refuses to remove the last key of a signed zone: that ends signing, which has its own command.
    pub(in crate::operations) fn check_signed_without(
        &self,
        name: &NameBuf,
        number: u32,
    ) -> Result<(), OperationError> {
        // A key whose files are missing can still be removed.
        let uses = self.keeper.keys().uses(name.as_name());
        let uses = uses.map_err(of_keys(name))?;
        let is_used = |(_, usage): &(u32, KeyUse)| usage.is_active() && usage.published;
        let mut own = uses.iter().filter(|(key, _)| *key == number);
        let mut others = uses.iter().filter(|(key, _)| *key != number);
        if own.any(is_used) && !others.any(is_used) {
            Err(OperationError::refused(format!(
                "key {number} is the only active key of zone {name}; use `nameward zone unsecure {name}` to stop \
             signing"
            )))
        } else {
            Ok(())
        }
    }
}
