//! The offset that is added to the serial of a zone whose keys are stored here.
//!
//! A secondary transfers new keys, signatures and denial records only if the serial is higher, and the serial of the
//! zone's contents belongs to the file or the primary. So every change that secondaries must see increments an offset
//! on top of that serial, in the same write as the change itself. The offset outlives the keys: a serial that went
//! back when signing ends would leave secondaries with the signed version until its signatures expire (RFC 1982, RFC
//! 1034 section 4.3.5).
//!
//! SOA-EDIT is applied to the sum. Some of its rules produce the same serial for a whole week whatever the stored one
//! is; the offset is then incremented until the resulting serial rises, too.

use super::{
    KEYS, NUMBER, NumberedKey, SigningSettings, ZONES, ZoneKey, ZoneKeys, ZoneKeysError, encoding,
    wire,
};
use nameward_dnssec::{KeyUse, SoaEdit, signature_week};
use nameward_state::StateChange;
use nameward_wire::{Name, NameBuf};
use nameward_zone::Serial;
use std::collections::HashSet;

/// How far the serial of a zone is ahead of that of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SerialOffsetRaise {
    /// The offset.
    pub offset: u32,
    /// The signature period for which it was last incremented.
    pub period: u64,
}

impl SerialOffsetRaise {
    /// Decodes the numbers from the state store.
    pub(super) fn from_numbers(numbers: &[u64]) -> Option<Self> {
        let &[offset, period] = numbers else {
            return None;
        };
        let offset = u32::try_from(offset).ok()?;
        Some(SerialOffsetRaise { offset, period })
    }
}

/// The keys of a zone that are visible from outside, and their use.
pub(super) type SeenUses = Vec<(u32, KeyUse)>;

/// Lists the keys that are visible from outside.
pub(super) fn seen_uses(keys: &[ZoneKey]) -> SeenUses {
    let uses = keys.iter().map(|key| (key.number, key.usage));
    seen(uses.collect())
}

fn seen(uses: Vec<(u32, KeyUse)>) -> SeenUses {
    let seen = uses.into_iter();
    seen.filter(|(_, usage)| *usage != KeyUse::UNUSED).collect()
}

/// Returns the rule for the serial: SOA-EDIT applies while the zone is signed.
fn edit_in_force(terms: &SigningSettings, uses: &SeenUses) -> SoaEdit {
    if uses.iter().any(|(_, usage)| usage.is_active()) {
        terms.soa_edit
    } else {
        SoaEdit::None
    }
}

/// A serial on top of that of the contents: the offset, and the rule applied to the sum.
#[derive(Clone, Copy)]
struct ServedSerial {
    offset: u32,
    edit: SoaEdit,
}

/// Returns the offset that makes the serial rise. `stored` is the serial of the contents, if known.
fn raised_offset(
    stored: Option<Serial>,
    before: ServedSerial,
    edit_after: SoaEdit,
    now: u64,
) -> u32 {
    let next = before.offset.wrapping_add(1);
    let Some(stored) = stored else {
        return next;
    };
    let shown =
        |edit: SoaEdit, offset: u32| Serial(edit.serial(stored.0.wrapping_add(offset), now as u32));
    let shown_before = shown(before.edit, before.offset);
    if shown(edit_after, next).is_after(shown_before) {
        next
    } else {
        shown_before.plus(1).0.wrapping_sub(stored.0)
    }
}

impl ZoneKeys {
    /// Returns the settings of a zone after a change, with a higher serial.
    pub(super) fn raised(
        &self,
        zone: Name<'_>,
        (before, uses_before): (&SigningSettings, &SeenUses),
        (mut after, uses_after): (SigningSettings, &SeenUses),
        now: u64,
    ) -> SigningSettings {
        let table = self.table.load();
        let version = table.exact(zone).filter(|version| !version.is_stub());
        let stored = version.map(|version| version.unsigned().serial());
        let shown = ServedSerial {
            offset: before.serial.offset,
            edit: edit_in_force(before, uses_before),
        };
        let edit = edit_in_force(&after, uses_after);
        after.serial.offset = raised_offset(stored, shown, edit, now);
        if after.managed.is_none() {
            after.serial.period = signature_week(zone, now).number;
        }
        after
    }

    /// Writes a change of a zone's keys or settings in one write, with a higher serial if it is visible from outside,
    /// and activates it. `after` has the resulting settings and keys.
    pub(super) fn write_change(
        &self,
        zone: Name<'_>,
        mut changes: Vec<StateChange>,
        (terms, uses): (SigningSettings, SeenUses),
        now: u64,
    ) -> Result<(), ZoneKeysError> {
        let before = self.terms(zone)?;
        let uses_before = seen(self.uses(zone)?);
        let is_same = uses_before == uses && (uses.is_empty() || before == terms);
        let terms = if is_same {
            terms
        } else {
            self.raised(zone, (&before, &uses_before), (terms, &uses), now)
        };
        changes.push(keep_terms(zone, &terms));
        self.store()?.write(changes)?;
        self.refresh(zone)
    }

    /// Increments the serial of an unmanaged zone whose signatures were renewed since, so that secondaries fetch the
    /// new ones before theirs expire. Returns whether it was incremented, and when that happens next; `None` if the
    /// zone is not signed with keys stored here, or SOA-EDIT changes its serial.
    pub(crate) fn renew(
        &self,
        zone: Name<'_>,
        now: u64,
    ) -> Result<Option<(bool, u64)>, ZoneKeysError> {
        let _changing = self.changing.lock();
        if self.store.is_none() {
            return Ok(None);
        }
        let uses = seen(self.uses(zone)?);
        let terms = self.terms(zone)?;
        let is_signed = uses.iter().any(|(_, usage)| usage.is_active());
        if !is_signed || terms.managed.is_some() || terms.soa_edit != SoaEdit::None {
            return Ok(None);
        }
        let week = signature_week(zone, now);
        if terms.serial.period == week.number {
            return Ok(Some((false, week.ends_at)));
        }
        let raised = self.raised(zone, (&terms, &uses), (terms.clone(), &uses), now);
        self.store()?.write(vec![keep_terms(zone, &raised)])?;
        self.refresh(zone)?;
        Ok(Some((true, week.ends_at)))
    }

    /// Lists the zones that no longer have keys but a serial ahead of their contents.
    pub(super) fn zones_with_serials(&self) -> Result<Vec<NameBuf>, ZoneKeysError> {
        let store = self.store()?;
        let keys = store.items(KEYS)?;
        let with_keys: HashSet<&[u8]> = keys
            .iter()
            .filter_map(|(name, _)| Some(name.split_last_chunk::<NUMBER>()?.0))
            .collect();
        let items = store.items(ZONES)?;
        let ahead = items.iter().filter(|(name, value)| {
            !with_keys.contains(&name[..])
                && SigningSettings::read(value.reveal()).serial.offset != 0
        });
        let names = ahead.filter_map(|(name, _)| Some(Name::from_wire(name).ok()?.into()));
        Ok(names.collect())
    }
}

/// Returns the change that stores the settings of a zone; those of a zone without keys and with the serial of its
/// contents are removed.
pub(super) fn keep_terms(zone: Name<'_>, terms: &SigningSettings) -> StateChange {
    let (kind, name) = (ZONES, wire(zone));
    if *terms == SigningSettings::default() {
        StateChange::remove_item(kind, name)
    } else {
        StateChange::set_item(kind, name, terms.value())
    }
}

/// Returns the stored uses of keys.
pub(super) fn uses_of(values: &[NumberedKey]) -> Result<Vec<(u32, KeyUse)>, ZoneKeysError> {
    let uses =
        values.iter().map(
            |(number, value)| match encoding::kept_pair(*number, value.reveal())? {
                Some(kept) => Ok((*number, kept.usage)),
                None => Ok((*number, ZoneKey::read(*number, value.reveal())?.usage)),
            },
        );
    uses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sunday, 15 November 2026, 06:00.
    const NOW: u64 = 1_794_722_400;

    /// Returns the served serials before and after a change.
    fn shown(stored: u32, (offset, before): (u32, SoaEdit), after: SoaEdit) -> (Serial, Serial) {
        let raised = raised_offset(
            Some(Serial(stored)),
            ServedSerial {
                offset,
                edit: before,
            },
            after,
            NOW,
        );
        let show = |edit: SoaEdit, offset: u32| {
            Serial(edit.serial(stored.wrapping_add(offset), NOW as u32))
        };
        (show(before, offset), show(after, raised))
    }

    #[test]
    fn the_shown_serial_increases_with_every_soa_edit() {
        let edits = [
            SoaEdit::None,
            SoaEdit::IncrementWeeks,
            SoaEdit::InceptionEpoch,
            SoaEdit::InceptionIncrement,
        ];
        for stored in [0, 10, 2_026_111_201, 2_026_111_500, u32::MAX] {
            for offset in [0, 1, 5] {
                for before in edits {
                    for after in edits {
                        let (old, new) = shown(stored, (offset, before), after);
                        assert!(new.is_after(old), "{stored} {offset} {before:?} {after:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_plain_serial_is_raised_by_one() {
        let (old, new) = shown(10, (3, SoaEdit::None), SoaEdit::None);
        assert_eq!((old, new), (Serial(13), Serial(14)));
    }
}
