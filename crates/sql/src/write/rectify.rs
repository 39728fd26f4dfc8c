//! Recomputes the columns that PowerDNS derives from names for a whole zone, when its keys or metadata require a
//! different order of names, like `pdnsutil rectify-zone`.

use super::super::ZoneRow;
use super::derive::{CachedDenial, CanonicalName, ancestors, key};
use super::rows::Rows;
use super::session::{Failure, Session};
use super::work::Work;
use std::collections::BTreeSet;

/// Sets `auth`, `ordername` and the rows of empty non-terminals as the zone's denial requires; the caller ends the
/// transaction.
pub(super) async fn rectify(
    session: &mut Session,
    zone: &ZoneRow,
    denial: CachedDenial,
) -> Result<bool, Failure> {
    let apex = key(zone.name.as_name().zone());
    let mut rows = Rows::new(zone.id);
    rows.load_names(session, std::slice::from_ref(&apex))
        .await?;
    rows.load_below(session, &apex, None).await?;
    let touched: BTreeSet<CanonicalName> = rows.list.iter().map(|row| row.name.clone()).collect();
    let above = touched.iter().flat_map(|name| ancestors(name, &apex));
    // All names below each were read.
    let explored = above.map(CanonicalName::from).collect::<BTreeSet<_>>();
    let mut work = Work {
        explored: explored.union(&touched).cloned().collect(),
        ..Work::new(apex, denial, rows, touched)
    };
    let empties = work.empties();
    work.derive_rows();
    let written = work.write(session, empties).await?;
    Ok(written.inserts + written.updates + written.deletes > 0)
}
