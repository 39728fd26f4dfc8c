//! A digest of a zone's contents, stored with its journal: it shows whether the zone's storage still has the contents
//! that the journal ends with. A serial alone cannot, since files and rows are edited without changing it.
//!
//! It is a sum over the records, so that a difference updates it in time proportional to its own size, in any order.
//! It guards against mistakes, not against forgery: anyone who can write to a zone's storage can write anything.

use nameward_zone::change::Difference;
use nameward_zone::{WireRecord, Zone};

/// The digest of the records of one version of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContentsDigest(u64);

impl ContentsDigest {
    /// Returns the digest of a zone's records, in linear time.
    pub fn from_zone(zone: &Zone) -> Self {
        let mut sum = 0u64;
        for node in zone.nodes_in_any_order() {
            for rrset in node.rrsets() {
                for record in rrset.records() {
                    sum = sum.wrapping_add(hash(WireRecord {
                        owner: node.name(),
                        rtype: rrset.rtype(),
                        ttl: rrset.ttl(),
                        rdata: record.rdata,
                    }));
                }
            }
        }
        ContentsDigest(sum)
    }

    /// Returns the digest of the version that a difference leads to.
    pub fn after(self, difference: &Difference) -> Self {
        let removed = difference.removed.iter().map(hash);
        let added = difference.added.iter().map(hash);
        let sum = removed.fold(self.0, u64::wrapping_sub);
        ContentsDigest(added.fold(sum, u64::wrapping_add))
    }

    pub(super) fn number(self) -> i64 {
        self.0.cast_signed()
    }

    pub(super) fn from_number(number: i64) -> Self {
        ContentsDigest(number.cast_unsigned())
    }
}

/// Returns FNV-1a over a record, then mixed, because sums of plain FNV hashes of similar records are similar.
fn hash(record: WireRecord<'_>) -> u64 {
    let step = |hash: u64, octet: u8| (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
    let owner = record.owner.as_wire().iter().map(u8::to_ascii_lowercase);
    let [a, b] = record.rtype.0.to_be_bytes();
    let fixed = [a, b].into_iter().chain(record.ttl.to_be_bytes());
    let octets = owner.chain(fixed).chain(record.rdata.iter().copied());
    let mut hash = octets.fold(0xcbf2_9ce4_8422_2325, step);
    // The finalizer of MurmurHash3.
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
