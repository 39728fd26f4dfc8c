//! Zones whose keys are pairs of files in a directory: which keys those are, and their current use.
//!
//! The state store has a number for each pair, and its rollover state; the private part stays in its file. Checking a
//! zone reads all its pairs:
//!
//! ```text
//! pair without a number   adopted as a key: as its times say, or by the policy as the next one
//! pair with a number      its use follows from its times, unless a policy manages it
//! number without a pair   dropped if the key is unused; an error if the zone is signed with it
//! public file alone       ignored: it remains if the server is killed while a pair is made or removed
//! ```
//! An error changes nothing: a zone in service keeps its keys, one that is just being started is not served unsigned.

use super::encoding::{StoredPair, kept_pair};
use super::files::{KeyPairError, PrivateKeyLocation, is_away, lacks_private, read_pair};
use super::serial::{SeenUses, keep_terms};
use super::{MAX_KEYS, ZoneKey, ZoneKeys, ZoneKeysError, forget, put_key};
use nameward_dnssec::rollover::{KeyRole, KeyState};
use nameward_dnssec::{KeyFile, KeyTimes, KeyUse};
use nameward_state::StateChange;
use nameward_wire::{Name, NameBuf};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// The outcome of checking a zone's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyFileProgress {
    /// Whether the zone has keys in files, or a directory for them.
    pub has_files: bool,
    /// The next time in the files at which something changes.
    pub next_at: Option<u64>,
    /// Whether the zone is served differently than before.
    pub is_visible: bool,
}

/// The findings of checking the pairs of a zone.
#[derive(Default)]
struct PairScan {
    changes: Vec<StateChange>,
    progress: KeyFileProgress,
    /// File names of pairs that have a number.
    known: BTreeSet<PathBuf>,
    is_managed: bool,
    /// Uses of the keys before and now.
    uses: (SeenUses, SeenUses),
    last_number: u32,
    count: usize,
}

impl ZoneKeys {
    /// Returns the directory for new keys of a zone; none for the state store.
    pub(super) fn directory(&self, zone: Name<'_>) -> Option<PathBuf> {
        self.zones.load().get(zone).key_directory.clone()
    }

    /// Reads the keys of a zone, sorted by number.
    pub fn keys(&self, zone: Name<'_>) -> Result<Vec<ZoneKey>, ZoneKeysError> {
        match self.read_keys(zone) {
            // Files change before the store that names them: wait for a change in progress.
            Err(ZoneKeysError::Pair(_)) => {
                let _changing = self.changing.lock();
                self.read_keys(zone)
            }
            keys => keys,
        }
    }

    /// Reads the files of a zone and activates what they say now.
    pub fn read_files(&self, zone: Name<'_>, now: u64) -> Result<KeyFileProgress, ZoneKeysError> {
        let _changing = self.changing.lock();
        let values = match self.values(zone) {
            // A zone without a directory needs no store.
            Err(ZoneKeysError::NoStore) if self.directory(zone).is_none() => Vec::new(),
            values => values?,
        };
        let directory = self.directory(zone);
        let pairs = match &directory {
            Some(directory) => self.directories.pairs(directory, zone.zone())?,
            None => Vec::new(),
        };
        let mut scan = PairScan::default();
        scan.progress.has_files = directory.is_some();
        for (number, value) in &values {
            let value = value.reveal();
            scan.last_number = scan.last_number.max(*number);
            scan.count += 1;
            match kept_pair(*number, value)? {
                Some(kept) => self.read_known(zone, (kept, value), &pairs, now, &mut scan)?,
                None => scan.is_managed |= ZoneKey::read(*number, value)?.life.is_some(),
            }
        }
        let new = pairs.iter().filter(|pair| {
            let name = pair.file_name().map(PathBuf::from);
            !name.is_some_and(|name| scan.known.contains(&name))
        });
        let mut taken = Vec::new();
        for pair in new {
            match read_pair(pair) {
                Ok(file) => taken.push((pair, file)),
                // The existing keys are enough to sign the zone.
                Err(error) if !values.is_empty() => {
                    tracing::warn!("zone {zone}: key ignored: {error}");
                }
                Err(error) => return Err(error.into()),
            }
        }
        // A policy takes the last one as the newest.
        taken.sort_by_key(|(_, file)| file.times.created);
        for pair in taken {
            take_pair(zone, pair, now, &mut scan)?;
        }
        if scan.progress.is_visible && !scan.is_managed {
            self.raise_for_files(zone, &mut scan, now)?;
        }
        if !scan.changes.is_empty() {
            self.store()?.write(scan.changes)?;
        }
        if scan.progress.has_files && (scan.progress.is_visible || !self.is_in_force(zone)) {
            self.refresh(zone)?;
        }
        Ok(scan.progress)
    }

    /// Increments the serial of a zone whose keys changed their use because a time in their files has passed, or the
    /// files have changed.
    fn raise_for_files(
        &self,
        zone: Name<'_>,
        scan: &mut PairScan,
        now: u64,
    ) -> Result<(), ZoneKeysError> {
        let terms = self.terms(zone)?;
        let (before, after) = &scan.uses;
        let raised = self.raised(zone, (&terms, before), (terms.clone(), after), now);
        scan.changes.push(keep_terms(zone, &raised));
        Ok(())
    }

    /// Reads a pair that has a number, at its old location or in the zone's current directory.
    fn read_known(
        &self,
        zone: Name<'_>,
        (kept, value): (StoredPair, &[u8]),
        pairs: &[PathBuf],
        now: u64,
        scan: &mut PairScan,
    ) -> Result<(), ZoneKeysError> {
        scan.progress.has_files = true;
        let name = PathBuf::from(kept.path.file_name().unwrap_or_default());
        let moved = pairs.iter().find(|pair| pair.ends_with(&name));
        let path = moved.unwrap_or(&kept.path);
        scan.known.insert(name);
        if lacks_private(path) {
            if !kept.is_unused {
                let path = path.display().to_string();
                return Err(KeyPairError::Missing { path }.into());
            }
            tracing::info!(
                "zone {zone}: key {} removed: its .private file no longer exists",
                kept.number
            );
            scan.changes.push(forget(zone, kept.number));
            return Ok(());
        }
        let mut key = ZoneKey::read_at(kept.number, value, path)?;
        let usage = key.usage;
        scan.uses.0.push((key.number, usage));
        scan.is_managed |= key.life.is_some();
        key.follow_times(now, &mut scan.progress.next_at);
        scan.progress.is_visible |= key.usage != usage;
        scan.uses.1.push((key.number, key.usage));
        if key.value().reveal() != value {
            scan.changes.push(put_key(zone, &key));
        }
        Ok(())
    }

    /// Checks whether the zone is signed with usable keys.
    fn is_in_force(&self, zone: Name<'_>) -> bool {
        let table = self.table.load();
        let signing = table.exact(zone).and_then(|version| {
            let online = version.signing().online()?;
            Some(!online.is_broken())
        });
        signing.unwrap_or(false)
    }

    /// Lists the zones that have pairs in their configured directories.
    pub(super) fn zones_with_files(&self) -> HashSet<NameBuf> {
        let policies = self.zones.load();
        let mut zones = HashSet::new();
        for directory in policies.key_directories() {
            match self.directories.zones(directory) {
                Ok(found) => zones.extend(found.into_iter().filter(|zone| {
                    policies.get(zone.as_name()).key_directory.as_ref() == Some(directory)
                })),
                Err(error) => tracing::error!("key directory: {error}"),
            }
        }
        zones
    }
}

/// Adopts a pair without a number as a key of its zone.
fn take_pair(
    zone: Name<'_>,
    (path, file): (&PathBuf, KeyFile),
    now: u64,
    scan: &mut PairScan,
) -> Result<(), ZoneKeysError> {
    if file.times.delete.is_some_and(|delete| delete <= now) {
        return Ok(());
    }
    if scan.count >= MAX_KEYS {
        return Err(ZoneKeysError::TooMany);
    }
    scan.count += 1;
    scan.last_number += 1;
    let number = scan.last_number;
    let (role, algorithm) = (role_of(file.flags), file.private.algorithm());
    let mut key = ZoneKey {
        number,
        flags: file.flags,
        role,
        usage: KeyUse::UNUSED,
        created: file.times.created.unwrap_or(now),
        // A policy publishes a new key in its own order, whatever its times say.
        life: scan
            .is_managed
            .then(|| KeyState::new(number, (role, algorithm), now)),
        private: file.private,
        location: PrivateKeyLocation::Files {
            path: path.clone(),
            times: file.times,
        },
    };
    key.follow_times(now, &mut scan.progress.next_at);
    scan.progress.is_visible |= key.usage != KeyUse::UNUSED;
    scan.uses.1.push((number, key.usage));
    tracing::info!(
        "zone {zone}: key {number} loaded from {}.private",
        path.display()
    );
    scan.changes.push(put_key(zone, &key));
    Ok(())
}

/// Returns the role of a key of which only the flags are known.
pub(crate) fn role_of(flags: u16) -> KeyRole {
    match flags & 1 {
        1 => KeyRole::KeySigning,
        _ => KeyRole::ZoneSigning,
    }
}

/// Checks whether CDS and CDNSKEY are omitted, because the times of the keys request none.
pub(super) fn hide_ds(keys: &[ZoneKey]) -> bool {
    let is_timed = |key: &ZoneKey| {
        key.life.is_none() && matches!(key.location, PrivateKeyLocation::Files { .. })
    };
    keys.iter().any(is_timed) && !keys.iter().any(|key| key.usage.asks_ds)
}

impl ZoneKey {
    /// Returns the key as the texts of its files; none for a key that is not stored in files.
    pub(super) fn file(&self, zone: Name<'_>) -> Option<KeyFile> {
        let PrivateKeyLocation::Files { times, .. } = &self.location else {
            return None;
        };
        Some(self.texts(zone, *times))
    }

    fn texts(&self, zone: Name<'_>, times: KeyTimes) -> KeyFile {
        KeyFile {
            owner: zone.zone().into(),
            flags: self.flags,
            private: self.private.clone(),
            times,
        }
    }

    /// Stores the key in files of a directory, with times that express its use.
    pub(super) fn move_into(
        &mut self,
        directory: &Path,
        zone: Name<'_>,
    ) -> Result<(), ZoneKeysError> {
        let mut times = KeyTimes {
            created: Some(self.created),
            ..KeyTimes::default()
        };
        if self.life.is_none() {
            // Files have flags, not roles.
            self.role = role_of(self.flags);
            times.set_usage(self.flags, self.usage, self.created);
            self.usage = times.usage(self.flags, self.created);
        }
        let number = self.number;
        let stem = self.texts(zone, times).stem();
        let stem = stem.map_err(|error| ZoneKeysError::Key { number, error })?;
        let path = directory.join(stem);
        if !is_away(&path) {
            return Err(KeyPairError::System {
                path: format!("{}.private", path.display()),
                reason: "another key has the same key tag".into(),
            }
            .into());
        }
        self.location = PrivateKeyLocation::Files { path, times };
        Ok(())
    }

    /// Returns since when the key has had its current use, as far as recorded.
    pub(crate) fn shown_since(&self, now: u64) -> u64 {
        let PrivateKeyLocation::Files { times, .. } = &self.location else {
            return self.created.min(now);
        };
        let known = [Some(self.created), times.publish, times.activate];
        let known = known.into_iter().flatten().filter(|time| *time <= now);
        known.max().unwrap_or(now)
    }

    /// Adopts the use according to its times, if it is a pair of files that no policy manages.
    fn follow_times(&mut self, now: u64, next_at: &mut Option<u64>) {
        let PrivateKeyLocation::Files { times, .. } = &self.location else {
            return;
        };
        if self.life.is_none() {
            self.usage = times.usage(self.flags, now);
            *next_at = [*next_at, times.next_after(now)]
                .into_iter()
                .flatten()
                .min();
        }
    }
}
