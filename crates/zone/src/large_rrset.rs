//! RRsets that fit into no DNS message: finding them in a node, and the text of the warning.

use crate::draft::MAX_RRSET_OCTETS;
use crate::node::Node;
use nameward_wire::{NameBuf, Type};
use std::fmt;

/// An RRset that fits into no DNS message (RFC 1035 section 4.2.2).
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeRrset {
    pub owner: NameBuf,
    pub rtype: Type,
    /// Size in a message.
    pub octets: usize,
}

impl LargeRrset {
    /// Lists the large RRsets of a node.
    pub fn in_node<'a>(node: Node<'a>) -> impl Iterator<Item = LargeRrset> + 'a {
        let sizes = node
            .rrsets()
            .map(|rrset| (rrset.rtype(), rrset.message_octets()));
        let large = sizes.filter(|(_, octets)| *octets > MAX_RRSET_OCTETS);
        large.map(move |(rtype, octets)| LargeRrset {
            owner: NameBuf::from(node.name()),
            rtype,
            octets,
        })
    }
}

impl fmt::Display for LargeRrset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LargeRrset {
            owner,
            rtype,
            octets,
        } = self;
        write!(
            f,
            "{owner} {rtype} has {octets} octets and does not fit in a DNS message: responses are truncated even over TCP"
        )
    }
}
