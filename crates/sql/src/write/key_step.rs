//! One step for keys managed by a policy: `cryptokeys` rows, metadata, CDS and CDNSKEY, and the serial, in one
//! transaction.
//!
//! The keys are compared under the zone lock with the ones that the step was planned with, so that changes by others are never
//! overwritten. The lease, taken in the same transaction, decides which server takes such steps, and a metadata row names it;
//! in a database without leases that row decides.
//! CDS and CDNSKEY are rows of the zone, because PUBLISH-CDS refers to all signing keys, including retiring ones.

use super::super::dialect::SqlEngine;
use super::super::{SqlBackend, ZoneRow};
use super::attributes::{change_locked, read_metadata, write_metadata};
use super::commit::{LockedZone, lock_zone};
use super::history;
use super::key_refusal::KeyRefusal;
use super::keys::{self, StoredKey};
use super::leases::{self, LeaseHolder, LeaseTask};
use super::request::{KEY_SERVER, RequestedChange};
use super::serial::RaisedSerial;
use super::session::{Session, Value};
use super::{AttributeChange, Committed, MetadataEdit, ReadOnly, Task, WriteError};
use crate::SqlFuture;
use nameward_dnssec::SoaEdit;
use nameward_wire::{NameBuf, Type};
use nameward_zone::SerialRule;
use nameward_zone::change::{
    ChangeOrigin, ChangeRefused, ConditionalChange, Edit, RecordsAt, RrsetData, ZoneChange,
};
use std::time::SystemTime;

/// A step for the keys of one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyStep {
    /// The keys that the step was planned with.
    pub expected: Vec<StoredKey>,
    /// The server that takes it, as named in [`KEY_SERVER`].
    pub server: String,
    /// Changes to keys and metadata.
    pub changes: Vec<AttributeChange>,
    /// The records for the parent; `None` keeps the existing ones.
    pub parent: Option<ParentRecords>,
    /// The zone is served differently, so that secondaries have to transfer it.
    pub raises_serial: bool,
    /// Current time, for date-based serials.
    pub now: SystemTime,
}

/// The records that request a DS RRset from the parent (RFC 7344, RFC 8078).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentRecords {
    /// The TTL in seconds.
    pub ttl: u32,
    /// CDS record data.
    pub cds: Vec<Vec<u8>>,
    /// CDNSKEY record data.
    pub cdnskey: Vec<Vec<u8>>,
}

impl SqlBackend {
    /// Takes a key step for a zone, all of it or nothing.
    pub fn take_key_step<'a>(
        &'a self,
        zone: i64,
        step: &'a KeyStep,
    ) -> SqlFuture<'a, Result<Committed, WriteError>> {
        Box::pin(async move { self.transact_one(&Task::Keys(zone, step)).await })
    }

    /// Returns the longest TTL in a zone, on the primary.
    pub fn longest_ttl<'a>(&'a self, zone: &'a ZoneRow) -> SqlFuture<'a, Result<u32, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let ttl = match session.engine() {
                SqlEngine::Postgres => "CAST(COALESCE(MAX(ttl), 0) AS BIGINT)",
                _ => "COALESCE(MAX(ttl), 0)",
            };
            let sql = format!("SELECT {ttl} FROM records WHERE domain_id = ? AND type IS NOT NULL");
            let longest = session.number(&sql, &[Value::Int(zone.id)]).await?;
            self.inner.writer.give_back(session);
            Ok(u32::try_from(longest.unwrap_or(0)).unwrap_or(0))
        })
    }
}

/// Takes the step; the caller ends the transaction.
pub(super) async fn take(
    session: &mut Session,
    id: i64,
    step: &KeyStep,
) -> Result<Committed, WriteError> {
    let zone = lock_zone(session, id).await?;
    if zone.kind.is_transferred() {
        let name = zone.name.to_string();
        return Err(ReadOnly::Secondary(name).into());
    }
    if keys::read_locked(session, id).await? != step.expected {
        return Err(KeyRefusal::ChangedMeanwhile.into());
    }
    let is_others =
        match leases::take_in_transaction(session, LeaseTask::Keys, &step.server).await? {
            LeaseHolder::Server(server) => server != step.server,
            LeaseHolder::Free | LeaseHolder::NoTable => {
                let named = read_metadata(session, (id, KEY_SERVER)).await?;
                named.iter().any(|server| *server != step.server)
            }
        };
    if is_others {
        return Err(KeyRefusal::OtherServer.into());
    }
    let own = std::slice::from_ref(&step.server);
    let mut is_changed = write_metadata(session, (id, KEY_SERVER), MetadataEdit::Set, own).await?;
    is_changed |= change_locked(session, &zone, &step.changes).await?;
    let apex = zone.name.as_name().zone().into();
    let mut locked = LockedZone::from_row(session, zone).await?;
    let records = RecordsOfStep {
        apex,
        step,
        soa_edit: locked.signing.soa_edit,
    };
    let committed = history::change(session, &mut locked, RequestedChange::When(&records)).await?;
    if is_changed && !committed.is_changed {
        session.notify_change(id).await?;
    }
    Ok(Committed {
        is_changed: is_changed || committed.is_changed,
        // A zone in memory has to be read with its keys.
        difference: None,
        mark: None,
        ..committed
    })
}

/// The record changes that belong to a step.
struct RecordsOfStep<'s> {
    apex: NameBuf,
    step: &'s KeyStep,
    soa_edit: SoaEdit,
}

impl RecordsOfStep<'_> {
    /// Returns the edit that gives an RRset the desired contents; `None` if it already has them.
    fn edit(
        &self,
        records: &dyn RecordsAt,
        (rtype, ttl): (Type, u32),
        wanted: &[Vec<u8>],
    ) -> Option<Edit> {
        let mut found = Vec::new();
        records.each_record(self.apex.as_name(), &mut |of, at, rdata| {
            if of == rtype {
                found.push((at, rdata.to_vec()));
            }
        });
        let mut expected: Vec<_> = wanted.iter().map(|rdata| (ttl, rdata.clone())).collect();
        found.sort_unstable();
        expected.sort_unstable();
        let name = self.apex;
        match (found == expected, wanted) {
            (true, _) => None,
            (false, []) => Some(Edit::DeleteRrset { name, rtype }),
            (false, _) => Some(Edit::Replace(rrset((name, rtype, ttl), wanted))),
        }
    }
}

impl ConditionalChange for RecordsOfStep<'_> {
    fn names(&self) -> Vec<NameBuf> {
        vec![self.apex]
    }

    fn decide(&self, records: &dyn RecordsAt) -> Result<ZoneChange, ChangeRefused> {
        let mut edits = Vec::new();
        if let Some(parent) = &self.step.parent {
            let ttl = parent.ttl;
            edits.extend(self.edit(records, (Type::CDS, ttl), &parent.cds));
            edits.extend(self.edit(records, (Type::CDNSKEY, ttl), &parent.cdnskey));
        }
        if self.step.raises_serial || !edits.is_empty() {
            let raised = RaisedSerial {
                apex: self.apex,
                soa_edit: (self.soa_edit, self.soa_edit),
                now: self.step.now,
            };
            edits.extend(raised.edit(records)?);
        }
        Ok(ZoneChange {
            edits,
            origin: ChangeOrigin::Operator,
            now: self.step.now,
            serial: SerialRule::default(),
        })
    }
}

fn rrset((name, rtype, ttl): (NameBuf, Type, u32), data: &[Vec<u8>]) -> RrsetData {
    RrsetData {
        name,
        rtype,
        ttl,
        records: data.iter().cloned().map(Into::into).collect(),
    }
}
