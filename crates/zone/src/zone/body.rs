//! The contents of a zone in memory, or where they are looked up.

use super::Zone;
use crate::chain::DenialChain;
use crate::live::Live;
use crate::overlay::Overlay;
use crate::packed::Packed;
use crate::signing_state::SigningState;
use nameward_base::sync::Mutex;
use nameward_wire::Name;
use once_cell::race::OnceBox;
use std::sync::{Arc, LazyLock, OnceLock};

/// Where the contents are. Both are part of the same block of memory: a server may have a million zones that are looked up.
pub(crate) enum ZoneBody {
    Memory(MemoryContents),
    /// They are looked up; the zone is only a placeholder.
    Backend(Live),
}

pub(crate) struct MemoryContents {
    pub(crate) packed: Packed,
    pub(crate) changes: Option<Box<Changes>>,
    pub(crate) signing: SigningState,
    /// Indexes over the names, behind a pointer because few zones ever need them.
    pub(crate) indexes: OnceBox<ZoneIndexes>,
}

/// The changes of a version over its packed base.
pub(crate) struct Changes {
    pub(crate) base: Arc<Zone>,
    pub(crate) overlay: Overlay,
    /// The apex, if it has changed: nearly always, because the SOA contains the serial.
    pub(crate) apex: Option<Arc<[u8]>>,
    /// The version without the records that this server's keys add at the apex, if the changes include them.
    pub(crate) unsigned: Option<Arc<Zone>>,
    /// The contents in the zone's storage, if the version is served over the common version of its zone.
    pub(crate) stored: Option<Arc<Zone>>,
}

impl Changes {
    pub(crate) fn heap_bytes(&self) -> usize {
        self.overlay.heap_bytes()
    }
}

/// The contents of every placeholder for a zone that is looked up: an apex without records.
static NO_CONTENTS: LazyLock<MemoryContents> =
    LazyLock::new(|| MemoryContents::new(Packed::with_apex(Name::ROOT)));

/// Not inlined, to keep it off the path of zones in memory.
#[cold]
pub(crate) fn no_contents() -> &'static MemoryContents {
    &NO_CONTENTS
}

impl MemoryContents {
    pub(crate) fn new(packed: Packed) -> Self {
        MemoryContents {
            packed,
            changes: None,
            signing: SigningState::Unsigned,
            indexes: OnceBox::new(),
        }
    }
}

/// Indexes over the names of a zone, each built on first use.
#[derive(Default)]
pub(crate) struct ZoneIndexes {
    /// Locations of the packed names in canonical order.
    pub(crate) order: OnceLock<Box<[u32]>>,
    /// Locations of the packed names with LUA records.
    pub(crate) scripts: OnceLock<Box<[u32]>>,
    /// The denial chain. Used by the code that changes zones; answers get it from the signing state.
    pub(crate) chain: Mutex<Option<Arc<DenialChain>>>,
    /// The name of the version, if it has a variant.
    pub(crate) id: OnceLock<Box<[u8]>>,
}
