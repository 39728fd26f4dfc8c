//! Properties of a zone that are needed before its contents are read.

/// Properties of a zone that a search starts from.
#[derive(Clone, Copy, Default)]
pub(crate) struct ZoneSummary {
    /// Location of the apex in the packed contents.
    pub(crate) apex: u32,
    pub(crate) apex_labels: u8,
    /// Labels of the deepest name.
    pub(crate) max_labels: u8,
    /// Whether there is or was a LUA record.
    pub(crate) has_scripts: bool,
    /// Depths, in labels, at which there is or was a delegation or a DNAME.
    pub(crate) cut_depths: DepthSet,
    pub(crate) names: u32,
    /// Whether there is or was an SVCB or HTTPS record with automatic hints.
    pub(crate) has_auto_hints: bool,
}

/// A set of label counts. Stored as 32-bit words, because every octet counts with a hundred thousand zones.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DepthSet([u32; 4]);

impl DepthSet {
    /// Creates the set from a bit mask.
    pub(crate) fn from_bits(bits: u128) -> Self {
        DepthSet([0, 32, 64, 96].map(|shift| (bits >> shift) as u32))
    }

    /// Returns the set as a bit mask.
    #[inline]
    pub(crate) fn bits(self) -> u128 {
        let [a, b, c, d] = self.0.map(u128::from);
        a | b << 32 | c << 64 | d << 96
    }

    /// Adds a label count, which must be below 128.
    pub(crate) fn insert(&mut self, labels: usize) {
        *self = Self::from_bits(self.bits() | 1 << labels);
    }
}
