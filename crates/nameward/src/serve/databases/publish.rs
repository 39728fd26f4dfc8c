//! Owns how a database changes the table of zones.

use std::sync::Arc;

use nameward_maintain::follow::contested;
use nameward_store::state::ZoneHome;
use nameward_zone::{Contest, TableChange, Zone};

use super::follower::{Follower, LINES_MAX};

/// A change of the table.
pub(super) enum Step {
    Offer(i64, Arc<Zone>),
    Withdraw(Box<[u8]>),
}

impl Follower {
    /// Applies steps to the table.
    pub(super) fn publish(&mut self, steps: &[Step]) {
        if steps.is_empty() {
            return;
        }
        let change = |step: &Step| match step {
            Step::Offer(_, zone) => TableChange::Offer(Arc::clone(zone)),
            Step::Withdraw(name) => TableChange::Withdraw(name.clone(), self.rank),
        };
        let changes = steps.iter().map(change).collect();
        for contest in self.commits.load(changes, ZoneHome::Database) {
            self.tell_contest(&contest, steps);
        }
    }

    /// Tells once of each zone that another source has it too.
    fn tell_contest(&mut self, contest: &Contest, steps: &[Step]) {
        let name = contest.name.as_name();
        let id = steps.iter().find_map(|step| match step {
            Step::Offer(id, zone) if zone.apex_name() == name => Some(*id),
            _ => None,
        });
        if let Some(id) = id
            && self.told.len() < LINES_MAX
            && self.told.insert(id)
        {
            tracing::warn!("{}", contested(name, contest.served, contest.other));
        }
    }
}
