//! The inventory of all zones between two loads, in few bytes each: a hundred thousand zones mean as
//! many entries.
//!
//! A zone is identified by a 128-bit hash with a secret key, not by its name: collisions do not occur
//! in practice. The names are in the zones themselves.

use std::{
    collections::{HashMap, hash_map::Entry},
    ffi::OsStr,
    hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use nameward_wire::Name;

use super::{
    loader::{Includes, Job},
    zone_file::Fingerprint,
};

type NameDigest = (u64, u64);

/// Uses the first half of a digest as its hash, since it already is one.
#[derive(Default)]
struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn write_u64(&mut self, half: u64) {
        if self.0 == 0 {
            self.0 = half;
        }
    }

    fn write(&mut self, octets: &[u8]) {
        for chunk in octets.chunks(8) {
            let mut half = [0; 8];
            half[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(half));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// One zone.
#[derive(Default)]
pub(super) struct Slot {
    /// Fingerprint of the files as they were read; `None` forces reading them again.
    pub fingerprint: Option<Fingerprint>,
    /// Files it includes.
    includes: Includes,
    /// The load that saw its file last.
    seen: u32,
    /// Key of that file's path.
    pub path: u64,
    /// A version of it is in the table.
    pub served: bool,
    /// The rank with which it, or its stub, was published.
    pub rank: Option<u16>,
    /// Its file was found in a directory, not listed.
    pub is_found: bool,
    /// Its file has vanished, and it is still served.
    pub is_missing: bool,
}

impl Slot {
    fn new(load: u32) -> Self {
        Self {
            seen: load,
            ..Self::default()
        }
    }

    /// Creates the job for a thread that checks the file again.
    pub(super) fn job(&mut self, (candidate, path): (usize, u64), slot: usize, rank: u16) -> Job {
        self.path = path;
        self.is_missing = false;
        if self.rank != Some(rank) {
            // The rank of its source changed: it must be published again.
            self.fingerprint = None;
        }
        Job {
            candidate,
            slot,
            fingerprint: self.fingerprint,
            includes: self.includes.clone(),
        }
    }

    pub(super) fn has_includes(&self) -> bool {
        self.includes.is_some()
    }

    pub(super) fn includes(&self) -> &[PathBuf] {
        self.includes.as_deref().map_or(&[], Vec::as_slice)
    }

    fn is_spared(&self, spared: &[u16]) -> bool {
        self.rank.is_some_and(|rank| spared.contains(&rank))
    }

    /// Records what the new version was read from.
    pub(super) fn record_version(
        &mut self,
        fingerprint: Option<Fingerprint>,
        includes: Vec<PathBuf>,
        rank: u16,
    ) {
        self.rank = Some(rank);
        self.fingerprint = fingerprint;
        self.includes = (!includes.is_empty()).then(|| Box::new(includes));
        self.served = true;
    }
}

/// All zones that files were seen for.
#[derive(Default)]
pub(super) struct KnownZones {
    index: HashMap<NameDigest, u32, BuildHasherDefault<DigestHasher>>,
    pub slots: Vec<Slot>,
    free: Vec<u32>,
    keys: [RandomState; 2],
    load: u32,
}

impl KnownZones {
    /// Starts a load of about this many files.
    pub(super) fn begin(&mut self, files: usize) {
        self.load = self.load.wrapping_add(1);
        let more = files.saturating_sub(self.index.len());
        self.index.reserve(more);
        self.slots.reserve(more.saturating_sub(self.free.len()));
    }

    /// Records that there is a file for this zone; `None` if this load already saw one.
    pub(super) fn see(&mut self, name: Name<'_>) -> Option<usize> {
        let load = self.load;
        match self.index.entry(key(&self.keys, name)) {
            Entry::Occupied(entry) => {
                let slot = *entry.get();
                let seen = std::mem::replace(&mut self.slots[slot as usize].seen, load);
                (seen != load).then_some(slot as usize)
            }
            Entry::Vacant(entry) => {
                let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
                match self.slots.get_mut(slot as usize) {
                    Some(free) => *free = Slot::new(load),
                    None => self.slots.push(Slot::new(load)),
                }
                Some(*entry.insert(slot) as usize)
            }
        }
    }

    /// Checks whether a zone of the table, with this rank, came from a file that this load did not see.
    pub(super) fn is_gone(&self, name: Name<'_>, rank: u16, spared: &[u16]) -> bool {
        let is_spared = spared.contains(&rank);
        let slot = self.find(name).map(|slot| &self.slots[slot]);
        slot.is_some_and(|slot| slot.seen != self.load && slot.rank == Some(rank) && !is_spared)
    }

    fn known(&self) -> impl Iterator<Item = &Slot> {
        self.index.values().map(|slot| &self.slots[*slot as usize])
    }

    /// Checks whether there is a zone whose file this load did not see.
    pub(super) fn has_gone(&self, spared: &[u16]) -> bool {
        self.known()
            .any(|slot| slot.seen != self.load && !slot.is_spared(spared))
    }

    /// Returns how many zones of a source are served from files found in its directory.
    pub(super) fn found_of(&self, rank: u16) -> usize {
        self.known()
            .filter(|slot| slot.rank == Some(rank) && slot.is_found && slot.served)
            .count()
    }

    /// Returns the slot of a zone.
    pub(super) fn find(&self, name: Name<'_>) -> Option<usize> {
        let slot = self.index.get(&key(&self.keys, name));
        slot.map(|slot| *slot as usize)
    }

    /// Checks whether a zone is known from a source of one of these ranks.
    pub(super) fn is_of(&self, name: Name<'_>, ranks: &[u16]) -> bool {
        let slot = self.find(name);
        slot.is_some_and(|slot| self.slots[slot].is_spared(ranks))
    }

    /// Returns the key of a path in [`Slot::path`].
    pub(super) fn path_key(&self, path: &Path) -> u64 {
        let parent = path.parent().unwrap_or(Path::new(""));
        self.file_key(
            self.directory_key(parent),
            path.file_name().unwrap_or_default(),
        )
    }

    /// Returns the key of a directory. Different spellings of one path have the same key.
    pub(super) fn directory_key(&self, path: &Path) -> u64 {
        self.keys[0].hash_one(path)
    }

    /// Returns the key of a file in a directory.
    pub(super) fn file_key(&self, directory: u64, file: &OsStr) -> u64 {
        self.keys[0].hash_one((directory, file.as_bytes()))
    }

    pub(super) fn forget(&mut self, name: Name<'_>) {
        if let Some(slot) = self.index.remove(&key(&self.keys, name)) {
            self.slots[slot as usize] = Slot::new(0);
            self.free.push(slot);
        }
    }

    /// Forgets the zones whose files this load did not see, except those within a grace period.
    pub(super) fn forget_gone(&mut self, spared: &[u16]) {
        let Self {
            index,
            slots,
            free,
            load,
            ..
        } = self;
        index.retain(|_, slot| {
            let known = &slots[*slot as usize];
            let stays = known.seen == *load || known.is_missing || known.is_spared(spared);
            if !stays {
                slots[*slot as usize] = Slot::new(0);
                free.push(*slot);
            }
            stays
        });
    }
}

/// Hashes a name; names are case-insensitive (RFC 4343).
fn key(keys: &[RandomState; 2], name: Name<'_>) -> NameDigest {
    let mut lower = [0; nameward_wire::name::MAX_NAME];
    let lower = &mut lower[..name.as_wire().len()];
    lower.copy_from_slice(name.as_wire());
    lower.make_ascii_lowercase();
    (keys[0].hash_one(&*lower), keys[1].hash_one(&*lower))
}
