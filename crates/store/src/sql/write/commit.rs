//! One change to one zone, in one transaction: read, apply, check, derive, write, notify.
//!
//! All reading precedes all writing, and a refused change has written nothing. Derived columns are recomputed for the
//! names that the change touches, for all names below a delegation that is added or removed, and for the empty
//! non-terminals above them; other rows are not read.

use super::super::{SqlError, ZoneRow, read_zone};
use super::check::{check, shown};
use super::derive::{
    CachedDenial, CanonicalName, Derived, Knowledge, NameEffect, NameFacts, ancestors, key,
};
use super::edit::{apply, bears_on_parent};
use super::local_changes::CommitMark;
use super::request::{Asked, SigningRows, check_edits, names_of, read_signing};
use super::rows::{Row, Rows, What};
use super::session::{Failure, Session, Value};
use super::{Committed, InvalidChange, ReadOnly, WriteError};
use crate::sql::dialect::{SqlEngine, Statement};
use crate::sql::fragment::soa_minimum;
use crate::sql::row::write_zone_name;
use nameward_dnssec::MadeTypes;
use nameward_wire::{Name, Type};
use nameward_zone::change::{ChangeOrigin, Difference, Edit, set_soa_serial, soa_serial};
use nameward_zone::{RecordList, Serial, SerialRule, WireRecord};
use std::collections::{BTreeSet, HashMap};

/// Maximum number of rows read to find out whether anything is left below a name.
const LOOK: usize = 200;
/// Number of names that may vanish before the names of the whole zone are read instead of the names below each.
const MANY: usize = 16;

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
    let mut text = String::new();
    write_zone_name(name, &mut text);
    lock_row(session, "name = ?", Value::Text(&text)).await
}

async fn lock_row(
    session: &mut Session,
    condition: &str,
    value: Value<'_>,
) -> Result<ZoneRow, WriteError> {
    let mut sql = Statement::Zones.sql(session.engine(), 0) + " WHERE " + condition;
    if session.engine() != SqlEngine::Sqlite {
        sql.push_str(" FOR UPDATE");
    }
    let mut found = None;
    session
        .rows(&sql, &[value], &mut |row| {
            found = Some(read_zone(row));
        })
        .await?;
    match found {
        None => Err(WriteError::NoSuchZone),
        Some(Err(error)) => Err(WriteError::Sql(SqlError::Row(error))),
        Some(Ok(zone)) => Ok(session.claim_zone(zone.id).await.map(|()| zone)?),
    }
}

/// Makes a change; the caller ends the transaction.
pub(super) async fn change(
    session: &mut Session,
    locked: &mut LockedZone,
    asked: Asked<'_>,
) -> Result<Committed, WriteError> {
    let (zone, signing) = (&locked.row, &locked.signing);
    let origin = asked.origin();
    if origin == ChangeOrigin::Operator && zone.kind.is_transferred() {
        return Err(WriteError::ReadOnly(ReadOnly::Secondary(
            zone.name.to_string(),
        )));
    }
    // Before the rows: a change by others that is in neither then differs from this one.
    let version = match locked.version {
        Some(version) => version,
        None => session.version(zone.id).await?,
    };
    if origin == ChangeOrigin::Operator && signing.is_presigned {
        return Err(WriteError::ReadOnly(ReadOnly::Presigned(
            zone.name.to_string(),
        )));
    }
    if let Asked::Change(change) = asked {
        check_edits(change, zone, signing)?;
    }
    let mut work = Work::read(session, zone, signing, asked).await?;
    let decided;
    let change = match asked {
        Asked::Change(change) => change,
        Asked::When(asked) => {
            decided = asked.decide(&work)?;
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

/// A change in progress.
pub(super) struct Work {
    pub(super) apex: CanonicalName,
    pub(super) denial: CachedDenial,
    pub(super) made: MadeTypes,
    pub(super) api_serial: SerialRule,
    pub(super) rows: Rows,
    /// Names that edits refer to.
    pub(super) touched: BTreeSet<CanonicalName>,
    /// The facts about the names read, as they were before.
    pub(super) before: HashMap<CanonicalName, NameFacts>,
    /// Delegations that are added or removed: everything below is read.
    pub(super) flipped: BTreeSet<CanonicalName>,
    /// Empty non-terminals below which all names were read.
    pub(super) explored: BTreeSet<CanonicalName>,
    /// Empty non-terminals with more names below than were read, and the effect of the names read.
    pub(super) glimpsed: HashMap<CanonicalName, NameEffect>,
}

/// The desired row of an empty non-terminal.
pub(super) struct Empty {
    pub(super) name: CanonicalName,
    pub(super) wanted: Option<Derived>,
}

impl Work {
    async fn read(
        session: &mut Session,
        zone: &ZoneRow,
        signing: &SigningRows,
        asked: Asked<'_>,
    ) -> Result<Self, Failure> {
        let apex = key(zone.name.as_name().zone());
        let touched = asked.names();
        let mut names = touched.clone();
        names.insert(apex.clone());
        for name in &touched {
            names.extend(ancestors(name, &apex).map(CanonicalName::from));
        }
        let mut rows = Rows::new(zone.id);
        rows.load_names(session, &names.into_iter().collect::<Vec<_>>())
            .await?;
        Ok(Work {
            before: rows.facts(),
            apex,
            denial: signing.denial.clone(),
            made: signing.made,
            api_serial: signing.api_serial,
            rows,
            touched,
            flipped: BTreeSet::new(),
            explored: BTreeSet::new(),
            glimpsed: HashMap::new(),
        })
    }

    fn is_changed(&self) -> bool {
        let rows = self.rows.list.iter();
        rows.into_iter()
            .any(|row| row.is_changed && !row.is_deleted || row.is_deleted && row.id.is_some())
    }

    /// Returns the records served at the apex and at the names that edits refer to; `None` if rows there are
    /// unreadable.
    fn served(&self) -> Option<RecordList> {
        let is_signed = !matches!(self.denial, CachedDenial::Unsigned);
        let mut list = RecordList::default();
        let own = self.touched.iter().filter(|name| ***name != *self.apex);
        for name in std::iter::once(&self.apex).chain(own) {
            for row in self.rows.at(name).filter(|row| row.is_served()) {
                let (What::Record(rtype, rdata), Ok(owner)) = (&row.what, Name::from_wire(name))
                else {
                    return None;
                };
                // As in a zone in memory: records made by signing are not taken from rows.
                if is_signed && self.made.contains(*rtype, *name == self.apex) {
                    continue;
                }
                list.push(WireRecord {
                    owner,
                    rtype: *rtype,
                    ttl: row.ttl,
                    rdata,
                });
            }
        }
        Some(list)
    }

    /// Returns the difference between the records served before and after.
    fn difference(&self, before: Option<RecordList>) -> Option<Difference> {
        let (before, after) = (before?, self.served()?);
        let minimum =
            |list: &RecordList| list.first_of(Type::SOA).map(|soa| soa_minimum(soa.rdata));
        // The apex records made by signing have it as their TTL.
        let is_signed = !matches!(self.denial, CachedDenial::Unsigned);
        if is_signed && minimum(&before) != minimum(&after) {
            return None;
        }
        Some(Difference::between(&before, &after))
    }

    fn soa(&mut self) -> Option<&mut Row> {
        let place = self.rows.places(&self.apex).into_iter().find(|&place| {
            let row = &self.rows.list[place];
            row.is_served() && row.rtype() == Some(Type::SOA)
        })?;
        self.rows.list.get_mut(place)
    }

    fn serial(&mut self) -> Option<Serial> {
        match &self.soa()?.what {
            What::Record(_, rdata) => soa_serial(rdata),
            _ => None,
        }
    }

    fn set_serial(&mut self, serial: Serial) -> Result<(), WriteError> {
        let apex = self.apex.clone();
        let unusable = || InvalidChange::UnreadableSoa(shown(&apex));
        let row = self.soa().ok_or_else(unusable)?;
        let What::Record(_, rdata) = &mut row.what else {
            return Err(unusable().into());
        };
        if !set_soa_serial(rdata, serial) {
            return Err(unusable().into());
        }
        row.is_changed = true;
        Ok(())
    }

    /// Checks that a new DNAME hides nothing below it.
    async fn check_below_dname(&mut self, session: &mut Session) -> Result<(), WriteError> {
        let has_dname = |row: &Row| row.is_served() && row.rtype() == Some(Type::DNAME);
        for name in self.touched.clone() {
            if !self
                .rows
                .at(&name)
                .any(|row| has_dname(row) && row.id.is_none())
            {
                continue;
            }
            self.rows.load_below(session, &name, Some(LOOK)).await?;
            let below = self.rows.list.iter().find(|row| {
                row.is_served()
                    && row.name != name
                    && ancestors(&row.name, &self.apex).any(|above| *above == *name)
            });
            if let Some(row) = below {
                return Err(WriteError::Invalid(InvalidChange::HiddenByDname {
                    name: shown(&name),
                    below: shown(&row.name),
                }));
            }
        }
        Ok(())
    }

    /// Reads what the derived columns depend on besides the touched names.
    async fn learn(&mut self, session: &mut Session) -> Result<(), Failure> {
        let after = self.rows.facts();
        let ns = |facts: &HashMap<CanonicalName, NameFacts>, name: &CanonicalName| {
            facts.get(name).is_some_and(|f| f.ns)
        };
        let flipped: Vec<CanonicalName> = self
            .touched
            .iter()
            .filter(|name| **name != self.apex && ns(&self.before, name) != ns(&after, name))
            .cloned()
            .collect();
        for name in &flipped {
            self.rows.load_below(session, name, None).await?;
        }
        self.flipped = flipped.into_iter().collect();
        let lessened = self.lessened();
        if lessened.len() > MANY {
            let apex = self.apex.clone();
            self.rows.load_below(session, &apex, None).await?;
            self.explored.extend(lessened);
            return Ok(());
        }
        let gone = self.rows.list.iter().filter(|row| row.is_deleted);
        let gone: BTreeSet<i64> = gone.filter_map(|row| row.id).collect();
        for name in lessened {
            let limit = LOOK + gone.len();
            let mut seen = Rows::new(self.rows.zone);
            if seen.load_below(session, &name, Some(limit)).await? < limit {
                seen.list.into_iter().for_each(|row| self.rows.push(row));
                self.explored.insert(name);
                continue;
            }
            let left = seen
                .list
                .iter()
                .filter(|row| row.id.is_none_or(|id| !gone.contains(&id)));
            self.glimpsed.insert(name, glimpse(left));
        }
        Ok(())
    }

    fn knowledge<'k>(&'k self, facts: &'k HashMap<CanonicalName, NameFacts>) -> Knowledge<'k> {
        Knowledge {
            apex: &self.apex,
            denial: &self.denial,
            facts,
        }
    }

    /// Returns names without records that lost something at or below them, so that what is left must be looked up. If
    /// everything below was already read, they are known.
    fn lessened(&self) -> Vec<CanonicalName> {
        let after = self.rows.facts();
        let (old, new) = (self.knowledge(&self.before), self.knowledge(&after));
        let mut found = BTreeSet::new();
        for name in &self.touched {
            // A new delegation affects everything below it.
            let is_new_cut =
                self.flipped.contains(name) && after.get(name).is_some_and(|facts| facts.ns);
            if !is_new_cut && !new.standing(name).is_less_than(old.standing(name)) {
                continue;
            }
            let above = ancestors(name, &self.apex).map(CanonicalName::from);
            found.extend(std::iter::once(name.clone()).chain(above).filter(|name| {
                *name != self.apex
                    && !after.get(name).is_some_and(|facts| facts.exists())
                    && !self.is_flipped_above(name)
            }));
        }
        found.into_iter().collect()
    }

    /// Checks whether everything below a name was read because a delegation at or above it was added or removed.
    fn is_flipped_above(&self, name: &[u8]) -> bool {
        self.flipped.contains(name)
            || ancestors(name, &self.apex).any(|above| self.flipped.contains(above))
    }

    /// Returns the desired rows of empty non-terminals.
    pub(super) fn empties(&self) -> Vec<Empty> {
        let facts = self.rows.facts();
        let knowledge = self.knowledge(&facts);
        let mut below: HashMap<&[u8], NameEffect> = HashMap::new();
        for name in facts.keys() {
            let standing = knowledge.standing(name);
            for above in ancestors(name, &self.apex) {
                let sum = below.entry(above).or_default();
                *sum = sum.or(standing);
            }
        }
        let mut empties = Vec::new();
        for name in self.candidates() {
            let stored = self.rows.at(&name).find(|row| row.what == What::Empty);
            let known = below.get(&*name).copied().unwrap_or_default();
            let standing = if self.explored.contains(&name) || self.is_flipped_above(&name) {
                known
            } else {
                // Data that is not looked up is as stored in the table.
                let stored = stored.map(|row| NameEffect {
                    exists: true,
                    auth: row.derived.as_ref().is_some_and(|d| d.auth),
                    ordered: row.derived.as_ref().is_some_and(|d| d.ordername.is_some()),
                });
                match self.glimpsed.get(&name) {
                    Some(glimpse) => known.or(*glimpse).or(stored.unwrap_or_default()),
                    None => known.or(stored.unwrap_or_default()),
                }
            };
            let has_records = facts.get(&name).is_some_and(|facts| facts.exists());
            let wanted =
                (standing.exists && !has_records).then(|| knowledge.for_empty(&name, standing));
            empties.push(Empty { name, wanted });
        }
        empties
    }

    /// Returns names that may be empty non-terminals before or after.
    fn candidates(&self) -> BTreeSet<CanonicalName> {
        let mut names: BTreeSet<CanonicalName> = self.touched.clone();
        let read_below = self.rows.list.iter().map(|row| &row.name);
        names.extend(
            read_below
                .filter(|name| self.is_flipped_above(name))
                .cloned(),
        );
        let above: Vec<CanonicalName> = names
            .iter()
            .flat_map(|name| ancestors(name, &self.apex).map(CanonicalName::from))
            .collect();
        names.extend(above);
        names.remove(&self.apex);
        names
    }

    /// Recomputes the derived columns of all rows whose names are touched.
    pub(super) fn derive_rows(&mut self) {
        let facts = self.rows.facts();
        let knowledge = self.knowledge(&facts);
        let mut derived = Vec::new();
        for (place, row) in self.rows.list.iter().enumerate() {
            // PowerDNS does not touch the columns of disabled rows.
            let is_ours = self.touched.contains(&row.name) || self.is_flipped_above(&row.name);
            if is_ours && row.is_served() {
                derived.push((place, knowledge.for_row(&row.name, row.rtype())));
            } else if row.id.is_none() && !row.is_deleted {
                let auth = true;
                let ordername = None;
                derived.push((place, Derived { auth, ordername }));
            }
        }
        for (place, wanted) in derived {
            let row = &mut self.rows.list[place];
            if row.derived.as_ref() != Some(&wanted) {
                row.derived = Some(wanted);
                row.is_rederived = true;
            }
        }
    }
}

/// Returns the state shown by a sample of rows: enough to know that names are left.
fn glimpse<'r>(rows: impl Iterator<Item = &'r Row>) -> NameEffect {
    let mut standing = NameEffect::default();
    for row in rows.filter(|row| row.is_served()) {
        let stored = row.derived.as_ref();
        standing = standing.or(NameEffect {
            exists: true,
            auth: row.rtype() != Some(Type::DS) && stored.is_some_and(|d| d.auth),
            ordered: stored.is_some_and(|d| d.ordername.is_some()),
        });
    }
    standing
}
