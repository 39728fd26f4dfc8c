//! Served versions that differ from the stored contents: signed with keys kept outside the zone's storage, or with a
//! digest made here.
//!
//! The contents of such a zone remain those of its file or primary; the served version has additional records at its
//! apex (DNSKEY, CDS, CDNSKEY, NSEC3PARAM, ZONEMD) and refers to the version without them. Changes, journals and files
//! use the version without.

use crate::change::{ChangeError, Difference, set_soa_serial};
use crate::record_list::WireRecord;
use crate::serial::Serial;
use crate::zone::Zone;
use nameward_dnssec::{DenialStyle, Signing, Zonemd};
use nameward_wire::Type;
use std::sync::Arc;

/// The digest (ZONEMD) that a version is served with. The digest of another version is never served: a verifier would
/// consider the zone damaged (RFC 8976 section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedDigest<'d> {
    /// The digest in the zone's contents.
    AsStored,
    /// No digest.
    LeftOut,
    /// ZONEMD record data computed from this version.
    Made(&'d [u8]),
}

impl Zone {
    /// Checks whether the zone has a digest (ZONEMD) for a serial other than this one.
    pub fn has_stale_digest(&self, serial: u32) -> bool {
        let records = self.apex().rrset(Type::ZONEMD).into_iter();
        let mut records = records.flat_map(|rrset| rrset.records());
        records.any(|record| !is_digest_of(record.rdata, serial))
    }

    /// Returns the version without digests (ZONEMD). It shares the contents.
    pub fn without_digests(self: &Arc<Self>) -> Result<Zone, ChangeError> {
        let mut difference = Difference::default();
        self.remove_digests(&mut difference);
        self.apply_over(&difference)
    }

    /// Returns the version to serve when this one is signed here, or gets a different digest. It shares the contents.
    pub fn served_with(
        self: &Arc<Self>,
        signing: Option<&Arc<Signing>>,
        digest: ServedDigest<'_>,
    ) -> Result<Zone, ChangeError> {
        let unsigned = self.unsigned();
        let soa_ttl = unsigned.soa().map_or(0, |soa| soa.ttl());
        let mut difference = Difference::default();
        // A digest in the zone data does not cover the signatures added here.
        let is_signed = signing.is_some_and(|signing| signing.signs());
        if digest != ServedDigest::AsStored || is_signed {
            unsigned.remove_digests(&mut difference);
        }
        if let Some(signing) = signing.filter(|signing| signing.signs()) {
            unsigned.remove_made_records(signing, &mut difference);
        }
        if let Some(signing) = signing {
            unsigned.raise_serial(signing.serial_offset(), &mut difference);
            unsigned.add_apex_records(signing, &mut difference);
        }
        if let ServedDigest::Made(rdata) = digest {
            let made = unsigned.apex_record(Type::ZONEMD, soa_ttl, rdata);
            difference.added.push(made);
        }
        let mut zone = unsigned.apply_over(&difference)?;
        if let Some(signing) = signing.filter(|signing| signing.signs()) {
            // Built on the unsigned version, from which the next versions are derived.
            if signing.style() == DenialStyle::Chain {
                zone.keep_chain(Some(unsigned.chain_for(signing)));
            }
            zone.set_resident_signing(Some(Arc::clone(signing)));
        }
        zone.set_unsigned(Arc::clone(&unsigned));
        if unsigned.is_layered() {
            zone.set_stored(unsigned.stored());
        }
        Ok(zone)
    }

    /// Adds the zone's apex records of types that are made here to the records to remove. A second NSEC3PARAM would
    /// make secondaries look for a chain that does not exist (RFC 5155 section 4.1.2), and another CDS would make the
    /// parent publish a DS for a key that does not sign. Keys of other signers are kept (RFC 8901 section 2.1.2).
    fn remove_made_records(&self, signing: &Signing, difference: &mut Difference) {
        let (apex, made) = (self.apex(), signing.made_types());
        for rrset in apex.rrsets() {
            let rtype = rrset.rtype();
            if matches!(rtype, Type::DNSKEY | Type::ZONEMD) || !made.contains(rtype, true) {
                continue;
            }
            for record in rrset.records() {
                let removed = self.apex_record(rtype, rrset.ttl(), record.rdata);
                difference.removed.push(removed);
            }
        }
    }

    /// Adds the records that signing puts at the apex to the records to add.
    fn add_apex_records(&self, signing: &Signing, difference: &mut Difference) {
        let apex = self.apex();
        let soa_ttl = self.soa().map_or(0, |soa| soa.ttl());
        for (rtype, rdata) in signing.apex_records() {
            // Records made here replace the zone's own, except for keys: one of ours may be in the file.
            let existing = apex
                .rrset(rtype)
                .filter(|_| rtype == Type::DNSKEY || !signing.signs());
            let mut existing = existing.into_iter().flat_map(|rrset| rrset.records());
            let ttl = match rtype {
                Type::DNSKEY | Type::CDS | Type::CDNSKEY => signing.dnskey_ttl(),
                _ => None,
            };
            if existing.any(|record| record.rdata == &rdata[..]) {
                continue;
            }
            let added = self.apex_record(rtype, ttl.unwrap_or(soa_ttl), &rdata);
            difference.added.push(added);
        }
    }

    /// Adds a SOA with a higher serial to a difference: a secondary only picks up new keys and signatures with a new
    /// serial.
    fn raise_serial(&self, offset: u32, difference: &mut Difference) {
        let soa = self.soa().filter(|_| offset != 0);
        let Some((soa, record)) = soa.and_then(|soa| Some((soa, soa.records().next()?))) else {
            return;
        };
        let raised = self.serial().0.wrapping_add(offset);
        let mut rdata = record.rdata.to_vec();
        if !set_soa_serial(&mut rdata, Serial(raised)) {
            return;
        }
        let with_data = |rdata| self.apex_record(Type::SOA, soa.ttl(), rdata);
        difference.removed.push(with_data(record.rdata));
        difference.added.push(with_data(&rdata));
    }

    /// Returns a record of the apex with this data.
    pub(crate) fn apex_record<'r>(
        &'r self,
        rtype: Type,
        ttl: u32,
        rdata: &'r [u8],
    ) -> WireRecord<'r> {
        let owner = self.apex_name();
        WireRecord {
            owner,
            rtype,
            ttl,
            rdata,
        }
    }

    /// Returns the version without the records that signing adds; the zone itself if its storage has the keys, or if no
    /// keys are used. See [`Zone::stored`] for the contents in its storage.
    pub fn unsigned(self: &Arc<Self>) -> Arc<Zone> {
        self.unsigned_version().unwrap_or(self).clone()
    }
}

/// Checks whether ZONEMD record data belongs to the version with a serial.
pub fn is_digest_of(zonemd: &[u8], serial: u32) -> bool {
    Zonemd::read(zonemd).is_some_and(|zonemd| zonemd.serial == serial)
}
