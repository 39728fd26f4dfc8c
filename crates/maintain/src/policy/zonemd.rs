//! The use of ZONEMD records (RFC 8976) in a zone: none, to check that a new version is complete, or
//! to publish a digest for others.

use nameward_zone::{DigestCheck, Zone};

/// The use of zone digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ZonemdRule {
    /// They are ordinary records.
    #[default]
    Off,
    /// A version with a wrong digest is rejected.
    Verify,
    /// A version without a supported and correct digest is rejected.
    Require,
    /// The zone is served and transferred with a digest made here.
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

    /// Returns the keyword for the configuration.
    pub fn word(self) -> &'static str {
        match self {
            ZonemdRule::Off => "off",
            ZonemdRule::Verify => "verify",
            ZonemdRule::Require => "require",
            ZonemdRule::Generate => "generate",
        }
    }

    /// Reads the keyword of the configuration.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.word() == word)
    }

    /// Checks whether new versions are compared with their digests.
    pub fn verifies(self) -> bool {
        matches!(self, ZonemdRule::Verify | ZonemdRule::Require)
    }

    /// Returns why a new version is rejected. Takes time in proportion to the zone's size if it is
    /// compared.
    pub fn objection(self, zone: &Zone) -> Option<String> {
        if !self.verifies() {
            return None;
        }
        let serial = zone.serial();
        match zone.check_digest() {
            Err(fault) => Some(fault.to_string()),
            Ok(DigestCheck::Missing) if self == ZonemdRule::Require => Some(format!(
                "serial {serial}: no ZONEMD record, but zonemd is \"require\""
            )),
            Ok(DigestCheck::Unknown) if self == ZonemdRule::Require => Some(format!(
                "serial {serial}: no ZONEMD record with a supported scheme and hash algorithm, but zonemd is \
                 \"require\""
            )),
            Ok(_) => None,
        }
    }
}
