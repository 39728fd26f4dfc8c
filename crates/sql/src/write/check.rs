//! Checks of a zone as a change would leave it, as far as the change affects it.
//!
//! The names that a change touches go through the same builder as a zone file. What depends on untouched names (data
//! below a DNAME) is looked up.

use super::derive::{CanonicalName, ancestors};
use super::error::InvalidChange;
use super::rows::{Row, Rows, What, text_of};
use nameward_wire::zonefile::{Record, Severity};
use nameward_wire::{Name, Type};
use nameward_zone::change::ChangeOrigin;
use nameward_zone::{LargeRrset, MAX_RRSET_OCTETS, ZoneBuilder};
use std::collections::BTreeSet;

/// Size of the column `content`, in octets.
pub(super) const MAX_CONTENT: usize = 64_000;

/// Checks whether the rows at these names form a valid zone; returns warnings. What a primary sends is
/// accepted whatever the size of its RRsets, and warned of for that alone.
pub(super) fn check(
    rows: &Rows,
    apex: &[u8],
    touched: &BTreeSet<CanonicalName>,
    origin: ChangeOrigin,
) -> Result<Vec<String>, InvalidChange> {
    let mut builder = ZoneBuilder::new(Name::from_wire(apex).unwrap_or(Name::ROOT));
    let (mut warnings, mut large_rrsets) = (Vec::new(), Vec::new());
    for row in served_records(rows, apex) {
        // Only the SOA of the apex matters, unless the apex is touched.
        if touched.contains(apex) || row.rtype() == Some(Type::SOA) {
            add(&mut builder, row);
        }
    }
    for name in touched.iter().filter(|name| ***name != *apex) {
        for row in served_records(rows, name) {
            add(&mut builder, row);
        }
        check_place(rows, apex, name, &mut warnings)?;
    }
    for name in touched {
        match (large_rrset(rows, name), origin) {
            (Some(large), ChangeOrigin::Transfer) => large_rrsets.push(large.to_string()),
            (Some(large), ChangeOrigin::Operator) => {
                return Err(InvalidChange::RrsetTooLarge {
                    name: shown(name),
                    rtype: large.rtype,
                    octets: large.octets,
                });
            }
            (None, _) => {}
        }
    }
    let has_ns = served_records(rows, apex).any(|row| row.rtype() == Some(Type::NS));
    if touched.contains(apex) && !has_ns {
        warnings.push(format!("{} has no NS records", shown(apex)));
    }
    let (_, findings) = builder.finish();
    match findings
        .into_iter()
        .find(|finding| finding.severity == Severity::Error)
    {
        Some(error) => Err(InvalidChange::Contents(error.message)),
        None if origin == ChangeOrigin::Transfer => Ok(large_rrsets),
        None => Ok(warnings),
    }
}

fn served_records<'r>(rows: &'r Rows, name: &[u8]) -> impl Iterator<Item = &'r Row> {
    rows.at(name).filter(|row| row.is_served())
}

fn add(builder: &mut ZoneBuilder, row: &Row) {
    let (What::Record(rtype, rdata), Ok(owner)) = (&row.what, Name::from_wire(&row.name)) else {
        return;
    };
    builder.add(&Record::new(owner, *rtype, row.ttl, rdata));
}

/// Checks that nothing is below a DNAME (RFC 6672 section 2.4).
fn check_place(
    rows: &Rows,
    apex: &[u8],
    name: &[u8],
    warnings: &mut Vec<String>,
) -> Result<(), InvalidChange> {
    let Some(row) = served_records(rows, name).next() else {
        return Ok(());
    };
    for above in ancestors(name, apex) {
        let has = |wanted| served_records(rows, above).any(|row| row.rtype() == Some(wanted));
        if has(Type::DNAME) {
            return Err(InvalidChange::BelowDname {
                name: shown(name),
                above: shown(above),
            });
        }
        if above != apex && has(Type::NS) && !is_glue(rows, name, above) && row.id.is_none() {
            warnings.push(format!(
                "{} is below the delegation {} and not glue: it is not served",
                shown(name),
                shown(above)
            ));
        }
    }
    Ok(())
}

/// Checks whether the records at a name are addresses of a server named by the delegation above it.
fn is_glue(rows: &Rows, name: &[u8], cut: &[u8]) -> bool {
    let is_address = |row: &Row| matches!(row.rtype(), Some(Type::A | Type::AAAA));
    let is_named = |row: &Row| match &row.what {
        What::Record(Type::NS, target) => target.eq_ignore_ascii_case(name),
        _ => false,
    };
    served_records(rows, name).all(is_address) && served_records(rows, cut).any(is_named)
}

/// Returns an RRset of a name that fits into no message.
fn large_rrset(rows: &Rows, name: &[u8]) -> Option<LargeRrset> {
    let mut sizes: Vec<(Type, usize)> = Vec::new();
    for row in served_records(rows, name) {
        let What::Record(rtype, rdata) = &row.what else {
            continue;
        };
        // Owner as a pointer, type, class, TTL, length.
        let octets = rdata.len() + 12;
        match sizes.iter_mut().find(|(known, _)| known == rtype) {
            Some((_, sum)) => *sum += octets,
            None => sizes.push((*rtype, octets)),
        }
    }
    let (rtype, octets) = sizes
        .into_iter()
        .find(|(_, octets)| *octets > MAX_RRSET_OCTETS)?;
    Some(LargeRrset {
        owner: Name::from_wire(name).ok()?.into(),
        rtype,
        octets,
    })
}

/// Formats a name for a message.
pub(super) fn shown(name: &[u8]) -> String {
    match text_of(name) {
        root if root == "." => root,
        text => text + ".",
    }
}
