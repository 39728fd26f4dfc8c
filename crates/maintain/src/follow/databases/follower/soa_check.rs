//! Checks for zones without a SOA in a live database.
//!
//! Such a zone is answered SERVFAIL, and without the check the operator would learn of it from clients. It is one
//! statement over all zones, run in the background after the zone list or a zone was read, and takes at most a
//! hundredth of the time.

use super::DatabaseFollower;
use crate::commit::Commits;
use crate::follow::databases::zone_faults::NamedZones;
use crate::follow::databases::{FollowerLink, ServedFrom};
use crate::policy::PolicyTable;
use nameward_base::sync::Mutex;
use nameward_base::text::counted;
use nameward_sql::{SqlBackend, write::ZoneProgressList};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Minimum interval between two checks.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause is at least this many times as long as the previous check.
const PAUSE_FACTOR: u32 = 100;

/// When the next check is due.
#[derive(Default)]
pub(super) struct SoaCheck {
    is_requested: bool,
    turn: Arc<Mutex<CheckTurn>>,
}

#[derive(Default)]
struct CheckTurn {
    is_running: bool,
    not_before: Option<Instant>,
}

impl SoaCheck {
    /// Requests a check: zones may have been added, removed or changed.
    pub(super) fn request(&mut self) {
        self.is_requested = true;
    }

    /// Withdraws the request; reading the next list or zone makes another.
    pub(super) fn cancel(&mut self) {
        self.is_requested = false;
    }

    /// Returns the time until the next check, if one was requested.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let turn = self.turn.lock();
        let left = match turn.not_before {
            _ if turn.is_running => PAUSE,
            Some(at) => at.saturating_duration_since(Instant::now()),
            None => Duration::ZERO,
        };
        self.is_requested.then_some(left)
    }
}

/// The components that a check works with.
struct SoaChecker {
    name: String,
    rank: u16,
    backend: SqlBackend,
    commits: Arc<Commits>,
    policies: Arc<PolicyTable>,
    link: Arc<FollowerLink>,
}

impl DatabaseFollower {
    /// Starts a check if one is due.
    pub(super) fn check_soas_if_due(&mut self) {
        if self.served_from != ServedFrom::Lookups {
            return self.soa_check.cancel();
        }
        if self.soa_check.due_in() != Some(Duration::ZERO) {
            return;
        }
        self.soa_check.cancel();
        let checker = SoaChecker {
            name: self.name.clone(),
            rank: self.rank,
            backend: self.backend.clone(),
            commits: Arc::clone(&self.commits),
            policies: self.policies.table(),
            link: Arc::clone(&self.link),
        };
        let (turn, runtime) = (Arc::clone(&self.soa_check.turn), Handle::current());
        turn.lock().is_running = true;
        tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            runtime.block_on(checker.run());
            let mut turn = turn.lock();
            turn.is_running = false;
            turn.not_before = Some(Instant::now() + PAUSE.max(started.elapsed() * PAUSE_FACTOR));
        });
    }
}

impl SoaChecker {
    async fn run(&self) {
        let found = match self.backend.standing(ZoneProgressList::WithoutSoa).await {
            Ok(found) => found,
            // An unresponsive database is reported elsewhere.
            Err(error) => {
                return tracing::debug!(
                    "{}: cannot check for zones without SOA record: {error}",
                    self.name
                );
            }
        };
        let (table, policies) = (self.commits.table(), self.policies.load());
        let mut zones = NamedZones::default();
        for zone in &found {
            let name = zone.name.as_name();
            // Secondary zones wait for their primaries, and resident zones are reported when they are read.
            let version = table.version(name, self.rank);
            let is_live = version.is_some_and(|version| version.live().is_some());
            if is_live && !policies.get(name).kind.is_transferred() {
                zones.add(zone.name);
            }
        }
        if zones.number > 0 && !self.link.faults.has_without_records() {
            self.log(&zones);
        }
        self.link.faults.set_without_records(zones);
    }

    fn log(&self, zones: &NamedZones) {
        let name = &self.name;
        for zone in &zones.first {
            tracing::warn!("{name}: zone {zone}: no SOA record; answered SERVFAIL");
        }
        let more = zones.number - zones.first.len();
        if more > 0 {
            let more = counted(more, "more zone");
            tracing::warn!("{name}: {more} without SOA record");
        }
    }
}
