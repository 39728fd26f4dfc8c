//! DNSSEC for zones signed online: keys, signatures, proofs of nonexistence.
//!
//! Covers the meaning of a zone's keys and metadata ([`SigningKey`], [`SigningPolicy`]), what is signed and with which
//! keys ([`CanonicalSet`], [`Signing`]), NSEC and NSEC3 records of a chain and for single answers ([`Proof`]), the
//! signature cache, key rollovers ([`rollover`]), and signed messages ([`tsig`]). Plain functions over memory: the time
//! is a parameter, and nothing is read from a disk or a database.

#![deny(unsafe_code)]

mod cache;
pub mod fuzzing;
mod key;
mod made_types;
mod nsec;
mod nsec3;
mod period;
mod policy;
mod proof;
mod recent;
mod reused;
pub mod rollover;
mod rsa;
mod set;
mod signing;
mod soa_edit;
pub mod tsig;
mod zonemd;

pub use cache::SignatureCache;
pub use key::{
    KeyError, KeyFile, KeyFileError, KeyTimes, KeyUse, PrivateKey, SigningKey, algorithm_name,
    algorithm_number, ds_data, file_owner, have_distinct_tags, key_tag,
};
pub use made_types::{MadeTypes, is_signature_or_denial};
pub use nsec3::{MAX_ITERATIONS, Nsec3, Nsec3Hash, Nsec3Param, Nsec3ParamError};
pub use period::{SignatureTimes, SignatureWeek, signature_week};
pub use policy::{Denial, DenialSettings, DenialStyle, PolicyItemError, Publish, SigningPolicy};
pub use proof::Proof;
pub use recent::{RecentRrsigs, RecentSignatures, StoredSet};
pub use reused::ReusableBytes;
pub use set::CanonicalSet;
pub use signing::{Keys, Making, NoSignature, Rrsigs, Signing};
pub use soa_edit::SoaEdit;
pub use zonemd::{ZONEMD_SIMPLE, Zonemd, ZonemdHash, zonemd_rdata};
