//! A change of records and attributes of one zone in one transaction, as an HTTP API makes it: RRsets with their comments.

use super::super::SqlBackend;
use super::commit::{self, LockedZone};
use super::request::Asked;
use super::session::Session;
use super::{AttributeChange, Committed, Task, WriteError, attributes};
use nameward_wire::NameBuf;
use nameward_zone::change::ConditionalChange;

impl SqlBackend {
    /// Changes records and attributes of one zone in one transaction: all or nothing.
    pub async fn commit_with(
        &self,
        zone: NameBuf,
        change: &dyn ConditionalChange,
        attributes: &[AttributeChange],
    ) -> Result<Committed, WriteError> {
        let task = Task::Patch(&zone, change, attributes);
        let mut committed = self.transact_one(&task).await?;
        committed.author = change.author();
        Ok(committed)
    }
}

/// Changes records and then attributes of a zone.
pub(super) async fn make(
    session: &mut Session,
    name: &NameBuf,
    asked: &dyn ConditionalChange,
    changes: &[AttributeChange],
) -> Result<Committed, WriteError> {
    let row = commit::lock_named(session, name.as_name()).await?;
    let mut zone = LockedZone::of(session, row).await?;
    let mut committed = commit::change(session, &mut zone, Asked::When(asked)).await?;
    let is_changed = attributes::change_locked(session, &zone.row, changes).await?;
    if is_changed && !committed.is_changed {
        session.notify_change(committed.zone).await?;
        committed.is_changed = true;
    }
    Ok(committed)
}
