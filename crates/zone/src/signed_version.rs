//! A version that is signed with keys which its home does not have, or has a digest that is made here.
//!
//! The contents of such a zone stay those of its file or its primary; what is served has the records at its apex that
//! signing adds (DNSKEY, CDS, CDNSKEY, NSEC3PARAM, ZONEMD), and knows the version without them. Changes, journals and files are
//! about the version without.

use crate::change::{ChangeError, Difference};
use crate::record_list::WireRecord;
use crate::zone::Zone;
use nameward_dnssec::{DenialStyle, Signing};
use nameward_wire::Type;
use std::sync::Arc;

impl Zone {
    /// Returns the version that is served when this one is signed, or gets a digest over the whole (data of ZONEMD), or
    /// both. It shares the contents.
    pub fn served_with(
        self: &Arc<Self>,
        signing: Option<&Arc<Signing>>,
        zonemd: Option<&[u8]>,
    ) -> Result<Zone, ChangeError> {
        let unsigned = self.unsigned();
        let soa_ttl = unsigned.soa().map_or(0, |soa| soa.ttl());
        let mut difference = Difference::default();
        // The digest that a zone brings is not over the signatures that it gets here.
        if zonemd.is_some() || signing.is_some_and(|signing| signing.signs()) {
            unsigned.remove_digests(&mut difference);
        }
        if let Some(signing) = signing {
            unsigned.raise_serial(signing.serial_offset(), &mut difference);
            unsigned.add_apex_records(signing, &mut difference);
        }
        if let Some(rdata) = zonemd {
            difference.added.push(WireRecord {
                owner: unsigned.apex_name(),
                rtype: Type::ZONEMD,
                ttl: soa_ttl,
                rdata,
            });
        }
        let mut zone = unsigned.apply_over(&difference)?;
        if let Some(signing) = signing.filter(|signing| signing.signs()) {
            // On the version without, which the next ones are made of.
            if signing.style() == DenialStyle::Chain {
                zone.keep_chain(Some(unsigned.chain_for(signing)));
            }
            zone.set_resident_signing(Some(Arc::clone(signing)));
        }
        zone.set_unsigned(Arc::clone(&unsigned));
        Ok(zone)
    }

    /// Adds the records that signing puts at the apex to those that come.
    fn add_apex_records(&self, signing: &Signing, difference: &mut Difference) {
        let apex = self.apex();
        let soa_ttl = self.soa().map_or(0, |soa| soa.ttl());
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
                owner: self.apex_name(),
                rtype,
                ttl: ttl.unwrap_or(soa_ttl),
                rdata: &rdata,
            });
        }
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
