//! Checks single files that were seen to change, so that one file among a hundred thousand costs its own size.
//!
//! A file is checked alone if that gives the same result as a full load: its zone is new, or is known from this very
//! file, and no zone has two files. Otherwise everything is checked.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use nameward_wire::{Name, NameBuf};

use super::{
    FileBackend, FileSource, LoadEvent, LoadSummary, ZoneTarget,
    discovery::{self, Candidates, FileRole},
    load::Load,
    loader::Job,
    missing::Withdrawal,
    publish::Publisher,
};

/// Files to check, and zones whose files no longer exist.
#[derive(Default)]
pub(super) struct CheckPlan {
    candidates: Candidates,
    jobs: Vec<Job>,
    gone: Vec<(NameBuf, u16, PathBuf)>,
}

impl CheckPlan {
    /// Creates an empty aim with the limits of the sources.
    pub(super) fn within(sources: &[FileSource]) -> Self {
        CheckPlan {
            candidates: Candidates::bounded_by(sources),
            ..CheckPlan::default()
        }
    }
}

/// How a source refers to a zone's file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileOrigin {
    /// It is listed.
    Listed(FileRole),
    /// Found in a directory: without the file there is no zone.
    Found,
}

impl FileBackend {
    /// Returns the zones that sources have in these files; `None` if more must be checked.
    pub(super) fn plan_checks<'s>(
        &mut self,
        sources: impl Iterator<Item = &'s FileSource> + Clone,
        mut plan: CheckPlan,
        paths: &[PathBuf],
    ) -> Option<CheckPlan> {
        if self.has_rivals {
            return None;
        }
        for path in paths {
            for source in sources.clone() {
                for (name, origin) in self.zones_of(source, path) {
                    self.plan_check(&mut plan, name.as_name(), (path, origin), source.rank)?;
                }
            }
        }
        Some(plan)
    }

    /// Checks one file that an operator has edited, whether it is watched or not.
    pub fn check_file(
        &mut self,
        table: &dyn ZoneTarget,
        sources: &[FileSource],
        path: PathBuf,
        events: &mut dyn FnMut(LoadEvent<'_>),
    ) -> LoadSummary {
        match self.plan_checks(sources.iter(), CheckPlan::within(sources), &[path]) {
            Some(plan) => self.check_files(table, sources, plan, events),
            None => self.load(table, sources, events),
        }
    }

    /// Finds the file that a zone is served from, and the rank of its source.
    pub fn file_of(&mut self, sources: &[FileSource], zone: Name<'_>) -> Option<(PathBuf, u16)> {
        let slot = &self.known.slots[self.known.find(zone)?];
        let (key, rank) = (slot.path, slot.rank?);
        let scanned = discovery::scan(sources, &mut self.configurations, None, &mut |_| ());
        let mut path = PathBuf::new();
        (0..scanned.candidates.len())
            .filter(|&candidate| scanned.candidates.name(candidate) == zone)
            .find_map(|candidate| {
                scanned.candidates.path_into(candidate, &mut path);
                let is_it = self.known.path_key(&path) == key;
                is_it.then(|| (path.clone(), rank))
            })
    }

    /// Checks whether a zone exists because its file is in the directory of a source, and not because a list or a
    /// configuration names it.
    pub fn is_found(
        &self,
        sources: &[FileSource],
        zone: Name<'_>,
        (path, rank): (&Path, u16),
    ) -> bool {
        let source = sources.iter().find(|source| source.rank == rank);
        let zones = source.map(|source| self.zones_of(source, path));
        let mut zones = zones.into_iter().flatten();
        zones.any(|(name, origin)| name.as_name() == zone && origin == FileOrigin::Found)
    }

    /// Returns how many zones are served from files that were found in the directory of a source.
    pub fn zones_found(&self, rank: u16) -> usize {
        self.known.found_of(rank)
    }

    /// Forgets a zone whose file an operator has removed by a command.
    pub fn forget(&mut self, zone: Name<'_>) {
        self.known.forget(zone);
    }

    /// Returns the zones that a source has in a file.
    fn zones_of(&self, source: &FileSource, path: &Path) -> Vec<(NameBuf, FileOrigin)> {
        // The end is compared first: a list may have a hundred thousand of them.
        let end = path.file_name().unwrap_or_default().as_bytes();
        let is_it = |file: &Path| file.as_os_str().as_bytes().ends_with(end) && file == path;
        let listed = source.zones.zones_in(path);
        let listed = listed.map(|name| (name.into(), FileOrigin::Listed(FileRole::Zone)));
        let conf = source.named_conf.as_deref();
        let configured = conf.map_or(&[][..], |conf| self.configurations.zones_in(conf));
        let configured = configured
            .iter()
            .filter(|zone| zone.file.as_deref().is_some_and(is_it))
            .map(|zone| {
                (
                    zone.name().into(),
                    FileOrigin::Listed(FileRole::from_zone(zone)),
                )
            });
        let is_written = source.written.has(path);
        let found = source.directory.as_deref().filter(|_| !is_written);
        let found = found.and_then(|directory| discovery::zone_at(directory, path));
        let found = found.map(|name| (name, FileOrigin::Found));
        listed.chain(configured).chain(found).collect()
    }

    fn plan_check(
        &mut self,
        plan: &mut CheckPlan,
        name: Name<'_>,
        (path, origin): (&Path, FileOrigin),
        rank: u16,
    ) -> Option<()> {
        let metadata = path.symlink_metadata().ok();
        let key = self.known.path_key(path);
        let slot = self.known.find(name);
        let known = slot.map(|slot| &self.known.slots[slot]);
        if known.is_some_and(|known| (known.path, known.rank) != (key, Some(rank))) {
            return None;
        }
        if origin == FileOrigin::Found {
            match (&metadata, slot) {
                (None, None) => return Some(()),
                (None, Some(_)) => {
                    plan.gone.push((name.into(), rank, path.to_path_buf()));
                    return Some(());
                }
                (Some(metadata), _) if metadata.is_dir() || metadata.is_symlink() => return None,
                (Some(_), _) => {}
            }
        }
        let slot = slot.or_else(|| self.known.see(name))?;
        let candidates = &mut plan.candidates;
        let candidate = candidates.len();
        let entry = candidates.add(name, path, rank);
        match origin {
            FileOrigin::Listed(role) => entry.role = role,
            FileOrigin::Found => entry.is_found = true,
        }
        let known = &mut self.known.slots[slot];
        known.is_found = entry.is_found;
        plan.jobs.push(known.job((candidate, key), slot, rank));
        Some(())
    }

    /// Loads the selected files.
    pub(super) fn check_files(
        &mut self,
        table: &dyn ZoneTarget,
        sources: &[FileSource],
        plan: CheckPlan,
        events: &mut dyn FnMut(LoadEvent<'_>),
    ) -> LoadSummary {
        let mut load = Load {
            candidates: &plan.candidates,
            summary: LoadSummary::default(),
            publisher: Publisher::new(table),
            events,
        };
        load.announce(&plan.jobs, &mut self.known.slots);
        load.run(&plan.jobs, &mut self.known.slots);
        self.note_returned(&mut load, &plan.jobs);
        for (name, rank, path) in &plan.gone {
            self.note_missing(&mut load, name.as_name(), *rank, path);
        }
        self.withdraw_missing(&mut load, sources, Withdrawal::AfterGrace);
        load.publish();
        let summary = load.summary;
        if let Some(watcher) = &self.watcher {
            watcher.included(plan.jobs.iter().map(|job| &self.known.slots[job.slot]));
        }
        summary
    }
}
