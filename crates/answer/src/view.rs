//! The engine's view of zones: two small traits.

use nameward_wire::message::Query;
use nameward_wire::{Name, Type};
use nameward_zone::{Find, NameKey, Node, RecordData, SigningState, Zone, ZoneTable};

/// One version of a zone, wherever its data comes from.
pub trait ZoneView {
    /// Returns the apex node.
    fn apex(&self) -> Node<'_>;
    /// Returns the zone name.
    fn apex_name(&self) -> Name<'_>;
    /// Returns the name by which this version of the zone is known.
    fn id(&self) -> Name<'_>;
    /// Returns the label count of the zone name.
    fn apex_labels(&self) -> usize;
    /// Searches a name at or below the apex.
    fn find(&self, key: &NameKey) -> Find<'_>;
    /// Returns the node of the host that a record names, if it is in the zone.
    fn target(&self, record: RecordData<'_>) -> Option<Node<'_>>;
    /// Returns the node of the suffix with `labels` labels, even if it is occluded.
    fn node(&self, key: &NameKey, labels: usize) -> Option<Node<'_>>;
    /// Returns how answers are signed.
    fn signing(&self) -> &SigningState;
    /// Checks whether nothing exists at or below a name, as far as known.
    fn is_free(&self, _name: Name<'_>) -> bool {
        false
    }
    /// Returns the node of a name that the zone is authoritative for, as far as known.
    fn known_node(&self, _name: Name<'_>) -> Option<Node<'_>> {
        None
    }
    /// Checks whether this is only a placeholder for contents that are not here.
    fn is_elsewhere(&self) -> bool {
        false
    }
    /// Checks whether the contents behind a placeholder can be fetched. Only called for
    /// placeholders.
    fn is_ready(&self) -> bool {
        true
    }
}

/// Address records that exist before they are queried: answers of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PreparedAddresses<'z> {
    /// The addresses, one after the other, without duplicates.
    pub octets: &'z [u8],
    /// The number of leading bits of the client's address that the choice depends on.
    pub client_bits: u8,
}

/// The zones a server has.
pub trait Zones {
    /// The view of one zone.
    type View: ZoneView;
    /// Returns the zone that answers for a name and type: the longest match, for DS the parent.
    fn zone_for(&self, key: &NameKey, qtype: Type) -> Option<&Self::View>;
    /// Notes that the next name does not follow from the contents of the current zone: what is known of the zone may not
    /// include it.
    fn leave_zone(&self) {}
    /// Returns the records that a LUA record with this data has for the client of a query, if they need no script.
    fn prepared(&self, _script: &[u8], _query: &Query<'_>) -> Option<PreparedAddresses<'_>> {
        None
    }
}

impl ZoneView for Zone {
    #[inline]
    fn apex(&self) -> Node<'_> {
        Zone::apex(self)
    }

    fn apex_name(&self) -> Name<'_> {
        Zone::apex_name(self)
    }

    fn id(&self) -> Name<'_> {
        Zone::id(self)
    }

    #[inline]
    fn apex_labels(&self) -> usize {
        Zone::apex_labels(self)
    }

    #[inline]
    fn find(&self, key: &NameKey) -> Find<'_> {
        Zone::find(self, key)
    }

    #[inline]
    fn target(&self, record: RecordData<'_>) -> Option<Node<'_>> {
        Zone::target(self, record)
    }

    #[inline]
    fn node(&self, key: &NameKey, labels: usize) -> Option<Node<'_>> {
        Zone::node(self, key, labels)
    }

    #[inline]
    fn signing(&self) -> &SigningState {
        Zone::signing(self)
    }

    fn is_free(&self, name: Name<'_>) -> bool {
        // Ancestors of existing names exist, so nothing exists below a name that does not.
        let found = || Zone::find(self, &NameKey::new(name));
        !self.is_fragment() && matches!(found(), Find::Missing { .. } | Find::Wildcard { .. })
    }

    fn known_node(&self, name: Name<'_>) -> Option<Node<'_>> {
        let found = || Zone::find(self, &NameKey::new(name));
        if self.is_fragment() {
            None
        } else {
            match found() {
                Find::Exact(node) | Find::Cut { node, exact: true } => Some(node),
                _ => None,
            }
        }
    }

    #[inline]
    fn is_elsewhere(&self) -> bool {
        self.is_stub()
    }

    fn is_ready(&self) -> bool {
        Zone::is_ready(self)
    }
}

impl Zones for ZoneTable {
    type View = Zone;

    #[inline]
    fn zone_for(&self, key: &NameKey, qtype: Type) -> Option<&Zone> {
        ZoneTable::zone_for(self, key, qtype).map(|zone| &**zone)
    }
}
