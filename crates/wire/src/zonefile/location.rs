//! Source locations of records: a line in a file, or a row in a table.

/// Marks a row number, in the upper half.
const ROW: u16 = 1 << 15;
/// Bits of a row number that are in the lower half.
const LOWER_BITS: u32 = u32::BITS;

/// The source location of a record. It takes 48 bits, because a zone being built stores one for each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RecordLocation {
    lower: u32,
    upper: u16,
}

/// A decoded source location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceLocation {
    /// A line from 1, and the index of its file in [`Report::files`](super::Report::files).
    Line {
        /// The line number.
        line: u32,
        /// The file index.
        file: u16,
    },
    /// A row, identified by its ID in its table.
    Row(i64),
}

impl RecordLocation {
    /// The location of a record without a known source.
    pub const NONE: RecordLocation = RecordLocation { lower: 0, upper: 0 };

    /// Creates the location of a line, from 1, in a file with an index below 2^15; line 0 means none.
    #[inline]
    pub const fn in_file(line: u32, file: u16) -> Self {
        debug_assert!(file < ROW);
        RecordLocation {
            lower: line,
            upper: file & !ROW,
        }
    }

    /// Creates the location of a row. IDs that are not positive or do not fit into 47 bits yield none.
    #[inline]
    pub const fn row(id: i64) -> Self {
        let upper = id >> LOWER_BITS;
        if id <= 0 || upper >= ROW as i64 {
            return RecordLocation::NONE;
        }
        RecordLocation {
            lower: id as u32,
            upper: upper as u16 | ROW,
        }
    }

    /// Returns the decoded location; `None` if there is none.
    pub const fn source(self) -> Option<SourceLocation> {
        match (self.upper & ROW != 0, self.lower, self.upper & !ROW) {
            (true, lower, upper) => Some(SourceLocation::Row(
                (upper as i64) << LOWER_BITS | lower as i64,
            )),
            (false, 0, _) => None,
            (false, line, file) => Some(SourceLocation::Line { line, file }),
        }
    }

    /// Returns the line and the file; 0 and 0 for other locations.
    pub const fn line_and_file(self) -> (u32, u16) {
        match self.source() {
            Some(SourceLocation::Line { line, file }) => (line, file),
            _ => (0, 0),
        }
    }

    /// Returns the row ID, if this is a row.
    pub const fn row_id(self) -> Option<i64> {
        match self.source() {
            Some(SourceLocation::Row(id)) => Some(id),
            _ => None,
        }
    }

    /// Checks whether there is no location.
    pub const fn is_none(self) -> bool {
        self.source().is_none()
    }

    /// Returns the half that differs from record to record.
    #[inline]
    pub const fn lower(self) -> u32 {
        self.lower
    }

    /// Returns the location with this lower half and the upper half of `self`.
    #[inline]
    pub const fn beside(self, lower: u32) -> Self {
        RecordLocation {
            lower,
            upper: self.upper,
        }
    }

    /// Checks whether two locations share their upper half: they are in the same file, or rows with close IDs.
    #[inline]
    pub const fn is_beside(self, other: Self) -> bool {
        self.upper == other.upper
    }
}

/// The upper halves of many locations, which are usually all 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordLocations {
    uppers: u16,
}

impl RecordLocations {
    /// Adds a location.
    #[inline]
    pub fn add(&mut self, location: RecordLocation) {
        self.uppers |= location.upper;
    }

    /// Checks whether all locations so far are in the first file, or rows with small IDs, so that their lower halves
    /// identify them.
    #[inline]
    pub fn are_plain(self) -> bool {
        self.uppers & !ROW == 0
    }

    /// Returns the location with this lower half, provided that all are plain.
    #[inline]
    pub fn with_lower(self, lower: u32) -> RecordLocation {
        RecordLocation {
            lower,
            upper: self.uppers & ROW,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_decodes_to_what_it_was_made_from() {
        let line = RecordLocation::in_file(7, 3);
        assert_eq!(
            line.source(),
            Some(SourceLocation::Line { line: 7, file: 3 })
        );
        assert_eq!((line.line_and_file(), line.row_id()), ((7, 3), None));
        assert!(RecordLocation::NONE.is_none() && RecordLocation::in_file(0, 2).is_none());
        for id in [1, 7, 1 << 32, (1 << 47) - 1] {
            assert_eq!(RecordLocation::row(id).row_id(), Some(id));
            assert_eq!(RecordLocation::row(id).line_and_file(), (0, 0));
        }
        for id in [0, -1, i64::MIN, 1 << 47, i64::MAX] {
            assert!(RecordLocation::row(id).is_none(), "{id}");
        }
    }

    #[test]
    fn plain_locations_are_identified_by_their_lower_half() {
        for location in [RecordLocation::in_file(9, 0), RecordLocation::row(9)] {
            let mut all = RecordLocations::default();
            all.add(location);
            assert!(all.are_plain());
            assert_eq!(all.with_lower(location.lower()), location);
        }
        let mut others = RecordLocations::default();
        others.add(RecordLocation::row(1 << 32));
        assert!(!others.are_plain());
    }
}
