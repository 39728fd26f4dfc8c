//! Operations on what databases store for zones besides served records: metadata, comments, disabled records.

use std::sync::Arc;

use nameward_sql::write::{AttributeChange, MetadataEdit, StoredRecord};
use nameward_wire::Type;
use nameward_zone::Serial;
use nameward_zone::change::{ChangeAuthor, Edit, NewRecord, RrsetData};
use serde::{Deserialize, Serialize};

use super::location::ZoneLocation;
use super::metadata_check::{check_kind, check_values, is_signing_kind};
use crate::operations::key::errors::attribute_write_error;
use crate::operations::key::signing_settings::iterations_advice;
use crate::operations::record::change::{ChangeMode, OperatorChange};
use crate::operations::record::{owner, read_content, read_type};
use crate::operations::{
    Database, ErrorKind, ItemSink, OperationError, OperationResult, Operations, Outcome, list_all,
    table_row, zone_name,
};
use nameward_maintain::policy::POLICY_METADATA;
use nameward_sql::ZoneRow;

/// Maximum length of `domainmetadata.kind`.
const KIND_MAX: usize = 32;

/// A change of the metadata of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataRequest {
    /// The zone.
    pub zone: String,
    /// The kind, such as `ALLOW-AXFR-FROM`.
    pub kind: String,
    /// The items.
    #[serde(default)]
    pub content: Vec<String>,
    /// The change to make with the items.
    pub change: MetadataChange,
}

/// A change of metadata items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetadataChange {
    /// Replace all others of their kind; none deletes the kind.
    Set,
    /// Add them to the existing ones.
    Add,
    /// Remove them; all of their kind if none is named.
    Remove,
}

/// Records to enable or disable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordUse {
    /// The zone.
    pub zone: String,
    /// The owner.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The data of the records; all of the type if empty.
    #[serde(default)]
    pub content: Vec<String>,
    /// Whether they are served.
    pub enabled: bool,
}

/// A metadata item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMetadata {
    /// The kind.
    pub kind: String,
    /// The content.
    pub content: String,
}

table_row! { ListedMetadata as item:
    "KIND" = item.kind,
    "CONTENT" = item.content,
}

/// Returns a metadata kind as it is stored: those of operators keep their letter case, all others are in upper case.
pub(crate) fn stored_kind(kind: &str) -> String {
    if is_operator_kind(kind) {
        format!("X-{}", &kind[2..])
    } else {
        kind.to_ascii_uppercase()
    }
}

fn is_operator_kind(kind: &str) -> bool {
    let start = kind.get(..2);
    start.is_some_and(|start| start.eq_ignore_ascii_case("X-"))
}

impl Operations {
    /// Finds the database that has a zone; other backends store only records.
    pub(crate) fn stored(&self, zone: &str) -> Outcome<(&Database, Box<ZoneRow>)> {
        match self.location(&zone_name(zone)?)? {
            ZoneLocation::Database(database, row) => Ok((database, row)),
            ZoneLocation::Memory(zone) => Err(OperationError::refused(format!(
                "zone {} is not in a database: change its settings in its [[zone]] table or [[template]], or with \
                 `nameward zone set`",
                zone.name()
            ))),
        }
    }

    /// Lists the metadata of a zone.
    pub fn list_metadata(&self, zone: &str, kind: Option<&str>, items: ItemSink<'_>) -> Outcome {
        let (database, row) = self.stored(zone)?;
        let listing = self.wait(database, database.backend.stored_metadata(&row))?;
        let kind = kind.map(stored_kind);
        let is_it = |have: &str| match &kind {
            None => true,
            // Kinds of operators may differ in letter case alone.
            Some(kind) if is_operator_kind(kind) => have == kind,
            Some(kind) => have.eq_ignore_ascii_case(kind),
        };
        let listed = listing.into_iter().filter(|item| is_it(&item.kind));
        let listed = listed.map(|item| ListedMetadata {
            kind: item.kind,
            content: item.content,
        });
        list_all(listed.collect::<Vec<_>>(), items)
    }

    /// Changes the metadata of a zone.
    pub fn change_metadata(&self, request: &MetadataRequest) -> Outcome {
        let kind = stored_kind(&request.kind);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if kind.is_empty() || kind.len() > KIND_MAX || !kind.chars().all(is_word) {
            return Err(OperationError::invalid(format!(
                "invalid metadata kind {:?}: expected a keyword such as ALLOW-AXFR-FROM",
                request.kind
            )));
        }
        if request
            .content
            .iter()
            .any(|text| text.contains(['\n', '\0']))
        {
            return Err(OperationError::invalid(
                "a metadata value must be a single line",
            ));
        }
        let stored = self.stored(&request.zone).map_err(|mut error| {
            if is_signing_kind(&kind) && error.kind == ErrorKind::Refused {
                let hint = "; use `nameward zone secure --denial` to set the denial of existence of a signed zone";
                error.message.push_str(hint);
            }
            error
        });
        let (database, row) = stored?;
        // Existing items can be removed even if they are invalid.
        if request.change != MetadataChange::Remove && !request.content.is_empty() {
            check_kind(&kind)?;
            check_values(&kind, &request.content)?;
        }
        if kind == POLICY_METADATA && request.change != MetadataChange::Remove {
            self.check_policies(&request.content)?;
        }
        if is_signing_kind(&kind) {
            self.check_signing_item(&row.name, &kind, request)?;
        }
        let edit = match request.change {
            MetadataChange::Set => MetadataEdit::Set,
            MetadataChange::Add => MetadataEdit::Add,
            MetadataChange::Remove => MetadataEdit::Remove,
        };
        let advice = iterations_advice(&kind, request);
        let change = AttributeChange::Metadata(kind, edit, request.content.clone());
        let mut result = self.write_attributes(database, &row, &[change])?;
        if let OperationResult::ZoneChanged(changed) = &mut result {
            changed.warnings.extend(advice);
        }
        Ok(result)
    }

    pub(crate) fn write_attributes(
        &self,
        database: &Database,
        row: &ZoneRow,
        changes: &[AttributeChange],
    ) -> Outcome {
        let change = database.backend.change_attributes(row.id, changes);
        let committed = self.runtime.block_on(change);
        let committed =
            committed.map_err(|error| attribute_write_error(database, &row.name, &error))?;
        if !committed.is_changed {
            let zone = row.name.to_string();
            return Ok(OperationResult::NoChange { zone });
        }
        let warnings = self.publish(database, &committed)?;
        tracing::info!("zone {}: settings changed", row.name);
        let changed = database.changed(&committed, warnings);
        Ok(OperationResult::ZoneChanged(changed))
    }

    /// Recomputes the columns that PowerDNS derives from the names of a zone; file zones have none.
    pub fn rectify_zone(&self, zone: &str) -> Outcome {
        match self.location(&zone_name(zone)?)? {
            ZoneLocation::Database(database, row) => {
                self.write_attributes(database, &row, &[AttributeChange::Rectify])
            }
            ZoneLocation::Memory(zone) => {
                let zone = zone.name().to_string();
                Ok(OperationResult::NoChange { zone })
            }
        }
    }

    /// Enables or disables records.
    pub fn use_records(&self, request: &RecordUse, author: Option<&Arc<ChangeAuthor>>) -> Outcome {
        let (database, row) = self.stored(&request.zone)?;
        let (name, rtype) = (owner(&request.name, &row.name)?, read_type(&request.rtype)?);
        if rtype == Type::SOA {
            return Err(OperationError::invalid("a zone needs an SOA record"));
        }
        let contents = request.content.iter().map(|text| read_content(rtype, text));
        let contents = contents.collect::<Result<Vec<_>, _>>()?;
        let mut stored = Vec::new();
        let mut take = |record: StoredRecord| {
            stored.push(record);
            true
        };
        let serial = self.serial_of(database, &row)?;
        let listing = database
            .backend
            .stored_records(&row, Some(name.as_name()), &mut take);
        self.wait(database, listing)?;
        stored.retain(|record| Type::from_text(record.rtype.as_bytes()) == Some(rtype));
        if let Some(wrong) = stored.iter().find(|record| record.problem.is_some()) {
            let problem = wrong.problem.clone().unwrap_or_default();
            return Err(OperationError::invalid(format!(
                "{name} {rtype}: invalid row {}: {problem}",
                wrong.id
            )));
        }
        let mut found = 0;
        let records = stored.iter().map(|record| {
            let rdata = read_content(rtype, &record.content)?;
            let is_meant = contents.is_empty() || contents.contains(&rdata);
            found += usize::from(is_meant);
            Ok(NewRecord {
                text: None,
                rdata,
                disabled: if is_meant {
                    !request.enabled
                } else {
                    record.disabled
                },
            })
        });
        let records = records.collect::<Outcome<Vec<_>>>()?;
        if found == 0 || found < contents.len() {
            return Err(OperationError::not_found(format!(
                "{name} {rtype}: no such record; see `nameward record list`, which includes disabled records"
            )));
        }
        let ttl = stored.first().map_or(0, |record| record.ttl);
        let rrset = RrsetData {
            name,
            rtype,
            ttl,
            records,
        };
        let change = OperatorChange {
            // A concurrent change of the RRset has incremented it.
            serial,
            author: author.cloned(),
            ..OperatorChange::new(row.name, vec![Edit::Replace(rrset)])
        };
        let location = ZoneLocation::Database(database, row);
        let outcome = self.make_change(&location, &change, ChangeMode::Make)?;
        Ok(outcome.result())
    }

    /// Reads the serial in a database.
    fn serial_of(&self, database: &Database, row: &ZoneRow) -> Outcome<Option<Serial>> {
        let mut serial = None;
        let mut take = |record: StoredRecord| {
            if record.rtype == "SOA" && !record.disabled && record.problem.is_none() {
                let field = record.content.split(' ').nth(2);
                serial = field.and_then(|text| text.parse().ok()).map(Serial);
            }
            true
        };
        let apex = Some(row.name.as_name().zone());
        let listing = database.backend.stored_records(row, apex, &mut take);
        self.wait(database, listing)?;
        Ok(serial)
    }
}
