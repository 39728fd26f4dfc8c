//! The place that a record comes from: a line of a file, or a row of a table.

/// Marks the number of a row, in the upper half.
const ROW: u16 = 1 << 15;
/// Bits of a row's number that stand in the lower half.
const LOWER_BITS: u32 = u32::BITS;

/// The place that a record comes from. It takes 48 bits, because a zone that is built keeps one for each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RecordPlace {
    lower: u32,
    upper: u16,
}

/// A place in words of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourcePlace {
    /// A line from 1, and the index of its file in [`Report::files`](super::Report::files).
    Line {
        /// The line.
        line: u32,
        /// The file.
        file: u16,
    },
    /// A row, by its id in its table.
    Row(i64),
}

impl RecordPlace {
    /// The place of a record that comes from nowhere in particular.
    pub const NONE: RecordPlace = RecordPlace { lower: 0, upper: 0 };

    /// Makes the place of a line, from 1, of a file below 2^15; line 0 is none.
    #[inline]
    pub const fn in_file(line: u32, file: u16) -> Self {
        debug_assert!(file < ROW);
        RecordPlace {
            lower: line,
            upper: file & !ROW,
        }
    }

    /// Makes the place of a row. Ids that are not positive or do not fit into 47 bits name none.
    #[inline]
    pub const fn row(id: i64) -> Self {
        let upper = id >> LOWER_BITS;
        if id <= 0 || upper >= ROW as i64 {
            return RecordPlace::NONE;
        }
        RecordPlace {
            lower: id as u32,
            upper: upper as u16 | ROW,
        }
    }

    /// Returns the place in words of its source.
    pub const fn source(self) -> Option<SourcePlace> {
        match (self.upper & ROW != 0, self.lower, self.upper & !ROW) {
            (true, lower, upper) => Some(SourcePlace::Row(
                (upper as i64) << LOWER_BITS | lower as i64,
            )),
            (false, 0, _) => None,
            (false, line, file) => Some(SourcePlace::Line { line, file }),
        }
    }

    /// Returns the line and the file; 0 and 0 for other places.
    pub const fn line_and_file(self) -> (u32, u16) {
        match self.source() {
            Some(SourcePlace::Line { line, file }) => (line, file),
            _ => (0, 0),
        }
    }

    /// Returns the id of the row, if it is one.
    pub const fn row_id(self) -> Option<i64> {
        match self.source() {
            Some(SourcePlace::Row(id)) => Some(id),
            _ => None,
        }
    }

    /// Returns whether this is no place.
    pub const fn is_none(self) -> bool {
        self.source().is_none()
    }

    /// Returns the half that differs from record to record.
    #[inline]
    pub const fn lower(self) -> u32 {
        self.lower
    }

    /// Returns the place with this lower half beside this one.
    #[inline]
    pub const fn beside(self, lower: u32) -> Self {
        RecordPlace {
            lower,
            upper: self.upper,
        }
    }

    /// Returns whether two places share their upper half: they are of one file, or rows with near ids.
    #[inline]
    pub const fn is_beside(self, other: Self) -> bool {
        self.upper == other.upper
    }
}

/// The upper halves of many places, which are mostly all the same and 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordPlaces {
    uppers: u16,
}

impl RecordPlaces {
    /// Takes note of a place.
    #[inline]
    pub fn add(&mut self, place: RecordPlace) {
        self.uppers |= place.upper;
    }

    /// Returns whether all places so far are of the first file, or rows with small ids: their lower halves tell them apart.
    #[inline]
    pub fn are_plain(self) -> bool {
        self.uppers & !ROW == 0
    }

    /// Returns the place with this lower half, where all are plain.
    #[inline]
    pub fn place(self, lower: u32) -> RecordPlace {
        RecordPlace {
            lower,
            upper: self.uppers & ROW,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_what_they_were_made_of() {
        let line = RecordPlace::in_file(7, 3);
        assert_eq!(line.source(), Some(SourcePlace::Line { line: 7, file: 3 }));
        assert_eq!((line.line_and_file(), line.row_id()), ((7, 3), None));
        assert!(RecordPlace::NONE.is_none() && RecordPlace::in_file(0, 2).is_none());
        for id in [1, 7, 1 << 32, (1 << 47) - 1] {
            assert_eq!(RecordPlace::row(id).row_id(), Some(id));
            assert_eq!(RecordPlace::row(id).line_and_file(), (0, 0));
        }
        for id in [0, -1, i64::MIN, 1 << 47, i64::MAX] {
            assert!(RecordPlace::row(id).is_none(), "{id}");
        }
    }

    #[test]
    fn plain_places_are_known_by_their_lower_half() {
        for place in [RecordPlace::in_file(9, 0), RecordPlace::row(9)] {
            let mut all = RecordPlaces::default();
            all.add(place);
            assert!(all.are_plain());
            assert_eq!(all.place(place.lower()), place);
        }
        let mut others = RecordPlaces::default();
        others.add(RecordPlace::row(1 << 32));
        assert!(!others.are_plain());
    }
}
