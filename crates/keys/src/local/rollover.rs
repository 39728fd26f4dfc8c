//! Keys managed by a policy: the steps of `dnssec::rollover`, taken and stored.
//!
//! Everything that changes for a zone (key states, new keys, the serial offset) is one write to the state store, and
//! takes effect when it is on disk: a server that is killed at any moment continues from a consistent state.

use super::files::{follow_life, remove_pair};
use super::serial::{SerialOffsetRaise, keep_terms, seen_uses};
use super::{
    ManagedSettings, ParentSettings, PrivateKeyLocation, SigningSettings, ZoneKey, ZoneKeys,
    ZoneKeysError,
};
use super::{forget, put_key, signing_keys};
use nameward_dnssec::rollover::{
    self, DsSight, KeyRecordState, KeyRole, KeyState, KskRollover, ParentRequest, PolicyKey,
    RecordPhase, RolloverPolicy, RolloverStep,
};
use nameward_dnssec::{DenialSettings, KeyUse, PrivateKey, SignatureTimes, SoaEdit};
use nameward_state::StateChange;
use nameward_wire::Name;

/// Maximum number of rounds in which keys are made: one makes all that are missing.
const ROUNDS: usize = 4;
/// Maximum number of attempts to create a key whose tag is unique in the zone.
const TAG_TRIES: usize = 8;

/// The keys and signatures that a policy requires for one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPlan {
    /// The keys and the delays; no keys for a zone that goes insecure.
    pub rollover: RolloverPolicy,
    /// Size of RSA keys in bits.
    pub rsa_bits: usize,
    /// The denial of existence method.
    pub denial: DenialSettings,
    /// Inception, expiration and renewal of signatures.
    pub signatures: SignatureTimes,
    /// The TTL of DNSKEY, CDS and CDNSKEY.
    pub dnskey_ttl: u32,
    /// Whether CDS and CDNSKEY request the DS from the parent.
    pub shows_cds: bool,
    /// How the parent is queried.
    pub parent: ParentSettings,
}

/// The outcome of processing the keys of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyProgress {
    /// New keys.
    pub made: Vec<u32>,
    /// The steps that were taken.
    pub steps: Vec<RolloverStep>,
    /// The current keys.
    pub keys: Vec<ZoneKey>,
    /// When the next step is due without an external event.
    pub next_at: Option<u64>,
    /// When the keys are read again because others may change them.
    pub reread_at: Option<u64>,
    /// Whether the zone is served differently than before.
    pub is_visible: bool,
}

impl ZoneKey {
    /// Returns the use that follows from its state.
    fn usage_of(life: &KeyState) -> KeyUse {
        let is_shown = life.dnskey.is_shown();
        KeyUse {
            published: is_shown,
            signs_keys: is_shown && life.role.signs_keys(),
            signs_zone: life.zone_rrsig.is_shown(),
            asks_ds: life.ds.is_shown(),
        }
    }

    pub(crate) fn set_life(&mut self, life: KeyState) {
        self.usage = ZoneKey::usage_of(&life);
        if let PrivateKeyLocation::Files { times, .. } = &mut self.location {
            follow_life(times, &life);
        }
        self.life = Some(life);
    }

    /// Returns the DS observation at the parent that a rollover waits for.
    pub fn awaited_ds(&self) -> Option<DsSight> {
        let ds = &self.life.as_ref()?.ds;
        match (ds.phase, ds.settles_at) {
            (RecordPhase::Rumoured, None) => Some(DsSight::Seen),
            (RecordPhase::Unretentive, None) => Some(DsSight::Gone),
            _ => None,
        }
    }
}

impl KeyPlan {
    /// Returns the plan for a zone that no longer has a policy: it goes insecure, signed as before until then.
    pub fn insecure(terms: &SigningSettings, managed: &ManagedSettings) -> Self {
        KeyPlan {
            rollover: RolloverPolicy {
                keys: Vec::new(),
                ksk_rollover: KskRollover::default(),
                // Nothing needs to be restored later.
                times: rollover::RolloverTimes {
                    purge_after: 0,
                    ..managed.times
                },
            },
            rsa_bits: 0,
            denial: terms.denial.clone(),
            signatures: managed.signatures,
            dnskey_ttl: managed.dnskey_ttl,
            shows_cds: managed.shows_cds,
            parent: managed.parent.clone(),
        }
    }

    /// Returns the settings to record for a zone whose keys have these states.
    pub(crate) fn managed(&self, states: &[KeyState]) -> ManagedSettings {
        let request = rollover::parent_request(&self.rollover, states);
        ManagedSettings {
            signatures: self.signatures,
            dnskey_ttl: self.dnskey_ttl,
            shows_cds: self.shows_cds,
            asks_removal: request == ParentRequest::Removal,
            times: self.rollover.times,
            parent: self.parent.clone(),
        }
    }
}

impl ZoneKeys {
    /// Takes all steps that are due for a zone, and stores them before they take effect.
    pub fn advance(
        &self,
        zone: Name<'_>,
        plan: &KeyPlan,
        now: u64,
    ) -> Result<KeyProgress, ZoneKeysError> {
        let _changing = self.changing.lock();
        let before = self.read_keys(zone)?;
        let mut keys = adopted(&before, plan, now)?;
        let mut progress = KeyProgress::default();
        for _ in 0..ROUNDS {
            let lives: Vec<KeyState> = keys.iter().filter_map(|key| key.life.clone()).collect();
            let next = rollover::advance(&plan.rollover, &lives, now);
            keys.retain(|key| next.keys.iter().any(|life| life.id == key.number));
            for (key, life) in keys.iter_mut().zip(next.keys) {
                key.set_life(life);
            }
            progress.steps.extend(next.steps);
            progress.next_at = next.next_at;
            if next.missing.is_empty() {
                break;
            }
            for policy_key in &next.missing {
                let mut key = made_key(policy_key, plan.rsa_bits, &keys, now)?;
                if let Some(directory) = self.directory(zone) {
                    key.move_into(&directory, zone)?;
                }
                progress.made.push(key.number);
                keys.push(key);
            }
        }
        progress.is_visible = self.keep_all(zone, (&before, &keys), plan, now)?;
        progress.keys = keys;
        Ok(progress)
    }

    /// Changes the rollover state of one key of a zone, or of all keys that have one. Uses change with the next steps.
    pub(super) fn change_states(
        &self,
        (zone, number): (Name<'_>, Option<u32>),
        change: &mut dyn FnMut(&mut KeyState),
    ) -> Result<(), ZoneKeysError> {
        let _changing = self.changing.lock();
        let mut keys = self.read_keys(zone)?;
        if let Some(number) = number {
            keys.retain(|key| key.number == number);
            if keys.is_empty() {
                return Err(ZoneKeysError::NotThere(number));
            }
        }
        let mut changes = Vec::new();
        for key in &mut keys {
            let Some(state) = key.life.as_mut() else {
                continue;
            };
            let before = state.clone();
            change(state);
            if *state != before {
                changes.push(put_key(zone, key));
            }
        }
        if !changes.is_empty() {
            self.store()?.write(changes)?;
        }
        Ok(())
    }

    /// Writes all changes, in one write, and activates them. Returns whether the zone is served differently than
    /// before.
    fn keep_all(
        &self,
        zone: Name<'_>,
        (before, keys): (&[ZoneKey], &[ZoneKey]),
        plan: &KeyPlan,
        now: u64,
    ) -> Result<bool, ZoneKeysError> {
        let terms_before = self.terms(zone)?;
        let lives: Vec<KeyState> = keys.iter().filter_map(|key| key.life.clone()).collect();
        let managed_before = terms_before.managed.as_ref();
        let managed = plan.managed(&lives);
        // These are not visible from outside.
        let with_times = |managed: &ManagedSettings| ManagedSettings {
            times: plan.rollover.times,
            parent: plan.parent.clone(),
            ..managed.clone()
        };
        let (uses_before, uses) = (seen_uses(before), seen_uses(keys));
        let period = plan.signatures.period(now);
        let is_visible = uses_before != uses
            || managed_before.map(with_times).as_ref() != Some(&managed)
            || terms_before.serial.period != period
            || terms_before.denial != plan.denial;
        let serial = SerialOffsetRaise {
            period,
            ..terms_before.serial
        };
        let mut terms = if !keys.is_empty() {
            SigningSettings {
                denial: plan.denial.clone(),
                soa_edit: SoaEdit::None,
                managed: Some(managed),
                serial,
            }
        } else {
            SigningSettings {
                serial,
                ..SigningSettings::default()
            }
        };
        // A zone that never had keys stays as it is.
        if is_visible && !(before.is_empty() && keys.is_empty()) {
            terms = self.raised(zone, (&terms_before, &uses_before), (terms, &uses), now);
        }
        let changed = keys.iter().filter(|key| !before.contains(key));
        let mut changes: Vec<StateChange> = changed.map(|key| put_key(zone, key)).collect();
        let gone = before.iter().map(|key| key.number);
        let gone = gone.filter(|number| !keys.iter().any(|key| key.number == *number));
        changes.extend(gone.map(|number| forget(zone, number)));
        let had_terms = !before.is_empty() || managed_before.is_some();
        if terms != terms_before && (had_terms || !keys.is_empty()) {
            changes.push(keep_terms(zone, &terms));
        }
        if !changes.is_empty() {
            self.keep_files(zone, (before, keys))?;
            self.store()?.write(changes)?;
            self.refresh(zone)?;
        }
        Ok(is_visible)
    }

    /// Writes the files of keys that are new or have changed times, and removes those of deleted keys. The state
    /// store follows: a key that it does not know yet is found in its files, and one whose files are missing is
    /// dropped.
    fn keep_files(
        &self,
        zone: Name<'_>,
        (before, keys): (&[ZoneKey], &[ZoneKey]),
    ) -> Result<(), ZoneKeysError> {
        let of_number = |number, keys: &'_ [ZoneKey]| -> Option<PrivateKeyLocation> {
            let mut keys = keys.iter();
            Some(keys.find(|key| key.number == number)?.location.clone())
        };
        for key in keys {
            if of_number(key.number, before).as_ref() != Some(&key.location) {
                self.write_files(zone, key)?;
            }
        }
        for key in before
            .iter()
            .filter(|key| of_number(key.number, keys).is_none())
        {
            if let PrivateKeyLocation::Files { path, .. } = &key.location {
                remove_pair(path)?;
            }
        }
        Ok(())
    }
}

/// Returns the keys with states. Manually managed keys are adopted as they are: their current use is known everywhere
/// when a delay has passed since their creation, and the parent is assumed to have the DS of those that may have one.
/// That is the safe assumption: a missing DS breaks nothing.
fn adopted(before: &[ZoneKey], plan: &KeyPlan, now: u64) -> Result<Vec<ZoneKey>, ZoneKeysError> {
    let mut keys = before.to_vec();
    if keys.iter().all(|key| key.life.is_some()) {
        return Ok(keys);
    }
    let completed = signing_keys(&keys)?;
    let settled = plan.rollover.times.settled_after();
    for (key, completed) in keys.iter_mut().zip(completed.list()) {
        if key.life.is_some() {
            continue;
        }
        let usage = completed.usage();
        key.role = match (usage.signs_keys, usage.signs_zone) {
            (true, true) => KeyRole::Combined,
            (true, false) => KeyRole::KeySigning,
            (false, true) => KeyRole::ZoneSigning,
            (false, false) => key.role,
        };
        let since = key.shown_since(now);
        let settles_at = since.saturating_add(settled);
        let shown = |is_shown: bool| match is_shown {
            true if settles_at > now => KeyRecordState::in_transit(true, since, Some(settles_at)),
            true => KeyRecordState::omnipresent(since),
            false => KeyRecordState::default(),
        };
        let kind = (key.role, key.private.algorithm());
        let life = KeyState {
            dnskey: shown(usage.published),
            zone_rrsig: shown(usage.signs_zone),
            ds: if usage.signs_keys && usage.published {
                KeyRecordState::omnipresent(since)
            } else {
                KeyRecordState::default()
            },
            ..KeyState::new(key.number, kind, key.created.min(now))
        };
        key.set_life(life);
    }
    Ok(keys)
}

/// Creates a key that a policy requires, with a tag that is unique in the zone: validators try every key of a tag.
pub(crate) fn made_key(
    policy_key: &PolicyKey,
    rsa_bits: usize,
    keys: &[ZoneKey],
    now: u64,
) -> Result<ZoneKey, ZoneKeysError> {
    let number = keys.last().map_or(1, |last| last.number.saturating_add(1));
    let failed = |error| ZoneKeysError::Key { number, error };
    let tags: Vec<u16> = keys
        .iter()
        .filter_map(|key| Some(key.key().ok()?.tag()))
        .collect();
    let mut tries = 0;
    loop {
        let private = PrivateKey::generate(policy_key.algorithm, rsa_bits).map_err(failed)?;
        let life = KeyState::new(number, (policy_key.role, policy_key.algorithm), now);
        let key = ZoneKey {
            number,
            flags: if policy_key.role.signs_keys() {
                257
            } else {
                256
            },
            role: policy_key.role,
            usage: KeyUse::UNUSED,
            created: now,
            life: Some(life),
            private,
            location: PrivateKeyLocation::Store,
        };
        tries += 1;
        if !tags.contains(&key.key()?.tag()) || tries >= TAG_TRIES {
            return Ok(key);
        }
    }
}
