//! The rows that a change of a zone concerns, while it is made: what was read, what edits did to it, and the columns that PowerDNS
//! derives from names.

use super::super::ZoneRow;
use super::check::shown;
use super::derive::{
    CachedDenial, CanonicalName, Derived, Knowledge, NameEffect, ServedTypes, ancestors, key,
};
use super::request::{RequestedChange, SigningRows};
use super::rows::{Row, Rows, What};
use super::session::{Failure, Session};
use super::{InvalidChange, WriteError};
use crate::fragment::soa_minimum;
use nameward_dnssec::MadeTypes;
use nameward_wire::{Name, Type};
use nameward_zone::change::{Difference, RecordsAt, SignedBy, set_soa_serial, soa_serial};
use nameward_zone::{RecordList, Serial, SerialRule, WireRecord};
use std::collections::{BTreeSet, HashMap};

/// Maximum number of rows read to find out whether anything is left below a name.
const LOOK: usize = 200;
/// Number of names that may vanish before the names of the whole zone are read instead of the names below each.
const MANY: usize = 16;

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
    pub(super) before: HashMap<CanonicalName, ServedTypes>,
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
    pub(super) expected: Option<Derived>,
}

impl Work {
    /// Starts the work on rows of touched names, from which nothing is served.
    pub(super) fn new(
        apex: CanonicalName,
        denial: CachedDenial,
        rows: Rows,
        touched: BTreeSet<CanonicalName>,
    ) -> Self {
        Work {
            before: rows.facts(),
            apex,
            denial,
            made: MadeTypes::ALL,
            api_serial: SerialRule::Keep,
            rows,
            touched,
            flipped: BTreeSet::new(),
            explored: BTreeSet::new(),
            glimpsed: HashMap::new(),
        }
    }

    pub(super) async fn read(
        session: &mut Session,
        zone: &ZoneRow,
        signing: &SigningRows,
        requested: RequestedChange<'_>,
    ) -> Result<Self, Failure> {
        let apex = key(zone.name.as_name().zone());
        let touched = requested.names();
        let mut names = touched.clone();
        names.insert(apex.clone());
        for name in &touched {
            names.extend(ancestors(name, &apex).map(CanonicalName::from));
        }
        let mut rows = Rows::new(zone.id);
        rows.load_names(session, &names.into_iter().collect::<Vec<_>>())
            .await?;
        Ok(Work {
            made: signing.made,
            api_serial: signing.api_serial,
            ..Work::new(apex, signing.denial.clone(), rows, touched)
        })
    }

    pub(super) fn is_changed(&self) -> bool {
        let rows = self.rows.list.iter();
        rows.into_iter()
            .any(|row| row.is_changed && !row.is_deleted || row.is_deleted && row.id.is_some())
    }

    /// Returns the records served at the apex and at the names that edits refer to; `None` if rows there are
    /// unreadable.
    pub(super) fn served(&self) -> Option<RecordList> {
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
    pub(super) fn difference(&self, before: Option<RecordList>) -> Option<Difference> {
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

    pub(super) fn serial(&mut self) -> Option<Serial> {
        match &self.soa()?.what {
            What::Record(_, rdata) => soa_serial(rdata),
            _ => None,
        }
    }

    pub(super) fn set_serial(&mut self, serial: Serial) -> Result<(), WriteError> {
        let apex = self.apex.clone();
        let unusable = || InvalidChange::UnreadableSoa(shown(&apex));
        let row = self.soa().ok_or_else(unusable)?;
        if let What::Record(_, rdata) = &mut row.what
            && set_soa_serial(rdata, serial)
        {
            row.is_changed = true;
            return Ok(());
        }
        Err(unusable().into())
    }

    /// Checks that a new DNAME hides nothing below it.
    pub(super) async fn check_below_dname(
        &mut self,
        session: &mut Session,
    ) -> Result<(), WriteError> {
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
                    && ancestors(&row.name, &self.apex).any(|ancestor| *ancestor == *name)
            });
            if let Some(row) = below {
                let (name, below) = (shown(&name), shown(&row.name));
                return Err(InvalidChange::HiddenByDname { name, below }.into());
            }
        }
        Ok(())
    }

    /// Reads what the derived columns depend on besides the touched names.
    pub(super) async fn learn(&mut self, session: &mut Session) -> Result<(), Failure> {
        let after = self.rows.facts();
        let ns = |facts: &HashMap<CanonicalName, ServedTypes>, name: &CanonicalName| {
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

    fn knowledge<'k>(&'k self, facts: &'k HashMap<CanonicalName, ServedTypes>) -> Knowledge<'k> {
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
            || ancestors(name, &self.apex).any(|ancestor| self.flipped.contains(ancestor))
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
                let stored = stored.map(|row| NameEffect::stored(row.derived.as_ref()));
                match self.glimpsed.get(&name) {
                    Some(glimpse) => known.or(*glimpse).or(stored.unwrap_or_default()),
                    None => known.or(stored.unwrap_or_default()),
                }
            };
            let has_records = facts.get(&name).is_some_and(|facts| facts.exists());
            let expected =
                (standing.exists && !has_records).then(|| knowledge.for_empty(&name, standing));
            empties.push(Empty { name, expected });
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
        for (place, expected) in derived {
            let row = &mut self.rows.list[place];
            if row.derived.as_ref() != Some(&expected) {
                row.derived = Some(expected);
                row.is_rederived = true;
            }
        }
    }
}

/// Returns the state shown by a sample of rows: enough to know that names are left.
fn glimpse<'r>(rows: impl Iterator<Item = &'r Row>) -> NameEffect {
    let mut standing = NameEffect::default();
    for row in rows.filter(|row| row.is_served()) {
        let stored = NameEffect::stored(row.derived.as_ref());
        standing = standing.or(NameEffect {
            auth: row.rtype() != Some(Type::DS) && stored.auth,
            ..stored
        });
    }
    standing
}

impl RecordsAt for Work {
    fn each_record(&self, owner: Name<'_>, each: &mut dyn FnMut(Type, u32, &[u8])) {
        for row in self.rows.at(&key(owner)).filter(|row| row.is_served()) {
            match &row.what {
                What::Record(rtype, rdata) => each(*rtype, row.ttl, rdata),
                // It exists, although its contents are unknown.
                What::Other(Some(rtype)) => each(*rtype, row.ttl, &[]),
                What::Other(None) | What::Empty => {}
            }
        }
    }

    fn signed_by(&self) -> SignedBy {
        match self.denial {
            CachedDenial::Unsigned => SignedBy::NoSigner,
            CachedDenial::Nsec | CachedDenial::Nsec3 { .. } => SignedBy::ThisServer(self.made),
        }
    }

    fn api_serial_rule(&self) -> Option<SerialRule> {
        Some(self.api_serial)
    }
}
