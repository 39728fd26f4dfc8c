//! The engine's view of zones: two small traits.

use nameward_wire::{Name, Type};
use nameward_zone::{Find, NameKey, Node, RecordData, SigningState, Zone, ZoneTable};

/// One version of a zone, wherever its data comes from.
pub trait ZoneView {
    /// The apex with its RRsets.
    fn apex(&self) -> Node<'_>;
    /// Labels of the zone's name.
    fn apex_labels(&self) -> usize;
    /// Searches a name at or below the apex.
    fn find(&self, key: &NameKey) -> Find<'_>;
    /// The node of the host that a record names, if it is in the zone.
    fn target(&self, record: RecordData<'_>) -> Option<Node<'_>>;
    /// The node of the suffix of `labels` labels, whatever stands above it.
    fn node(&self, key: &NameKey, labels: usize) -> Option<Node<'_>>;
    /// How its answers are signed.
    fn signing(&self) -> &SigningState;
    /// Whether nothing stands at a name and below it, as far as that is known.
    fn is_free(&self, _name: Name<'_>) -> bool {
        false
    }
    /// The node of a name that the zone is authoritative for, as far as that is known.
    fn known_node(&self, _name: Name<'_>) -> Option<Node<'_>> {
        None
    }
    /// Whether this only stands for contents that are not here.
    fn is_elsewhere(&self) -> bool {
        false
    }
    /// Whether the contents that it stands for can be fetched. Asked only where they are elsewhere.
    fn is_ready(&self) -> bool {
        true
    }
}

/// The zones a server has.
pub trait Zones {
    /// The view of one zone.
    type View: ZoneView;
    /// The zone that answers for a name and type: the longest match, for DS the parent.
    fn zone_for(&self, key: &NameKey, qtype: Type) -> Option<&Self::View>;
}

impl ZoneView for Zone {
    #[inline]
    fn apex(&self) -> Node<'_> {
        Zone::apex(self)
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
        // Ancestors of what exists exist, so nothing is below a name that does not.
        let found = || Zone::find(self, &NameKey::new(name));
        !self.is_part() && matches!(found(), Find::Missing { .. } | Find::Wildcard { .. })
    }

    fn known_node(&self, name: Name<'_>) -> Option<Node<'_>> {
        let found = || Zone::find(self, &NameKey::new(name));
        match self.is_part() {
            true => None,
            false => match found() {
                Find::Exact(node) | Find::Cut { node, exact: true } => Some(node),
                _ => None,
            },
        }
    }

    #[inline]
    fn is_elsewhere(&self) -> bool {
        self.is_stand_in()
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
