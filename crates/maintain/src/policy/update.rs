//! The part of a policy that says what a DNS UPDATE (RFC 2136) may change.

use nameward_wire::{Name, NameBuf, Type};

/// A rule that permits updates of some names and types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpdateRule {
    /// The key that the update must be signed with; whoever may update the zone if there is none.
    pub key: Option<NameBuf>,
    /// The names.
    pub scope: UpdateScope,
    /// The types; if none are named, all but those that hold a zone together.
    pub types: Vec<Type>,
}

/// The names that a rule permits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpdateScope {
    /// Every name of the zone.
    Zone,
    /// A name and all below it.
    Subtree(NameBuf),
    /// One name.
    Name(NameBuf),
    /// The name of the key that signed the update.
    KeyName,
}

/// The way in which an update raises the serial of the zone (SOA-EDIT-DNSUPDATE of PowerDNS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UpdateSerial {
    /// The date as YYYYMMDDnn, or one more where the serial is that far already.
    Default,
    /// One more.
    #[default]
    Increase,
    /// Seconds since 1970.
    Epoch,
    /// As the zone's SOA-EDIT shows it.
    SoaEdit,
    /// As the zone's SOA-EDIT shows it, and one more if that changes nothing.
    SoaEditIncrease,
}

impl UpdateSerial {
    /// Reads the word of the metadata.
    pub fn read(word: &str) -> Option<Self> {
        Some(match word.trim().to_ascii_uppercase().as_str() {
            "" | "DEFAULT" => UpdateSerial::Default,
            "INCREASE" => UpdateSerial::Increase,
            "EPOCH" => UpdateSerial::Epoch,
            "SOA-EDIT" => UpdateSerial::SoaEdit,
            "SOA-EDIT-INCREASE" => UpdateSerial::SoaEditIncrease,
            _ => return None,
        })
    }
}

impl UpdateRule {
    /// Returns whether the rule permits a change of an RRset by an update that was signed with a key, or with none.
    pub fn permits(&self, key: Option<Name<'_>>, owner: Name<'_>, rtype: Type) -> bool {
        let is_signed = match &self.key {
            Some(wanted) => key == Some(wanted.as_name()),
            None => true,
        };
        let is_named = match &self.scope {
            UpdateScope::Zone => true,
            UpdateScope::Subtree(top) => owner.is_at_or_below(top.as_name()),
            UpdateScope::Name(name) => owner == name.as_name(),
            UpdateScope::KeyName => key == Some(owner),
        };
        let is_typed = match self.types.is_empty() {
            true => !HOLDS_A_ZONE_TOGETHER.contains(&rtype),
            false => self.types.contains(&rtype) || self.types.contains(&Type::ANY),
        };
        is_signed && is_named && is_typed
    }
}

/// Types that a rule has to name, because a mistake in them takes more than one name away; BIND has the same.
const HOLDS_A_ZONE_TOGETHER: [Type; 5] =
    [Type::SOA, Type::NS, Type::RRSIG, Type::NSEC, Type::NSEC3];
