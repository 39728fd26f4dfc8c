//! Zone digests (ZONEMD, RFC 8976): computing the digest of a version, and checking its ZONEMD records.
//!
//! Scheme SIMPLE (section 3.3.1): all records in canonical form and order, without duplicates, except for the ZONEMD
//! RRset at the apex and its signatures. Takes time proportional to the size of the zone: the caller chooses the
//! thread.

use crate::change::{ChangeError, Difference};
use crate::node::Node;
use crate::zone::Zone;
use nameward_dnssec::{Zonemd, ZonemdHash, zonemd_rdata};
use nameward_wire::rdata::canonicalise;
use nameward_wire::{Class, Type};
use std::collections::HashMap;
use std::sync::Arc;

/// The outcome of a check that found no fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestCheck {
    /// A digest matches the zone.
    Verified,
    /// There is no ZONEMD record.
    Missing,
    /// No ZONEMD record has a supported scheme and hash algorithm.
    Unknown,
}

/// The reason why the ZONEMD records do not match the zone's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DigestFault {
    /// The record was made for another version.
    #[error("serial {zone}: the ZONEMD record is for serial {record}")]
    Serial {
        /// Serial of the zone.
        zone: u32,
        /// Serial in the record.
        record: u32,
    },
    /// The digest differs.
    #[error("serial {0}: the ZONEMD digest does not match")]
    Mismatch(u32),
    /// Several records have the same scheme and algorithm.
    #[error("serial {0}: more than one ZONEMD record with the same scheme and hash algorithm")]
    Repeated(u32),
}

impl Zone {
    /// Checks the zone against its ZONEMD records (RFC 8976 section 4): one match is sufficient, unknown schemes and
    /// algorithms are skipped. Signatures are not validated.
    pub fn check_digest(&self) -> Result<DigestCheck, DigestFault> {
        let serial = self.serial().0;
        let Some(rrset) = self.apex().rrset(Type::ZONEMD) else {
            return Ok(DigestCheck::Missing);
        };
        let all: Vec<Zonemd<'_>> = rrset
            .records()
            .filter_map(|record| Zonemd::read(record.rdata))
            .collect();
        let mut counts: HashMap<(u8, u8), u32> = HashMap::new();
        for record in &all {
            *counts.entry((record.scheme, record.hash)).or_default() += 1;
        }
        let mut fault = None;
        let mut digests: HashMap<u8, Vec<u8>> = HashMap::new();
        for record in &all {
            let Some(hash) = record.known_hash() else {
                continue;
            };
            let found = if counts.get(&(record.scheme, record.hash)) != Some(&1) {
                // Section 2: each scheme and algorithm at most once.
                DigestFault::Repeated(serial)
            } else if record.serial != serial {
                DigestFault::Serial {
                    zone: serial,
                    record: record.serial,
                }
            } else {
                let made = digests
                    .entry(record.hash)
                    .or_insert_with(|| self.digest_octets(hash));
                if *made == record.digest {
                    return Ok(DigestCheck::Verified);
                }
                DigestFault::Mismatch(serial)
            };
            fault = fault.or(Some(found));
        }
        fault.map_or(Ok(DigestCheck::Unknown), Err)
    }

    /// Computes the data of the zone's ZONEMD record.
    pub fn zonemd(&self, hash: ZonemdHash) -> Vec<u8> {
        zonemd_rdata(self.serial().0, hash, &self.digest_octets(hash))
    }

    /// Returns ZONEMD record data to use as a placeholder until the digest is computed (RFC 8976 section 3.1).
    pub fn zonemd_placeholder(&self) -> Vec<u8> {
        zonemd_rdata(self.serial().0, ZonemdHash::Sha384, &[0; 48])
    }

    /// Returns a version in which these apex records replace the ZONEMD records and their signatures. The TTL is that
    /// of the SOA.
    pub fn with_digest(self: &Arc<Self>, records: &[(Type, Vec<u8>)]) -> Result<Zone, ChangeError> {
        let mut difference = Difference::default();
        let ttl = self.soa().map_or(0, |soa| soa.ttl());
        self.remove_digests(&mut difference);
        for (rtype, rdata) in records {
            difference.added.push(self.apex_record(*rtype, ttl, rdata));
        }
        self.apply_over(&difference)
    }

    /// Adds the ZONEMD records at the apex and their signatures to the records to remove.
    pub(crate) fn remove_digests(&self, difference: &mut Difference) {
        let apex = self.apex();
        let records = apex.rrset(Type::ZONEMD).into_iter();
        let digests = records.flat_map(|rrset| rrset.records().map(|record| record.rdata));
        let digests = digests.map(|rdata| (Type::ZONEMD, rdata));
        let signatures = apex.signatures(Type::ZONEMD);
        let signatures = signatures.map(|rdata| (Type::RRSIG, rdata));
        for (rtype, rdata) in digests.chain(signatures) {
            difference.removed.push(self.apex_record(rtype, 0, rdata));
        }
    }

    fn digest_octets(&self, hash: ZonemdHash) -> Vec<u8> {
        let mut digest = hash.begin();
        let mut records = NodeRecords::default();
        let apex = self.apex_name();
        for node in self.nodes_in_order() {
            let is_apex = node.name() == apex;
            digest.update(records.canonical(node, is_apex));
        }
        digest.finish().as_ref().to_vec()
    }
}

/// The records of one name in canonical form, in buffers that are reused for the next name.
#[derive(Default)]
struct NodeRecords {
    out: Vec<u8>,
    data: Vec<u8>,
    /// TTL and range in `data` for each record of a type.
    places: Vec<(u32, usize, usize)>,
}

impl NodeRecords {
    fn canonical(&mut self, node: Node<'_>, is_apex: bool) -> &[u8] {
        self.out.clear();
        let owner = node.name().as_wire().to_ascii_lowercase();
        let mut types: Vec<Type> = node.rrsets().map(|rrset| rrset.rtype()).collect();
        types.sort_unstable_by_key(|rtype| rtype.0);
        for rtype in types {
            if !(is_apex && rtype == Type::ZONEMD) {
                self.add_type(node, (&owner, rtype), is_apex);
            }
        }
        &self.out
    }

    fn add_type(&mut self, node: Node<'_>, (owner, rtype): (&[u8], Type), is_apex: bool) {
        self.data.clear();
        self.places.clear();
        let Some(rrset) = node.rrset(rtype) else {
            return;
        };
        for record in rrset.records() {
            let mut ttl = rrset.ttl();
            if rtype == Type::RRSIG {
                let covered = record.rdata.first_chunk().copied();
                let covered = covered.map_or(Type(0), |octets| Type(u16::from_be_bytes(octets)));
                // RFC 8976 section 3.3.1.1: the signatures over the digest cannot be covered by it.
                if is_apex && covered == Type::ZONEMD {
                    continue;
                }
                // RFC 4034 section 3: a signature has the TTL of the RRset it covers.
                ttl = node.rrset(covered).map_or(ttl, |rrset| rrset.ttl());
            }
            let start = self.data.len();
            self.data.extend_from_slice(record.rdata);
            canonicalise(rtype, &mut self.data[start..]);
            self.places.push((ttl, start, self.data.len()));
        }
        let data = &self.data;
        let rdata_at = |&(_, start, end): &(u32, usize, usize)| &data[start..end];
        self.places
            .sort_unstable_by(|a, b| rdata_at(a).cmp(rdata_at(b)));
        // Section 3.3.1.1: no duplicates.
        self.places.dedup_by(|a, b| rdata_at(a) == rdata_at(b));
        for place in &self.places {
            let rdata = rdata_at(place);
            self.out.extend_from_slice(owner);
            self.out.extend_from_slice(&rtype.0.to_be_bytes());
            self.out.extend_from_slice(&Class::IN.0.to_be_bytes());
            self.out.extend_from_slice(&place.0.to_be_bytes());
            self.out
                .extend_from_slice(&(rdata.len() as u16).to_be_bytes());
            self.out.extend_from_slice(rdata);
        }
    }
}
