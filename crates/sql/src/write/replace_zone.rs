//! Replacement of all rows of a secondary zone with a complete version, as received by AXFR.
//!
//! Rows are deleted and inserted in one transaction, so that readers see the old version until it ends. As in PowerDNS,
//! all rows of `records` are deleted, including disabled ones, and comments are kept; the PRESIGNED and NSEC3PARAM
//! metadata follow the signatures that the version has or lacks.

use super::super::ZoneRow;
use super::attributes::{MetadataEdit, write_metadata};
use super::check::{MAX_CONTENT, shown};
use super::content::write_content;
use super::derive::{CachedDenial, CanonicalName, Knowledge, NameEffect, ancestors, key};
use super::error::MAX_NAME_TEXT;
use super::insert::{INSERTS_AT_ONCE, insert_rows};
use super::request::read_signing;
use super::rows::{Row, Rows, What, text_of};
use super::session::{Failure, Session, Value};
use super::{Committed, InvalidChange, ReadOnly, Replacement, WriteError};
use crate::SqlError;
use crate::dialect::SqlEngine;
use nameward_dnssec::Nsec3Param;
use nameward_wire::{Name, Type};
use nameward_zone::change::soa_serial;
use nameward_zone::{LargeRrset, Node, Serial, Zone};
use std::collections::BTreeMap;

/// Rows deleted per statement: each must complete in time.
const DELETES_AT_ONCE: usize = 20_000;
/// Octets of data that fit into `content` in any notation.
const SHORT_DATA: usize = MAX_CONTENT / 4 - 16;

/// Maximum number of warnings about one version.
const WARNINGS_MAX: usize = 5;

/// Replaces the stored version; the caller ends the transaction.
pub(super) async fn replace(
    session: &mut Session,
    zone: &ZoneRow,
    version: &Zone,
    replacement: Replacement,
) -> Result<Committed, WriteError> {
    if !zone.kind.is_transferred() {
        let name = zone.name.to_string();
        return Err(ReadOnly::NotSecondary(name).into());
    }
    let stored = stored_serial(session, zone).await?;
    let mut committed = Committed {
        has_soa: true,
        serial: version.serial(),
        ..Committed::without_records((zone.id, zone.name), false)
    };
    // Another server on this database may have been faster.
    let is_newer = |stored: &Serial| version.serial().is_after(*stored);
    let is_kept = |stored: &Serial| replacement == Replacement::IfNewer && !is_newer(stored);
    if let Some(stored) = stored.filter(is_kept) {
        committed.serial = stored;
        return Ok(committed);
    }
    let denial = note_signatures(session, zone, version).await?;
    delete_all(session, zone.id).await?;
    let apex = key(zone.name.as_name().zone());
    let mut writer = RowWriter {
        session,
        zone: zone.id,
        waiting: Vec::new(),
    };
    let knowledge = Knowledge {
        apex: &apex,
        denial: &denial,
        facts: version,
    };
    let mut empties: BTreeMap<CanonicalName, NameEffect> = BTreeMap::new();
    for node in version.nodes_in_order().filter(|node| !node.is_empty()) {
        let name = key(node.name());
        for large in LargeRrset::in_node(node) {
            if committed.warnings.len() < WARNINGS_MAX {
                committed.warnings.push(large.to_string());
            }
        }
        note_empties(&name, &knowledge, version, &mut empties);
        writer.write_node(&name, node, &knowledge).await?;
    }
    for (name, below) in empties {
        let derived = knowledge.for_empty(&name, below);
        let row = Row {
            derived: Some(derived),
            ..Row::new(name, What::Empty, 0)
        };
        writer.write(row).await?;
    }
    writer.flush().await?;
    session.notify_change(zone.id).await?;
    committed.is_changed = true;
    Ok(committed)
}

async fn stored_serial(session: &mut Session, zone: &ZoneRow) -> Result<Option<Serial>, Failure> {
    let mut rows = Rows::new(zone.id);
    let apex = key(zone.name.as_name().zone());
    rows.load_names(session, std::slice::from_ref(&apex))
        .await?;
    let mut served = rows.at(&apex).filter(|row| row.is_served());
    let serial = served.find_map(|row| match &row.what {
        What::Record(Type::SOA, rdata) => soa_serial(rdata),
        _ => None,
    });
    Ok(serial)
}

/// Records the empty non-terminals above a name that has records.
fn note_empties(
    name: &[u8],
    knowledge: &Knowledge<'_>,
    version: &Zone,
    empties: &mut BTreeMap<CanonicalName, NameEffect>,
) {
    let mut standing = None;
    for ancestor in ancestors(name, knowledge.apex) {
        let node = Name::from_wire(ancestor)
            .ok()
            .and_then(|name| version.node_of(name));
        if node.is_some_and(|node| node.is_empty()) {
            let standing = *standing.get_or_insert_with(|| knowledge.standing(name));
            let sum = empties.entry(ancestor.into()).or_default();
            *sum = sum.or(standing);
        }
    }
}

/// Updates the signature metadata to match the version; returns how names are denied.
async fn note_signatures(
    session: &mut Session,
    zone: &ZoneRow,
    version: &Zone,
) -> Result<CachedDenial, WriteError> {
    let apex = version.apex();
    let is_signed = apex.rrset(Type::RRSIG).is_some();
    let (id, set) = (zone.id, MetadataEdit::Set);
    let kept = read_signing(session, id).await?;
    if !is_signed {
        if kept.is_presigned {
            write_metadata(session, (id, "PRESIGNED"), set, &[]).await?;
            write_metadata(session, (id, "NSEC3PARAM"), set, &[]).await?;
            // With keys it is signed here from now on.
            return Ok(read_signing(session, id).await?.denial);
        }
        return Ok(kept.denial);
    }
    let param = apex.rrset(Type::NSEC3PARAM);
    let param = param.and_then(|rrset| rrset.records().next());
    let param = param.map(|record| write_content(Type::NSEC3PARAM, record.rdata).content);
    if !kept.is_presigned {
        write_metadata(session, (id, "PRESIGNED"), set, &["1".into()]).await?;
    }
    write_metadata(session, (id, "NSEC3PARAM"), set, param.as_slice()).await?;
    let read = param.map(|text| Nsec3Param::read(&text)).transpose();
    let read = read.map_err(|error| SqlError::row("domainmetadata", 0, error.to_string()));
    Ok(match read? {
        None => CachedDenial::Nsec,
        Some(param) => CachedDenial::Nsec3 {
            param,
            narrow: false,
        },
    })
}

/// Deletes all rows of a zone, a limited number per statement.
async fn delete_all(session: &mut Session, zone: i64) -> Result<(), Failure> {
    let sql = match session.engine() {
        SqlEngine::Mysql => {
            format!("DELETE FROM records WHERE domain_id = ? LIMIT {DELETES_AT_ONCE}")
        }
        _ => format!(
            "DELETE FROM records WHERE id IN \
             (SELECT id FROM records WHERE domain_id = ? LIMIT {DELETES_AT_ONCE})"
        ),
    };
    loop {
        session.run(&sql, &[Value::Int(zone)]).await?;
        let left = "SELECT domain_id FROM records WHERE domain_id = ? LIMIT 1";
        if !session.finds(left, &[Value::Int(zone)]).await? {
            return Ok(());
        }
    }
}

/// Writes rows, many per statement.
struct RowWriter<'s> {
    session: &'s mut Session,
    zone: i64,
    waiting: Vec<Row>,
}

impl RowWriter<'_> {
    /// Writes the records of a name.
    async fn write_node(
        &mut self,
        name: &[u8],
        node: Node<'_>,
        knowledge: &Knowledge<'_>,
    ) -> Result<(), WriteError> {
        let text = text_of(name);
        if text.len() > MAX_NAME_TEXT {
            let (name, characters) = (shown(name), text.len());
            return Err(InvalidChange::NameTooLong { name, characters }.into());
        }
        // PowerDNS makes these records from the order itself: they have no position in it.
        let is_hash = node.rrset(Type::NSEC3).is_some();
        for rrset in node.rrsets() {
            let rtype = rrset.rtype();
            let mut derived = knowledge.for_row(name, Some(rtype));
            if is_hash || rtype == Type::NSEC {
                derived.ordername = None;
            }
            for record in rrset.records() {
                let rdata = record.rdata;
                if rdata.len() > SHORT_DATA
                    && write_content(rtype, rdata).content.len() > MAX_CONTENT
                {
                    return Err(InvalidChange::DataTooLong(shown(name), rtype).into());
                }
                let what = What::Record(rtype, rdata.to_vec());
                self.write(Row {
                    derived: Some(derived.clone()),
                    ..Row::new(name.into(), what, rrset.ttl())
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, row: Row) -> Result<(), Failure> {
        self.waiting.push(row);
        if self.waiting.len() < INSERTS_AT_ONCE {
            Ok(())
        } else {
            self.flush().await
        }
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        let rows: Vec<&Row> = self.waiting.iter().collect();
        insert_rows(self.session, self.zone, &rows).await?;
        self.waiting.clear();
        Ok(())
    }
}
