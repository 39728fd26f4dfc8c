//! A version that is signed with keys which its home does not have.
//!
//! The contents of such a zone stay those of its file or its primary; what is served has the records at its apex that
//! signing adds (DNSKEY, CDS, CDNSKEY, NSEC3PARAM), and knows the version without them. Changes, journals and files are
//! about the version without.

use crate::change::{ChangeError, Difference};
use crate::record_list::WireRecord;
use crate::zone::Zone;
use nameward_dnssec::{DenialStyle, Signing};
use nameward_wire::Type;
use std::sync::Arc;

impl Zone {
    /// Returns the version that is served when this one is signed. It shares the contents.
    pub fn signed_with(self: &Arc<Self>, signing: &Arc<Signing>) -> Result<Zone, ChangeError> {
        let unsigned = self.unsigned();
        let apex = unsigned.apex();
        let soa_ttl = unsigned.soa().map_or(0, |soa| soa.ttl());
        let mut difference = Difference::default();
        unsigned.raise_serial(signing.serial_offset(), &mut difference);
        for (rtype, rdata) in signing.apex_records() {
            let there = apex.rrset(rtype);
            let mut there = there.into_iter().flat_map(|rrset| rrset.records());
            let ttl = match rtype {
                Type::DNSKEY | Type::CDS | Type::CDNSKEY => signing.dnskey_ttl(),
                _ => None,
            };
            // Keys of other signers stay, and one of ours may be in the file (RFC 8901 section 2.1.2).
            if there.any(|record| record.rdata == &rdata[..]) {
                continue;
            }
            difference.added.push(WireRecord {
                owner: unsigned.apex_name(),
                rtype,
                ttl: ttl.unwrap_or(soa_ttl),
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

    /// Adds a SOA with a higher serial to a difference: a secondary takes new keys and signatures only with a new serial.
    fn raise_serial(&self, offset: u32, difference: &mut Difference) {
        let soa = self.soa().filter(|_| offset != 0);
        let Some((soa, record)) = soa.and_then(|soa| Some((soa, soa.records().next()?))) else {
            return;
        };
        let raised = self.serial().0.wrapping_add(offset);
        let mut rdata = record.rdata.to_vec();
        let Some(at) = rdata.len().checked_sub(20) else {
            return;
        };
        rdata[at..at + 4].copy_from_slice(&raised.to_be_bytes());
        for (list, rdata) in [
            (&mut difference.removed, record.rdata),
            (&mut difference.added, &rdata),
        ] {
            list.push(WireRecord {
                owner: self.apex_name(),
                rtype: Type::SOA,
                ttl: soa.ttl(),
                rdata,
            });
        }
    }

    /// Returns the version without the records that signing adds; the zone itself if its home has the keys, or none are
    /// used.
    pub fn unsigned(self: &Arc<Self>) -> Arc<Zone> {
        self.unsigned_version().unwrap_or(self).clone()
    }
}
