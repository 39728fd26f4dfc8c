//! Changes of the settings of a zone: kind, primaries, account, catalog, metadata, signing, and all of its RRsets. A
//! request is one transaction.

use std::sync::Arc;

use nameward_keys::database::{first_key, removal};
use nameward_sql::ZoneRow;
use nameward_sql::write::{AttributeChange, MetadataEdit};
use nameward_wire::NameBuf;
use nameward_zone::ZoneKind;
use nameward_zone::change::ChangeAuthor;
use serde::{Deserialize, Serialize};

use super::location::ZoneLocation;
use super::metadata_check::MetadataSpec;
use super::stored_primaries;
use crate::operations::key::errors::zone_keys_error;
use crate::operations::key::signing_settings::check_denial_item;
use crate::operations::record::change::ChangeMode;
use crate::operations::{
    Database, KeyTemplate, ListedKind, OperationError, OperationResult, Operations, Outcome,
    RrsetStep, RrsetsRequest, zone_name,
};

/// New settings of a zone; missing ones stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSettings {
    /// The zone.
    pub zone: String,
    /// The kind.
    pub kind: Option<ListedKind>,
    /// The addresses that a secondary is transferred from; an empty list removes them.
    pub primaries: Option<Vec<String>>,
    /// The account; empty removes it.
    pub account: Option<String>,
    /// The catalog that lists it; empty removes it from the catalog.
    pub catalog: Option<String>,
    /// The template for the settings of a zone that is not in a database; empty removes it.
    pub template: Option<String>,
    /// `domains.options` of a database zone, as JSON; empty removes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
    /// A change of `domains.options`, as a JSON merge patch (RFC 7396).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options_patch: Option<String>,
    /// Kinds of metadata to set. A zone that is not in a database refuses those that it cannot store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<MetadataSpec>,
    /// Whether the zone is signed. An already signed zone keeps its keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// All RRsets of the zone; others are deleted, except the SOA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rrsets: Option<Vec<RrsetStep>>,
    /// The serial that the zone must have, so that it was not changed in the meantime. Any by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
}

impl ZoneSettings {
    /// Returns the change of the RRsets; without new ones it only compares the serial.
    pub(super) fn rrsets_request(&self) -> RrsetsRequest {
        RrsetsRequest {
            zone: self.zone.clone(),
            rrsets: self.rrsets.clone().unwrap_or_default(),
            delete_others: self.rrsets.is_some(),
            serial: self.serial,
            ..RrsetsRequest::default()
        }
    }
}

/// Refuses settings that a zone version cannot have: it cannot be a catalog, or a member of one.
pub(crate) fn check_version(
    name: &NameBuf,
    kind: Option<ListedKind>,
    catalog: &str,
) -> Outcome<()> {
    let is_catalog = matches!(
        kind,
        Some(ListedKind::OfZone(ZoneKind::Producer | ZoneKind::Consumer))
    );
    let refused = match name.as_name().variant() {
        Some(_) if is_catalog => "a catalog has no versions for views",
        Some(_) if !catalog.is_empty() => {
            "a version for views cannot be a member of a catalog: consumers would take it for the zone"
        }
        _ => return Ok(()),
    };
    Err(OperationError::invalid(format!("zone {name}: {refused}")))
}

impl Operations {
    /// Changes the settings of a zone, all or none.
    pub fn change_settings(
        &self,
        requested: &ZoneSettings,
        author: Option<&Arc<ChangeAuthor>>,
    ) -> Outcome {
        let name = zone_name(&requested.zone)?;
        let catalog = requested.catalog.as_deref().unwrap_or_default();
        check_version(&name, requested.kind, catalog)?;
        if !self.has_row(&name)? {
            return self.set_local(requested, author);
        }
        let (database, row) = self.locate(&name)?;
        if requested.template.is_some() {
            return Err(OperationError::invalid(
                "--template is not available for database zones",
            ));
        }
        let mut changes = self.settings_changes(database, &row, requested)?;
        changes.extend(self.signing_changes(&row, requested)?);
        let result = match &requested.rrsets {
            None if changes.is_empty() && requested.secure.is_none() => {
                return Err(OperationError::invalid(
                    "nothing to change: use --kind, --primary, --account or --catalog",
                ));
            }
            None if changes.is_empty() => {
                let zone = name.to_string();
                return Ok(OperationResult::NoChange { zone });
            }
            // A transferred zone accepts no change of records, so its serial is not compared in the transaction.
            None if requested.serial.is_none() || row.kind.is_transferred() => {
                self.write_attributes(database, &row, &changes)?
            }
            _ => {
                let request = requested.rrsets_request();
                let location = ZoneLocation::Database(database, Box::new(row));
                let mut change = self.rrsets_change(&location, &request, &requested.metadata)?;
                change.attributes.extend(changes);
                change.author = author.cloned();
                let outcome = self.make_change(&location, &change, ChangeMode::Make)?;
                outcome.result()
            }
        };
        if requested.secure.is_some() {
            (self.keys_changed)(name);
        }
        Ok(result)
    }

    /// Returns the changes of the columns and the metadata of a zone.
    fn settings_changes(
        &self,
        database: &Database,
        row: &ZoneRow,
        requested: &ZoneSettings,
    ) -> Outcome<Vec<AttributeChange>> {
        let mut changes = Vec::new();
        let kind = match requested.kind {
            Some(ListedKind::OfZone(kind)) => {
                changes.push(AttributeChange::SetKind(kind));
                kind
            }
            Some(ListedKind::File) => {
                return Err(OperationError::invalid("a database zone has no file"));
            }
            None => row.kind,
        };
        let mut primaries = row.primaries.as_deref().unwrap_or_default().to_owned();
        if let Some(addresses) = &requested.primaries {
            let key;
            (primaries, key) = stored_primaries(addresses)?;
            changes.push(AttributeChange::SetPrimaries(primaries.clone()));
            if let Some(key) = key {
                let name = key.to_string();
                let name = name.trim_end_matches('.').to_owned();
                let kind = "AXFR-MASTER-TSIG".to_owned();
                changes.push(AttributeChange::Metadata(
                    kind,
                    MetadataEdit::Set,
                    vec![name],
                ));
            }
        }
        if kind.is_transferred() && primaries.trim().is_empty() {
            return Err(OperationError::invalid(
                "a secondary or consumer zone needs a primary: --primary ADDRESS, once or more",
            ));
        }
        if let Some(account) = &requested.account {
            changes.push(AttributeChange::SetAccount(account.clone()));
        }
        if let Some(catalog) = &requested.catalog {
            let name = match catalog.as_str() {
                "" => String::new(),
                text => self.catalog_name(database, text)?,
            };
            changes.push(AttributeChange::SetCatalog(name));
        }
        if requested.options.is_some() || requested.options_patch.is_some() {
            let options = row.options.as_deref().unwrap_or_default();
            let options = requested.new_options(options)?;
            changes.push(AttributeChange::SetOptions(options));
        }
        for item in &requested.metadata {
            changes.push(item.change()?);
        }
        Ok(changes)
    }

    /// Returns the changes that start or end signing.
    fn signing_changes(
        &self,
        row: &ZoneRow,
        requested: &ZoneSettings,
    ) -> Outcome<Vec<AttributeChange>> {
        let sets_metadata = requested
            .metadata
            .iter()
            .any(|item| !item.content.is_empty());
        if requested.secure.is_none() && !sets_metadata {
            return Ok(Vec::new());
        }
        let keys = self.key_storage(&row.name)?.keys();
        let mut keys = keys.map_err(zone_keys_error(&row.name))?;
        let mut changes = Vec::new();
        match requested.secure {
            Some(true) if keys.is_empty() => {
                self.check_manual_change(&row.name)?;
                let template = KeyTemplate::default();
                let key = template.key(template.generate()?)?;
                changes.push(first_key(&key));
                keys.push(key);
            }
            Some(false) if !keys.is_empty() => {
                self.check_manual_change(&row.name)?;
                changes.extend(removal());
            }
            _ => {}
        }
        for item in &requested.metadata {
            check_denial_item(&row.name, item, &keys)?;
        }
        Ok(changes)
    }

    /// Returns the name of a catalog as stored for its members, if the database has such a producer.
    pub(crate) fn catalog_name(&self, database: &Database, text: &str) -> Outcome<String> {
        let name = zone_name(text)?;
        match self.wait(database, database.backend.find_zone(name.as_name()))? {
            Some(row) if row.kind == ZoneKind::Producer => {
                Ok(name.to_string().trim_end_matches('.').to_ascii_lowercase())
            }
            Some(_) => Err(OperationError::invalid(format!(
                "catalog: zone {name} is not a catalog: its kind must be producer"
            ))),
            None => Err(OperationError::invalid(format!(
                "catalog: catalog {name} is not in the zone's database"
            ))),
        }
    }
}
