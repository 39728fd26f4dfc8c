//! Zone kinds, shared by databases, configuration and operations.

/// The kind of a zone: where its contents come from, and whether secondaries are notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ZoneKind {
    /// Served from its file or database. Zone files notify their name servers; zones in databases notify none, since the
    /// database replicates them.
    #[default]
    Native,
    /// Served from its file or database; secondaries are notified.
    Primary,
    /// Transferred from its primaries.
    Secondary,
    /// A catalog zone (RFC 9432) generated here.
    Producer,
    /// A catalog zone that is transferred from its primaries and whose member zones are served.
    Consumer,
}

impl ZoneKind {
    /// Every kind.
    pub const ALL: [ZoneKind; 5] = [
        ZoneKind::Native,
        ZoneKind::Primary,
        ZoneKind::Secondary,
        ZoneKind::Producer,
        ZoneKind::Consumer,
    ];

    /// Returns the keyword used in configurations.
    pub fn word(self) -> &'static str {
        match self {
            ZoneKind::Native => "native",
            ZoneKind::Primary => "primary",
            ZoneKind::Secondary => "secondary",
            ZoneKind::Producer => "producer",
            ZoneKind::Consumer => "consumer",
        }
    }

    /// Parses the keyword used in configurations.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Checks whether the zone is transferred from primaries.
    pub fn is_transferred(self) -> bool {
        matches!(self, ZoneKind::Secondary | ZoneKind::Consumer)
    }
}
