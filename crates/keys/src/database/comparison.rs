//! Compares the keys in a database with their recorded states: changes by others count from the moment they are
//! found.

use super::NotedKeyState;
use crate::local::{KeyPlan, ZoneKey, ZoneKeysError};
use nameward_dnssec::rollover::{KeyGoal, KeyRecordState, KeyRole, KeyState};
use nameward_dnssec::{KeyUse, Keys};

/// The two columns of a key that determine its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowUse {
    /// It signs.
    pub(super) is_active: bool,
    /// Its DNSKEY is in the zone.
    pub(super) is_published: bool,
}

impl RowUse {
    /// Returns the use according to the row of a key.
    pub(super) fn from_row(usage: KeyUse) -> Self {
        RowUse {
            is_active: usage.is_active(),
            is_published: usage.published,
        }
    }

    /// Returns the use that the row of a key must have.
    fn wanted(key: &ZoneKey) -> Self {
        match &key.life {
            Some(life) => RowUse::from_state(life),
            None => RowUse::from_row(key.usage),
        }
    }

    /// Returns the use that the row of a key must have for its state. A key that signs the keys and will sign the
    /// rest later signs everything at once, because a row cannot express the difference: an additional signature
    /// breaks nothing.
    pub(super) fn from_state(life: &KeyState) -> Self {
        let is_published = life.dnskey.is_shown();
        RowUse {
            is_active: is_published && life.role.signs_keys() || life.zone_rrsig.is_shown(),
            is_published,
        }
    }
}

/// Finds a key that could not fulfil its state with the flags that rows have: each key must do at least that.
pub(super) fn unfit_key(keys: &[ZoneKey]) -> Result<Option<u32>, ZoneKeysError> {
    let effective = effective_uses(keys, RowUse::wanted)?;
    let does_less = |has: KeyUse, needs: KeyUse| {
        needs.signs_keys && !has.signs_keys || needs.signs_zone && !has.signs_zone
    };
    let mut both = keys.iter().zip(effective);
    let unfit = both.find(|(key, has)| does_less(*has, key.usage));
    Ok(unfit.map(|(key, _)| key.number))
}

/// Returns the use that each key has by its row next to the others.
pub(super) fn effective_uses(
    keys: &[ZoneKey],
    row_use: impl Fn(&ZoneKey) -> RowUse,
) -> Result<Vec<KeyUse>, ZoneKeysError> {
    let made = keys.iter().map(|key| {
        let row = row_use(key);
        let usage = KeyUse::by_flags(key.flags, row.is_active, row.is_published);
        ZoneKey {
            usage,
            ..key.clone()
        }
        .key()
    });
    let made = Keys::by_flags(made.collect::<Result<_, _>>()?);
    Ok(made.list().iter().map(|key| key.usage()).collect())
}

/// Whether the keys of a zone were managed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyFamiliarity {
    /// No: they are adopted from their previous manager.
    New,
    /// Yes: differences from the records were made by others, or by a server that was killed before it recorded them.
    Known,
}

/// Returns the keys of rows with states, and descriptions of changes by others.
pub(super) fn reconcile_keys(
    rows: &[ZoneKey],
    noted: &[NotedKeyState],
    acquaintance: KeyFamiliarity,
    (plan, now): (&KeyPlan, u64),
) -> Result<(Vec<ZoneKey>, Vec<String>), ZoneKeysError> {
    let effective = effective_uses(rows, |key| RowUse::from_row(key.usage))?;
    let (mut keys, mut changes) = (rows.to_vec(), Vec::new());
    for (key, usage) in keys.iter_mut().zip(effective.iter().copied()) {
        let fingerprint = *key.key()?.fingerprint();
        let is_it =
            |one: &&NotedKeyState| (one.life.id, one.fingerprint) == (key.number, fingerprint);
        let row = RowUse::from_row(key.usage);
        let number = key.number;
        let life = match noted.iter().find(is_it) {
            Some(one) if RowUse::from_state(&one.life) == row => one.life.clone(),
            Some(one) => {
                let RowUse {
                    is_active,
                    is_published,
                } = row;
                changes.push(format!(
                    "key {number} was changed externally: active {is_active}, published {is_published}"
                ));
                changed_life(&one.life, row, (plan, now))
            }
            None => {
                if acquaintance == KeyFamiliarity::Known && row.is_active | row.is_published {
                    changes.push(format!("key {number} was added externally"));
                }
                new_life(key, usage, acquaintance, (plan, now))
            }
        };
        key.role = life.role;
        key.created = life.created_at;
        key.set_life(life);
    }
    let is_there = |one: &&NotedKeyState| keys.iter().any(|key| key.number == one.life.id);
    let gone = noted.iter().filter(|one| !is_there(one));
    changes.extend(gone.map(|one| format!("key {} was removed externally", one.life.id)));
    if !changes.is_empty() {
        note_stand_ins(&mut keys, &effective, (plan, now));
    }
    Ok((keys, changes))
}

/// Records the signatures of keys that sign the rest of the zone because no other key does any longer: without them
/// no step would be safe.
fn note_stand_ins(keys: &mut [ZoneKey], effective: &[KeyUse], at: (&KeyPlan, u64)) {
    let signs = |key: &ZoneKey| key.usage.signs_zone;
    let signed = keys.iter().filter(|key| signs(key));
    let signed: Vec<u8> = signed.map(|key| key.private.algorithm()).collect();
    for (key, usage) in keys.iter_mut().zip(effective) {
        let is_alone = !signed.contains(&key.private.algorithm());
        if let Some(life) = key.life.clone().filter(|_| is_alone && usage.signs_zone) {
            key.set_life(KeyState {
                zone_rrsig: in_transit(true, at),
                ..life
            });
        }
    }
}

/// Ends the signatures of keys that stood in for others once these sign again: by their flags they then sign only the
/// keys.
pub(super) fn end_stand_ins(
    keys: &mut [ZoneKey],
    at: (&KeyPlan, u64),
) -> Result<(), ZoneKeysError> {
    let effective = effective_uses(keys, RowUse::wanted)?;
    for (key, usage) in keys.iter_mut().zip(effective) {
        let is_over = key.role == KeyRole::KeySigning && key.usage.signs_zone && !usage.signs_zone;
        if let Some(life) = key.life.clone().filter(|_| is_over) {
            key.set_life(KeyState {
                zone_rrsig: in_transit(false, at),
                ..life
            });
        }
    }
    Ok(())
}

/// Returns the state of a record that is published, or withdrawn, from now on.
fn in_transit(is_shown: bool, (plan, now): (&KeyPlan, u64)) -> KeyRecordState {
    let settles_at = now.saturating_add(plan.rollover.times.settled_after());
    KeyRecordState::in_transit(is_shown, now, Some(settles_at))
}

/// Returns the state of a key whose row differs from its expected use. A key that others took out of use is retired.
fn changed_life(life: &KeyState, row: RowUse, at: (&KeyPlan, u64)) -> KeyState {
    let expected = RowUse::from_state(life);
    let mut life = life.clone();
    let is_shown = row.is_published && (row.is_active || !life.role.signs_keys());
    if is_shown != life.dnskey.is_shown() {
        life.dnskey = in_transit(is_shown, at);
    }
    // The signatures of a combined key come with its DNSKEY; the policy decides when they count.
    let is_told = life.role == KeyRole::ZoneSigning || !row.is_active || !expected.is_active;
    if life.role.signs_zone() && is_told && row.is_active != life.zone_rrsig.is_shown() {
        life.zone_rrsig = in_transit(row.is_active, at);
    }
    let is_less =
        expected.is_active && !row.is_active || expected.is_published && !row.is_published;
    if is_less {
        life.goal = KeyGoal::Gone;
    }
    life
}

/// Returns the state of an unknown key. Its records are everywhere when the longest delay has passed. For a key that
/// existed before the policy the parent is assumed to have the DS; for a later one it is unknown.
fn new_life(
    key: &ZoneKey,
    usage: KeyUse,
    acquaintance: KeyFamiliarity,
    (plan, now): (&KeyPlan, u64),
) -> KeyState {
    let algorithm = key.private.algorithm();
    let role = match (usage.signs_keys, usage.signs_zone) {
        (true, true) => KeyRole::Combined,
        (true, false) => KeyRole::KeySigning,
        (false, true) => KeyRole::ZoneSigning,
        // An unused key is for the role that the policy has for its kind: this server may have made it.
        (false, false) => {
            let mut wanted = plan.rollover.keys.iter();
            let is_alike = |one: &&nameward_dnssec::rollover::PolicyKey| {
                one.algorithm == algorithm && one.role.signs_keys() == key.role.signs_keys()
            };
            wanted.find(is_alike).map_or(key.role, |one| one.role)
        }
    };
    let published = || in_transit(true, (plan, now));
    let shown = |is_shown: bool| is_shown.then(published).unwrap_or_default();
    let has_ds = usage.published && usage.signs_keys;
    KeyState {
        dnskey: shown(usage.published),
        zone_rrsig: shown(usage.signs_zone),
        ds: match (has_ds, acquaintance) {
            (false, _) => KeyRecordState::default(),
            (true, KeyFamiliarity::New) => KeyRecordState::omnipresent(now),
            (true, KeyFamiliarity::Known) => KeyRecordState::in_transit(true, now, None),
        },
        ..KeyState::new(key.number, (role, algorithm), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::PrivateKeyLocation;
    use nameward_dnssec::PrivateKey;

    fn key(number: u32, flags: u16, life: KeyState) -> ZoneKey {
        let mut key = ZoneKey {
            number,
            flags,
            role: life.role,
            usage: KeyUse::UNUSED,
            created: 0,
            life: None,
            private: PrivateKey::generate(13, 0).unwrap(),
            location: PrivateKeyLocation::Store,
        };
        key.set_life(life);
        key
    }

    #[test]
    fn states_that_rows_cannot_express_are_found() {
        let in_use = |number, role| KeyState::in_use(number, (role, 13), 0);
        let combined = |number, flags| key(number, flags, in_use(number, KeyRole::Combined));
        let zone = || key(9, 256, in_use(9, KeyRole::ZoneSigning));
        // A single key signs everything, whatever its flags, and so do two of a kind.
        assert_eq!(unfit_key(&[combined(1, 256)]), Ok(None));
        assert_eq!(unfit_key(&[combined(1, 257), combined(2, 257)]), Ok(None));
        // Next to one of the other kind each does its own part.
        assert_eq!(
            unfit_key(&[combined(1, 256), combined(2, 257)]),
            Ok(Some(1))
        );
        assert_eq!(unfit_key(&[combined(1, 257), zone()]), Ok(Some(1)));
        let keys = key(1, 257, in_use(1, KeyRole::KeySigning));
        assert_eq!(unfit_key(&[keys, zone()]), Ok(None));
    }
}
