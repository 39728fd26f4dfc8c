//! The description of a written reply: its length, its kind, and whether it has to wait for something.

use nameward_wire::Rcode;

/// The kind of an answer, for the counters and rings of the status page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// Records of the queried type, or an alias.
    Answer,
    /// The name exists, the type does not.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// A delegation.
    Referral,
    /// The name is in no zone served here.
    NotOurs,
    /// The zone is served here, but this client may not query it.
    Denied,
    /// Contents needed for the answer are not here; nothing was written. They belong to the query name if its zone is
    /// looked up, otherwise to [`crate::Scratch::pending`].
    Pending,
    /// The answer needs addresses of a name outside the zones served here ([`crate::Scratch::unresolved`]); nothing was
    /// written.
    Resolving,
    /// The answer needs the results of scripts ([`crate::Scratch::needed_scripts`]); nothing was written.
    Computing,
    /// Signatures needed for the answer do not exist yet, and this caller makes none; nothing was written.
    Unsigned,
    /// A backend did not deliver the contents.
    BackendFailure,
    /// Anything else: errors, other classes, other opcodes.
    Other,
}

/// A written reply. It fits into a register: every part of the pipeline passes it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub(crate) len: u16,
    /// Response code.
    pub rcode: Rcode,
    /// The kind of the answer.
    pub outcome: AnswerKind,
    /// Whether it was truncated (TC).
    pub truncated: bool,
    /// Whether the query name exists only through a wildcard or below a DNAME, like any number of others.
    pub is_expanded: bool,
    /// Whether a zone was searched, and found.
    pub zone_found: Option<bool>,
}

const _: () = assert!(size_of::<Reply>() <= 8);

impl Reply {
    /// Creates the description of a reply of this length: complete, and not from a zone.
    #[inline]
    pub fn new(len: usize, rcode: Rcode, outcome: AnswerKind) -> Self {
        Reply {
            len: u16::try_from(len).unwrap_or(u16::MAX),
            rcode,
            outcome,
            truncated: false,
            is_expanded: false,
            zone_found: None,
        }
    }

    /// Returns the reply with another length.
    #[must_use]
    pub fn with_len(self, len: usize) -> Self {
        Reply {
            len: u16::try_from(len).unwrap_or(u16::MAX),
            ..self
        }
    }

    /// Returns the octets written.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Checks whether no reply is sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) const PENDING: Reply = Reply {
        len: 0,
        rcode: Rcode::NoError,
        outcome: AnswerKind::Pending,
        truncated: false,
        is_expanded: false,
        zone_found: Some(true),
    };

    const RESOLVING: Reply = Reply {
        outcome: AnswerKind::Resolving,
        ..Reply::PENDING
    };

    const COMPUTING: Reply = Reply {
        outcome: AnswerKind::Computing,
        ..Reply::PENDING
    };

    pub(crate) const UNSIGNED: Reply = Reply {
        outcome: AnswerKind::Unsigned,
        ..Reply::PENDING
    };

    /// Returns the reply to a query whose answer needs something that is not available.
    #[inline]
    pub(crate) fn postponed(outcome: AnswerKind) -> Option<Reply> {
        match outcome {
            AnswerKind::Pending => Some(Reply::PENDING),
            AnswerKind::Resolving => Some(Reply::RESOLVING),
            AnswerKind::Computing => Some(Reply::COMPUTING),
            _ => None,
        }
    }

    /// Checks whether nothing was written because the answer needs contents, addresses or signatures that are not
    /// available.
    #[inline]
    pub fn comes_later(&self) -> bool {
        matches!(
            self.outcome,
            AnswerKind::Pending
                | AnswerKind::Resolving
                | AnswerKind::Computing
                | AnswerKind::Unsigned
        )
    }
}
