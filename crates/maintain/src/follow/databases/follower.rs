//! The main loop of a follower: it makes the pending reads, waits for changes, and retries when the database is down.

mod load;
mod own_changes;
mod policies;
mod read;
mod soa_check;

use super::{
    DatabaseSource, FollowSettings, FollowedDatabase, FollowerLink, OWN_CHANGES, ServedFrom,
    first_read::FirstRead,
    followed_zones::{FollowedZones, ReadContents},
    own_change::OwnChange,
    pending_reads::PendingReads,
    zone_list_file::ZoneListFile,
};
use crate::change_feed::LiveChange;
use crate::commit::Commits;
use crate::follow::contested;
use crate::policy::CONFIGURED_RANK;
use nameward_sql::{Change, SqlBackend, SqlError};
use nameward_state::{JournalOrigin, ZoneStorage};
use nameward_stats::LogThrottle;
use nameward_wire::NameBuf;
use nameward_zone::{Contest, TableChange};
use own_changes::OwnChanges;
use policies::FollowedPolicies;
use read::ListedZones;
use soa_check::SoaCheck;
use std::{
    collections::HashSet,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Initial and maximum interval between attempts to read the zones of a database that is down.
const BACK_OFF: Duration = Duration::from_millis(250);
const MAX_BACK_OFF: Duration = Duration::from_secs(2);
/// Interval at which the log repeats that a database is down, and the number of reasons per interval.
const FAILURE_INTERVAL: Duration = Duration::from_secs(60);
const FAILURE_REASONS: usize = 8;
/// Maximum number of log lines about zones per round.
const LINES_MAX: usize = 100;
/// How long the first list is waited for before the zones known from the last run are used.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_millis(250);

pub(super) struct DatabaseFollower {
    commits: Arc<Commits>,
    lookup_source: u32,
    name: String,
    rank: u16,
    served_from: ServedFrom,
    backend: SqlBackend,
    zones: FollowedZones,
    pending: PendingReads,
    /// How often reads had moved to another server when the versions of all zones were read.
    versions_moves: u64,
    /// Recently logged failures.
    failures: LogThrottle,
    /// The list was read once.
    is_listed: bool,
    /// Zones logged as also being in another source.
    logged_contests: HashSet<NameBuf>,
    list_file: ZoneListFile,
    policies: FollowedPolicies,
    first_read: Arc<FirstRead>,
    refresh_interval: Duration,
    give_back: fn(),
    own_changes: mpsc::Receiver<OwnChange>,
    link: Arc<FollowerLink>,
    soa_check: SoaCheck,
    /// Gets a message when the database was queried for its zones, whatever the result.
    first_queried: Option<oneshot::Sender<()>>,
    /// Changes of this server that are not followed yet.
    own: OwnChanges,
}

impl DatabaseFollower {
    /// Returns a follower, the database that it follows, and a receiver that gets a message when the database was
    /// queried for its zones.
    pub(super) fn new(
        commits: &Arc<Commits>,
        source: DatabaseSource,
        settings: &FollowSettings<'_>,
        first_read: Arc<FirstRead>,
    ) -> (Self, FollowedDatabase, oneshot::Receiver<()>) {
        let name = source.backend.options().address.to_string();
        let (own, own_changes) = mpsc::channel(OWN_CHANGES);
        let (first, first_queried) = oneshot::channel();
        let link = Arc::<FollowerLink>::default();
        let database = FollowedDatabase {
            rank: source.rank,
            served_from: source.served_from,
            backend: source.backend.clone(),
            own,
            link: Arc::clone(&link),
        };
        let follower = DatabaseFollower {
            commits: Arc::clone(commits),
            lookup_source: source.lookup_source,
            policies: FollowedPolicies::new(settings.policies, source.rank),
            rank: source.rank,
            served_from: source.served_from,
            backend: source.backend,
            zones: FollowedZones::default(),
            pending: PendingReads::default(),
            versions_moves: 0,
            failures: LogThrottle::by_text(FAILURE_INTERVAL, FAILURE_REASONS),
            is_listed: false,
            logged_contests: HashSet::new(),
            list_file: ZoneListFile::new(settings.state_directory, &name),
            first_read,
            name,
            refresh_interval: settings.refresh_interval,
            give_back: settings.give_back,
            own_changes,
            link,
            soa_check: SoaCheck::default(),
            first_queried: Some(first),
            own: OwnChanges::default(),
        };
        (follower, database, first_queried)
    }

    /// Follows the database until its watch ends.
    pub(super) async fn run(&mut self) {
        let (mut changes, has_started) = self.backend.watch();
        let mut result = self.read_first_list(has_started).await;
        let mut back_off = BACK_OFF;
        loop {
            if result.is_ok() {
                result = self.make_pending_reads(&mut changes).await;
            }
            self.report_queried();
            let wait = match &result {
                Ok(()) => {
                    back_off = BACK_OFF;
                    let zones = self.zones.iter();
                    let zones = zones.map(|(id, zone)| (id, zone.name().as_wire()));
                    self.list_file.write_if_due(zones, self.give_back);
                    self.check_soas_if_due();
                    self.refresh_interval
                }
                Err(error) => {
                    self.soa_check.cancel();
                    self.finish_waiting();
                    self.fail_waiting(error);
                    self.log_failure(error);
                    let wait = back_off;
                    back_off = (back_off * 2).min(MAX_BACK_OFF);
                    wait
                }
            };
            if self.wait_for_event(&mut changes, wait).await.is_none() {
                return;
            }
            result = Ok(());
        }
    }

    /// Prepares to run again after a panic: nothing that was read is trusted.
    pub(super) fn restart(&mut self) {
        self.pending = PendingReads::everything();
        for (_, zone) in self.zones.all_in_memory() {
            zone.contents = ReadContents::None;
        }
        // Dropping the senders ends the wait of all callers of this follower.
        self.own = OwnChanges::default();
    }

    /// Reads the list for the first time. If the database does not answer at once, the zones known from the last run
    /// are in the table in the meantime.
    async fn read_first_list(
        &mut self,
        has_started: oneshot::Receiver<()>,
    ) -> Result<(), SqlError> {
        let (backend, served_from) = (self.backend.clone(), self.served_from);
        let mut listing = pin!(async {
            // A change between the list and the first check for changes would be missed.
            let _ = has_started.await;
            ListedZones::read(&backend, served_from).await
        });
        let listed = match timeout(FIRST_LIST_TIMEOUT, &mut listing).await {
            Ok(Ok(list)) => Ok(list),
            Ok(Err(error)) => {
                self.restore_list();
                Err(error)
            }
            Err(_) => {
                // Resident zones fail until they were read; readiness waits for that.
                if self.restore_list() && self.served_from == ServedFrom::Lookups {
                    self.report_queried();
                }
                listing.await
            }
        };
        match listed {
            Ok(list) => {
                self.apply_list(list);
                Ok(())
            }
            Err(error) => {
                self.pending.list = true;
                Err(error)
            }
        }
    }

    /// Reports that the database was first queried, whatever the result; the server waits for that.
    fn report_queried(&mut self) {
        if let Some(first) = self.first_queried.take() {
            let _ = first.send(());
        }
    }

    /// Logs why the zones cannot be read, and then only occasionally that this persists.
    fn log_failure(&mut self, error: &SqlError) {
        let reason = error.to_string();
        if self.failures.admit(&reason, Instant::now()).is_some() {
            let name = &self.name;
            tracing::warn!("{name}: cannot read the zones: {reason}; retrying");
        }
    }

    /// Waits for something to do.
    async fn wait_for_event(
        &mut self,
        changes: &mut mpsc::Receiver<Change>,
        wait: Duration,
    ) -> Option<()> {
        let due = [
            self.list_file.due_in(),
            self.own.due_in(),
            self.soa_check.due_in(),
        ];
        let due = due.into_iter().flatten().min();
        let link = &self.link;
        let own_changes = &mut self.own_changes;
        let event = async {
            tokio::select! {
                change = changes.recv() => change.map_or(FollowerEvent::End, FollowerEvent::Change),
                Some(own) = own_changes.recv() => FollowerEvent::Own(own),
                () = link.refresh.notified() => FollowerEvent::Change(Change::All),
                () = link.relist.notified() => FollowerEvent::List,
            }
        };
        match timeout(due.map_or(wait, |due| due.min(wait)), event).await {
            Ok(FollowerEvent::Change(change)) => {
                self.note_change(change);
                self.note_changes(changes, &mut Vec::new());
            }
            Ok(FollowerEvent::Own(own)) => self.accept_own(own),
            Ok(FollowerEvent::List) => self.pending.list = true,
            Ok(FollowerEvent::End) => return None,
            Err(_) if due.is_some_and(|due| due < wait) => {}
            Err(_) if self.pending.is_empty() => {
                self.pending.list = true;
                // Nothing else would show what others have changed.
                self.pending.contents |= !self.backend.has_change_table();
            }
            Err(_) => {}
        }
        self.give_up_awaited();
        Some(())
    }

    /// Records all received changes. Zones that were read before are published first, since this server's changes
    /// apply on top of them.
    fn note_changes(
        &mut self,
        changes: &mut mpsc::Receiver<Change>,
        unpublished: &mut Vec<TableChange>,
    ) {
        while let Ok(own) = self.own_changes.try_recv() {
            self.publish(std::mem::take(unpublished));
            self.accept_own(own);
        }
        while let Ok(change) = changes.try_recv() {
            self.note_change(change);
        }
    }

    fn note_change(&mut self, change: Change) {
        self.outdate(change);
        if !self.is_own(change) {
            self.pending.add(change);
        }
    }

    /// Invalidates the cached data of zones, at once and before anything is read.
    fn outdate(&self, change: Change) {
        match change {
            Change::Zone(id, version) => {
                // A commit of this server is reported when it is followed, which may be after its notice.
                let is_own = self.link.reported.claim(id, version)
                    || version.is_some() && self.backend.unfollowed_commits(id) > 0;
                let report = LiveChange {
                    origin: Some(JournalOrigin::Storage),
                    ..LiveChange::default()
                };
                self.outdate_zone(id, (!is_own).then_some(report));
            }
            // This server reports it when it is followed.
            Change::Own(id) => self.outdate_zone(id, None),
            Change::All => {
                let mut live = self.zones.iter().filter_map(|(_, zone)| zone.live());
                let has_live = live.next().map(|live| live.advance()).is_some();
                live.for_each(|live| live.advance());
                if has_live {
                    self.commits.table().feed().record_unknown();
                }
            }
            Change::List => {}
        }
    }

    /// Invalidates the cached data of a live zone, and reports its change.
    fn outdate_zone(&self, id: i64, report: Option<LiveChange>) {
        let Some(zone) = self.zones.get(id) else {
            return;
        };
        if let Some(live) = zone.live() {
            live.advance();
            if let Some(report) = report {
                self.commits.report_live_change(zone.name(), report);
            }
        }
    }

    /// Applies changes to the table.
    fn publish(&mut self, mut changes: Vec<TableChange>) {
        if changes.is_empty() {
            return;
        }
        self.first_read.bring_forward(&mut changes);
        for contest in self.commits.load(changes, ZoneStorage::Database) {
            self.log_contest(&contest);
        }
    }

    /// Logs that another source has a zone too, once per zone.
    fn log_contest(&mut self, contest: &Contest) {
        let name = contest.name.as_name();
        // A catalog of this database that is built from its members is in the table as produced here.
        if contest.served == CONFIGURED_RANK && self.policies.is_made_of_members(name) {
            return;
        }
        if self.logged_contests.len() < LINES_MAX && self.logged_contests.insert(contest.name) {
            tracing::warn!("{}", contested(name, contest.served, contest.other));
        }
    }
}

/// An event that a follower waits for.
enum FollowerEvent {
    Change(Change),
    Own(OwnChange),
    /// The zone list has changed.
    List,
    /// The watch has ended.
    End,
}
