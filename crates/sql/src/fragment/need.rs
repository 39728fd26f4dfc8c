//! Bits for what an answer needs from each name.

use nameward_wire::Type;

/// That it exists.
pub(super) const EXISTENCE: u16 = 1;
/// Its addresses.
pub(super) const ADDRESSES: u16 = 2;
/// The records at a delegation.
pub(super) const CUT: u16 = 4;
/// Its DNAME.
pub(super) const DNAME: u16 = 8;
/// The apex records that every answer needs.
pub(super) const APEX: u16 = 16;
/// Everything.
pub(super) const ALL: u16 = 32;
/// It is the closest encloser: if the zone is signed, proofs list its types.
pub(super) const ENCLOSER: u16 = 64;
/// Whether it hides names below it: glue is not signed.
pub(super) const HIDING: u16 = 128;
/// Its addresses are those of a delegation's name server: a referral is useless without them (RFC 9471 section 3).
pub(super) const GLUE: u16 = 256;

/// Checks whether records of a type are needed.
pub(super) fn is_needed(needs: u16, rtype: Type) -> bool {
    let by_type = match rtype {
        // RFC 9460 section 4.1: the services of a target accompany its addresses.
        Type::A | Type::AAAA | Type::SVCB | Type::HTTPS => ADDRESSES,
        Type::NS => CUT | APEX | HIDING,
        Type::DS => CUT,
        Type::DNAME => DNAME | HIDING,
        Type::SOA => APEX,
        _ => 0,
    };
    needs & (ALL | by_type) != 0
}
