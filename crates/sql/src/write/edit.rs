//! Application of edits to the rows of a zone.

use super::check::{MAX_CONTENT, shown};
use super::content::write_content;
use super::derive::{CanonicalName, key};
use super::error::InvalidChange;
use super::error::MAX_NAME_TEXT;
use super::rows::{Row, Rows, What, text_of};
use nameward_dnssec::is_signature_or_denial;
use nameward_wire::rdata::canonicalise;
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::{ChangeError, Edit, NewRecord, RrsetData};

/// Checks an edit independently of the zone's contents.
pub(super) fn check_edit(
    edit: &Edit,
    apex: &NameBuf,
    is_presigned: bool,
) -> Result<(), InvalidChange> {
    edit.check(apex.as_name()).map_err(|error| match error {
        ChangeError::OutOfZone(name) => InvalidChange::OutsideZone {
            name,
            apex: apex.to_string(),
        },
        error => InvalidChange::Edit(error),
    })?;
    let name = edit.name();
    let text = text_of(&key(name.as_name()));
    if text.len() > MAX_NAME_TEXT {
        return Err(InvalidChange::NameTooLong {
            name: name.to_string(),
            characters: text.len(),
        });
    }
    let (Edit::Replace(rrset) | Edit::Add(rrset)) = edit else {
        return Ok(());
    };
    let rtype = rrset.rtype;
    if !is_presigned && is_signature_or_denial(rtype) {
        return Err(InvalidChange::MadeBySigning(rtype));
    }
    let is_long = |record: &NewRecord| {
        let given = record.text.as_ref().map(|text| text.len());
        given.unwrap_or_else(|| write_content(rtype, &record.rdata).content.len()) > MAX_CONTENT
    };
    if rrset.records.iter().any(is_long) {
        Err(InvalidChange::DataTooLong(name.to_string(), rtype))
    } else {
        Ok(())
    }
}

/// Checks whether an edit affects records for the parent: whether these are served depends on metadata.
pub(super) fn bears_on_parent(edit: &Edit, apex: &NameBuf) -> bool {
    edit.name() == apex && matches!(edit.rtype(), None | Some(Type::CDS | Type::CDNSKEY))
}

fn row(rrset: &RrsetData, record: &NewRecord) -> Row {
    let what = What::Record(rrset.rtype, record.rdata.clone());
    Row {
        disabled: record.disabled,
        text: record.text.clone(),
        ..Row::new(key(rrset.name.as_name()), what, rrset.ttl)
    }
}

/// Checks whether data is equal in terms of the DNS.
fn same(rtype: Type, a: &[u8], b: &[u8]) -> bool {
    let canonical = |rdata: &[u8]| {
        let mut rdata = rdata.to_vec();
        canonicalise(rtype, &mut rdata);
        rdata
    };
    a == b || canonical(a) == canonical(b)
}

pub(super) fn apply(edit: &Edit, rows: &mut Rows, apex: &[u8]) -> Result<(), InvalidChange> {
    let name: CanonicalName = key(edit.name().as_name());
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
            let old = of_type(rows, rrset.rtype);
            replace(rrset, old, rows);
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
                    None => rows.push(row(rrset, record)),
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
    if *name == *apex
        && edit.rtype() == Some(Type::SOA)
        && count_of_type(rows, &name, Type::SOA) != 1
    {
        return Err(InvalidChange::NotOneSoa(shown(apex)));
    }
    Ok(())
}

/// Replaces the rows of an RRset, those at `old`; rows with the same data stay.
fn replace(rrset: &RrsetData, mut old: Vec<usize>, rows: &mut Rows) {
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
                set_text(&mut rows.list[place], record);
            }
            None => rows.push(row(rrset, record)),
        }
    }
    old.into_iter().for_each(|place| delete(rows, place));
}

fn count_of_type(rows: &Rows, name: &[u8], rtype: Type) -> usize {
    let served = rows.at(name).filter(|row| row.is_served());
    served.filter(|row| row.rtype() == Some(rtype)).count()
}

fn set(row: &mut Row, ttl: u32, disabled: bool) {
    if (row.ttl, row.disabled) != (ttl, disabled) {
        (row.ttl, row.disabled, row.is_changed) = (ttl, disabled, true);
    }
}

/// Writes the text that the client sent, if it sent another one than is stored.
fn set_text(row: &mut Row, record: &NewRecord) {
    if record.text.is_some() && row.text != record.text {
        (row.text, row.is_changed) = (record.text.clone(), true);
    }
}

fn delete(rows: &mut Rows, place: usize) {
    rows.list[place].is_deleted = true;
}
