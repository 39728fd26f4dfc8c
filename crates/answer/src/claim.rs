//! The facts that an answer has to prove, and whether a chain over names that were listed earlier proves them.

use nameward_dnssec::{Nsec3, Nsec3Hash, Signing};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::node::flags;
use nameward_zone::{ListedChain, ListedTypes, Node, NsecLink, SigningWithList};

/// A fact that an answer has to prove about the node of its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The node exists and has these types.
    Types,
    /// The node, or the owner of the entry that it matches as a wildcard, exists and lacks the queried type.
    NoType,
    /// The owner of the entry does not exist, which its own NSEC record proves (RFC 9824 section 3.1).
    NoName,
    /// The node exists, and the owner of the entry, directly below it, does not.
    Absent,
    /// The node exists, and there is no wildcard directly below it.
    NoWildcard,
}

/// Returns the wildcard directly below a name; `None` if `*` does not fit in front of it, so that it cannot exist.
pub(crate) fn wildcard_below(name: Name<'_>) -> Option<NameBuf> {
    NameBuf::join(b"\x01*", name).ok()
}

/// Returns the name that a claim is about, existing or not. `None` if there is nothing to prove.
pub(crate) fn name_of_claim<'a>(
    claim: Claim,
    node: Node<'a>,
    next_closer: Name<'a>,
    wildcard: &'a Option<NameBuf>,
) -> Option<Name<'a>> {
    match claim {
        Claim::Types | Claim::NoType => Some(node.name()),
        Claim::Absent | Claim::NoName => Some(next_closer),
        Claim::NoWildcard => wildcard.as_ref().map(NameBuf::as_name),
    }
}

/// Checks whether a list has a record that proves a claim about a node and a name. Without the hash of the name it is
/// assumed to have one: the answer stops where it needs the hash.
pub(crate) fn is_proven(
    claim: Claim,
    node: Node<'_>,
    name: Name<'_>,
    (chain, signing): (&ListedChain, &Signing),
    hash: impl Fn(&Nsec3) -> Option<Nsec3Hash>,
) -> bool {
    let Some(hashing) = chain.hashing() else {
        let found = chain.nsec_at_or_before(name);
        return found.is_some_and(|(link, types)| nsec_agrees((claim, name), node, (&link, types)));
    };
    let Some(hash) = hash(hashing) else {
        return true;
    };
    let found = chain.nsec3_at_or_before(&hash);
    let is_there = found.is_some_and(|link| link.hash == hash);
    match claim {
        Claim::Types | Claim::NoType => is_there || is_opted_out(node, signing),
        Claim::Absent | Claim::NoWildcard => !is_there,
        Claim::NoName => false,
    }
}

/// Checks whether an NSEC record of the list, with the types listed for its owner, proves a claim.
fn nsec_agrees(
    (claim, name): (Claim, Name<'_>),
    node: Node<'_>,
    (link, types): (&NsecLink, &ListedTypes),
) -> bool {
    let (owner, next) = (link.name.as_name(), link.next.as_name());
    match claim {
        Claim::Types | Claim::NoType if owner == name => true,
        // RFC 4592 section 2.2.2: an empty non-terminal is proven by the next name, which is below it.
        Claim::Types | Claim::NoType => {
            node.is_empty() && !node.has(flags::BROKEN) && next.is_at_or_below(name)
        }
        Claim::Absent | Claim::NoWildcard => {
            let encloser = node.name();
            // A validator derives the closest encloser from both ends (RFC 4035 section 5.4).
            let shows_encloser = owner.is_at_or_below(encloser) || next.is_at_or_below(encloser);
            let is_hidden = types.hides_below() && name.is_at_or_below(owner);
            owner != name && !next.is_at_or_below(name) && shows_encloser && !is_hidden
        }
        Claim::NoName => false,
    }
}

/// Checks whether a name has an NSEC record in a list.
pub(crate) fn has_nsec(chain: &ListedChain, name: Name<'_>) -> bool {
    let found = chain.nsec_at_or_before(name);
    found.is_some_and(|(link, _)| link.name.as_name() == name)
}

/// Checks whether a list of NSEC names shows a node as an empty non-terminal, which has no record.
pub(crate) fn is_left_out(node: Node<'_>, listed: &SigningWithList) -> bool {
    let shows_empty = |chain: &ListedChain| {
        let claimed = (chain, &*listed.signing);
        !has_nsec(chain, node.name())
            && is_proven(Claim::NoType, node, node.name(), claimed, |_| None)
    };
    let chain = listed.chain().filter(|chain| chain.hashing().is_none());
    node.is_empty() && chain.is_some_and(|chain| shows_empty(&chain))
}

/// Checks whether Opt-Out leaves a name without a record of its own.
fn is_opted_out(node: Node<'_>, signing: &Signing) -> bool {
    let is_cut = node.has(flags::CUT) && !node.has(flags::BROKEN);
    signing.is_opt_out() && is_cut && node.rrset(Type::DS).is_none()
}
