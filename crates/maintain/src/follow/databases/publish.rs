//! Changes of the zone table that a follower of a database makes.

use super::{follower::DatabaseFollower, read::LINES_MAX};
use crate::follow::contested;
use nameward_store::state::ZoneHome;
use nameward_zone::{Contest, TableChange, Zone};
use std::sync::Arc;

/// A change of the table, with the id of the zone in the database where there is one.
pub(super) enum TableStep {
    Offer(i64, Arc<Zone>),
    Withdraw(Box<[u8]>),
}

impl DatabaseFollower {
    /// Applies steps to the table.
    pub(super) fn publish(&mut self, steps: &[TableStep]) {
        if steps.is_empty() {
            return;
        }
        let change = |step: &TableStep| match step {
            TableStep::Offer(_, zone) => TableChange::Offer(Arc::clone(zone)),
            TableStep::Withdraw(name) => TableChange::Withdraw(name.clone(), self.rank),
        };
        let changes = steps.iter().map(change).collect();
        for contest in self.commits.load(changes, ZoneHome::Database) {
            self.log_contest(&contest, steps);
        }
    }

    /// Logs once for each zone that another source has it too.
    fn log_contest(&mut self, contest: &Contest, steps: &[TableStep]) {
        let name = contest.name.as_name();
        let id = steps.iter().find_map(|step| match step {
            TableStep::Offer(id, zone) if zone.apex_name() == name => Some(*id),
            _ => None,
        });
        if let Some(id) = id
            && self.logged_contests.len() < LINES_MAX
            && self.logged_contests.insert(id)
        {
            tracing::warn!("{}", contested(name, contest.served, contest.other));
        }
    }
}
