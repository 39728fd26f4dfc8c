//! Immutable zone contents, the zone table, lookups and differences between versions.
//!
//! A [`Zone`] is one version: packed bytes read in place ([`node`]) behind a hash table, or such a packed base with a
//! few changes over it ([`change`], which also defines edits and differences). A [`ZoneTable`] holds all served zones.
//! Both are immutable, so any number of threads can read them without a lock.

#![deny(unsafe_code)]

mod access;
mod build;
mod capacity;
mod chain;
pub mod change;
mod draft;
mod finding;
mod inspect;
pub mod key;
mod kind;
mod large_rrset;
mod layout;
mod live;
pub mod node;
mod order;
mod overlay;
mod packed;
mod prefetch;
mod record_list;
mod scripts;
mod serial;
mod signed_version;
mod signing_state;
mod sort_key;
mod source;
mod stub;
mod summary;
mod table;
mod view;
mod walk;
mod zone;
mod zone_digest;

pub use access::{
    AccessClient, AccessEntry, AccessList, AccessRules, AccessSource, AccessWord, SpkiPin,
    TlsEntry, TlsPeer, TlsTerm,
};
pub use build::{PackedApex, ScriptCheck, ZoneBuilder};
pub use capacity::ZoneLimits;
pub use chain::{
    ChainLister, ChainedSigning, DenialChain, ListedChain, ListedTypes, NameRecord, Nsec3Link,
    NsecLink, SigningWithList,
};
pub use draft::MAX_RRSET_OCTETS;
pub use finding::Finding;
pub use inspect::{FaultyRrsets, RrsetName, StoredInspection};
pub use key::NameKey;
pub use kind::ZoneKind;
pub use large_rrset::LargeRrset;
pub use live::Live;
pub use node::{CompressibleNames, Node, RecordData, Rrset, negative_ttl};
pub use prefetch::prefetch;
pub use record_list::{ListError, RecordList, WireRecord, WireRecords};
pub use serial::{Serial, SerialRule};
pub use signed_version::{ServedDigest, is_digest_of};
pub use signing_state::{DenialIndex, SigningState};
pub use source::{
    BackendFailure, BatchRound, CacheSizes, LiveSource, LookupBatch, LookupEnd, LookupError,
    LookupFuture, LookupRequest, ZoneFragment, ZoneFuture,
};
pub use stub::LiveHandle;
pub use table::{
    Contest, NO_SOURCE, Offered, PageStart, RankSums, ScriptedZones, TableChange, TablePage,
    TableSums, ViewTables, ZoneMatch, ZoneSums, ZoneTable,
};
pub use view::{SelectedView, ViewClient, ViewId, ViewRule, ViewSource};
pub use walk::{WalkPosition, ZoneWalk};
pub use zone::{Find, Zone};
pub use zone_digest::{DigestCheck, DigestFault};
