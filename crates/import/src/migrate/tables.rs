//! Tables of other servers' settings that need no conversion logic: numbers that are the same here, and the outcome for
//! everything else.

use std::ops::RangeInclusive;

use super::{ConfigLocation, ImportVerdict, ImportedServer, SettingKey};

/// The outcome for a setting, and why.
pub(crate) type Outcome = (ImportVerdict, &'static str);

pub(crate) const fn not_needed(reason: &'static str) -> Outcome {
    (ImportVerdict::NotNeeded, reason)
}

pub(crate) const fn changed(reason: &'static str) -> Outcome {
    (ImportVerdict::Changed, reason)
}

pub(crate) const fn not_possible(reason: &'static str) -> Outcome {
    (ImportVerdict::NotPossible, reason)
}

pub(crate) const fn breaks(reason: &'static str) -> Outcome {
    (ImportVerdict::Breaks, reason)
}

/// The outcome for a setting that nothing here depends on.
pub(crate) const NO_EFFECT: Outcome = not_needed("no effect on this server");

/// A number that is the same here, perhaps in another unit.
pub(crate) struct NumberRow {
    /// Its name in the other server.
    pub name: &'static str,
    pub key: SettingKey,
    pub factor: u64,
    pub limits: RangeInclusive<u64>,
}

/// Declares a table of numbers: the other server's name, our table and key, the factor, the limits.
macro_rules! numbers {
    ($( $name:literal => $table:ident.$key:ident $(* $factor:literal)?, $limits:expr; )+) => {
        &[$( $crate::migrate::tables::NumberRow {
            name: $name,
            key: (stringify!($table), stringify!($key)),
            factor: 1 $(* $factor)?,
            limits: $limits,
        }, )+]
    };
}
pub(crate) use numbers;

impl NumberRow {
    /// Converts a number; `None` if it is not possible here.
    pub fn convert(&self, number: u64) -> Option<u64> {
        let number = number.saturating_mul(self.factor);
        self.limits.contains(&number).then_some(number)
    }
}

impl ImportedServer {
    /// Sets a number of the table; `None` if the table does not have it, false if the number is not possible here.
    pub(crate) fn take_number(
        &mut self,
        table: &[NumberRow],
        location: &ConfigLocation,
        (name, value): (&str, &str),
    ) -> Option<bool> {
        let row = table.iter().find(|row| row.name == name)?;
        let number = value.parse().ok().and_then(|number| row.convert(number));
        if let Some(number) = number {
            self.take(location, row.key, number, name);
        }
        Some(number.is_some())
    }
}
