//! Changes of the settings of a zone that is not in a database: kind, primaries, catalog, TSIG keys and serial rule
//! in the state store, signing with its keys, RRsets through the journal.
//!
//! Everything is checked before anything is changed, and changes are undone if a later step fails.

use nameward_dnssec::{Denial, DenialSettings, Nsec3Param, SoaEdit};
use nameward_keys::storage::RequestedSigning;
use nameward_maintain::policy::{DeclaredSettings, UNCONFIGURED_RANK};
use nameward_wire::NameBuf;
use nameward_zone::change::ChangeAuthor;
use nameward_zone::{SerialRule, ZoneKind};
use std::sync::Arc;

use super::creatable;
use super::local::{LocalZone, check_settings, is_file, read_primaries};
use super::local_copy::local_zone_changed;
use super::metadata_check::MetadataSpec;
use crate::operations::key::signing_settings::{check_signing, read_signing};
use crate::operations::record::change::{ChangeMode, OperatorChange};
use crate::operations::{
    ListedMetadata, OperationError, OperationResult, Operations, Outcome, ZoneChanged,
    ZoneSettings, domain_name, zone_name,
};

/// The requested metadata that a zone without a database can store.
#[derive(Debug, Default)]
pub(crate) struct LocalMetadata {
    /// Denial of existence and the served serial, which belong to signing.
    pub(crate) signing: RequestedSigning,
    /// The TSIG keys that may transfer the zone from here.
    transfer_keys: Option<Vec<NameBuf>>,
    /// The TSIG key of its primaries.
    primary_key: Option<Option<NameBuf>>,
    /// How the API raises the serial.
    soa_edit_api: Option<String>,
}

impl LocalMetadata {
    /// Reads metadata; an unsupported item is refused with the name of its field.
    pub(crate) fn read(zone: &NameBuf, items: &[MetadataSpec]) -> Outcome<Self> {
        let mut read = LocalMetadata::default();
        let (mut denial, mut soa_edit) = (None, None);
        for item in items {
            item.change()?;
            let field = item.kind.to_ascii_lowercase().replace('-', "_");
            let first = item.content.first().map(String::as_str);
            match item.kind.as_str() {
                "SOA-EDIT" => soa_edit = Some(first.unwrap_or(SoaEdit::None.word())),
                "NSEC3PARAM" => denial = Some(denial_keyword(zone, first)?),
                "SOA-EDIT-API" => read.soa_edit_api = Some(serial_keyword(zone, first)?),
                "TSIG-ALLOW-AXFR" => read.transfer_keys = Some(key_names(&item.content)?),
                "AXFR-MASTER-TSIG" => read.primary_key = Some(key_names(&item.content)?.pop()),
                // The zone already behaves like this.
                "NSEC3NARROW" | "API-RECTIFY" if matches!(first, None | Some("0")) => {}
                _ => {
                    return Err(OperationError::refused(format!(
                        "{field}: zone {zone} is not in a database; only database zones have this setting"
                    )));
                }
            }
        }
        read.signing = read_signing(denial, soa_edit)?;
        Ok(read)
    }

    /// Returns settings with those of the metadata applied.
    pub(crate) fn over(&self, mut settings: DeclaredSettings) -> Outcome<DeclaredSettings> {
        if let Some(keys) = &self.transfer_keys {
            settings.transfer_keys.clone_from(keys);
        }
        if let Some(word) = &self.soa_edit_api {
            settings.soa_edit_api.clone_from(word);
        }
        if let Some(key) = self.primary_key {
            if settings.primaries.is_empty() && key.is_some() {
                return Err(OperationError::invalid(
                    "slave_tsig_key_ids: only a zone that is transferred from primaries has such a key",
                ));
            }
            for primary in &mut settings.primaries {
                primary.key = key;
            }
        }
        Ok(settings)
    }
}

/// Returns the keyword for the denial method that an NSEC3PARAM requests.
fn denial_keyword(zone: &NameBuf, param: Option<&str>) -> Outcome<&'static str> {
    let Some(text) = param else {
        return Ok("nsec");
    };
    let param = Nsec3Param::read(text);
    let param = param.map_err(|error| OperationError::invalid(format!("nsec3param: {error}")))?;
    let is_plain = param.hashing.iterations == 0 && param.hashing.salt.is_empty();
    match (is_plain, param.opt_out) {
        (true, false) => Ok("nsec3"),
        (true, true) => Ok("nsec3-opt-out"),
        (false, _) => Err(OperationError::invalid(format!(
            "nsec3param: zone {zone} is not in a database and has NSEC3 without salt and iterations only (RFC 9276): 1 0 0 -"
        ))),
    }
}

/// Returns a keyword for serials that a journal can follow: it needs a new serial for each change.
fn serial_keyword(zone: &NameBuf, word: Option<&str>) -> Outcome<String> {
    let word = word.unwrap_or_default().to_ascii_uppercase();
    if word.is_empty() || SerialRule::for_api(Some(&word), None) != SerialRule::Keep {
        Ok(word)
    } else {
        Err(OperationError::invalid(format!(
            "soa_edit_api: zone {zone} is not in a database, and each change of it needs a new serial: expected DEFAULT, \
         INCREASE, EPOCH, SOA-EDIT or SOA-EDIT-INCREASE, found {word:?}"
        )))
    }
}

fn key_names(texts: &[String]) -> Outcome<Vec<NameBuf>> {
    let names = texts.iter().map(|text| {
        domain_name(text)
            .map_err(|_| OperationError::invalid(format!("invalid TSIG key name {text:?}")))
    });
    names.collect()
}

impl Operations {
    /// Changes the settings of a zone that is not in a database.
    pub(crate) fn set_local(
        &self,
        requested: &ZoneSettings,
        author: Option<&Arc<ChangeAuthor>>,
    ) -> Outcome {
        let name = zone_name(&requested.zone)?;
        let plan = self.local_plan(&name, requested)?;
        if let Some(changed) = self.change_local_kind(&name, requested, &plan)? {
            return Ok(changed);
        }
        let records = self.local_records((&name, &plan), requested, author)?;
        let is_set = plan.settings != plan.before;
        if is_set {
            self.declare(&name, &plan.settings)?;
        }
        let made = self.change_local_rest(&name, requested, &plan, records);
        if made.is_err() && is_set {
            // The zone had these settings a moment ago, so they can be stored.
            self.declare(&name, &plan.before)?;
        }
        let is_changed = made? || is_set;
        if !is_changed {
            let zone = name.to_string();
            return Ok(OperationResult::NoChange { zone });
        }
        tracing::info!("zone {name}: settings changed via control socket");
        let served = self.commits.table().version(name.as_name(), plan.rank);
        let served = served.filter(|served| !served.is_stub());
        Ok(OperationResult::ZoneChanged(ZoneChanged {
            serial: served.map(|zone| zone.serial().0),
            ..local_zone_changed(&name, &plan.local, self.key_warnings(&plan.settings))
        }))
    }

    /// Checks a change of settings, and returns the resulting plan.
    fn local_plan(&self, name: &NameBuf, requested: &ZoneSettings) -> Outcome<LocalPlan> {
        let local = self.local_zone(name)?;
        let (before, rank) = match &local {
            LocalZone::File(file, settings) => (settings.clone(), file.rank),
            LocalZone::Declared(settings) => (settings.clone(), UNCONFIGURED_RANK),
        };
        let metadata = LocalMetadata::read(name, &requested.metadata)?;
        let settings = metadata.over(self.new_settings(name, &before, requested)?)?;
        check_settings(&settings)?;
        let is_signed = self.has_keys(name)?;
        if !metadata.signing.is_empty() {
            self.check_local_signing(name, requested, &metadata, is_signed)?;
        }
        if requested.secure.is_some_and(|secure| secure != is_signed) {
            self.check_manual_change(name)?;
        }
        Ok(LocalPlan {
            local,
            before,
            settings,
            rank,
            signing: metadata.signing,
            is_signed,
        })
    }

    /// Refuses signing settings for a zone that is not signed and stays unsigned.
    fn check_local_signing(
        &self,
        name: &NameBuf,
        requested: &ZoneSettings,
        metadata: &LocalMetadata,
        is_signed: bool,
    ) -> Outcome<()> {
        if requested.secure.unwrap_or(is_signed) {
            return if is_signed {
                check_signing(name, &metadata.signing, &self.keys_of(name)?)
            } else {
                Ok(())
            };
        }
        let sets = |kind: &str| {
            let mut items = requested.metadata.iter();
            items.any(|item| item.kind == kind && !item.content.is_empty())
        };
        let field = match (sets("NSEC3PARAM"), sets("SOA-EDIT")) {
            (true, _) => "nsec3param",
            (false, true) => "soa_edit",
            // An unsigned zone has these values anyway.
            (false, false) => return Ok(()),
        };
        Err(OperationError::refused(format!(
            "{field}: zone {name} is not signed, and outside databases this is kept with its keys: sign it first, or in the \
             same request (dnssec)"
        )))
    }

    /// Converts a secondary to a zone file or vice versa, if requested.
    fn change_local_kind(
        &self,
        name: &NameBuf,
        requested: &ZoneSettings,
        plan: &LocalPlan,
    ) -> Outcome<Option<OperationResult>> {
        let settings = &plan.settings;
        let is_alone =
            requested.rrsets.is_none() && requested.secure.is_none() && plan.signing.is_empty();
        match (&plan.local, is_file(settings.kind)) {
            (LocalZone::Declared(_), true) if plan.before.kind == ZoneKind::Secondary => {
                if is_alone {
                    self.promote(name, settings).map(Some)
                } else {
                    Err(kind_alone(name))
                }
            }
            (LocalZone::File(file, _), false) if settings.kind == ZoneKind::Secondary => {
                if is_alone {
                    self.demote(name, file, settings.clone()).map(Some)
                } else {
                    Err(kind_alone(name))
                }
            }
            (LocalZone::File(file, _), false) => Err(OperationError::refused(format!(
                "zone {name} is in {}, but a {} zone has no file: delete it with `nameward zone delete {name}`, \
                     then create it again",
                file.path.display(),
                settings.kind.word()
            ))),
            (LocalZone::Declared(_), true) => Err(OperationError::refused(format!(
                "zone {name} is a catalog: delete it with `nameward zone delete {name}`, then create it again"
            ))),
            _ => Ok(None),
        }
    }

    /// Tries the change of RRsets, and returns it.
    fn local_records(
        &self,
        (name, plan): (&NameBuf, &LocalPlan),
        requested: &ZoneSettings,
        author: Option<&Arc<ChangeAuthor>>,
    ) -> Outcome<Option<OperatorChange>> {
        // A transferred zone accepts no change of records, not even an empty one that only compares the serial.
        let compares = requested.serial.is_some() && !plan.before.kind.is_transferred();
        if requested.rrsets.is_none() && !compares {
            return Ok(None);
        }
        let request = requested.rrsets_request();
        let location = self.location(name)?;
        let mut change = self.rrsets_change(&location, &request, &requested.metadata)?;
        change.author = author.cloned();
        self.make_change(&location, &change, ChangeMode::Try)?;
        Ok(Some(change))
    }

    /// Changes signing and RRsets; returns whether anything changed.
    fn change_local_rest(
        &self,
        name: &NameBuf,
        requested: &ZoneSettings,
        plan: &LocalPlan,
        records: Option<OperatorChange>,
    ) -> Outcome<bool> {
        let zone = &requested.zone;
        let is_secured = requested.secure == Some(true) && !plan.is_signed;
        let stays_signed = requested.secure.unwrap_or(plan.is_signed);
        let mut is_changed = false;
        let signing_before = self.rollover.local_keys().terms(name.as_name()).ok();
        if is_secured || stays_signed && !plan.signing.is_empty() {
            let secured = self.secure_zone(zone, None, &plan.signing)?;
            is_changed = !matches!(secured, OperationResult::NoChange { .. });
        }
        if let Some(change) = records {
            let location = self.location(name)?;
            let made = self.make_change(&location, &change, ChangeMode::Make);
            if made.is_err() && is_secured {
                self.unsecure_zone(zone, true)?;
            } else if let (Err(_), true, Some(before)) = (&made, is_changed, signing_before) {
                self.restore_signing(name, before)?;
            }
            is_changed |= made?.is_changed;
        }
        // Last, because deleted keys cannot be restored.
        if requested.secure == Some(false) && plan.is_signed {
            self.unsecure_zone(zone, true)?;
            is_changed = true;
        }
        Ok(is_changed)
    }

    /// Returns the new settings of a zone.
    fn new_settings(
        &self,
        name: &NameBuf,
        before: &DeclaredSettings,
        requested: &ZoneSettings,
    ) -> Outcome<DeclaredSettings> {
        let mut settings = before.clone();
        if let Some(kind) = requested.kind {
            settings.kind = creatable(kind)?;
        }
        match &requested.primaries {
            Some(primaries) => settings.primaries = read_primaries(primaries)?,
            None if !settings.kind.is_transferred() => settings.primaries.clear(),
            None => {}
        }
        if let Some(template) = &requested.template {
            settings.template = self.checked_template(Some(template))?;
        }
        if let Some(catalog) = &requested.catalog {
            settings.catalog = self.local_catalog(catalog)?;
        }
        if requested
            .account
            .as_ref()
            .is_some_and(|account| !account.is_empty())
        {
            return Err(OperationError::refused(format!(
                "account: zone {name} is not in a database; only database zones have an account"
            )));
        }
        if requested.options.is_some() || requested.options_patch.is_some() {
            return Err(OperationError::refused(format!(
                "zone {name} is not in a database; only database zones have options"
            )));
        }
        let plain = ZoneSettings {
            zone: requested.zone.clone(),
            serial: requested.serial,
            ..ZoneSettings::default()
        };
        if *requested == plain {
            Err(OperationError::invalid(
                "nothing to change: use --kind, --primary, --template or --catalog",
            ))
        } else {
            Ok(settings)
        }
    }

    /// Returns how the API raises the serial of a zone that is not in a database.
    pub(crate) fn local_serial_rule(&self, zone: &NameBuf, set: &[MetadataSpec]) -> SerialRule {
        let declared = self.stored_policies.zone(zone.as_name()).ok().flatten();
        let declared = declared
            .map(|declared| declared.soa_edit_api)
            .unwrap_or_default();
        let new = set.iter().find(|item| item.kind == "SOA-EDIT-API");
        let word = match new {
            Some(item) => item.content.first().cloned().unwrap_or_default(),
            None => declared,
        };
        match SerialRule::for_api(Some(&word), None) {
            SerialRule::Keep => SerialRule::default(),
            rule => rule,
        }
    }

    /// Returns the settings of a zone that is not in a database, as metadata.
    pub(crate) fn local_metadata(&self, zone: &NameBuf) -> Vec<ListedMetadata> {
        let item = |kind: &str, content: String| ListedMetadata {
            kind: kind.into(),
            content,
        };
        let name = |key: &NameBuf| key.to_string().trim_end_matches('.').to_owned();
        let mut items = Vec::new();
        let policies = self.policies.load();
        let key = policies
            .get(zone.as_name())
            .primaries
            .iter()
            .find_map(|one| one.key);
        items.extend(key.map(|key| item("AXFR-MASTER-TSIG", name(&key))));
        if self.has_keys(zone).unwrap_or(false)
            && let Ok(signing) = self.rollover.local_keys().terms(zone.as_name())
        {
            if let (Denial::Nsec3(_), [_, (kind, Some(param)), _]) = (
                &signing.denial.denial,
                DenialSettings::metadata(&signing.denial),
            ) {
                items.push(item(kind, param.to_owned()));
            }
            if signing.soa_edit != SoaEdit::None {
                items.push(item("SOA-EDIT", signing.soa_edit.word().to_owned()));
            }
        }
        let Ok(Some(declared)) = self.stored_policies.zone(zone.as_name()) else {
            return items;
        };
        if !declared.soa_edit_api.is_empty() {
            items.push(item("SOA-EDIT-API", declared.soa_edit_api));
        }
        let keys = declared.transfer_keys.iter();
        items.extend(keys.map(|key| item("TSIG-ALLOW-AXFR", name(key))));
        items
    }
}

/// A checked change of settings.
struct LocalPlan {
    local: LocalZone,
    before: DeclaredSettings,
    settings: DeclaredSettings,
    rank: u16,
    signing: RequestedSigning,
    is_signed: bool,
}

fn kind_alone(name: &NameBuf) -> OperationError {
    OperationError::invalid(format!(
        "kind: zone {name} is moved between a zone file and a secondary: change records and signing in another request"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, content: &str) -> Outcome<LocalMetadata> {
        let zone: NameBuf = "a.test.".parse().unwrap();
        let item = MetadataSpec {
            kind: kind.into(),
            content: match content {
                "" => Vec::new(),
                text => vec![text.to_owned()],
            },
        };
        LocalMetadata::read(&zone, &[item])
    }

    #[test]
    fn unsupported_metadata_is_refused_with_its_field() {
        for (kind, content, field) in [
            ("API-RECTIFY", "1", "api_rectify"),
            ("NSEC3NARROW", "1", "nsec3narrow"),
            ("NSEC3PARAM", "1 0 5 ab", "nsec3param"),
            ("SOA-EDIT-API", "OFF", "soa_edit_api"),
            ("X-OURS", "text", "x_ours"),
        ] {
            let error = read(kind, content).unwrap_err();
            assert!(error.message.starts_with(field), "{error}");
        }
        for (kind, content) in [
            ("API-RECTIFY", "0"),
            ("NSEC3PARAM", "1 1 0 -"),
            ("NSEC3PARAM", ""),
            ("SOA-EDIT-API", "increase"),
            ("SOA-EDIT", "INCEPTION-INCREMENT"),
            ("TSIG-ALLOW-AXFR", "key.example"),
        ] {
            assert!(read(kind, content).is_ok(), "{kind} {content}");
        }
    }
}
