//! Candidate steps, tried in order; each is taken if it is safe.

use super::key_state::{KeyGoal, KeyRecordState, KeyRole, KeyState, RecordPhase};
use super::versions::every_combination_validates;
use super::{KskRollover, MAX_KEYS, PolicyKey, RolloverPolicy, RolloverStep};

/// The keys of a zone while steps are taken.
pub(super) struct KeyRing<'p> {
    policy: &'p RolloverPolicy,
    pub(super) keys: Vec<KeyState>,
    now: u64,
}

/// One of the three records of a key, in the order of [`KeyState::records`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyRecord {
    Dnskey,
    ZoneRrsig,
    Ds,
}

/// Records that change together: index of the key, its record, and whether it is published.
type Move = Vec<(usize, KeyRecord, bool)>;

impl KeyRecord {
    fn state(self, key: &KeyState) -> &KeyRecordState {
        key.records()[self as usize]
    }

    fn step(self, id: u32, is_shown: bool) -> RolloverStep {
        match (self, is_shown) {
            (KeyRecord::Dnskey, true) => RolloverStep::Publish(id),
            (KeyRecord::Dnskey, false) => RolloverStep::Unpublish(id),
            (KeyRecord::ZoneRrsig, true) => RolloverStep::Activate(id),
            (KeyRecord::ZoneRrsig, false) => RolloverStep::Deactivate(id),
            (KeyRecord::Ds, true) => RolloverStep::SubmitDs(id),
            (KeyRecord::Ds, false) => RolloverStep::WithdrawDs(id),
        }
    }
}

impl<'p> KeyRing<'p> {
    pub(super) fn new(policy: &'p RolloverPolicy, keys: &[KeyState], now: u64) -> Self {
        let mut keys = keys.to_vec();
        keys.iter_mut().for_each(|key| key.end_future(now));
        KeyRing { policy, keys, now }
    }

    /// Ends the transitions whose time has come.
    pub(super) fn end_due_transitions(&mut self) {
        for record in self.keys.iter_mut().flat_map(KeyState::records_mut) {
            record.end_due_transition(self.now);
        }
    }

    /// Returns the key that currently fulfils a policy key: the last one generated.
    fn current(&self, policy_key: &PolicyKey) -> Option<&KeyState> {
        let mut newest_first = self.keys.iter().rev();
        newest_first.find(|key| key.goal == KeyGoal::Present && policy_key.asks_for(key))
    }

    /// Checks whether the key is already being rolled over. A DS that the parent does not pick up must not make keys
    /// pile up.
    fn is_rolling(&self, policy_key: &PolicyKey, current: &KeyState) -> bool {
        let mut others = self.keys.iter().filter(|key| key.id != current.id);
        // A key that an operator wants replaced need not be fully propagated: its DS may never be requested. With
        // double-DS, the DS of both keys must be at the parent (RFC 6781 section 4.1.2), so the first one is awaited.
        let is_given_up =
            current.is_rolled_by_hand && self.policy.ksk_rollover != KskRollover::DoubleDs;
        let is_new = !current.is_established() && !is_given_up;
        is_new
            || others.any(|key| {
                let is_alike = if policy_key.role.signs_keys() {
                    key.role.signs_keys()
                } else {
                    policy_key.asks_for(key)
                };
                is_alike && !key.is_hidden()
            })
    }

    /// Returns the policy keys that do not exist yet, or whose successor is due.
    pub(super) fn missing_keys(&self) -> Vec<PolicyKey> {
        let room = MAX_KEYS.saturating_sub(self.keys.len());
        let is_missing = |policy_key: &&PolicyKey| match self.current(policy_key) {
            None => true,
            Some(current) => {
                let due_at = policy_key.successor_at(current, self.policy);
                let is_due = current.is_rolled_by_hand || due_at.is_some_and(|at| at <= self.now);
                is_due && !self.is_rolling(policy_key, current)
            }
        };
        let missing = self.policy.keys.iter().filter(is_missing);
        missing.take(room).copied().collect()
    }

    /// Retires keys that have a successor or that the policy does not include.
    pub(super) fn set_goals(&mut self) {
        let policy_keys = self.policy.keys.iter();
        let stay: Vec<u32> = policy_keys
            .filter_map(|policy_key| Some(self.current(policy_key)?.id))
            .collect();
        for key in self.keys.iter_mut().filter(|key| !stay.contains(&key.id)) {
            key.goal = KeyGoal::Gone;
        }
    }

    /// Takes steps until none is due or safe.
    pub(super) fn take_steps(&mut self, steps: &mut Vec<RolloverStep>) {
        // Each of the three records of a key takes at most two steps.
        for _ in 0..MAX_KEYS * 6 {
            let Some(taken) = self.wanted_moves().into_iter().find(|step| {
                let mut keys = self.keys.clone();
                self.make(step, &mut keys);
                every_combination_validates(&keys)
            }) else {
                return;
            };
            let mut keys = std::mem::take(&mut self.keys);
            self.make(&taken, &mut keys);
            self.keys = keys;
            let step = |&(place, record, is_shown): &(usize, KeyRecord, bool)| {
                record.step(self.keys[place].id, is_shown)
            };
            steps.extend(taken.iter().map(step));
        }
    }

    fn make(&self, step: &Move, keys: &mut [KeyState]) {
        let times = &self.policy.times;
        for &(place, record, is_shown) in step {
            let delay = match record {
                KeyRecord::Dnskey => Some(times.dnskey_delay()),
                KeyRecord::ZoneRrsig => Some(times.zone_rrsig_delay()),
                // It starts when the DS is seen, or seen to be removed.
                KeyRecord::Ds => None,
            };
            // Versions leave caches in the order in which they appeared, even if delays have been shortened in the
            // meantime.
            let others = keys.iter().filter_map(|key| record.state(key).settles_at);
            let latest = others.max().unwrap_or_default();
            let settles_at = delay.map(|delay| self.now.saturating_add(delay).max(latest));
            *keys[place].records_mut()[record as usize] =
                KeyRecordState::in_transit(is_shown, self.now, settles_at);
        }
    }

    /// Returns the candidate steps, the most urgent first.
    fn wanted_moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (place, key) in self.keys.iter().enumerate() {
            match key.goal {
                KeyGoal::Present => self.introduce((place, key), &mut moves),
                KeyGoal::Gone => self.retire((place, key), &mut moves),
            }
        }
        moves
    }

    fn introduce(&self, (place, key): (usize, &KeyState), moves: &mut Vec<Move>) {
        let is_known = key.dnskey.phase == RecordPhase::Omnipresent;
        let comes_by_ds = self.comes_by_ds(key);
        if comes_by_ds && key.ds.phase == RecordPhase::Omnipresent {
            moves.push(self.replace_dnskeys(place));
        } else if !comes_by_ds && key.dnskey.phase == RecordPhase::Hidden {
            self.alone_and_with_its_algorithm((place, KeyRecord::Dnskey, true), moves);
        }
        if key.role.signs_zone() && key.zone_rrsig.phase == RecordPhase::Hidden {
            let mut others = self.keys.iter();
            let is_first = !others
                .any(|other| other.algorithm == key.algorithm && other.zone_rrsig.is_shown());
            // Two keys of one algorithm need not both sign: the new one takes over when it is known everywhere.
            if is_first || is_known {
                moves.push(self.take_over(place));
            }
        }
        let is_ds_wanted = key.role.signs_keys() && key.ds.phase == RecordPhase::Hidden;
        // A DS without matching signatures would make the zone bogus, which the check detects; without any DS the check
        // has nothing to compare with, so the key must be known.
        if is_ds_wanted && (is_known || comes_by_ds) {
            moves.push(vec![(place, KeyRecord::Ds, true)]);
        }
    }

    /// Checks whether the DS of a key is at the parent before its DNSKEY is in the zone. Double-DS does so for a
    /// key-signing key whose algorithm already has another key everywhere, which validators use in the meantime.
    fn comes_by_ds(&self, key: &KeyState) -> bool {
        self.policy.ksk_rollover == KskRollover::DoubleDs
            && (key.role, key.goal) == (KeyRole::KeySigning, KeyGoal::Present)
            && key.dnskey.phase == RecordPhase::Hidden
            && self.predecessors(key).any(|(_, other)| {
                other.dnskey.phase == RecordPhase::Omnipresent
                    && other.ds.phase == RecordPhase::Omnipresent
            })
    }

    /// Returns the retiring key-signing keys of a key's algorithm.
    fn predecessors(&self, key: &KeyState) -> impl Iterator<Item = (usize, &KeyState)> {
        let (role, algorithm) = (KeyRole::KeySigning, key.algorithm);
        self.keys.iter().enumerate().filter(move |(_, other)| {
            other.goal == KeyGoal::Gone && (other.role, other.algorithm) == (role, algorithm)
        })
    }

    /// Replaces the DNSKEYs of retiring keys with that of one key.
    fn replace_dnskeys(&self, place: usize) -> Move {
        let others = self.predecessors(&self.keys[place]);
        let others = others.filter(|(_, other)| other.dnskey.phase == RecordPhase::Omnipresent);
        let others = others.map(|(other, _)| (other, KeyRecord::Dnskey, false));
        std::iter::once((place, KeyRecord::Dnskey, true))
            .chain(others)
            .collect()
    }

    /// Replaces the signatures of retiring keys with those of one key.
    fn take_over(&self, place: usize) -> Move {
        let algorithm = self.keys[place].algorithm;
        let others = self.keys.iter().enumerate().filter(|(_, other)| {
            other.goal == KeyGoal::Gone
                && other.algorithm == algorithm
                && other.zone_rrsig.phase == RecordPhase::Omnipresent
        });
        let others = others.map(|(other, _)| (other, KeyRecord::ZoneRrsig, false));
        std::iter::once((place, KeyRecord::ZoneRrsig, true))
            .chain(others)
            .collect()
    }

    fn retire(&self, (place, key): (usize, &KeyState), moves: &mut Vec<Move>) {
        if key.ds.is_shown() && self.may_lose_ds(place) {
            moves.push(vec![(place, KeyRecord::Ds, false)]);
        }
        // A record just published must be everywhere first: three versions would be too many to distinguish.
        if key.dnskey.phase == RecordPhase::Omnipresent {
            self.alone_and_with_its_algorithm((place, KeyRecord::Dnskey, false), moves);
        }
        if key.zone_rrsig.phase == RecordPhase::Omnipresent {
            moves.push(vec![(place, KeyRecord::ZoneRrsig, false)]);
        }
    }

    /// Checks whether a DS can be removed: another one replaces it, or the zone is becoming insecure.
    fn may_lose_ds(&self, place: usize) -> bool {
        let mut others = self.keys.iter().enumerate();
        self.policy.keys.is_empty()
            || others.any(|(other, key)| {
                other != place && key.goal == KeyGoal::Present && key.ds.is_shown()
            })
    }

    /// Adds a step for one key, and the same step for all keys of its algorithm that need it: a key-signing and a
    /// zone-signing key of a new algorithm are useless without each other.
    fn alone_and_with_its_algorithm(
        &self,
        (place, record, is_shown): (usize, KeyRecord, bool),
        moves: &mut Vec<Move>,
    ) {
        let own = &self.keys[place];
        let alike = self.keys.iter().enumerate().filter(|(_, key)| {
            key.algorithm == own.algorithm
                && key.goal == own.goal
                && record.state(key).phase == record.state(own).phase
                && !self.comes_by_ds(key)
        });
        let together: Move = alike.map(|(at, _)| (at, record, is_shown)).collect();
        if together.len() > 1 {
            moves.push(together);
        }
        moves.push(vec![(place, record, is_shown)]);
    }

    /// Removes keys that have been out of use long enough; the limit on keys shortens that time.
    pub(super) fn remove_hidden(&mut self, steps: &mut Vec<RolloverStep>) {
        let purge_after = if self.keys.len() < MAX_KEYS {
            self.policy.times.purge_after
        } else {
            0
        };
        let now = self.now;
        self.keys.retain(|key| {
            let is_old = key.changed_at().saturating_add(purge_after) <= now;
            let is_over = key.goal == KeyGoal::Gone && key.is_hidden() && is_old;
            if is_over {
                steps.push(RolloverStep::Remove(key.id));
            }
            !is_over
        });
    }

    /// Returns the next time at which something happens without outside action.
    pub(super) fn next_at(&self) -> Option<u64> {
        let times = &self.policy.times;
        let records = self.keys.iter().flat_map(KeyState::records);
        let settled = records.filter_map(|record| record.settles_at);
        let successors = self.policy.keys.iter().filter_map(|policy_key| {
            let current = self.current(policy_key)?;
            let is_rolling = self.is_rolling(policy_key, current);
            policy_key
                .successor_at(current, self.policy)
                .filter(|_| !is_rolling)
        });
        let over = self.keys.iter();
        let over = over.filter(|key| key.goal == KeyGoal::Gone && key.is_hidden());
        let removed = over.map(|key| key.changed_at().saturating_add(times.purge_after));
        settled.chain(successors).chain(removed).min()
    }
}
