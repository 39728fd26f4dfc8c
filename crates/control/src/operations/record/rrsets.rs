//! Changes of whole RRsets with everything that a database stores about them: disabled records and comments.
//!
//! All RRsets of one request are changed in one transaction. The serial follows the zone's SOA-EDIT-API metadata, as
//! in PowerDNS: database zones without it keep their serial. Zones in memory always get a new one, because the
//! journal needs it.

use std::collections::HashSet;
use std::sync::Arc;

use nameward_sql::write::{AttributeChange, StoredMetadata};
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::{ChangeAuthor, Edit};
use nameward_zone::{Serial, SerialRule};
use serde::{Deserialize, Serialize};

use super::change::{ChangeMode, OperatorChange, RequestedSerial};
use super::rrset_step::{RecordSpec, RrsetChange, RrsetStep, read_zone_file};
use super::{owner, read_type};
use crate::operations::zone::location::ZoneLocation;
use crate::operations::zone::metadata_check::MetadataSpec;
use crate::operations::{
    ItemSink, ListedDifference, ListedItem, OperationError, Operations, Outcome, RecordChange,
    domain_name, zone_name,
};

/// Changes of RRsets of one zone, all or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RrsetsRequest {
    /// The zone.
    pub zone: String,
    /// The changes.
    pub rrsets: Vec<RrsetStep>,
    /// The RRsets as the text of a zone file, instead of `rrsets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_file: Option<String>,
    /// Deletes every RRset that is not in the list, except the SOA.
    #[serde(default)]
    pub delete_others: bool,
    /// The serial that the zone must have, so that it was not changed in the meantime. Any by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// Also raises the serial of a database zone without SOA-EDIT-API, as commands do.
    #[serde(default)]
    pub raise_serial: bool,
}

impl RrsetsRequest {
    /// Converts a difference to a change: its removed records are deleted, its added ones are written. The serial is
    /// raised, including that of a SOA in the difference.
    pub fn from_difference(zone: &str, difference: &[ListedDifference]) -> Self {
        let key = |record: &ListedDifference| {
            let name = record.name.to_ascii_lowercase();
            (name, record.rtype.clone(), record.content.clone())
        };
        let is_added = |record: &&ListedDifference| record.change == RecordChange::Added;
        let added: HashSet<_> = difference.iter().filter(is_added).map(key).collect();
        let steps = difference.iter().filter_map(|record| {
            let change = match record.change {
                // Only the TTL differs: writing the record again sets it.
                RecordChange::Removed if record.rtype == "SOA" || added.contains(&key(record)) => {
                    return None;
                }
                RecordChange::Removed => RrsetChange::Prune,
                RecordChange::Added if record.rtype == "SOA" => RrsetChange::Replace,
                RecordChange::Added => RrsetChange::Extend,
            };
            Some(RrsetStep {
                name: record.name.clone(),
                rtype: record.rtype.clone(),
                change,
                ttl: record.ttl,
                records: Some(vec![RecordSpec {
                    content: record.content.clone(),
                    disabled: false,
                }]),
                comments: None,
            })
        });
        RrsetsRequest {
            zone: zone.to_owned(),
            rrsets: steps.collect(),
            raise_serial: true,
            ..RrsetsRequest::default()
        }
    }
}

impl Operations {
    /// Changes RRsets of a zone in one transaction.
    pub fn change_rrsets(
        &self,
        request: &RrsetsRequest,
        author: Option<&Arc<ChangeAuthor>>,
    ) -> Outcome {
        let (location, change) = self.read_rrsets(request, author)?;
        let outcome = self.make_change(&location, &change, ChangeMode::Make)?;
        Ok(outcome.result())
    }

    /// Changes RRsets of several zones, or tries it. All changes are tried before the first is made; if one fails
    /// nevertheless, the earlier ones stay, and the error says so.
    pub fn change_many_rrsets(
        &self,
        zones: &[RrsetsRequest],
        dry_run: bool,
        author: Option<&Arc<ChangeAuthor>>,
        items: ItemSink<'_>,
    ) -> Outcome {
        let changes = zones.iter().map(|zone| self.read_rrsets(zone, author));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        let changes: Vec<OperatorChange> = changes.into_iter().map(|(_, change)| change).collect();
        self.make_changes(&changes, (dry_run, true), items)
    }

    /// Reads a request: the location of the zone, and its change.
    fn read_rrsets(
        &self,
        request: &RrsetsRequest,
        author: Option<&Arc<ChangeAuthor>>,
    ) -> Outcome<(ZoneLocation<'_>, OperatorChange)> {
        let location = self.location(&zone_name(&request.zone)?)?;
        let mut change = self.rrsets_change(&location, request, &[])?;
        change.author = author.cloned();
        Ok((location, change))
    }

    /// Returns the change for a request. Metadata in the same request already determines the serial.
    pub(crate) fn rrsets_change(
        &self,
        location: &ZoneLocation<'_>,
        request: &RrsetsRequest,
        metadata: &[MetadataSpec],
    ) -> Outcome<OperatorChange> {
        let apex = location.name();
        let (mut edits, mut attributes) = (Vec::new(), Vec::new());
        let read;
        let steps = match &request.zone_file {
            None => &request.rrsets,
            Some(text) => {
                read = read_zone_file(&apex, text)?;
                &read
            }
        };
        for step in steps {
            edits.extend(step.edit(&apex)?);
            attributes.extend(step.comments_change(&apex)?);
        }
        if request.delete_others {
            let deletions = self.deletions_of_others(steps, &apex)?;
            attributes.extend(deletions.iter().filter_map(|edit| {
                Some(AttributeChange::SetComments {
                    name: Box::new(*edit.name()),
                    rtype: edit.rtype()?.to_string(),
                    comments: Vec::new(),
                })
            }));
            edits.extend(deletions);
        }
        let rule = match location {
            // Decided by the location, which reads the metadata of the zone anyway.
            ZoneLocation::Database(..) if metadata.is_empty() => RequestedSerial::Stored {
                raises: request.raise_serial,
            },
            ZoneLocation::Database(database, row) => {
                let items = self.wait(database, database.backend.stored_metadata(row))?;
                RequestedSerial::Rule(match serial_rule(&items, metadata) {
                    SerialRule::Keep if request.raise_serial => SerialRule::default(),
                    rule => rule,
                })
            }
            ZoneLocation::Memory(_) => {
                attributes.retain(|change| !is_empty_comment_list(change));
                refuse_stored_only(&apex, &edits, &attributes)?;
                RequestedSerial::Rule(self.local_serial_rule(&apex, metadata))
            }
        };
        Ok(OperatorChange {
            serial_rule: rule,
            attributes,
            serial: request.serial.map(Serial),
            ..OperatorChange::new(apex, edits)
        })
    }

    /// Deletes all RRsets of a zone that a request does not contain.
    fn deletions_of_others(&self, steps: &[RrsetStep], apex: &NameBuf) -> Outcome<Vec<Edit>> {
        let mut named = HashSet::new();
        for step in steps {
            let mut name = owner(&step.name, apex)?;
            name.make_lowercase();
            named.insert((name, read_type(&step.rtype)?));
        }
        let mut deletions = Vec::new();
        let mut take = |item: ListedItem| {
            if let ListedItem::Record(record) = item
                && let (Ok(name), Ok(rtype)) = (domain_name(&record.name), read_type(&record.rtype))
            {
                let mut key = name;
                key.make_lowercase();
                if rtype != Type::SOA && named.insert((key, rtype)) {
                    deletions.push(Edit::DeleteRrset { name, rtype });
                }
            }
            true
        };
        self.list_records(&apex.to_string(), None, None, &mut take)?;
        Ok(deletions)
    }
}

/// Returns the serial rule of a database zone: its SOA-EDIT-API, with its SOA-EDIT if that refers to it.
fn serial_rule(items: &[StoredMetadata], set: &[MetadataSpec]) -> SerialRule {
    let find = |kind: &str| {
        if let Some(item) = set.iter().find(|item| item.kind == kind) {
            return item.content.first().map(String::as_str);
        }
        let mut items = items.iter();
        let item = items.find(|item| item.kind.eq_ignore_ascii_case(kind));
        item.map(|item| item.content.as_str())
    };
    SerialRule::for_api(find("SOA-EDIT-API"), find("SOA-EDIT"))
}

fn is_empty_comment_list(change: &AttributeChange) -> bool {
    matches!(change, AttributeChange::SetComments { comments, .. } if comments.is_empty())
}

/// Refuses attributes that only databases store.
pub(crate) fn refuse_stored_only(
    zone: &NameBuf,
    edits: &[Edit],
    attributes: &[AttributeChange],
) -> Outcome<()> {
    let has_disabled = edits.iter().any(|edit| match edit {
        Edit::Replace(rrset) | Edit::Add(rrset) => {
            rrset.records.iter().any(|record| record.disabled)
        }
        _ => false,
    });
    let what = match (has_disabled, attributes.is_empty()) {
        (true, _) => "disabled records",
        (false, false) => "comments",
        (false, true) => return Ok(()),
    };
    Err(OperationError::refused(format!(
        "zone {zone} is not in a database, and only databases store {what}"
    )))
}
