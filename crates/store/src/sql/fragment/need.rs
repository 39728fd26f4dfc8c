//! The needs of an answer, name by name, as bits.

use nameward_wire::Type;

/// That it exists.
pub(super) const EXISTENCE: u16 = 1;
/// Its addresses.
pub(super) const ADDRESSES: u16 = 2;
/// The records at a delegation.
pub(super) const CUT: u16 = 4;
/// Its DNAME.
pub(super) const DNAME: u16 = 8;
/// The records of the apex that every answer needs.
pub(super) const APEX: u16 = 16;
/// Everything.
pub(super) const ALL: u16 = 32;
/// It is the closest encloser: if the zone is signed, proofs list its types.
pub(super) const ENCLOSER: u16 = 64;
/// Whether it hides what stands below it: glue is not signed.
pub(super) const HIDING: u16 = 128;
/// Its addresses are those of a server of a delegation: a referral is of no use without them (RFC 9471 section 3).
pub(super) const GLUE: u16 = 256;

/// Whether records of a type are among what is needed.
pub(super) fn is_needed(needs: u16, rtype: Type) -> bool {
    let by_type = match rtype {
        // RFC 9460 section 4.1: services of a target go with its addresses.
        Type::A | Type::AAAA | Type::SVCB | Type::HTTPS => ADDRESSES,
        Type::NS => CUT | APEX | HIDING,
        Type::DS => CUT,
        Type::DNAME => DNAME | HIDING,
        Type::SOA => APEX,
        _ => 0,
    };
    needs & (ALL | by_type) != 0
}
