//! Applies an operator's change to a zone, wherever its contents are: one change, all or nothing, tried or made.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::SystemTime;

use nameward_maintain::{CommitError, VersionSource};
use nameward_sql::write::{AttributeChange, Committed, StoredRecord, WriteError};
use nameward_state::{JournalOrigin, ZoneStorage};
use nameward_wire::rdata::canonicalise;
use nameward_wire::{Name, NameBuf, Rcode, Type};
use nameward_zone::change::{
    ChangeAuthor, ChangeOrigin, ChangeRefused, ConditionalChange, Difference, Edit, RecordsAt,
    UnsignedRecords, ZoneChange, set_soa_serial, soa_serial,
};
use nameward_zone::{RecordList, Serial, SerialRule, WireRecord};

use super::{advice, data_text};
use crate::operations::key::errors::attribute_write_error;
use crate::operations::zone::location::{MemoryZone, ZoneLocation};
use crate::operations::{
    Database, ErrorKind, ListedDifference, OperationError, OperationResult, Operations, Outcome,
    RecordChange, ZoneChanged,
};

/// Whether a change is made, or only tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeMode {
    /// The change is durable and served when the call returns.
    Make,
    /// The change is checked completely, and nothing of it is stored.
    Try,
}

/// How an operator's change raises the serial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestedSerial {
    /// By default; a SOA is stored as given.
    Default,
    /// By this rule, which also applies to a SOA among the edits.
    Rule(SerialRule),
    /// By the SOA-EDIT-API metadata of the zone; if `raises`, by default for a zone without it.
    Stored { raises: bool },
}

impl RequestedSerial {
    /// Returns the rule for a zone; `None` is the default one, which stores a SOA as given.
    fn rule(self, records: &dyn RecordsAt) -> Option<SerialRule> {
        match self {
            RequestedSerial::Default => None,
            RequestedSerial::Rule(rule) => Some(rule),
            RequestedSerial::Stored { raises } => match records.api_serial_rule() {
                None | Some(SerialRule::Keep) if raises => Some(SerialRule::default()),
                rule => Some(rule.unwrap_or(SerialRule::Keep)),
            },
        }
    }
}

/// A zone change requested by an operator.
#[derive(Clone)]
pub(crate) struct OperatorChange {
    /// The zone.
    pub(crate) apex: NameBuf,
    /// Its steps.
    pub(crate) edits: Vec<Edit>,
    /// The serial that the zone must have, if given, so that it was not changed in the meantime.
    pub(crate) serial: Option<Serial>,
    /// Whether everything that is deleted must exist.
    pub(crate) is_strict: bool,
    /// The current time, for serials that are dates.
    pub(crate) now: SystemTime,
    /// The author, and the reason.
    pub(crate) author: Option<Arc<ChangeAuthor>>,
    /// How the serial is raised.
    pub(crate) serial_rule: RequestedSerial,
    /// Attributes that are stored in the same transaction; database zones only.
    pub(crate) attributes: Vec<AttributeChange>,
}

impl OperatorChange {
    /// Creates an unconditional change.
    pub(crate) fn new(apex: NameBuf, edits: Vec<Edit>) -> Self {
        OperatorChange {
            apex,
            edits,
            serial: None,
            is_strict: false,
            now: SystemTime::now(),
            author: None,
            serial_rule: RequestedSerial::Default,
            attributes: Vec::new(),
        }
    }

    /// Returns the edits, with the serial of a new SOA according to the rule of the change. It is after the current
    /// serial: otherwise a client that sends an old one would turn the zone back.
    fn numbered_edits(&self, records: &dyn RecordsAt) -> Vec<Edit> {
        let mut edits = self.edits.clone();
        let rule = self.serial_rule.rule(records);
        let Some(rule) = rule.filter(|rule| *rule != SerialRule::Keep) else {
            return edits;
        };
        let mut stored = None;
        records.each_record(self.apex.as_name().zone(), &mut |rtype, ttl, rdata| {
            if rtype == Type::SOA {
                stored = Some((ttl, rdata.to_vec()));
            }
        });
        // A client that sends back what it has read does not change the SOA.
        edits.retain(|edit| match (edit, &stored) {
            (Edit::Replace(rrset), Some((ttl, rdata))) if rrset.rtype == Type::SOA => {
                rrset.ttl != *ttl || rrset.records.iter().any(|record| record.rdata != *rdata)
            }
            _ => true,
        });
        let current = stored.and_then(|(_, rdata)| soa_serial(&rdata));
        for edit in &mut edits {
            let (Edit::Replace(rrset) | Edit::Add(rrset)) = edit else {
                continue;
            };
            if rrset.rtype != Type::SOA || rrset.name.as_name() != self.apex.as_name().zone() {
                continue;
            }
            for record in &mut rrset.records {
                let given = soa_serial(&record.rdata).unwrap_or_default();
                let raised = given.raised(rule, self.now);
                let serial = match current {
                    Some(current) if !raised.is_after(current) => current.raised(rule, self.now),
                    _ => raised,
                };
                set_soa_serial(&mut record.rdata, serial);
            }
        }
        edits
    }

    fn check_serial(&self, records: &dyn RecordsAt) -> Result<(), ChangeRefused> {
        let Some(wanted) = self.serial else {
            return Ok(());
        };
        let mut found = None;
        records.each_record(self.apex.as_name().zone(), &mut |rtype, _, rdata| {
            if rtype == Type::SOA {
                found = soa_serial(rdata);
            }
        });
        match found {
            Some(found) if found == wanted => Ok(()),
            Some(found) => Err(conflict(format!(
                "zone {} was changed in the meantime: its serial is {found}, not {wanted}",
                self.apex
            ))),
            None => Err(conflict(format!("zone {} has no SOA record", self.apex))),
        }
    }

    /// Refuses the edit if a record to delete does not exist.
    fn check_deleted(&self, edit: &Edit, records: &dyn RecordsAt) -> Result<(), ChangeRefused> {
        let mut existing: HashSet<(Type, Vec<u8>)> = HashSet::new();
        let owner = edit.name();
        records.each_record(owner.as_name(), &mut |rtype, _, rdata| {
            existing.insert((rtype, canonical(rtype, rdata)));
        });
        let missing = match edit {
            Edit::Replace(_) | Edit::Add(_) => None,
            Edit::DeleteName { .. } => existing.is_empty().then(|| format!("{owner}")),
            Edit::DeleteRrset { rtype, .. } => {
                let exists = existing.iter().any(|(existing, _)| existing == rtype);
                (!exists).then(|| format!("{owner} {rtype}"))
            }
            Edit::DeleteRecords { rtype, rdata, .. } => {
                let mut deleted = rdata.iter();
                let first =
                    deleted.find(|rdata| !existing.contains(&(*rtype, canonical(*rtype, rdata))));
                first.map(|rdata| format!("{owner} {rtype} {}", data_text(*rtype, rdata)))
            }
        };
        match missing {
            None => Ok(()),
            Some(what) => Err(conflict(format!("cannot delete {what}: no such record"))),
        }
    }
}

impl ConditionalChange for OperatorChange {
    fn author(&self) -> Option<Arc<ChangeAuthor>> {
        self.author.clone()
    }

    fn names(&self) -> Vec<NameBuf> {
        let mut names: Vec<NameBuf> = vec![self.apex.as_name().zone().into()];
        names.extend(self.edits.iter().map(|edit| *edit.name()));
        names.sort_unstable_by(|a, b| a.as_name().canonical_cmp(b.as_name()));
        names.dedup();
        names
    }

    fn decide(&self, records: &dyn RecordsAt) -> Result<ZoneChange, ChangeRefused> {
        let signed_by = records.signed_by();
        for edit in &self.edits {
            let checked = signed_by.check_edit(edit, self.apex.as_name().zone());
            checked.map_err(|error| ChangeRefused {
                rcode: Rcode::Refused,
                reason: format!("zone {}: {error}", self.apex),
            })?;
        }
        self.check_serial(records)?;
        if self.is_strict {
            for edit in &self.edits {
                self.check_deleted(edit, records)?;
            }
        }
        Ok(ZoneChange {
            edits: self.numbered_edits(records),
            origin: ChangeOrigin::Operator,
            now: self.now,
            serial: self.serial_rule.rule(records).unwrap_or_default(),
        })
    }
}

/// Creates the refusal for a change that conflicts with other contents of the zone.
fn conflict(reason: String) -> ChangeRefused {
    ChangeRefused {
        rcode: Rcode::NxRrset,
        reason,
    }
}

fn canonical(rtype: Type, rdata: &[u8]) -> Vec<u8> {
    let mut rdata = rdata.to_vec();
    canonicalise(rtype, &mut rdata);
    rdata
}

/// The outcome of a change.
pub(crate) struct ChangeOutcome {
    /// The zone, its serial, and warnings.
    pub(crate) changed: ZoneChanged,
    /// The removed and added records; `None` if unknown.
    pub(crate) difference: Option<Difference>,
    /// False if the zone already had this state.
    pub(crate) is_changed: bool,
}

impl ChangeOutcome {
    /// Returns the result of the operation.
    pub(crate) fn result(self) -> OperationResult {
        if self.is_changed {
            OperationResult::ZoneChanged(self.changed)
        } else {
            OperationResult::NoChange {
                zone: self.changed.zone,
            }
        }
    }
}

impl Operations {
    /// Makes a change, or tries it.
    pub(crate) fn make_change(
        &self,
        location: &ZoneLocation<'_>,
        change: &OperatorChange,
        mode: ChangeMode,
    ) -> Outcome<ChangeOutcome> {
        let mut outcome = match location {
            ZoneLocation::Database(database, _) => self.change_rows(database, change, mode),
            ZoneLocation::Memory(zone) => self.change_in_memory(zone, change, mode),
        }?;
        if outcome.is_changed {
            let warnings = &mut outcome.changed.warnings;
            let is_zone = |name: &NameBuf| (self.rank_of)(name.as_name()).is_some();
            let is_server = |cut: &NameBuf, name: &NameBuf| self.delegates_to(location, cut, name);
            let (apex, edits, scripts) = (&change.apex, &change.edits, &self.scripts);
            let advice = advice::edit_warnings(apex, edits, scripts, is_zone, is_server);
            warnings.extend(advice);
            warnings.extend(outcome.difference.as_ref().and_then(advice::serial_warning));
            if mode == ChangeMode::Make {
                let serial = outcome.changed.serial.unwrap_or_default();
                tracing::info!("zone {}: changed, serial {serial}", change.apex);
            }
        }
        Ok(outcome)
    }

    /// Checks whether a zone has NS records at a name that name a server.
    fn delegates_to(&self, location: &ZoneLocation<'_>, cut: &NameBuf, server: &NameBuf) -> bool {
        let mut is_named = false;
        match location {
            ZoneLocation::Memory(zone) => {
                zone.version
                    .each_record(cut.as_name(), &mut |rtype, _, rdata| {
                        let is_it = |target| target == server.as_name();
                        is_named |= rtype == Type::NS && Name::from_wire(rdata).is_ok_and(is_it);
                    });
            }
            ZoneLocation::Database(database, row) => {
                let mut take = |record: StoredRecord| {
                    let target = record.content.parse::<NameBuf>();
                    is_named |=
                        record.rtype == "NS" && target.is_ok_and(|target| target == *server);
                    true
                };
                let listing = database
                    .backend
                    .stored_records(row, Some(cut.as_name()), &mut take);
                // If the database does not respond, the result is a superfluous warning.
                let _ = self.runtime.block_on(listing);
            }
        }
        is_named
    }

    fn change_rows(
        &self,
        database: &Database,
        change: &OperatorChange,
        mode: ChangeMode,
    ) -> Outcome<ChangeOutcome> {
        let backend = &database.backend;
        let committed = self.runtime.block_on(async {
            match mode {
                ChangeMode::Try => backend.try_change(change.apex, change).await,
                ChangeMode::Make if !change.attributes.is_empty() => {
                    backend
                        .commit_with(change.apex, change, &change.attributes)
                        .await
                }
                ChangeMode::Make => {
                    let change = Arc::new(change.clone());
                    backend.commit_queued(change.apex, change).await
                }
            }
        });
        let committed: Committed = committed.map_err(|error| match error {
            WriteError::Refused(refused) => refused_change_error(&refused),
            error => attribute_write_error(database, &change.apex, &error),
        })?;
        let warnings = if committed.is_changed && mode == ChangeMode::Make {
            self.publish(database, &committed)?
        } else {
            committed.warnings.clone()
        };
        Ok(ChangeOutcome {
            changed: database.changed(&committed, warnings),
            is_changed: committed.is_changed,
            difference: committed.difference,
        })
    }

    fn change_in_memory(
        &self,
        zone: &MemoryZone,
        change: &OperatorChange,
        mode: ChangeMode,
    ) -> Outcome<ChangeOutcome> {
        self.check_changeable(zone)?;
        let (serial, difference) = match mode {
            ChangeMode::Make => {
                let source = VersionSource {
                    zone: change.apex,
                    rank: zone.version.rank(),
                    storage: ZoneStorage::File,
                    origin: JournalOrigin::Change,
                    confirmed: None,
                    author: None,
                };
                let (done, finished) = sync_channel(1);
                self.commits.conditional(source, change, move |result| {
                    let _ = done.send(result);
                });
                let committed = finished.recv().map_err(|_| {
                    OperationError::new(
                        ErrorKind::Internal,
                        "internal error: the change has no result",
                    )
                })?;
                let committed = committed.map_err(|error| commit_error(&change.apex, error))?;
                let difference = Difference::clone(&committed.difference);
                (committed.zone.serial(), difference)
            }
            ChangeMode::Try => try_in_memory(zone, change)?,
        };
        Ok(ChangeOutcome {
            changed: ZoneChanged {
                zone: change.apex.to_string(),
                backend: u32::from(zone.version.rank()),
                engine: "file".into(),
                serial: Some(serial.0),
                previous_serial: difference.serials().map(|(before, _)| before.0),
                warnings: Vec::new(),
            },
            is_changed: !difference.is_empty(),
            difference: Some(difference),
        })
    }
}

/// Returns the serial and the difference that a change would make.
fn try_in_memory(zone: &MemoryZone, change: &OperatorChange) -> Outcome<(Serial, Difference)> {
    let tip = &zone.version;
    let of_error = |error: CommitError| commit_error(&change.apex, error);
    let records = UnsignedRecords {
        records: tip,
        signed_by: zone.signed_by,
    };
    let decided = change.decide(&records);
    let decided = decided.map_err(|error| refused_change_error(&error))?;
    let difference = tip.difference_of(&decided);
    let difference = difference.map_err(|error| of_error(error.into()))?;
    if difference.is_empty() {
        return Ok((tip.serial(), difference));
    }
    let next = tip.apply(&difference);
    let next = next.map_err(|error| of_error(error.into()))?;
    if next.serial().is_after(tip.serial()) {
        Ok((next.serial(), difference))
    } else {
        Err(OperationError::invalid(format!(
            "{}: serial {} is not greater than {}",
            change.apex,
            next.serial(),
            tip.serial()
        )))
    }
}

fn refused_change_error(refused: &ChangeRefused) -> OperationError {
    let kind = match refused.rcode {
        Rcode::NxRrset => ErrorKind::Conflict,
        _ => ErrorKind::Refused,
    };
    OperationError::new(kind, refused.reason.clone())
}

fn commit_error(zone: &NameBuf, error: CommitError) -> OperationError {
    match error {
        CommitError::Refused(refused) => refused_change_error(&refused),
        CommitError::Invalid(error) => OperationError::invalid(format!("zone {zone}: {error}")),
        CommitError::NoSuchZone | CommitError::Stale { .. } | CommitError::Clash { .. } => {
            OperationError::conflict(format!("zone {zone}: {error}"))
        }
        CommitError::NoStore(_) => OperationError::refused(error.to_string()),
        CommitError::Unusable(_) => OperationError::invalid(format!("zone {zone}: {error}")),
        CommitError::State(_) => OperationError::backend(format!("zone {zone}: {error}")),
    }
}

/// Lists the records of a difference, removed ones first.
pub(crate) fn listed_difference(
    zone: &NameBuf,
    difference: &Difference,
) -> impl Iterator<Item = ListedDifference> {
    let zone = zone.to_string();
    let of = move |fate: RecordChange, list: &RecordList| {
        let records = list.iter().map(|record| listed(zone.clone(), fate, record));
        records.collect::<Vec<_>>().into_iter()
    };
    let removed = of(RecordChange::Removed, &difference.removed);
    removed.chain(of(RecordChange::Added, &difference.added))
}

fn listed(zone: String, change: RecordChange, record: WireRecord<'_>) -> ListedDifference {
    ListedDifference {
        zone,
        change,
        name: record.owner.to_string(),
        ttl: record.ttl,
        rtype: record.rtype.to_string(),
        content: data_text(record.rtype, record.rdata),
    }
}
