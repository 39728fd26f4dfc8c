//! Zone serial numbers and their arithmetic (RFC 1982).
//!
//! Serials form a circle of 32 bits, so one is after another only if it is less than half the circle ahead; two serials
//! exactly half a circle apart have no order (section 3.2). This order is not transitive, hence no `Ord`.
//!
//! A serial of the form date plus two digits (`2024053101`) keeps that form when it is increased: the next one is
//! today's, or one more if that is larger. Any other serial is increased by one.

use std::cmp::Ordering;
use std::fmt;
use std::time::SystemTime;

use nameward_base::calendar::UtcTime;
use nameward_base::time::seconds_since_1970;
use nameward_dnssec::SoaEdit;

/// The serial number of one zone version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Serial(pub u32);

impl Serial {
    /// The most that may be added to a serial at once (RFC 1982 section 3.1).
    pub const MAX_STEP: u32 = (1 << 31) - 1;

    /// Compares two serials; `None` if they are half a circle apart (RFC 1982 section 3.2).
    pub fn compare(self, other: Serial) -> Option<Ordering> {
        match self.0.wrapping_sub(other.0) {
            0 => Some(Ordering::Equal),
            ahead if ahead <= Serial::MAX_STEP => Some(Ordering::Greater),
            ahead if ahead == 1 << 31 => None,
            _ => Some(Ordering::Less),
        }
    }

    /// Checks whether this serial is newer than `other`.
    pub fn is_after(self, other: Serial) -> bool {
        self.compare(other) == Some(Ordering::Greater)
    }

    /// Adds a step; steps above [`Serial::MAX_STEP`] are reduced to it (RFC 1982 section 3.1).
    #[must_use]
    pub fn plus(self, step: u32) -> Serial {
        Serial(self.0.wrapping_add(step.min(Serial::MAX_STEP)))
    }

    /// Returns the serial that follows this one at `now`. It is never 0, which some secondaries interpret as "none".
    #[must_use]
    pub fn next(self, now: SystemTime) -> Serial {
        let next = match self.plus(1) {
            Serial(0) => Serial(1),
            next => next,
        };
        let first = Serial::first(now);
        if self.is_dated() && first.0 > next.0 {
            first
        } else {
            next
        }
    }

    /// Returns the serial that follows this one under a rule. The result is always after this serial, whatever the
    /// rule.
    #[must_use]
    pub fn raised(self, rule: SerialRule, now: SystemTime) -> Serial {
        let seconds = seconds_since_1970(now) as u32;
        let wanted = match rule {
            SerialRule::Next => return self.next(now),
            SerialRule::Keep => return self,
            SerialRule::Increase => self,
            SerialRule::Dated => Serial::first(now),
            SerialRule::Epoch => Serial(seconds),
            SerialRule::SoaEdit(edit) => Serial(edit.serial(self.0, seconds)),
        };
        match (wanted.is_after(self) && wanted.0 != 0, self.plus(1)) {
            (true, _) => wanted,
            (false, Serial(0)) => Serial(1),
            (false, next) => next,
        }
    }

    /// Returns the first serial of a new zone: today's date followed by 01.
    pub fn first(now: SystemTime) -> Serial {
        Serial(today(now).saturating_mul(100).saturating_add(1))
    }

    /// Checks whether the serial has the form YYYYMMDDnn.
    fn is_dated(self) -> bool {
        let (year, month, day) = (
            self.0 / 1_000_000,
            self.0 / 10_000 % 100,
            self.0 / 100 % 100,
        );
        (1980..=2105).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day)
    }
}

/// How a change increases the zone's serial (the SOA-EDIT-DNSUPDATE metadata of PowerDNS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SerialRule {
    /// Keeps date-based serials date-based and increases others by one ([`Serial::next`]).
    #[default]
    Next,
    /// Increases the serial by one.
    Increase,
    /// Today's date followed by 01, or one more if that is not after the current serial.
    Dated,
    /// The time in seconds since 1970.
    Epoch,
    /// As configured by the SOA-EDIT metadata, or one more if that is not after the current serial.
    SoaEdit(SoaEdit),
    /// The serial stays as it is, as PowerDNS leaves it in database zones without SOA-EDIT-API. Secondaries do not see such a
    /// change, and a journal cannot record it.
    Keep,
}

impl SerialRule {
    /// Parses a SOA-EDIT-DNSUPDATE metadata value, for a zone with this SOA-EDIT; `None` if it is unknown.
    pub fn from_word(word: &str, soa_edit: SoaEdit) -> Option<SerialRule> {
        Some(match word.trim().to_ascii_uppercase().as_str() {
            "DEFAULT" => SerialRule::Dated,
            "INCREASE" => SerialRule::Increase,
            "EPOCH" => SerialRule::Epoch,
            // Both change the serial with every change: an UPDATE that kept it would never reach a secondary.
            "SOA-EDIT" | "SOA-EDIT-INCREASE" => SerialRule::SoaEdit(soa_edit),
            _ => return None,
        })
    }

    /// Parses a SOA-EDIT-API metadata value, for a zone with this SOA-EDIT metadata value. Without it, and with a word that
    /// PowerDNS does not know, the serial stays as it is.
    pub fn for_api(api: Option<&str>, soa_edit: Option<&str>) -> SerialRule {
        let soa_edit = soa_edit.and_then(SoaEdit::read).unwrap_or_default();
        let rule = api.and_then(|word| SerialRule::from_word(word, soa_edit));
        rule.unwrap_or(SerialRule::Keep)
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the date in UTC as YYYYMMDD.
fn today(now: SystemTime) -> u32 {
    let date = UtcTime::from_unix(seconds_since_1970(now)).date_number();
    u32::try_from(date).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_serial_stays_without_soa_edit_api() {
        assert_eq!(SerialRule::for_api(None, None), SerialRule::Keep);
        assert_eq!(SerialRule::for_api(Some("OFF"), None), SerialRule::Keep);
        assert_eq!(
            SerialRule::for_api(Some("DEFAULT"), None),
            SerialRule::Dated
        );
        assert_eq!(
            SerialRule::for_api(Some("soa-edit-increase"), Some("EPOCH")),
            SerialRule::SoaEdit(SoaEdit::read("EPOCH").unwrap())
        );
    }

    /// 29 February 2024.
    const LEAP_DAY: u64 = 1_709_164_800;

    #[test]
    fn dated_serials_stay_dated_and_others_are_counted() {
        let now = at(LEAP_DAY);
        for (old, new) in [
            (1, 2),
            (0, 1),
            (u32::MAX, 1),
            (2_024_010_101, 2_024_022_901),
            (2_024_022_900, 2_024_022_901),
            (2_024_022_901, 2_024_022_902),
            (2_024_022_999, 2_024_023_000),
            // In the future: still increased.
            (2_030_010_100, 2_030_010_101),
            // There is no month 13.
            (2_024_130_100, 2_024_130_101),
            (1_709_164_800, 1_709_164_801),
        ] {
            assert_eq!(Serial(old).next(now), Serial(new), "{old}");
        }
        assert_eq!(Serial::first(now), Serial(2_024_022_901));
    }

    #[test]
    fn serials_half_a_circle_apart_have_no_order() {
        // The examples of RFC 1982 section 5.2, for 32 bits.
        assert_eq!(Serial(1 << 31).compare(Serial(0)), None);
        assert_eq!(Serial(0).compare(Serial(1 << 31)), None);
        assert!(Serial(0).is_after(Serial(u32::MAX)));
        assert!(Serial(100).is_after(Serial(u32::MAX - 100)));
        assert!(!Serial(u32::MAX - 100).is_after(Serial(100)));
    }

    #[test]
    fn rules_raise_the_serial_as_powerdns_does() {
        let now = at(LEAP_DAY);
        let none = SoaEdit::None;
        for (word, old, new) in [
            ("DEFAULT", 7, 2_024_022_901),
            ("default", 2_024_022_901, 2_024_022_902),
            ("DEFAULT", 2_030_010_101, 2_030_010_102),
            ("INCREASE", 2_023_010_101, 2_023_010_102),
            ("INCREASE", u32::MAX, 1),
            ("EPOCH", 7, LEAP_DAY as u32),
            ("EPOCH", LEAP_DAY as u32, LEAP_DAY as u32 + 1),
            ("SOA-EDIT", 7, 8),
            ("SOA-EDIT-INCREASE", 7, 8),
        ] {
            let rule = SerialRule::from_word(word, none).unwrap();
            assert_eq!(Serial(old).raised(rule, now), Serial(new), "{word} {old}");
        }
        let rule = SerialRule::from_word("SOA-EDIT", SoaEdit::Epoch).unwrap();
        assert_eq!(Serial(7).raised(rule, now), Serial(LEAP_DAY as u32));
        assert_eq!(SerialRule::from_word("SOMEHOW", none), None);
    }

    proptest! {
        #[test]
        fn a_raised_serial_is_after_and_never_0(serial in any::<u32>(), seconds in 0..5_000_000_000u64, rule in 0..5usize) {
            let rules = [SerialRule::Next, SerialRule::Increase, SerialRule::Dated, SerialRule::Epoch, SerialRule::SoaEdit(SoaEdit::InceptionIncrement)];
            let next = Serial(serial).raised(rules[rule], at(seconds));
            prop_assert!(next.is_after(Serial(serial)));
            prop_assert_ne!(next, Serial(0));
        }

        #[test]
        fn what_is_added_is_after(serial in any::<u32>(), step in 1..=Serial::MAX_STEP) {
            let (old, new) = (Serial(serial), Serial(serial).plus(step));
            prop_assert!(new.is_after(old) && !old.is_after(new));
            prop_assert_eq!(old.compare(new), Some(Ordering::Less));
        }

        #[test]
        fn the_next_serial_is_after_and_never_0(serial in any::<u32>(), seconds in 0..5_000_000_000u64) {
            let next = Serial(serial).next(at(seconds));
            prop_assert!(next.is_after(Serial(serial)));
            prop_assert_ne!(next, Serial(0));
        }
    }
}
