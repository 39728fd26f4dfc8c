//! The plan of an answer: its RRsets with their sections, owners and proofs, before they are written. A plan is a short list
//! of references; nothing is copied.

use crate::AnswerKind;
use crate::claim::Claim;
use arrayvec::ArrayVec;
use nameward_wire::{Name, Rcode, Type};
use nameward_zone::{Node, Rrset};

/// Maximum number of names in a chain of CNAMEs and DNAMEs; a longer one is answered up to here.
pub const MAX_CHAIN: usize = 16;
/// Each name in a chain adds at most two entries; the end adds one more answer and one authority
/// entry.
const MAX_ENTRIES: usize = 2 * MAX_CHAIN + 4;
/// Each wildcard in a chain needs one proof; its end needs three.
pub(crate) const MAX_PROOFS: usize = MAX_CHAIN + 4;

/// The section an RRset belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Answer,
    /// SOA of a negative answer.
    Authority,
    /// NS of a delegation, which is unusable without its glue (RFC 9471).
    Referral,
}

/// The owner of a planned RRset.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'z> {
    /// The query name without its first octets: written as a pointer.
    Question(usize),
    /// A name in a zone.
    Name(Name<'z>),
    /// A name synthesised from a DNAME, without its first octets.
    Made(usize, usize),
}

/// The data of a planned RRset.
#[derive(Clone, Copy)]
pub(crate) enum Data<'z> {
    Rrset(Rrset<'z>),
    /// SVCB or HTTPS records whose hints are filled in.
    Hinted(Rrset<'z>),
    /// Every RRset of a node (ANY, if so configured).
    All(Node<'z>),
    /// The CNAME synthesised from a DNAME: the index of its target among the synthesised names, and
    /// its TTL.
    MadeCname(usize, u32),
    /// Addresses of the external target of an ALIAS.
    Addresses,
    /// Records that a script computed: the index of the name among the computed ones, and of its RRset.
    Computed(usize, usize),
    /// Addresses of this type that were prepared ([`crate::PreparedAddresses`]).
    Prepared(Type, &'z [u8]),
    /// The NSEC or NSEC3 records that prove a claim about the node.
    Proof(Claim),
}

pub(crate) struct PlanEntry<'z, V> {
    pub(crate) section: Section,
    pub(crate) owner: Owner<'z>,
    pub(crate) data: Data<'z>,
    pub(crate) ttl: u32,
    /// The zone of the RRset, for its additional data.
    pub(crate) zone: &'z V,
    pub(crate) node: Node<'z>,
}

/// The contents of an answer.
pub(crate) struct Plan<'z, V> {
    pub(crate) entries: ArrayVec<PlanEntry<'z, V>, MAX_ENTRIES>,
    /// Records in the authority section that prove the answer; they follow the entries.
    pub(crate) proofs: ArrayVec<PlanEntry<'z, V>, MAX_PROOFS>,
    pub(crate) rcode: Rcode,
    pub(crate) authoritative: bool,
    /// TC requested by policy, whatever the size.
    pub(crate) truncate: bool,
    pub(crate) outcome: AnswerKind,
    /// The query name exists only through a wildcard or below a DNAME.
    pub(crate) is_expanded: bool,
}

impl<V> Plan<'_, V> {
    /// Returns an authoritative answer without records so far.
    #[inline]
    pub(crate) fn new() -> Self {
        Plan {
            entries: ArrayVec::new(),
            proofs: ArrayVec::new(),
            rcode: Rcode::NoError,
            authoritative: true,
            truncate: false,
            outcome: AnswerKind::Answer,
            is_expanded: false,
        }
    }

    /// Returns a reply without records.
    pub(crate) fn empty(rcode: Rcode) -> Self {
        Plan {
            entries: ArrayVec::new(),
            proofs: ArrayVec::new(),
            rcode,
            authoritative: false,
            truncate: false,
            outcome: AnswerKind::Other,
            is_expanded: false,
        }
    }
}
