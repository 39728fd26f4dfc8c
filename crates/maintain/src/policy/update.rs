//! Update policy: what a DNS UPDATE (RFC 2136) may change.

use nameward_wire::{Name, NameBuf, Type};

/// A rule that permits updates of some names and types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpdateRule {
    /// The key that must sign the update; if there is none, any client that may update the zone.
    pub key: Option<NameBuf>,
    /// The names.
    pub scope: UpdateScope,
    /// The types; if none are named, all except those that hold a zone together.
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

/// How an update increments the serial of the zone (SOA-EDIT-DNSUPDATE of PowerDNS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UpdateSerial {
    /// The date as YYYYMMDDnn, or incremented by one if the serial is already that high.
    Default,
    /// Incremented by one.
    #[default]
    Increase,
    /// Seconds since 1970.
    Epoch,
    /// As given by the zone's SOA-EDIT.
    SoaEdit,
    /// As given by the zone's SOA-EDIT, and incremented by one if that changes nothing.
    SoaEditIncrease,
}

impl UpdateSerial {
    /// Reads the metadata keyword.
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
    /// Checks whether the rule permits a change of an RRset by an update signed with a key, or unsigned.
    pub fn permits(&self, key: Option<Name<'_>>, owner: Name<'_>, rtype: Type) -> bool {
        let wanted = self.key.as_ref().map(NameBuf::as_name);
        let is_signed = wanted.is_none() || wanted == key;
        let is_named = match &self.scope {
            UpdateScope::Zone => true,
            UpdateScope::Subtree(top) => owner.is_at_or_below(top.as_name()),
            UpdateScope::Name(name) => owner == name.as_name(),
            UpdateScope::KeyName => key == Some(owner),
        };
        let is_typed = if self.types.is_empty() {
            !HOLDS_A_ZONE_TOGETHER.contains(&rtype)
        } else {
            self.types.contains(&rtype) || self.types.contains(&Type::ANY)
        };
        is_signed && is_named && is_typed
    }
}

/// Types that a rule must name explicitly, because a mistake in them affects more than one name; as in BIND.
const HOLDS_A_ZONE_TOGETHER: [Type; 5] =
    [Type::SOA, Type::NS, Type::RRSIG, Type::NSEC, Type::NSEC3];
