//! An RRset as it is signed: canonical form and order (RFC 4034 sections 3.1.8.1 and 6).

use crate::reused::ReusableBytes;
use arrayvec::ArrayVec;
use nameward_wire::rdata::canonicalise;
use nameward_wire::{Class, Name, Type};

/// Octets of an RRSIG before the signer's name.
pub(crate) const RRSIG_FIXED: usize = 18;

/// Maximum number of records that are sorted without an allocation.
const FEW: usize = 32;

/// An RRset in canonical form.
pub struct CanonicalSet {
    pub(crate) rtype: Type,
    pub(crate) labels: u8,
    pub(crate) ttl: u32,
    /// Owner, type, class, TTL, length and data of each record, in order.
    pub(crate) records: ReusableBytes,
}

impl PartialEq for CanonicalSet {
    fn eq(&self, other: &Self) -> bool {
        // The octets include owner, type and TTL of each record.
        self.records[..] == other.records[..]
    }
}

impl CanonicalSet {
    /// Converts records to canonical form. `owner` is the name in the zone, that is the wildcard if one was expanded;
    /// `ttl` is the one in the zone, whatever the answer contains.
    pub fn new<'a>(
        owner: Name<'_>,
        rtype: Type,
        ttl: u32,
        records: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let mut records = records;
        let mut out = ReusableBytes::take();
        let first = records.next();
        match (first, records.next()) {
            // A single record needs no sorting.
            (Some(rdata), None) => {
                push_record(&mut out, (owner, rtype, ttl), rdata, IsCanonical::No)
            }
            (first, second) => {
                let all = first.into_iter().chain(second).chain(records);
                push_in_order(&mut out, (owner, rtype, ttl), all);
            }
        }
        // RFC 4034 section 3.1.3: neither the root nor the asterisk of a wildcard counts.
        let labels = owner.label_count() - usize::from(owner.is_wildcard());
        CanonicalSet {
            rtype,
            labels: labels as u8,
            ttl,
            records: out,
        }
    }
}

/// Whether the names in record data are already in lower case where required.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsCanonical {
    Yes,
    No,
}

/// Appends a record in canonical form (RFC 4034 section 6.2).
fn push_record(
    out: &mut Vec<u8>,
    (owner, rtype, ttl): (Name<'_>, Type, u32),
    rdata: &[u8],
    is_canonical: IsCanonical,
) {
    let start = out.len();
    out.extend_from_slice(owner.as_wire());
    out[start..].make_ascii_lowercase();
    out.extend_from_slice(&rtype.0.to_be_bytes());
    out.extend_from_slice(&Class::IN.0.to_be_bytes());
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    let start = out.len();
    out.extend_from_slice(rdata);
    if is_canonical == IsCanonical::No {
        canonicalise(rtype, &mut out[start..]);
    }
}

/// Appends records in canonical form and order.
fn push_in_order<'a>(
    out: &mut Vec<u8>,
    (owner, rtype, ttl): (Name<'_>, Type, u32),
    records: impl Iterator<Item = &'a [u8]>,
) {
    let mut data = ReusableBytes::take();
    let (mut few, mut many) = (ArrayVec::<_, FEW>::new(), Vec::new());
    for rdata in records {
        let start = data.len();
        data.extend_from_slice(rdata);
        canonicalise(rtype, &mut data[start..]);
        let place = (start, data.len());
        if many.is_empty() && few.try_push(place).is_ok() {
            continue;
        }
        many.extend(few.drain(..));
        many.push(place);
    }
    let places = if many.is_empty() {
        &mut few[..]
    } else {
        &mut many[..]
    };
    // RFC 4034 section 6.3: sorted by data, without duplicates.
    let rdata_at = |&(start, end): &(usize, usize)| &data[start..end];
    places.sort_unstable_by(|a, b| rdata_at(a).cmp(rdata_at(b)));
    let mut last = None;
    for rdata in places.iter().map(rdata_at) {
        if last.replace(rdata) != Some(rdata) {
            push_record(out, (owner, rtype, ttl), rdata, IsCanonical::Yes);
        }
    }
}
