//! Serials that change with the signatures, so that secondaries transfer new ones (the SOA-EDIT metadata of PowerDNS).

use nameward_base::calendar::UtcTime;

use crate::period::{DAY, WEEK, week_of};

/// How the serial of a signed zone is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SoaEdit {
    /// Unchanged.
    #[default]
    None,
    /// Plus the weeks since 1970.
    IncrementWeeks,
    /// The start of the week, if that is larger.
    InceptionEpoch,
    /// The date of the start of the week as YYYYMMDD01; or one more, if the serial is from the first days of the week.
    InceptionIncrement,
    /// The current time.
    Epoch,
}

impl SoaEdit {
    /// Every value, the default first.
    pub const ALL: [Self; 5] = [
        SoaEdit::None,
        SoaEdit::IncrementWeeks,
        SoaEdit::InceptionEpoch,
        SoaEdit::InceptionIncrement,
        SoaEdit::Epoch,
    ];

    /// Parses the metadata keyword; `None` if it is unknown.
    pub fn read(word: &str) -> Option<SoaEdit> {
        let word = match word.trim() {
            "" => "NONE",
            word => word,
        };
        let mut all = Self::ALL.into_iter();
        all.find(|edit| edit.word().eq_ignore_ascii_case(word))
    }

    /// Returns the metadata keyword.
    pub fn word(self) -> &'static str {
        match self {
            SoaEdit::None => "NONE",
            SoaEdit::IncrementWeeks => "INCREMENT-WEEKS",
            SoaEdit::InceptionEpoch => "INCEPTION-EPOCH",
            SoaEdit::InceptionIncrement => "INCEPTION-INCREMENT",
            SoaEdit::Epoch => "EPOCH",
        }
    }

    /// Returns the serial to serve at a time, in seconds since 1970.
    pub fn serial(self, serial: u32, now: u32) -> u32 {
        let start = week_of(now);
        match self {
            SoaEdit::None => serial,
            SoaEdit::IncrementWeeks => serial.wrapping_add(now / WEEK),
            SoaEdit::InceptionEpoch => serial.max(start),
            SoaEdit::InceptionIncrement => {
                let first = date(start) * 100 + 1;
                let last = date(start.saturating_add(2 * DAY)) * 100 + 99;
                match serial {
                    _ if serial < first - 1 => first,
                    // The serial of the start of the week is that of the change of signatures.
                    _ if serial < first => first + 1,
                    _ if serial <= last => serial.wrapping_add(1),
                    _ => serial,
                }
            }
            SoaEdit::Epoch => now,
        }
    }
}

/// Returns a time as YYYYMMDD.
fn date(seconds: u32) -> u32 {
    // Fits until 2106.
    UtcTime::from_unix(u64::from(seconds)).date_number() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sunday, 15 November 2026, 06:00; the week started on Thursday, the 12th.
    const NOW: u32 = 1_794_722_400;

    #[test]
    fn serials_move_with_the_week() {
        let show = |word, serial| SoaEdit::read(word).unwrap().serial(serial, NOW);
        assert_eq!(show("none", 7), 7);
        assert_eq!(show("INCREMENT-WEEKS", 7), 7 + NOW / WEEK);
        assert_eq!(show("INCEPTION-EPOCH", 7), 1_794_441_600);
        assert_eq!(show("INCEPTION-EPOCH", u32::MAX), u32::MAX);
        assert_eq!(show("INCEPTION-INCREMENT", 2_026_010_101), 2_026_111_201);
        assert_eq!(show("INCEPTION-INCREMENT", 2_026_111_200), 2_026_111_202);
        assert_eq!(show("INCEPTION-INCREMENT", 2_026_111_201), 2_026_111_202);
        assert_eq!(show("INCEPTION-INCREMENT", 2_026_111_305), 2_026_111_306);
        assert_eq!(show("INCEPTION-INCREMENT", 2_026_111_500), 2_026_111_500);
        assert_eq!(show("EPOCH", 7), NOW);
        assert_eq!(SoaEdit::read("SOMEHOW"), None);
    }
}
