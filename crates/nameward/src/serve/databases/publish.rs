//! Owns how a database changes the table of zones, which others change too.

use std::sync::{Arc, Mutex};

use nameward_wire::Name;
use nameward_zone::{Offered, Zone, ZoneTable};

use super::follower::{Follower, LINES_MAX};

/// How a zone that two sources have is told.
pub fn contested(name: Name<'_>, served: u16, other: u16) -> String {
    let [served, other] = [served, other].map(|rank| u32::from(rank) + 1);
    format!("zone {name} is in backend {served} and in backend {other}: the first one serves it")
}

/// A change of the table.
pub(super) enum Step {
    Offer(i64, Arc<Zone>),
    Withdraw(Box<[u8]>),
}

impl Follower {
    /// Applies steps to the table, whoever else changes it at the same time.
    pub(super) fn publish(&mut self, steps: &[Step]) {
        if steps.is_empty() {
            return;
        }
        let offered = Mutex::new(Vec::new());
        self.shared.zones.rcu(|table| {
            let mut table = ZoneTable::clone(table);
            let mut outcomes = Vec::with_capacity(steps.len());
            // A name that one zone has given up may be that of another now.
            for step in steps {
                if let Step::Withdraw(name) = step {
                    let name = Name::from_wire(name).unwrap_or(Name::ROOT);
                    table.withdraw(name, self.rank);
                }
            }
            for step in steps {
                if let Step::Offer(id, zone) = step {
                    outcomes.push((*id, table.offer(Arc::clone(zone))));
                }
            }
            if let Ok(mut offered) = offered.lock() {
                *offered = outcomes;
            }
            table
        });
        for (id, outcome) in offered.into_inner().unwrap_or_default() {
            self.take_outcome(id, outcome);
        }
    }

    fn take_outcome(&mut self, id: i64, outcome: Offered) {
        let Some(known) = self.known.get(&id) else {
            return;
        };
        let text = match outcome {
            Offered::Taken => None,
            Offered::TakenFrom(other) => Some(contested(known.name(), self.rank, other)),
            Offered::KeptBy(other) => Some(contested(known.name(), other, self.rank)),
        };
        if let Some(text) = text
            && self.told.len() < LINES_MAX
            && self.told.insert(id)
        {
            tracing::warn!("{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rank_is_told_like_any_other() {
        let text = contested(Name::ROOT, 0, u16::MAX);
        let expected = "zone . is in backend 1 and in backend 65536: the first one serves it";
        assert_eq!(text, expected);
    }
}
