//! The record types that signing makes: one list for all code that reads, changes or transfers zones.
//!
//! ```text
//! zone            RRSIG, NSEC, NSEC3   DNSKEY, NSEC3PARAM   CDS, CDNSKEY at the apex      ZONEMD at the apex
//! signed here     made here            made here            made here if published here   made here or left out
//! unsigned        refused in changes   zone data            zone data                     zone data
//! signed before   zone data            zone data            zone data                     zone data
//! ```
//! "Made here" has two sides: a change (`nameward record`, DNS UPDATE) that adds such a record is refused, and a record
//! that the file, the primary or the database has is not served. The exception is DNSKEY in zone files and transfers:
//! the keys of other signers stay in the RRset (RFC 8901 section 2.1.2).
//!
//! CDS and CDNSKEY below the apex are zone data in every zone: they announce the keys of other zones (RFC 9615 section
//! 4.1).

use nameward_wire::Type;

/// Checks whether records of a type are signatures or prove nonexistence. Only a signer makes them, so no single change
/// may add them to a zone, signed or not.
pub fn is_signature_or_denial(rtype: Type) -> bool {
    matches!(rtype, Type::RRSIG | Type::NSEC | Type::NSEC3)
}

/// The types that this server makes for a zone it signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MadeTypes {
    /// The CDS RRset at the apex is made here. Otherwise it is zone data, as in PowerDNS without PUBLISH-CDS.
    pub cds: bool,
    /// The CDNSKEY RRset at the apex is made here.
    pub cdnskey: bool,
}

impl MadeTypes {
    /// Everything that a signer may make.
    pub const ALL: MadeTypes = MadeTypes {
        cds: true,
        cdnskey: true,
    };

    /// Types made by every signer; CDS and CDNSKEY are zone data.
    pub const WITHOUT_CDS: MadeTypes = MadeTypes {
        cds: false,
        cdnskey: false,
    };

    /// Checks whether records of a type are made here, at the apex or at another owner.
    pub fn contains(self, rtype: Type, is_apex: bool) -> bool {
        match rtype {
            Type::DNSKEY | Type::NSEC3PARAM => true,
            Type::CDS => is_apex && self.cds,
            Type::CDNSKEY => is_apex && self.cdnskey,
            // A digest covers the signatures, so it can only be made together with them (RFC 8976 section 3.1).
            Type::ZONEMD => is_apex,
            _ => is_signature_or_denial(rtype),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_zones_may_be_announced_below_the_apex() {
        for rtype in [Type::CDS, Type::CDNSKEY] {
            assert!(MadeTypes::ALL.contains(rtype, true));
            assert!(!MadeTypes::ALL.contains(rtype, false));
        }
    }

    #[test]
    fn cds_is_zone_data_where_nothing_publishes_it() {
        let made = MadeTypes::WITHOUT_CDS;
        assert!(!made.contains(Type::CDS, true));
        assert!(!made.contains(Type::CDNSKEY, true));
        for rtype in [Type::DNSKEY, Type::NSEC3PARAM, Type::RRSIG, Type::NSEC3] {
            assert!(made.contains(rtype, true), "{rtype}");
        }
        assert!(!made.contains(Type::A, true));
    }
}
