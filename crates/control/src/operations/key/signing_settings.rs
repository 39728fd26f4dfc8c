//! Signing requests of operators: denial of existence and the served serial, for a new zone and for one that is
//! already signed.
//!
//! A new denial method applies to whole answers: each has the proofs of one method, signed by the existing keys.
//! Cached answers stay correct and valid until their TTL expires, so that no resolver finds the zone bogus.

use nameward_base::time::now_seconds;
use nameward_dnssec::{Denial, DenialSettings, Nsec3, Nsec3Param, SoaEdit};
use nameward_keys::local::{SigningSettings, ZoneKey};
use nameward_keys::storage::{KeyStorage, RequestedSigning};
use nameward_wire::NameBuf;

use super::errors::zone_keys_error;
use crate::operations::zone::metadata_check::{MetadataSpec, check_item};
use crate::operations::{
    MetadataChange, MetadataRequest, OperationError, OperationResult, Operations, Outcome,
};

/// An algorithm of validators without NSEC3, so that its zones must use NSEC (RFC 5155 section 2).
const RSASHA1: u8 = 5;

/// Reads the signing settings that an operator requests.
pub(crate) fn read_signing(
    denial: Option<&str>,
    soa_edit: Option<&str>,
) -> Outcome<RequestedSigning> {
    Ok(RequestedSigning {
        denial: denial.map(read_denial).transpose()?,
        soa_edit: soa_edit.map(read_soa_edit).transpose()?,
    })
}

/// Refuses a denial method that the keys or the name of a zone do not allow.
pub(crate) fn check_signing(
    name: &NameBuf,
    request: &RequestedSigning,
    keys: &[ZoneKey],
) -> Outcome<()> {
    match &request.denial {
        Some(denial) if denial.denial != Denial::Nsec => check_nsec3(name, keys),
        _ => Ok(()),
    }
}

impl Operations {
    /// Refuses invalid signing metadata for a zone.
    pub(crate) fn check_signing_item(
        &self,
        name: &NameBuf,
        kind: &str,
        request: &MetadataRequest,
    ) -> Outcome<()> {
        let content = match (request.change, &request.content[..]) {
            (MetadataChange::Remove, _) | (MetadataChange::Set, []) => return Ok(()),
            (MetadataChange::Set, [content]) => content,
            _ => {
                return Err(OperationError::invalid(format!(
                    "a zone has a single {kind} value: replace it with `nameward metadata set {} {kind} VALUE`",
                    request.zone
                )));
            }
        };
        check_item(kind, content)?;
        if kind != "NSEC3PARAM" {
            return Ok(());
        }
        let keys = self
            .key_storage(name)?
            .keys()
            .map_err(zone_keys_error(name))?;
        check_nsec3(name, &keys)
    }

    /// Restores how a zone with keys in the state store was signed.
    pub(crate) fn restore_signing(&self, name: &NameBuf, before: SigningSettings) -> Outcome<()> {
        let restore = |stored: &mut SigningSettings| {
            let serial = stored.serial;
            *stored = before;
            stored.serial = serial;
        };
        let keys = self.rollover.local_keys();
        let set = keys.change_terms(name.as_name(), now_seconds(), restore);
        (self.keys_changed)(*name);
        set.map_err(zone_keys_error(name))
    }

    /// Changes how a zone with keys is signed.
    pub(crate) fn change_signing(
        &self,
        name: &NameBuf,
        storage: &dyn KeyStorage,
        signing: &RequestedSigning,
    ) -> Outcome {
        check_signing(
            name,
            signing,
            &storage.keys().map_err(zone_keys_error(name))?,
        )?;
        let changed = storage.change_signing(signing, now_seconds());
        let is_changed = changed.map_err(zone_keys_error(name))?;
        let zone = name.to_string();
        if !is_changed {
            return Ok(OperationResult::NoChange { zone });
        }
        (self.keys_changed)(*name);
        let denial = signing
            .denial
            .as_ref()
            .map(|denial| denial.word().to_owned());
        let soa_edit = signing.soa_edit.map(|edit| edit.word().to_owned());
        tracing::info!(
            "zone {name}: signing changed: denial {}, SOA-EDIT {}",
            denial.as_deref().unwrap_or("unchanged"),
            soa_edit.as_deref().unwrap_or("unchanged")
        );
        Ok(OperationResult::SigningChanged {
            zone,
            denial,
            soa_edit,
        })
    }
}

/// Warns of NSEC3 iterations in metadata.
pub(crate) fn iterations_advice(kind: &str, request: &MetadataRequest) -> Option<String> {
    let is_set = kind == "NSEC3PARAM" && request.change != MetadataChange::Remove;
    let content = request.content.first().filter(|_| is_set)?;
    let param = Nsec3Param::read(content).ok()?;
    (param.hashing.iterations > 0).then(|| {
        let found = param.hashing.iterations;
        format!(
            "{found} NSEC3 iterations cost CPU time here and in every validator and protect nothing: use `1 0 0 -` \
             (RFC 9276)"
        )
    })
}

/// Refuses NSEC3 metadata of a new zone that its key or name do not allow.
pub(crate) fn check_denial_item(
    name: &NameBuf,
    item: &MetadataSpec,
    keys: &[ZoneKey],
) -> Outcome<()> {
    if item.kind != "NSEC3PARAM" || item.content.is_empty() {
        return Ok(());
    }
    check_nsec3(name, keys)
}

/// Refuses NSEC3 for keys or a zone name that do not allow it.
pub(crate) fn check_nsec3(name: &NameBuf, keys: &[ZoneKey]) -> Outcome<()> {
    if keys.iter().any(|key| key.private.algorithm() == RSASHA1) {
        return Err(OperationError::refused(format!(
            "zone {name}: NSEC3 is not possible with a key of algorithm 5 (RSASHA1, RFC 5155 section 2): replace the \
             key first"
        )));
    }
    match Nsec3::default().owner(name.as_name(), name.as_name()) {
        Some(_) => Ok(()),
        None => Err(OperationError::refused(format!(
            "zone {name}: the zone name is too long for NSEC3; use nsec"
        ))),
    }
}

fn read_denial(word: &str) -> Outcome<DenialSettings> {
    DenialSettings::read(word).ok_or_else(|| {
        let words = DenialSettings::WORDS.join(", ");
        OperationError::invalid(format!("expected denial {words}, found {word:?}"))
    })
}

fn read_soa_edit(word: &str) -> Outcome<SoaEdit> {
    SoaEdit::read(word).ok_or_else(|| {
        OperationError::invalid(format!(
            "expected INCREMENT-WEEKS, INCEPTION-EPOCH, INCEPTION-INCREMENT, EPOCH or NONE, found {word:?}"
        ))
    })
}
