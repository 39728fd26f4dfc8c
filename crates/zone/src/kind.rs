//! The kind of a zone, in the one list that databases, configurations and operations share.

/// The kind of a zone: where its contents come from and who is notified of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ZoneKind {
    /// Served from its file or database; nobody is notified.
    #[default]
    Native,
    /// Served from its file or database; secondaries are notified.
    Primary,
    /// Transferred from its primaries.
    Secondary,
    /// A catalog zone (RFC 9432) that is made here.
    Producer,
    /// A catalog zone that is transferred from its primaries and followed.
    Consumer,
}

impl ZoneKind {
    /// Lists every kind.
    pub const ALL: [ZoneKind; 5] = [
        ZoneKind::Native,
        ZoneKind::Primary,
        ZoneKind::Secondary,
        ZoneKind::Producer,
        ZoneKind::Consumer,
    ];

    /// Returns the kind as configurations spell it.
    pub fn word(self) -> &'static str {
        match self {
            ZoneKind::Native => "native",
            ZoneKind::Primary => "primary",
            ZoneKind::Secondary => "secondary",
            ZoneKind::Producer => "producer",
            ZoneKind::Consumer => "consumer",
        }
    }

    /// Reads the kind as configurations spell it.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns whether the zone is transferred from primaries.
    pub fn is_transferred(self) -> bool {
        matches!(self, ZoneKind::Secondary | ZoneKind::Consumer)
    }
}
