//! What a change says, and what it makes of the rows of a zone.

use super::check::{MAX_CONTENT, MAX_NAME_TEXT, shown};
use super::content::write_content;
use super::derive::{Key, key};
use super::rows::{Row, Rows, What, text_of};
use nameward_wire::rdata::{canonicalise, validate};
use nameward_wire::{NameBuf, Type};

/// The highest TTL (RFC 2181 section 8).
const MAX_TTL: u32 = i32::MAX as u32;

/// A record of an [`Rrset`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// Uncompressed wire form.
    pub rdata: Vec<u8>,
    /// Kept but not served.
    pub disabled: bool,
}

/// All records of one name and type.
#[derive(Debug, Clone)]
pub struct Rrset {
    /// The owner, absolute.
    pub name: NameBuf,
    /// The type.
    pub rtype: Type,
    /// The TTL of all its records.
    pub ttl: u32,
    /// The records.
    pub records: Vec<NewRecord>,
}

/// One step of a change. Steps are applied in order, and all or none of them.
#[derive(Debug, Clone)]
pub enum Edit {
    /// These records and no others; none deletes the RRset.
    Replace(Rrset),
    /// These records besides those that are there; the TTL becomes that of all.
    Add(Rrset),
    /// Deletes records with this data.
    DeleteRecords {
        /// The owner.
        name: NameBuf,
        /// The type.
        rtype: Type,
        /// Data in wire form.
        rdata: Vec<Vec<u8>>,
    },
    /// Deletes all records of a name and type.
    DeleteRrset {
        /// The owner.
        name: NameBuf,
        /// The type.
        rtype: Type,
    },
    /// Deletes all records of a name; at the apex SOA and NS stay (RFC 2136 section 3.4.2.3).
    DeleteName {
        /// The owner.
        name: NameBuf,
    },
}

impl Edit {
    pub(super) fn name(&self) -> &NameBuf {
        match self {
            Edit::Replace(rrset) | Edit::Add(rrset) => &rrset.name,
            Edit::DeleteRecords { name, .. }
            | Edit::DeleteRrset { name, .. }
            | Edit::DeleteName { name } => name,
        }
    }

    fn rtype(&self) -> Option<Type> {
        match self {
            Edit::Replace(rrset) | Edit::Add(rrset) => Some(rrset.rtype),
            Edit::DeleteRecords { rtype, .. } | Edit::DeleteRrset { rtype, .. } => Some(*rtype),
            Edit::DeleteName { .. } => None,
        }
    }

    /// Whether it is about the SOA, so that the serial is the caller's.
    pub(super) fn sets_soa(&self) -> bool {
        self.rtype() == Some(Type::SOA)
    }

    /// What is wrong with it, whatever the zone has.
    pub(super) fn check(&self, apex: &NameBuf, is_presigned: bool) -> Result<(), String> {
        let name = self.name();
        if !name.as_name().is_at_or_below(apex.as_name()) {
            return Err(format!("{name} is outside the zone {apex}"));
        }
        let text = text_of(&key(name.as_name()));
        if text.len() > MAX_NAME_TEXT {
            return Err(format!(
                "{name} is too long for the database: {} characters of {MAX_NAME_TEXT}",
                text.len()
            ));
        }
        if let (Edit::Replace(rrset) | Edit::Add(rrset), false) = (self, is_presigned)
            && matches!(rrset.rtype, Type::RRSIG | Type::NSEC | Type::NSEC3)
        {
            let rtype = rrset.rtype;
            return Err(format!(
                "{rtype} records are made by the server that signs the zone"
            ));
        }
        match self {
            Edit::Replace(rrset) | Edit::Add(rrset) => rrset.check(),
            _ => Ok(()),
        }
    }
}

impl Rrset {
    fn check(&self) -> Result<(), String> {
        let Rrset { name, rtype, .. } = self;
        if rtype.is_meta() {
            return Err(format!("the type {rtype} cannot stand in a zone"));
        }
        if self.ttl > MAX_TTL {
            return Err(format!("the TTL {} is larger than {MAX_TTL}", self.ttl));
        }
        for record in &self.records {
            validate(*rtype, &record.rdata)
                .map_err(|error| format!("the data of {name} {rtype} is not valid: {error}"))?;
            if write_content(*rtype, &record.rdata).content.len() > MAX_CONTENT {
                return Err(format!(
                    "the data of {name} {rtype} is too long for the database"
                ));
            }
        }
        Ok(())
    }

    fn row(&self, record: &NewRecord) -> Row {
        Row {
            id: None,
            name: key(self.name.as_name()),
            what: What::Record(self.rtype, record.rdata.clone()),
            ttl: self.ttl,
            disabled: record.disabled,
            derived: None,
            is_deleted: false,
            is_changed: true,
            is_rederived: false,
        }
    }
}

/// Data that is equal for the DNS.
fn same(rtype: Type, a: &[u8], b: &[u8]) -> bool {
    let canonical = |rdata: &[u8]| {
        let mut rdata = rdata.to_vec();
        canonicalise(rtype, &mut rdata);
        rdata
    };
    a == b || canonical(a) == canonical(b)
}

/// Applies a step to the rows.
pub(super) fn apply(edit: &Edit, rows: &mut Rows, apex: &[u8]) -> Result<(), String> {
    let name: Key = key(edit.name().as_name());
    let places = rows.places(&name);
    let of_type = |rows: &Rows, wanted: Type| -> Vec<usize> {
        let is_it = |place: &usize| {
            let row = &rows.list[*place];
            !row.is_deleted && row.what != What::Empty && row.rtype() == Some(wanted)
        };
        places.iter().copied().filter(is_it).collect()
    };
    match edit {
        Edit::Replace(rrset) => {
            let mut old = of_type(rows, rrset.rtype);
            for (i, record) in rrset.records.iter().enumerate() {
                if rrset.records[..i].iter().any(|r| r.rdata == record.rdata) {
                    continue;
                }
                let kept = old.iter().position(|&place| {
                    matches!(&rows.list[place].what, What::Record(_, rdata) if *rdata == record.rdata)
                });
                match kept {
                    Some(at) => {
                        let place = old.swap_remove(at);
                        set(&mut rows.list[place], rrset.ttl, record.disabled);
                    }
                    None => rows.push(rrset.row(record)),
                }
            }
            old.into_iter().for_each(|place| delete(rows, place));
        }
        Edit::Add(rrset) => {
            let old = of_type(rows, rrset.rtype);
            for &place in &old {
                let disabled = rows.list[place].disabled;
                set(&mut rows.list[place], rrset.ttl, disabled);
            }
            for (i, record) in rrset.records.iter().enumerate() {
                let is_same = |rdata: &[u8]| same(rrset.rtype, rdata, &record.rdata);
                if rrset.records[..i].iter().any(|r| is_same(&r.rdata)) {
                    continue;
                }
                let kept = old.iter().find(|&&place| {
                    matches!(&rows.list[place].what, What::Record(_, rdata) if is_same(rdata))
                });
                match kept {
                    Some(&place) => set(&mut rows.list[place], rrset.ttl, record.disabled),
                    None => rows.push(rrset.row(record)),
                }
            }
        }
        Edit::DeleteRecords { rtype, rdata, .. } => {
            for place in of_type(rows, *rtype) {
                if let What::Record(_, stored) = &rows.list[place].what
                    && rdata.iter().any(|gone| same(*rtype, gone, stored))
                {
                    delete(rows, place);
                }
            }
        }
        Edit::DeleteRrset { rtype, .. } => {
            of_type(rows, *rtype)
                .into_iter()
                .for_each(|place| delete(rows, place));
        }
        Edit::DeleteName { .. } => {
            for &place in &places {
                let row = &rows.list[place];
                let stays = *name == *apex && matches!(row.rtype(), Some(Type::SOA | Type::NS));
                if row.what != What::Empty && !stays {
                    delete(rows, place);
                }
            }
        }
    }
    if *name == *apex && edit.sets_soa() && of_type_count(rows, &name, Type::SOA) != 1 {
        return Err(format!("expected one SOA at {}", shown(apex)));
    }
    Ok(())
}

fn of_type_count(rows: &Rows, name: &[u8], rtype: Type) -> usize {
    let served = rows.at(name).filter(|row| row.is_served());
    served.filter(|row| row.rtype() == Some(rtype)).count()
}

fn set(row: &mut Row, ttl: u32, disabled: bool) {
    if (row.ttl, row.disabled) != (ttl, disabled) {
        (row.ttl, row.disabled, row.is_changed) = (ttl, disabled, true);
    }
}

fn delete(rows: &mut Rows, place: usize) {
    rows.list[place].is_deleted = true;
}
