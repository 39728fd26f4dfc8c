//! One change to one zone, in one transaction: read, apply, check, derive, write, notify.
//!
//! All reading precedes all writing, and a refused change has written nothing. Derived columns are recomputed for the
//! names that the change touches, for all names below a delegation that is added or removed, and for the empty
//! non-terminals above them; other rows are not read.

use super::super::ZoneRow;
use super::check::check;
use super::derive::CachedDenial;
use super::edit::{apply, bears_on_parent};
use super::local_changes::CommitMark;
use super::request::{RequestedChange, SigningRows, check_edits, names_of, read_signing};
use super::session::{Session, Value};
use super::work::Work;
use super::zone_row::find_where;
use super::{Committed, ReadOnly, WriteError};
use crate::dialect::SqlEngine;
use crate::row::zone_name_text;
use nameward_wire::Name;
use nameward_zone::SerialRule;
use nameward_zone::change::{ChangeOrigin, Edit};

/// A zone that is locked against other changes until the end of the transaction, and what is known about it.
pub(super) struct LockedZone {
    pub(super) row: ZoneRow,
    pub(super) signing: SigningRows,
    /// Its version in the table of changes, if no other writer can increase it.
    version: Option<i64>,
}

impl LockedZone {
    /// Creates the state from a row that was read in the transaction.
    pub(super) async fn from_row(session: &mut Session, row: ZoneRow) -> Result<Self, WriteError> {
        let signing = read_signing(session, row.id).await?;
        Ok(LockedZone {
            row,
            signing,
            version: None,
        })
    }
}

/// Reads the row of a zone by ID and locks the zone against other changes until the end of the transaction.
pub(super) async fn lock_zone(session: &mut Session, id: i64) -> Result<ZoneRow, WriteError> {
    lock_row(session, "id = ?", Value::Int(id)).await
}

/// Like [`lock_zone`], by zone name.
pub(super) async fn lock_named(
    session: &mut Session,
    name: Name<'_>,
) -> Result<ZoneRow, WriteError> {
    let name = zone_name_text(name);
    lock_row(session, "name = ?", Value::Text(&name)).await
}

async fn lock_row(
    session: &mut Session,
    condition: &str,
    value: Value<'_>,
) -> Result<ZoneRow, WriteError> {
    let lock = match session.engine() {
        SqlEngine::Sqlite => "",
        SqlEngine::Postgres | SqlEngine::Mysql => " FOR UPDATE",
    };
    let found = find_where(session, &format!("{condition}{lock}"), value).await?;
    let zone = found.ok_or(WriteError::NoSuchZone)?;
    session.claim_zone(zone.id).await?;
    Ok(zone)
}

/// Makes a change; the caller ends the transaction.
pub(super) async fn change(
    session: &mut Session,
    locked: &mut LockedZone,
    requested: RequestedChange<'_>,
) -> Result<Committed, WriteError> {
    let (zone, signing) = (&locked.row, &locked.signing);
    let origin = requested.origin();
    if origin == ChangeOrigin::Operator && zone.kind.is_transferred() {
        return Err(ReadOnly::Secondary(zone.name.to_string()).into());
    }
    // Before the rows: a change by others that is in neither then differs from this one.
    let version = match locked.version {
        Some(version) => version,
        None => session.version(zone.id).await?,
    };
    if origin == ChangeOrigin::Operator && signing.is_presigned {
        return Err(ReadOnly::Presigned(zone.name.to_string()).into());
    }
    if let RequestedChange::Change(change) = requested {
        check_edits(change, zone, signing)?;
    }
    let mut work = Work::read(session, zone, signing, requested).await?;
    let decided;
    let change = match requested {
        RequestedChange::Change(change) => change,
        RequestedChange::When(requested) => {
            decided = requested.decide(&work)?;
            work.touched = names_of(&decided);
            check_edits(&decided, zone, signing)?;
            &decided
        }
    };
    // Records of a zone that was signed elsewhere are served by different rules.
    let is_signed = !matches!(signing.denial, CachedDenial::Unsigned);
    let bears =
        |edit: &Edit| is_signed && bears_on_parent(edit, &zone.name.as_name().zone().into());
    let is_told = !signing.is_presigned && !change.edits.iter().any(bears);
    let before = is_told.then(|| work.served()).flatten();
    for edit in &change.edits {
        apply(edit, &mut work.rows, &work.apex)?;
    }
    let known = work.serial();
    let serial = known.unwrap_or_default();
    let mut committed = Committed {
        has_soa: known.is_some(),
        serial,
        previous: known,
        ..Committed::without_records((zone.id, zone.name), work.is_changed())
    };
    if !committed.is_changed {
        return Ok(committed);
    }
    let sets_soa = change.edits.iter().any(Edit::sets_soa);
    if !sets_soa && change.serial != SerialRule::Keep && work.before.contains_key(&work.apex) {
        committed.serial = serial.raised(change.serial, change.now);
        work.set_serial(committed.serial)?;
    }
    committed.difference = work.difference(before);
    work.check_below_dname(session).await?;
    committed.warnings = check(&work.rows, &work.apex, &work.touched, origin)?;
    work.learn(session).await?;
    let empties = work.empties();
    work.derive_rows();
    let written = work.write(session, empties).await?;
    session.notify_change(zone.id).await?;
    if committed.difference.is_some() {
        committed.mark = session.mark(zone.id, version, written).await?;
    }
    // SQLite has one writer; in MySQL others may increase it without the lock.
    locked.version = match (session.engine(), committed.mark) {
        (SqlEngine::Sqlite, Some(CommitMark::Versions { after, .. })) => Some(after),
        _ => None,
    };
    Ok(committed)
}
