//! Copies of deleted zones that were not in a database, and their restoration: the text of the zone, the settings
//! declared in the state store, and its keys.
//!
//! A copy is a magic string followed by fields: a number for the kind, the length, the octets. Copies of database
//! zones have another format.

use nameward_base::time::now_seconds;
use std::sync::Arc;

use nameward_base::secret::Secret;
use nameward_files::zone_from_text;
use nameward_keys::local::KeysCopy;
use nameward_maintain::Moment;
use nameward_maintain::SoaTimes;
use nameward_maintain::contents_of;
use nameward_maintain::policy::{DeclaredSettings, UNCONFIGURED_RANK};
use nameward_maintain::sync::whole_text;
use nameward_state::{DeletedZone, StateChange};
use nameward_wire::NameBuf;
use nameward_zone::{Serial, Zone, ZoneKind};

use super::local::{LocalZone, declared, in_file};
use crate::operations::key::errors::zone_keys_error;
use crate::operations::tsig::stored_policy_error;
use crate::operations::{OperationError, OperationResult, Operations, Outcome, ZoneChanged};

/// The magic string at the start of a copy.
const MARK: &[u8] = b"nameward zone copy 1\n";

/// The kinds of fields.
const TEXT: u8 = 1;
const SETTINGS: u8 = 2;
const KEY: u8 = 3;
const SIGNING: u8 = 4;

/// The copy of a zone that was not in a database.
#[derive(Debug, Default, PartialEq, Eq)]
struct LocalCopy {
    /// The records as a zone file; `None` for a zone that was never transferred.
    text: Option<Vec<u8>>,
    /// The settings declared in the state store.
    settings: Option<DeclaredSettings>,
    keys: KeysCopy,
}

impl LocalCopy {
    fn to_octets(&self) -> Vec<u8> {
        let mut octets = MARK.to_vec();
        let mut part = |kind: u8, value: &[u8]| {
            octets.push(kind);
            octets.extend((value.len() as u64).to_be_bytes());
            octets.extend_from_slice(value);
        };
        if let Some(text) = &self.text {
            part(TEXT, text);
        }
        if let Some(settings) = &self.settings {
            part(SETTINGS, &settings.to_value());
        }
        for (number, value) in &self.keys.keys {
            let item = [&number.to_be_bytes()[..], value.reveal()].concat();
            part(KEY, Secret::new(item).reveal());
        }
        if let Some(terms) = &self.keys.terms {
            part(SIGNING, terms.reveal());
        }
        octets
    }

    fn from_octets(octets: &[u8]) -> Option<Self> {
        let mut rest = octets.strip_prefix(MARK)?;
        let mut copy = LocalCopy::default();
        while let Some((kind, behind)) = rest.split_first() {
            let (length, behind) = behind.split_first_chunk::<8>()?;
            let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
            let (value, behind) = behind.split_at_checked(length)?;
            match *kind {
                TEXT => copy.text = Some(value.into()),
                SETTINGS => copy.settings = Some(DeclaredSettings::from_value(value)?),
                KEY => {
                    let (number, value) = value.split_first_chunk::<4>()?;
                    let number = u32::from_be_bytes(*number);
                    copy.keys.keys.push((number, value.to_vec().into()));
                }
                SIGNING => copy.keys.terms = Some(value.to_vec().into()),
                _ => return None,
            }
            rest = behind;
        }
        Some(copy)
    }
}

/// Checks whether a copy is of a zone that was not in a database.
pub(crate) fn is_local(rows: &[u8]) -> bool {
    rows.starts_with(MARK)
}

impl Operations {
    /// Deletes a zone that is not in a database, and stores a copy of it by default.
    pub(crate) fn delete_local(
        &self,
        name: &NameBuf,
        no_copy: bool,
        serial: Option<u32>,
    ) -> Outcome {
        let local = self.local_zone(name)?;
        let (rank, kind) = match &local {
            LocalZone::File(file, settings) => (file.rank, settings.kind),
            LocalZone::Declared(settings) => (UNCONFIGURED_RANK, settings.kind),
        };
        let served = self.commits.table().version(name.as_name(), rank);
        let served = served.filter(|served| !served.is_stub());
        let current = served.as_ref().map(|served| served.serial().0);
        if serial.is_some() && serial != current {
            return Err(zone_changed_error(name));
        }
        let keys = self.rollover.local_keys();
        let mut copy = LocalCopy {
            text: served.as_deref().map(text_of),
            settings: None,
            keys: keys.copy(name.as_name()).map_err(zone_keys_error(name))?,
        };
        match &local {
            LocalZone::File(file, settings) => {
                copy.text = file.text.clone().or(copy.text);
                copy.settings =
                    (*settings != DeclaredSettings::default()).then(|| settings.clone());
            }
            LocalZone::Declared(settings) => copy.settings = Some(settings.clone()),
        }
        let can_store = self.commits.store().is_some() && self.copies.now().octets_max() > 0;
        // The file may be the only copy of the zone: it is not deleted without storing one unless that is requested.
        if !no_copy && !can_store {
            let reason = self.why_no_copy();
            return Err(OperationError::refused(format!(
                "zone {name} was not deleted: {reason}, or use `--no-copy`"
            )));
        }
        let keeps = !no_copy;
        let about = (name, rank, kind);
        let mut number = None;
        if keeps {
            number = self.store_copy(about, served.as_deref(), &copy)?;
        }
        match &local {
            LocalZone::File(file, _) => {
                let removed = self.files.remove(name, file.path.clone(), rank);
                let last = removed.inspect_err(|_| self.drop_copy(name, number))?;
                let serial = |zone: &Arc<Zone>| zone.serial();
                if keeps
                    && let Some(last) =
                        last.filter(|last| served.as_ref().map(serial) != Some(last.serial()))
                {
                    // A change was acknowledged while the copy was written.
                    copy.text = Some(text_of(&last));
                    let newer = self.store_copy(about, Some(&last), &copy)?;
                    self.drop_copy(name, number);
                    number = newer;
                }
            }
            LocalZone::Declared(_) => {}
        }
        let forgotten = match self.stored_policies.remove_zone(name.as_name()) {
            Err(error) if self.commits.store().is_some() => Err(stored_policy_error(error)),
            _ => Ok(()),
        };
        forgotten.inspect_err(|_| {
            if matches!(local, LocalZone::Declared(_)) {
                self.drop_copy(name, number);
            }
        })?;
        keys.forget(name.as_name()).map_err(zone_keys_error(name))?;
        tracing::info!("zone {name}: deleted via control socket");
        let kept_until = number.map(|_| now_seconds().saturating_add(self.copies.now().seconds));
        let changed = ZoneChanged {
            serial: served.map(|zone| zone.serial().0),
            ..local_zone_changed(name, &local, Vec::new())
        };
        Ok(OperationResult::ZoneDeleted {
            changed,
            kept_until,
        })
    }

    /// Stores a copy, and returns its number.
    fn store_copy(
        &self,
        (name, rank, kind): (&NameBuf, u16, ZoneKind),
        zone: Option<&Zone>,
        copy: &LocalCopy,
    ) -> Outcome<Option<i64>> {
        let Some(store) = self.commits.store() else {
            return Ok(None);
        };
        let (bounds, rows) = (self.copies.now(), copy.to_octets());
        let refused = |reason: String| {
            OperationError::refused(format!(
                "zone {name} was not deleted: cannot store a copy of it: {reason}; use `--no-copy` to delete it \
                 without one"
            ))
        };
        if rows.len() as u64 > bounds.octets_max() {
            return Err(refused(format!(
                "it has {} octets, the limit for copies is {}",
                rows.len(),
                bounds.octets_max()
            )));
        }
        let records = zone.map_or(0, |zone| {
            let nodes = zone.nodes_in_any_order();
            let counts = nodes.flat_map(|node| node.rrsets().map(|rrset| rrset.records().count()));
            counts.sum::<usize>()
        });
        let keep = StateChange::KeepCopy {
            zone: DeletedZone {
                name: *name,
                kind: kind.word().into(),
                backend: u32::from(rank),
                serial: zone.map(Zone::serial),
                records: records as u64,
                time: now_seconds(),
            },
            rows: Arc::new(rows),
            bounds,
        };
        let written = store.write(vec![keep]);
        Ok(written.map_err(|error| refused(error.to_string()))?.copy)
    }

    /// Deletes the copy of a zone that was not deleted after all, or that has a newer copy.
    fn drop_copy(&self, name: &NameBuf, number: Option<i64>) {
        let (Some(store), Some(number)) = (self.commits.store(), number) else {
            return;
        };
        if let Err(error) = store.write(vec![StateChange::RemoveCopy { number }]) {
            tracing::warn!(
                "zone {name}: cannot remove an unneeded copy from the state store: {error}"
            );
        }
    }

    /// Restores a zone that was not in a database.
    pub(crate) fn restore_local(
        &self,
        name: &NameBuf,
        rows: &[u8],
        backend: Option<u32>,
    ) -> Outcome {
        let copy = LocalCopy::from_octets(rows).ok_or_else(|| {
            OperationError::backend(format!(
                "zone {name}: its copy in the state store has an unknown format"
            ))
        })?;
        let settings = copy.settings.unwrap_or_default();
        // First, so that a signed zone is never served without its signatures.
        let keys = self.rollover.local_keys();
        keys.restore(name.as_name(), copy.keys)
            .map_err(zone_keys_error(name))?;
        let restored = match (settings.kind, copy.text) {
            (ZoneKind::Native | ZoneKind::Primary, Some(text)) => {
                self.create_file((name, backend), settings, text)
            }
            (ZoneKind::Native | ZoneKind::Primary, None) => Err(OperationError::backend(format!(
                "zone {name}: its copy has no records"
            ))),
            (_, text) => self.restore_declared(name, &settings, text.as_deref()),
        };
        let changed = restored.inspect_err(|_| {
            if let Err(error) = keys.forget(name.as_name()) {
                tracing::error!(
                    "zone {name}: cannot remove its keys from the state store: {error}"
                );
            }
        })?;
        tracing::info!("zone {name}: restored via control socket");
        Ok(OperationResult::ZoneUndeleted(changed))
    }

    /// Declares a zone again, with its previous contents: its primary may be unreachable.
    fn restore_declared(
        &self,
        name: &NameBuf,
        settings: &DeclaredSettings,
        text: Option<&[u8]>,
    ) -> Outcome<ZoneChanged> {
        let zone = text.and_then(|text| zone_from_text(name.as_name(), "copy", text).ok());
        if let (Some(zone), Some(store), true) =
            (&zone, self.commits.store(), settings.kind.is_transferred())
        {
            store
                .write(stored_contents(name, zone).into())
                .map_err(state_store_error)?;
        }
        self.stored_policies
            .set_zone(name.as_name(), settings)
            .map_err(stored_policy_error)?;
        let serial = zone.as_ref().map(Zone::serial);
        Ok(ZoneChanged {
            serial: serial.map(|Serial(number)| number),
            ..declared(name, Vec::new())
        })
    }
}

/// Returns a zone as shown in results.
pub(super) fn local_zone_changed(
    name: &NameBuf,
    local: &LocalZone,
    warnings: Vec<String>,
) -> ZoneChanged {
    match local {
        LocalZone::File(file, _) => in_file(name, file.rank, warnings),
        LocalZone::Declared(_) => declared(name, warnings),
    }
}

/// Returns the state store changes that restore a secondary's contents, as if a primary had just confirmed them.
pub(crate) fn stored_contents(name: &NameBuf, zone: &Zone) -> [StateChange; 2] {
    let now = Moment::from_seconds(now_seconds());
    let contents = StateChange::SetContents {
        zone: *name,
        serial: zone.serial(),
        parts: Arc::new(contents_of(zone)),
    };
    let timers = StateChange::SetTimers {
        zone: *name,
        timers: SoaTimes::from_zone(zone).confirmed(now, std::time::Duration::ZERO),
    };
    [contents, timers]
}

/// Formats a zone as a zone file.
pub(crate) fn text_of(zone: &Zone) -> Vec<u8> {
    whole_text(&contents_of(zone))
}

/// Creates the error for a zone that was changed since it was read.
pub(super) fn zone_changed_error(zone: &NameBuf) -> OperationError {
    OperationError::conflict(format!("zone {zone} was changed in the meantime"))
}

/// Creates the error for a failure of the state store.
pub(super) fn state_store_error(error: impl std::fmt::Display) -> OperationError {
    OperationError::backend(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_round_trips_and_a_truncated_one_is_refused() {
        let copy = LocalCopy {
            text: Some(b"@ 60 IN NS ns\n".to_vec()),
            settings: Some(DeclaredSettings::default()),
            keys: KeysCopy {
                keys: vec![(1, b"one".to_vec().into()), (7, Vec::new().into())],
                terms: Some(b"terms".to_vec().into()),
            },
        };
        let octets = copy.to_octets();
        assert!(is_local(&octets));
        assert_eq!(LocalCopy::from_octets(&octets), Some(copy));
        for length in MARK.len() + 1..octets.len() {
            let cut = LocalCopy::from_octets(&octets[..length]);
            let whole = LocalCopy::from_octets(&octets);
            assert_ne!(cut, whole, "{length}");
        }
        assert_eq!(LocalCopy::from_octets(b"other"), None);
    }
}
