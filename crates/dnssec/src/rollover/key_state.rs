//! The state of one key and its records.

/// The records that a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyRole {
    /// The DNSKEY RRset (KSK).
    KeySigning,
    /// All others (ZSK).
    ZoneSigning,
    /// All (CSK).
    Combined,
}

impl KeyRole {
    /// Checks whether the key signs the DNSKEY RRset and has a DS.
    pub fn signs_keys(self) -> bool {
        self != KeyRole::ZoneSigning
    }

    /// Checks whether the key signs RRsets other than DNSKEY.
    pub fn signs_zone(self) -> bool {
        self != KeyRole::KeySigning
    }
}

/// How far a record, or its absence, has propagated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordPhase {
    /// No cache has it.
    #[default]
    Hidden,
    /// It is published; caches may have the RRset without it.
    Rumoured,
    /// It is published, and every cache that has the RRset has it.
    Omnipresent,
    /// It is withdrawn; caches may still have it.
    Unretentive,
}

/// The state of one record of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyRecordState {
    /// How far it has propagated.
    pub phase: RecordPhase,
    /// When it was last published or withdrawn.
    pub since: u64,
    /// When caches have caught up; `None` if they already have, or if it is unknown (a DS that has not been seen yet).
    pub settles_at: Option<u64>,
}

impl KeyRecordState {
    /// Returns the state of a record that all caches have.
    pub fn omnipresent(since: u64) -> Self {
        KeyRecordState {
            phase: RecordPhase::Omnipresent,
            since,
            settles_at: None,
        }
    }

    /// Returns the state of a record that is published, or withdrawn, from a time on.
    pub fn in_transit(is_shown: bool, since: u64, settles_at: Option<u64>) -> Self {
        KeyRecordState {
            phase: if is_shown {
                RecordPhase::Rumoured
            } else {
                RecordPhase::Unretentive
            },
            since,
            settles_at,
        }
    }

    /// Checks whether the record is in the zone, or requested from the parent.
    pub fn is_shown(&self) -> bool {
        matches!(self.phase, RecordPhase::Rumoured | RecordPhase::Omnipresent)
    }

    /// Checks whether caches may disagree about it.
    pub(super) fn is_in_transit(&self) -> bool {
        matches!(self.phase, RecordPhase::Rumoured | RecordPhase::Unretentive)
    }

    /// Ends the transition if its time has come.
    pub(super) fn end_due_transition(&mut self, now: u64) {
        if self.settles_at.is_none_or(|at| at > now) {
            return;
        }
        self.settles_at = None;
        self.phase = match self.phase {
            RecordPhase::Rumoured | RecordPhase::Omnipresent => RecordPhase::Omnipresent,
            RecordPhase::Unretentive | RecordPhase::Hidden => RecordPhase::Hidden,
        };
    }
}

/// Whether a key should be in use or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyGoal {
    /// All its records should be present everywhere.
    Present,
    /// All its records should be absent everywhere.
    Gone,
}

/// The result of checking the parent's servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DsSight {
    /// All have the DS.
    Seen,
    /// None has the DS.
    Gone,
}

/// A key and how far its records have propagated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyState {
    /// Identifies the key within its zone.
    pub id: u32,
    /// The records it signs.
    pub role: KeyRole,
    /// The algorithm number.
    pub algorithm: u8,
    /// Whether it should be in use or removed.
    pub goal: KeyGoal,
    /// When it was generated.
    pub created_at: u64,
    /// An operator requested its successor.
    pub is_rolled_by_hand: bool,
    /// Its DNSKEY, and its signature over the DNSKEY RRset if it makes one.
    pub dnskey: KeyRecordState,
    /// Its signatures over the other RRsets.
    pub zone_rrsig: KeyRecordState,
    /// Its DS.
    pub ds: KeyRecordState,
}

impl KeyState {
    /// Returns a key that has not been published yet.
    pub fn new(id: u32, (role, algorithm): (KeyRole, u8), now: u64) -> Self {
        KeyState {
            id,
            role,
            algorithm,
            goal: KeyGoal::Present,
            created_at: now,
            is_rolled_by_hand: false,
            dnskey: KeyRecordState::default(),
            zone_rrsig: KeyRecordState::default(),
            ds: KeyRecordState::default(),
        }
    }

    /// Returns a key that has been in use for a long time, with a DS at the parent if its role requires one.
    pub fn in_use(id: u32, (role, algorithm): (KeyRole, u8), since: u64) -> Self {
        let everywhere = || KeyRecordState::omnipresent(since);
        let shown = |is_had: bool| is_had.then(everywhere).unwrap_or_default();
        KeyState {
            dnskey: shown(true),
            zone_rrsig: shown(role.signs_zone()),
            ds: shown(role.signs_keys()),
            ..KeyState::new(id, (role, algorithm), since)
        }
    }

    /// Returns the states of its records: DNSKEY, signatures, DS.
    pub fn records(&self) -> [&KeyRecordState; 3] {
        [&self.dnskey, &self.zone_rrsig, &self.ds]
    }

    /// Returns the same to change them.
    pub fn records_mut(&mut self) -> [&mut KeyRecordState; 3] {
        [&mut self.dnskey, &mut self.zone_rrsig, &mut self.ds]
    }

    /// Returns the records that put the key to use, in either order.
    fn use_records(&self) -> [&KeyRecordState; 2] {
        if self.role.signs_keys() {
            [&self.dnskey, &self.ds]
        } else {
            [&self.dnskey, &self.zone_rrsig]
        }
    }

    /// Returns the time since which it is in use; `None` if it is not.
    pub fn in_use_since(&self) -> Option<u64> {
        let records = self.use_records();
        let is_used = records.iter().all(|record| record.is_shown());
        let since = records.iter().map(|record| record.since).max();
        since.filter(|_| is_used)
    }

    /// Checks whether it is fully propagated, and should stay in use.
    pub(super) fn is_established(&self) -> bool {
        let mut records = self.use_records().into_iter();
        self.goal == KeyGoal::Present
            && records.all(|record| record.phase == RecordPhase::Omnipresent)
    }

    /// Checks whether no cache has any of its records.
    pub fn is_hidden(&self) -> bool {
        let mut records = self.records().into_iter();
        records.all(|record| record.phase == RecordPhase::Hidden)
    }

    /// Returns the time of its last step.
    pub(super) fn changed_at(&self) -> u64 {
        let records = self.records().into_iter().map(|record| record.since);
        records.max().unwrap_or_default().max(self.created_at)
    }

    /// Moves steps that lie in the future to now: the clock was ahead when they were taken, and has been set back.
    /// Waiting until that time is reached again would block a rollover for years; the delay of each step restarts.
    pub(super) fn end_future(&mut self, now: u64) {
        self.created_at = self.created_at.min(now);
        for record in self.records_mut() {
            if let Some(ahead) = record.since.checked_sub(now) {
                record.since = now;
                record.settles_at = record.settles_at.map(|at| at.saturating_sub(ahead));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_taken_by_a_clock_that_was_ahead_count_from_now() {
        let mut key = KeyState::new(1, (KeyRole::Combined, 13), 900);
        key.dnskey = KeyRecordState {
            phase: RecordPhase::Rumoured,
            since: 63_000_000,
            settles_at: Some(63_007_200),
        };
        key.zone_rrsig = KeyRecordState::omnipresent(500);
        key.end_future(1000);
        assert_eq!((key.created_at, key.zone_rrsig.since), (900, 500));
        assert_eq!(
            (key.dnskey.since, key.dnskey.settles_at),
            (1000, Some(8200))
        );
    }
}
