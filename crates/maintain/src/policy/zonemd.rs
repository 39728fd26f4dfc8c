//! The use of ZONEMD records (RFC 8976) of a zone: none, to check that a new version is whole, or to
//! publish a digest for others.

use nameward_zone::{DigestCheck, Zone};

/// The use of the digests over a whole zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ZonemdRule {
    /// They are records like others.
    #[default]
    Off,
    /// A version whose digest is wrong is refused.
    Verify,
    /// A version without a digest that is understood and right is refused.
    Require,
    /// The zone is served and transferred with a digest that is made here.
    Generate,
}

impl ZonemdRule {
    /// Lists every rule.
    pub const ALL: [ZonemdRule; 4] = [
        ZonemdRule::Off,
        ZonemdRule::Verify,
        ZonemdRule::Require,
        ZonemdRule::Generate,
    ];

    /// Returns the rule as configurations spell it.
    pub fn word(self) -> &'static str {
        match self {
            ZonemdRule::Off => "off",
            ZonemdRule::Verify => "verify",
            ZonemdRule::Require => "require",
            ZonemdRule::Generate => "generate",
        }
    }

    /// Reads the rule as configurations spell it.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.word() == word)
    }

    /// Returns whether new versions are compared with their digests.
    pub fn verifies(self) -> bool {
        matches!(self, ZonemdRule::Verify | ZonemdRule::Require)
    }

    /// Returns why a new version is not taken. Takes time of the zone's size where it is compared.
    pub fn objection(self, zone: &Zone) -> Option<String> {
        if !self.verifies() {
            return None;
        }
        let serial = zone.serial();
        match zone.check_digest() {
            Err(fault) => Some(fault.to_string()),
            Ok(DigestCheck::Missing) if self == ZonemdRule::Require => Some(format!(
                "serial {serial}: it has no ZONEMD record, and zonemd is \"require\""
            )),
            Ok(DigestCheck::Unknown) if self == ZonemdRule::Require => Some(format!(
                "serial {serial}: no ZONEMD record has a scheme and an algorithm that are known, and zonemd is \"require\""
            )),
            Ok(_) => None,
        }
    }
}
