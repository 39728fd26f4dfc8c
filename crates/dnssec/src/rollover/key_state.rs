//! One key with the states of its records.

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
    /// Returns whether the key signs the DNSKEY RRset and has a DS.
    pub fn signs_keys(self) -> bool {
        self != KeyRole::ZoneSigning
    }

    /// Returns whether the key signs the RRsets that are not DNSKEY.
    pub fn signs_zone(self) -> bool {
        self != KeyRole::KeySigning
    }
}

/// How far a record, or its absence, has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordPhase {
    /// No cache has it.
    #[default]
    Hidden,
    /// It is shown; caches may have the RRset without it.
    Rumoured,
    /// It is shown, and every cache that has the RRset has it.
    Omnipresent,
    /// It is not shown; caches may have it.
    Unretentive,
}

/// The state of one record of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordLife {
    /// How far it has come.
    pub phase: RecordPhase,
    /// When it was last shown or taken away.
    pub since: u64,
    /// When the caches have followed; `None` if that is so already, or if nobody knows (a DS that was not seen yet).
    pub settles_at: Option<u64>,
}

impl RecordLife {
    /// A record that all caches have.
    pub fn omnipresent(since: u64) -> Self {
        RecordLife {
            phase: RecordPhase::Omnipresent,
            since,
            settles_at: None,
        }
    }

    /// Returns whether the record is in the zone, or is asked of the parent.
    pub fn is_shown(&self) -> bool {
        matches!(self.phase, RecordPhase::Rumoured | RecordPhase::Omnipresent)
    }

    /// Returns whether caches may differ about it.
    pub(super) fn is_in_transit(&self) -> bool {
        matches!(self.phase, RecordPhase::Rumoured | RecordPhase::Unretentive)
    }

    /// Ends the transit if its time has come.
    pub(super) fn settle(&mut self, now: u64) {
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

/// Whether a key is to be used or to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyGoal {
    /// All its records are to be everywhere.
    Present,
    /// None of its records is to be anywhere.
    Gone,
}

/// A look at the parent's servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DsSight {
    /// All have the DS.
    Seen,
    /// None has it.
    Gone,
}

/// A key and how far its records have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLife {
    /// Tells the keys of a zone apart.
    pub id: u32,
    /// The records it signs.
    pub role: KeyRole,
    /// Its algorithm's number.
    pub algorithm: u8,
    /// Whether it is to be used or to go.
    pub goal: KeyGoal,
    /// When it was made.
    pub created_at: u64,
    /// An operator asked for its successor.
    pub is_rolled_by_hand: bool,
    /// Its DNSKEY, and its signature over the DNSKEY RRset if it makes one.
    pub dnskey: RecordLife,
    /// Its signatures over the other RRsets.
    pub zone_rrsig: RecordLife,
    /// Its DS.
    pub ds: RecordLife,
}

impl KeyLife {
    /// A key that nobody has seen yet.
    pub fn new(id: u32, (role, algorithm): (KeyRole, u8), now: u64) -> Self {
        KeyLife {
            id,
            role,
            algorithm,
            goal: KeyGoal::Present,
            created_at: now,
            is_rolled_by_hand: false,
            dnskey: RecordLife::default(),
            zone_rrsig: RecordLife::default(),
            ds: RecordLife::default(),
        }
    }

    /// A key that has been in use for long, with a DS at the parent if it is to have one.
    pub fn in_use(id: u32, (role, algorithm): (KeyRole, u8), since: u64) -> Self {
        let shown = |is_had: bool| match is_had {
            true => RecordLife::omnipresent(since),
            false => RecordLife::default(),
        };
        KeyLife {
            dnskey: shown(true),
            zone_rrsig: shown(role.signs_zone()),
            ds: shown(role.signs_keys()),
            ..KeyLife::new(id, (role, algorithm), since)
        }
    }

    pub(super) fn records(&self) -> [&RecordLife; 3] {
        [&self.dnskey, &self.zone_rrsig, &self.ds]
    }

    pub(super) fn records_mut(&mut self) -> [&mut RecordLife; 3] {
        [&mut self.dnskey, &mut self.zone_rrsig, &mut self.ds]
    }

    /// The records that put the key to its use, in either order.
    fn use_records(&self) -> [&RecordLife; 2] {
        match self.role.signs_keys() {
            true => [&self.dnskey, &self.ds],
            false => [&self.dnskey, &self.zone_rrsig],
        }
    }

    /// The time since which it is in use; `None` if it is not.
    pub fn in_use_since(&self) -> Option<u64> {
        let records = self.use_records();
        let is_used = records.iter().all(|record| record.is_shown());
        let since = records.iter().map(|record| record.since).max();
        since.filter(|_| is_used)
    }

    /// Returns whether it has come all the way, and is to stay.
    pub(super) fn is_established(&self) -> bool {
        let mut records = self.use_records().into_iter();
        self.goal == KeyGoal::Present
            && records.all(|record| record.phase == RecordPhase::Omnipresent)
    }

    /// Returns whether no cache has anything of it.
    pub fn is_hidden(&self) -> bool {
        let mut records = self.records().into_iter();
        records.all(|record| record.phase == RecordPhase::Hidden)
    }

    /// The time of its last step.
    pub(super) fn changed_at(&self) -> u64 {
        let records = self.records().into_iter().map(|record| record.since);
        records.max().unwrap_or_default().max(self.created_at)
    }

    /// Has steps that are in the future count from now: the clock was ahead when they were taken, and was set back. Waiting
    /// until it gets there again would stop a rollover for years; the delay of each step begins again.
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
        let mut key = KeyLife::new(1, (KeyRole::Combined, 13), 900);
        key.dnskey = RecordLife {
            phase: RecordPhase::Rumoured,
            since: 63_000_000,
            settles_at: Some(63_007_200),
        };
        key.zone_rrsig = RecordLife::omnipresent(500);
        key.end_future(1000);
        assert_eq!((key.created_at, key.zone_rrsig.since), (900, 500));
        assert_eq!(
            (key.dnskey.since, key.dnskey.settles_at),
            (1000, Some(8200))
        );
    }
}
