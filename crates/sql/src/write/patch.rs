//! A change of records and attributes of one zone in one transaction, as an HTTP API makes it: RRsets with their comments.

use super::super::SqlBackend;
use super::commit::{self, LockedZone};
use super::request::RequestedChange;
use super::session::Session;
use super::{AttributeChange, Committed, Task, WriteError, attributes, history};
use crate::SqlFuture;
use nameward_wire::NameBuf;
use nameward_zone::change::ConditionalChange;

impl SqlBackend {
    /// Changes records and attributes of one zone in one transaction: all or nothing.
    pub fn commit_with<'a>(
        &'a self,
        zone: NameBuf,
        change: &'a dyn ConditionalChange,
        attributes: &'a [AttributeChange],
    ) -> SqlFuture<'a, Result<Committed, WriteError>> {
        Box::pin(async move {
            let task = Task::Patch(&zone, change, attributes);
            let mut committed = self.transact_one(&task).await?;
            // The list of zones contains kinds and primaries.
            if attributes
                .iter()
                .any(|change| !matches!(change, AttributeChange::SetComments { .. }))
            {
                self.forget(None);
            }
            committed.author = change.author();
            Ok(committed)
        })
    }
}

/// Changes attributes of a zone, then its records under the new settings, then the comments of its RRsets: those of an RRset that
/// the change deletes would be deleted with it.
pub(super) async fn make(
    session: &mut Session,
    name: &NameBuf,
    requested: &dyn ConditionalChange,
    changes: &[AttributeChange],
) -> Result<Committed, WriteError> {
    let is_comment =
        |change: &AttributeChange| matches!(change, AttributeChange::SetComments { .. });
    let (comments, settings): (Vec<_>, Vec<_>) = changes.iter().cloned().partition(is_comment);
    let mut row = commit::lock_named(session, name.as_name()).await?;
    let mut is_set = false;
    if !settings.is_empty() {
        is_set = attributes::change(session, row.id, &settings)
            .await?
            .is_changed;
        row = commit::lock_named(session, name.as_name()).await?;
    }
    let mut zone = LockedZone::from_row(session, row).await?;
    let mut committed =
        history::change(session, &mut zone, RequestedChange::When(requested)).await?;
    let is_commented = attributes::change_locked(session, &zone.row, &comments).await?;
    if is_commented && !committed.is_changed && !is_set {
        session.notify_change(committed.zone).await?;
    }
    committed.is_changed |= is_commented || is_set;
    if is_set {
        // The difference of the records does not show what the settings change.
        (committed.difference, committed.mark) = (None, None);
    }
    Ok(committed)
}
