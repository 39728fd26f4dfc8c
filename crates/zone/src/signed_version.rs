//! A version that is signed with keys which its home does not have.
//!
//! The contents of such a zone stay those of its file or its primary; what is served has the records at its apex that
//! signing adds (DNSKEY, CDS, CDNSKEY, NSEC3PARAM), and knows the version without them. Changes, journals and files are
//! about the version without.

use crate::change::{ChangeError, Difference};
use crate::record_list::WireRecord;
use crate::zone::Zone;
use nameward_dnssec::{DenialStyle, Signing};
use std::sync::Arc;

impl Zone {
    /// Returns the version that is served when this one is signed. It shares the contents.
    pub fn signed_with(self: &Arc<Self>, signing: &Arc<Signing>) -> Result<Zone, ChangeError> {
        let unsigned = self.unsigned();
        let apex = unsigned.apex();
        let ttl = unsigned.soa().map_or(0, |soa| soa.ttl());
        let mut difference = Difference::default();
        for (rtype, rdata) in signing.apex_records() {
            let there = apex.rrset(rtype);
            let mut there = there.into_iter().flat_map(|rrset| rrset.records());
            // Keys of other signers stay, and one of ours may be in the file (RFC 8901 section 2.1.2).
            if there.any(|record| record.rdata == &rdata[..]) {
                continue;
            }
            difference.added.push(WireRecord {
                owner: unsigned.apex_name(),
                rtype,
                ttl,
                rdata: &rdata,
            });
        }
        let mut zone = unsigned.apply_over(&difference)?;
        if signing.signs() {
            // On the version without, which the next ones are made of.
            if signing.style() == DenialStyle::Chain {
                zone.keep_chain(Some(unsigned.chain_for(signing)));
            }
            zone.set_resident_signing(Some(Arc::clone(signing)));
        }
        zone.set_unsigned(Arc::clone(&unsigned));
        Ok(zone)
    }

    /// Returns the version without the records that signing adds; the zone itself if its home has the keys, or none are
    /// used.
    pub fn unsigned(self: &Arc<Self>) -> Arc<Zone> {
        self.unsigned_version().unwrap_or(self).clone()
    }
}
