//! An RRset as it is signed: canonical form and order (RFC 4034 sections 3.1.8.1 and 6).

use nameward_wire::rdata::canonicalise;
use nameward_wire::{Class, Name, Type};

/// Octets of an RRSIG before the signer's name.
pub(crate) const RRSIG_FIXED: usize = 18;

/// An RRset in canonical form.
pub struct CanonicalSet {
    pub(crate) rtype: Type,
    pub(crate) labels: u8,
    pub(crate) ttl: u32,
    /// Owner, type, class, TTL, length and data of each record, in order.
    pub(crate) records: Vec<u8>,
}

impl CanonicalSet {
    /// Puts records into canonical form. `owner` is as it stands in the zone, the wildcard where one was expanded; `ttl` is
    /// the one of the zone, whatever the answer shows.
    pub fn new<'a>(
        owner: Name<'_>,
        rtype: Type,
        ttl: u32,
        records: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let mut data: Vec<Vec<u8>> = records
            .map(|rdata| {
                let mut rdata = rdata.to_vec();
                canonicalise(rtype, &mut rdata);
                rdata
            })
            .collect();
        // RFC 4034 section 6.3: by data, and no record twice.
        data.sort_unstable();
        data.dedup();
        let owner_wire = owner.as_wire().to_ascii_lowercase();
        let fixed = owner_wire.len() + 10;
        let total = data.iter().map(|rdata| fixed + rdata.len()).sum();
        let mut out = Vec::with_capacity(total);
        for rdata in &data {
            out.extend_from_slice(&owner_wire);
            out.extend_from_slice(&rtype.0.to_be_bytes());
            out.extend_from_slice(&Class::IN.0.to_be_bytes());
            out.extend_from_slice(&ttl.to_be_bytes());
            out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
            out.extend_from_slice(rdata);
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
