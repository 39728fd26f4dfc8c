//! The members of consumed catalogs, as `domains` rows: created, changed and deleted in one transaction.
//!
//! As in PowerDNS, a member is a secondary zone whose `catalog` names the catalog and whose `options` hold its label
//! there. A different label means a different zone of the same name (RFC 9432 section 5.4): it starts over.

use super::super::catalog_options::{CatalogProperties, CatalogRole};
use super::super::dialect::Statement;
use super::super::row::zone_name_text;
use super::super::{SqlBackend, ZoneRow, read_zone};
use super::current::{NAMES_AT_ONCE, named};
use super::session::{Failure, Session, Value};
use super::zones::{delete_rows_of, sign_transfers};
use super::{Task, WriteError};
use crate::SqlFuture;
use nameward_wire::NameBuf;
use nameward_zone::ZoneKind;
use std::collections::{BTreeMap, HashMap};

/// A member as it should be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMember {
    /// The zone name.
    pub zone: NameBuf,
    /// `master`: where it is transferred from.
    pub primaries: String,
    /// The key that signs transfers.
    pub key: Option<NameBuf>,
    /// Its label, groups and the catalog it moves to.
    pub properties: CatalogProperties,
}

/// All members of a consumed catalog.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogMembers {
    pub catalog: NameBuf,
    pub members: Vec<StoredMember>,
}

/// The changes made for members.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MembersWritten {
    pub created: Vec<NameBuf>,
    pub deleted: Vec<NameBuf>,
    /// Number of zones whose row was changed.
    pub changed: usize,
    /// Zones that the database has independently of the catalog: left unchanged.
    pub foreign: Vec<NameBuf>,
}

impl MembersWritten {
    /// Checks whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.deleted.is_empty() && self.changed == 0
    }
}

impl SqlBackend {
    /// Sets the members of catalogs to these, in one transaction.
    pub fn set_members<'a>(
        &'a self,
        catalogs: &'a [CatalogMembers],
    ) -> SqlFuture<'a, Result<MembersWritten, WriteError>> {
        Box::pin(async move {
            let mut written = MembersWritten::default();
            self.transact_with(&Task::Members(catalogs), &mut written)
                .await?;
            self.forget(None);
            Ok(written)
        })
    }
}

type KeyedRows = HashMap<Box<[u8]>, ZoneRow>;

/// Writes the members of catalogs; the caller ends the transaction.
pub(super) async fn write(
    session: &mut Session,
    catalogs: &[CatalogMembers],
) -> Result<MembersWritten, WriteError> {
    let mut written = MembersWritten::default();
    // A zone that moves to another catalog is taken over before the first one gives it up.
    let mut gone: BTreeMap<i64, NameBuf> = BTreeMap::new();
    let mut kept: Vec<i64> = Vec::new();
    for CatalogMembers { catalog, members } in catalogs {
        let mut rows = rows_of(session, catalog).await?;
        let mut new = Vec::new();
        for member in members {
            match rows.remove(&key(&member.zone)) {
                Some(row) if row.kind != ZoneKind::Secondary => written.foreign.push(member.zone),
                Some(row) if is_another(&row, member) => {
                    delete_rows_of(session, row.id).await?;
                    written.deleted.push(member.zone);
                    new.push(member);
                }
                Some(row) => {
                    written.changed += usize::from(update(session, &row, catalog, member).await?);
                }
                None => new.push(member),
            }
        }
        let left = rows
            .into_values()
            .filter(|row| row.kind == ZoneKind::Secondary);
        gone.extend(left.map(|row| (row.id, row.name)));
        for chunk in new.chunks(NAMES_AT_ONCE) {
            let names: Vec<NameBuf> = chunk.iter().map(|member| member.zone).collect();
            let existing = rows_named(session, &names).await?;
            for member in chunk {
                match existing.get(&key(&member.zone)) {
                    Some(row) if row.kind == ZoneKind::Secondary && row.catalog.is_some() => {
                        kept.push(row.id);
                        update(session, row, catalog, member).await?;
                        written.changed += 1;
                    }
                    Some(_) => written.foreign.push(member.zone),
                    None => {
                        insert(session, catalog, member).await?;
                        written.created.push(member.zone);
                    }
                }
            }
        }
    }
    gone.retain(|id, _| !kept.contains(id));
    for (id, name) in gone {
        delete_rows_of(session, id).await?;
        written.deleted.push(name);
    }
    Ok(written)
}

fn key(name: &NameBuf) -> Box<[u8]> {
    name.as_name().as_wire().to_ascii_lowercase().into()
}

/// Checks whether the catalog refers to a different zone of the same name.
fn is_another(row: &ZoneRow, member: &StoredMember) -> bool {
    let stored = row.options.as_deref();
    let stored = stored.and_then(|text| CatalogProperties::read(text, CatalogRole::Consumer));
    let label = stored.and_then(|stored| stored.label);
    label.is_some() && label != member.properties.label
}

async fn rows_of(session: &mut Session, catalog: &NameBuf) -> Result<KeyedRows, Failure> {
    let sql = Statement::Zones.sql(session.engine(), 0) + " WHERE catalog = ?";
    rows(session, &sql, &[zone_name_text(catalog.as_name())]).await
}

async fn rows_named(session: &mut Session, names: &[NameBuf]) -> Result<KeyedRows, Failure> {
    let (condition, texts) = named(names);
    let sql = Statement::Zones.sql(session.engine(), 0) + " WHERE " + &condition;
    rows(session, &sql, &texts).await
}

async fn rows(session: &mut Session, sql: &str, texts: &[String]) -> Result<KeyedRows, Failure> {
    let values: Vec<Value<'_>> = texts.iter().map(|text| Value::Text(text)).collect();
    let rows = session.list(sql, &values, read_zone).await?.into_iter();
    Ok(rows.flatten().map(|zone| (key(&zone.name), zone)).collect())
}

/// Changes the row of a member if it differs from the desired one; returns whether it did.
async fn update(
    session: &mut Session,
    row: &ZoneRow,
    catalog: &NameBuf,
    member: &StoredMember,
) -> Result<bool, Failure> {
    let stored = row.options.as_deref();
    let stored = stored.and_then(|text| CatalogProperties::read(text, CatalogRole::Consumer));
    let (catalog, options) = (
        zone_name_text(catalog.as_name()),
        member.properties.write(CatalogRole::Consumer),
    );
    let is_same = stored.as_ref() == Some(&member.properties)
        && row.primaries.as_deref() == Some(&member.primaries)
        && row.catalog.as_deref() == Some(&catalog);
    if is_same {
        return Ok(false);
    }
    let sql = "UPDATE domains SET master = ?, options = ?, catalog = ? WHERE id = ?";
    let values = [
        Value::Text(&member.primaries),
        Value::Text(&options),
        Value::Text(&catalog),
        Value::Int(row.id),
    ];
    session.run(sql, &values).await?;
    session.notify_change(row.id).await?;
    Ok(true)
}

async fn insert(
    session: &mut Session,
    catalog: &NameBuf,
    member: &StoredMember,
) -> Result<(), Failure> {
    let [name, catalog] = [&member.zone, catalog].map(|name| zone_name_text(name.as_name()));
    let options = member.properties.write(CatalogRole::Consumer);
    let sql =
        "INSERT INTO domains (name, type, master, options, catalog) VALUES (?, 'SLAVE', ?, ?, ?)";
    let values = [
        Value::Text(&name),
        Value::Text(&member.primaries),
        Value::Text(&options),
        Value::Text(&catalog),
    ];
    session.run(sql, &values).await?;
    match &member.key {
        Some(key) => sign_transfers(session, &name, key).await,
        None => Ok(()),
    }
}
