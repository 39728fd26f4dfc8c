//! Names whose records are computed for each query: LUA records (type 65402).
//!
//! ```text
//! name with a LUA record for the queried type ── names a pool ────────────> its addresses ([`Zones::prepared`])
//!                                             ├─ computed by the caller ──> these RRsets ([`ComputedName`])
//!                                             └─ not computed ─────────────> [`AnswerKind::Computing`]: nothing is written
//! ```
//! The engine runs no scripts: the caller does, hands over the RRsets, and lets the engine run again. A pool needs no script,
//! so its addresses are planned at once, unless the name has other records that belong to the answer. Computed RRsets are
//! returned under the queried name and signed with the keys of its zone. A computed CNAME is followed like any other. A
//! zone with stored signatures has none for such records, so its scripts are not run, as in PowerDNS.

use crate::view::ZoneView;
use nameward_wire::{NameBuf, Type};
use nameward_zone::node::flags;
use nameward_zone::{Node, SigningState};

/// Records of one type that were computed for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputedRrset {
    /// The type of the records.
    pub rtype: Type,
    /// The TTL in seconds.
    pub ttl: u32,
    /// Record data in uncompressed wire form; at least one.
    pub records: Vec<Vec<u8>>,
}

/// The results of the scripts of a name for one query type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputedName {
    /// The queried name.
    pub name: NameBuf,
    /// The RRsets; none if the scripts returned nothing, and the records that the name has are the answer. `None` if one
    /// failed.
    pub rrsets: Option<Vec<ComputedRrset>>,
    /// The leading bits of the client's address that they depend on, if they do.
    pub client_bits: Option<u8>,
}

/// The scripts that an answer needs, after [`AnswerKind::Computing`].
#[derive(Debug, Clone)]
pub struct NeededScripts {
    /// The queried name.
    pub name: NameBuf,
    /// The zone of the name.
    pub apex: NameBuf,
    /// The name by which this version of the zone is known.
    pub zone: NameBuf,
    /// The owner of the LUA records: the queried name, or the wildcard that it matches.
    pub owner: NameBuf,
    /// The TTL of the LUA records.
    pub ttl: u32,
    /// Data of the LUA records that apply to the query type.
    pub scripts: Vec<Vec<u8>>,
    /// Data of the records of the queried type that the name has besides.
    pub records: Vec<Vec<u8>>,
}

/// Working memory for computed names.
#[derive(Default)]
pub(crate) struct ComputedScratch {
    /// Names computed for the current query.
    pub(crate) known: Vec<ComputedName>,
    pub(crate) needed: Option<NeededScripts>,
    /// Whether the answer depends on a script or pool.
    pub(crate) is_used: bool,
    /// The leading bits of the client's address that the choice from a pool depends on.
    pub(crate) prepared_bits: u8,
}

impl ComputedScratch {
    /// Resets the state for a new plan; the names that the caller computed are kept.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.is_used = false;
        self.prepared_bits = 0;
    }
}

/// Returns the type that a LUA record computes.
pub(crate) fn script_type(rdata: &[u8]) -> Option<Type> {
    let (octets, _) = rdata.split_first_chunk()?;
    Some(Type(u16::from_be_bytes(*octets)))
}

/// Returns the types that the scripts of a node compute. Those for other scripts to include compute none.
pub(crate) fn script_types(node: Node<'_>) -> impl Iterator<Item = Type> {
    let scripts = node.rrset(Type::LUA);
    let records = scripts.into_iter().flat_map(|scripts| scripts.records());
    records
        .filter_map(|record| script_type(record.rdata))
        .filter(|rtype| !rtype.is_server_internal())
}

/// Checks whether a script of a node computes records of a type.
pub(crate) fn computes<V: ZoneView>(zone: &V, node: Node<'_>, rtype: Type) -> bool {
    node.has(flags::CNAME_OR_LUA)
        && !matches!(zone.signing(), SigningState::Stored(_))
        && script_types(node).any(|script| script == rtype)
}
