//! Batches: steps for several zones, one transaction per zone, all checked before the first is applied.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use nameward_wire::Type;
use nameward_zone::Serial;
use nameward_zone::change::{ChangeAuthor, Edit};

use super::change::{ChangeMode, ChangeOutcome, OperatorChange, listed_difference};
use super::{read_deletion, read_rrset};
use crate::operations::{
    ItemSink, ListedChange, ListedItem, OperationError, OperationResult, Operations, Outcome,
    zone_name,
};

/// Changes of zones, each all or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// The changes, one zone after another.
    pub zones: Vec<ZoneBatch>,
    /// Only show what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// List the removed and added records; a dry run always does.
    #[serde(default)]
    pub differences: bool,
}

/// The changes of one zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneBatch {
    /// The zone.
    pub zone: String,
    /// The serial that it must have, so that it was not changed in the meantime. Any by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// The steps, in order.
    pub steps: Vec<BatchStep>,
}

/// One step of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BatchStep {
    /// Replaces all records of a name and type.
    Set(BatchRecords),
    /// Adds records; a SOA replaces the existing one.
    Add(BatchRecords),
    /// Deletes records, which must exist.
    Delete(BatchDeletion),
}

/// Records of one name and type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchRecords {
    /// The owner: `@`, relative to the zone, or absolute.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The TTL in seconds.
    pub ttl: u32,
    /// The data of each record, as in a zone file.
    pub content: Vec<String>,
}

/// Records to delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchDeletion {
    /// The owner.
    pub name: String,
    /// The type; all types by default.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub rtype: Option<String>,
    /// The data of the records; all of the type if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<String>,
}

impl Operations {
    /// Applies batches, or tries them. All are tried before the first is applied; if one fails nevertheless, the
    /// earlier ones stay applied, and the error says so.
    pub fn apply_batches(
        &self,
        request: &BatchRequest,
        author: Option<&Arc<ChangeAuthor>>,
        items: ItemSink<'_>,
    ) -> Outcome {
        let changes = request.zones.iter().map(|batch| {
            let change = self.read_batch(batch)?;
            let author = author.cloned();
            Ok(OperatorChange { author, ..change })
        });
        let changes = changes.collect::<Outcome<Vec<_>>>()?;
        self.make_changes(&changes, (request.dry_run, request.differences), items)
    }

    /// Makes changes of several zones, each once, or tries them.
    pub(crate) fn make_changes(
        &self,
        changes: &[OperatorChange],
        (is_trial, differences): (bool, bool),
        items: ItemSink<'_>,
    ) -> Outcome {
        if changes.is_empty() {
            return Err(OperationError::invalid("the batch has no changes"));
        }
        for (at, change) in changes.iter().enumerate() {
            if changes[..at].iter().any(|other| other.apex == change.apex) {
                let zone = change.apex;
                return Err(OperationError::invalid(format!(
                    "zone {zone} appears twice: put all of its changes together"
                )));
            }
        }
        // A single zone is checked while its change is made.
        if is_trial || changes.len() > 1 {
            for change in changes {
                let location = self.location(&change.apex)?;
                let tried = self.make_change(&location, change, ChangeMode::Try)?;
                if is_trial {
                    report(&tried, (change, true), is_trial, items);
                }
            }
        }
        let mut made: Vec<String> = Vec::new();
        for change in changes.iter().filter(|_| !is_trial) {
            let location = self.location(&change.apex);
            match location
                .and_then(|location| self.make_change(&location, change, ChangeMode::Make))
            {
                Ok(outcome) => report(&outcome, (change, differences), is_trial, items),
                Err(error) if made.is_empty() => return Err(error),
                Err(mut error) => {
                    error.message = format!(
                        "{}; only the changes to {} were made",
                        error.message,
                        made.join(", ")
                    );
                    return Err(error);
                }
            }
            made.push(change.apex.to_string());
        }
        Ok(OperationResult::Listed {
            items: changes.len() as u64,
        })
    }

    fn read_batch(&self, batch: &ZoneBatch) -> Outcome<OperatorChange> {
        let apex = zone_name(&batch.zone)?;
        let edits = batch.steps.iter().map(|step| match step {
            BatchStep::Set(records) => Ok(Edit::Replace(read_rrset(records, &apex)?)),
            BatchStep::Add(records) => {
                let rrset = read_rrset(records, &apex)?;
                Ok(match rrset.rtype {
                    Type::SOA => Edit::Replace(rrset),
                    _ => Edit::Add(rrset),
                })
            }
            BatchStep::Delete(BatchDeletion {
                name,
                rtype,
                content,
            }) => read_deletion(name, rtype.as_deref(), content, &apex),
        });
        let edits = edits.collect::<Outcome<Vec<_>>>();
        let edits = edits.map_err(|mut error| {
            error.message = format!("zone {apex}: {}", error.message);
            error
        })?;
        Ok(OperatorChange {
            serial: batch.serial.map(Serial),
            is_strict: true,
            ..OperatorChange::new(apex, edits)
        })
    }
}

/// Passes on the removed and added records, and then the result for the zone.
fn report(
    outcome: &ChangeOutcome,
    (change, differences): (&OperatorChange, bool),
    is_trial: bool,
    items: ItemSink<'_>,
) {
    let difference = outcome.difference.as_ref().filter(|_| differences);
    let records = difference.map(|difference| listed_difference(&change.apex, difference));
    let is_open = records
        .into_iter()
        .flatten()
        .all(|record| items(ListedItem::Difference(record)));
    if is_open {
        let mut changed = outcome.changed.clone();
        if !outcome.is_changed {
            changed.warnings.clear();
        }
        items(ListedItem::Changed(ListedChange {
            is_changed: outcome.is_changed,
            is_trial,
            changed,
        }));
    }
}
