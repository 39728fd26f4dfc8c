//! A plan: the RRsets of an answer with their sections, owners and proofs, before they are written.

use super::MAX_CHAIN;
use crate::AnswerKind;
use crate::secure::Claim;
use arrayvec::ArrayVec;
use nameward_wire::{Name, Rcode};
use nameward_zone::{Node, Rrset};

/// Each name of a chain adds two entries at the most; the end adds one more answer and one authority.
const MAX_ENTRIES: usize = 2 * MAX_CHAIN + 4;
/// Each wildcard of a chain needs one proof; the end of it needs three.
pub(crate) const MAX_PROOFS: usize = MAX_CHAIN + 4;

/// Where an RRset goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Answer,
    /// SOA of a negative answer.
    Authority,
    /// NS of a delegation: its glue is needed to use it (RFC 9471).
    Referral,
}

/// The owner of a planned RRset.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'z> {
    /// The question's name without its first octets: written as a pointer.
    Question(usize),
    /// A name of a zone.
    Name(Name<'z>),
    /// A name made by a DNAME, without its first octets.
    Made(usize, usize),
}

/// The data of a planned RRset.
#[derive(Clone, Copy)]
pub(crate) enum Data<'z> {
    Rrset(Rrset<'z>),
    /// Every RRset of a node (ANY, if so configured).
    All(Node<'z>),
    /// The CNAME that a DNAME stands for: which made name it points to, and its TTL.
    MadeCname(usize, u32),
    /// Addresses of the target of an ALIAS that is elsewhere.
    Addresses,
    /// The NSEC or NSEC3 records that prove something about the node.
    Proof(Claim),
}

pub(crate) struct PlanEntry<'z, V> {
    pub(crate) section: Section,
    pub(crate) owner: Owner<'z>,
    pub(crate) data: Data<'z>,
    pub(crate) ttl: u32,
    /// Where the RRset comes from, for its additional data.
    pub(crate) zone: &'z V,
    pub(crate) node: Node<'z>,
}

/// The parts of an answer.
pub(crate) struct Plan<'z, V> {
    pub(crate) entries: ArrayVec<PlanEntry<'z, V>, MAX_ENTRIES>,
    /// Records of the authority section that prove the answer; they follow the entries.
    pub(crate) proofs: ArrayVec<PlanEntry<'z, V>, MAX_PROOFS>,
    pub(crate) rcode: Rcode,
    pub(crate) authoritative: bool,
    /// TC asked for by policy, whatever the size.
    pub(crate) truncate: bool,
    pub(crate) outcome: AnswerKind,
}

impl<V> Plan<'_, V> {
    /// An authoritative answer without records yet.
    #[inline]
    pub(crate) fn new() -> Self {
        Plan {
            entries: ArrayVec::new(),
            proofs: ArrayVec::new(),
            rcode: Rcode::NoError,
            authoritative: true,
            truncate: false,
            outcome: AnswerKind::Answer,
        }
    }

    /// A reply without records.
    pub(crate) fn empty(rcode: Rcode) -> Self {
        Plan {
            entries: ArrayVec::new(),
            proofs: ArrayVec::new(),
            rcode,
            authoritative: false,
            truncate: false,
            outcome: AnswerKind::Other,
        }
    }
}
