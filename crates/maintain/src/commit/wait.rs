//! Commits that their caller waits for.

use super::{CommitError, Commits, CommittedVersion, Done, VersionSource};
use nameward_state::StateError;
use nameward_zone::Zone;
use nameward_zone::change::{Difference, ZoneChange};
use std::sync::Arc;

impl Commits {
    /// Like [`Commits::change`], and waits for the result.
    pub fn change_and_wait(
        self: &Arc<Self>,
        source: VersionSource,
        change: &ZoneChange,
    ) -> Result<CommittedVersion, CommitError> {
        wait(|done| self.change(source, change, done))
    }

    /// Like [`Commits::difference`], and waits for the result.
    pub fn difference_and_wait(
        self: &Arc<Self>,
        source: VersionSource,
        difference: Difference,
    ) -> Result<CommittedVersion, CommitError> {
        wait(|done| self.difference(source, difference, done))
    }

    /// Like [`Commits::version`], and waits for the result.
    pub fn version_and_wait(
        self: &Arc<Self>,
        source: VersionSource,
        zone: Zone,
    ) -> Result<CommittedVersion, CommitError> {
        wait(|done| self.version(source, zone, done))
    }
}

/// Waits for the result of a commit.
fn wait(begin: impl FnOnce(Done)) -> Result<CommittedVersion, CommitError> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    begin(Box::new(move |result| {
        let _ = sender.send(result);
    }));
    receiver.recv().unwrap_or(Err(StateError::Closed.into()))
}
