//! The last notified serials, as stored in databases (`domains.notified_serial`).
//!
//! A zone with another serial has changed unobserved: while the server was down, or in a database without change
//! notices. Its servers are notified then. As in PowerDNS the serial is stored when NOTIFY is sent, not when it is
//! acknowledged: a server that is away for long is not notified forever.

use super::Notifier;
use nameward_base::worker::{self, Mailbox, panic_guard};
use nameward_maintain::Core;
use nameward_maintain::follow::databases::FollowedDatabase;
use nameward_maintain::leases::{LeaseTask, Leases};
use nameward_maintain::policy::{PolicySource, PolicyTable, ZoneKind};
use nameward_sql::write::{WriteError, ZoneProgress, ZoneProgressList};
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;

/// Delay of the first check of all zones after the start, and the maximum interval: PowerDNS checks once a minute.
/// The interval doubles.
const FIRST_CHECK_DELAY: Duration = Duration::from_secs(1);
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How long serials of zones being notified are collected.
const COLLECTED: Duration = Duration::from_millis(300);
/// How long a change that was just made may take until its NOTIFY is sent and noted.
const SETTLED: Duration = Duration::from_millis(1500);
/// Zones for which that is checked: so many did not change in that time.
const SETTLED_MAX: usize = 1000;

/// Receives zones that are being notified; clones share it. It exists before the databases, because commits notify and
/// the databases commit: zones wait in it until the threads start.
#[derive(Clone)]
pub struct NotifiedSerials {
    /// By database rank.
    inboxes: Arc<[(u16, Mailbox<NotifiedZones>)]>,
}

/// The zones that were notified and whose serials are not noted yet.
type NotifiedZones = HashSet<NameBuf>;

impl NotifiedSerials {
    /// Creates the receiver for the databases of these ranks.
    pub fn new(ranks: &[u16]) -> Self {
        let inboxes = ranks.iter().map(|rank| (*rank, Mailbox::default()));
        NotifiedSerials {
            inboxes: inboxes.collect(),
        }
    }

    /// Records that the servers of a zone are being notified.
    pub fn note(&self, zone: NameBuf) {
        for (_, inbox) in &*self.inboxes {
            inbox.put(|zones| {
                zones.insert(zone);
            });
        }
    }

    /// Checks all zones of a database at once: this server now notifies for it.
    pub fn check_all(&self, rank: u16) {
        let of_rank = self.inboxes.iter().filter(|(one, _)| *one == rank);
        of_rank.for_each(|(_, inbox)| inbox.put(|_| ()));
    }

    /// Stops the threads.
    pub fn end(&self) {
        for (_, inbox) in &*self.inboxes {
            inbox.stop();
        }
    }

    /// Starts a thread for each database. Call once, within the runtime of the database connections.
    pub fn start(&self, core: &Core, notifier: &Notifier) -> io::Result<()> {
        for (rank, inbox) in &*self.inboxes {
            let Some(database) = core.databases.find(*rank) else {
                continue;
            };
            let mut keeper = NotifiedSerialWriter {
                database: database.clone(),
                policies: Arc::clone(&core.policies),
                leases: core.leases.clone(),
                notifier: notifier.clone(),
                runtime: Handle::current(),
                inbox: inbox.clone(),
                unwritten: HashMap::new(),
            };
            worker::start(format!("notified-{rank}"), move || keeper.run())?;
        }
        Ok(())
    }
}

/// The thread of one database.
struct NotifiedSerialWriter {
    database: FollowedDatabase,
    policies: Arc<PolicyTable>,
    leases: Leases,
    notifier: Notifier,
    runtime: Handle,
    inbox: Mailbox<NotifiedZones>,
    /// Serials that the database rejected: its account may not have write access.
    unwritten: HashMap<NameBuf, Serial>,
}

impl NotifiedSerialWriter {
    fn run(&mut self) {
        let mut wait = FIRST_CHECK_DELAY;
        while let Some(notified) = self.wait(wait) {
            if notified.is_empty() {
                wait = (wait * 2).min(CHECK_INTERVAL);
            }
            panic_guard("recording serials of notified zones", || {
                let looked = if notified.is_empty() {
                    self.check_all()
                } else {
                    self.note_serials(&notified)
                };
                if let Err(error) = looked {
                    tracing::debug!("cannot store the serials of notified zones: {error}");
                }
            });
        }
    }

    /// Waits for zones that are being notified; returns an empty list when it is time to check all, `None` at the end.
    fn wait(&self, most: Duration) -> Option<Vec<NameBuf>> {
        let mut zones = self.inbox.wait(Some(most))?;
        if !zones.is_empty() {
            thread::sleep(COLLECTED);
            zones.extend(self.inbox.wait(Some(Duration::ZERO))?);
        }
        Some(zones.into_iter().collect())
    }

    /// Checks whether servers are notified of a zone, and this database has it.
    fn is_ours(&self, zone: &NameBuf) -> bool {
        let policies = self.policies.load();
        let own = policies.own(zone.as_name());
        own.is_some_and(|policy| {
            policy.declared_by == PolicySource::Backend(self.database.rank)
                && matches!(policy.kind, ZoneKind::Primary | ZoneKind::Producer)
        })
    }

    fn note_serials(&mut self, notified: &[NameBuf]) -> Result<(), WriteError> {
        let ours: Vec<NameBuf> = notified
            .iter()
            .filter(|zone| self.is_ours(zone))
            .copied()
            .collect();
        if ours.is_empty() {
            return Ok(());
        }
        let list = ZoneProgressList::Named(&ours);
        for zone in self.database.zone_progress(&self.runtime, list)? {
            if zone.is_unnotified() {
                self.note_serial(&zone)?;
            }
        }
        Ok(())
    }

    fn check_all(&mut self) -> Result<(), WriteError> {
        if !self.leases.holds(self.database.rank, LeaseTask::Notify) {
            return Ok(());
        }
        let list = ZoneProgressList::Unnotified;
        let found = self.database.zone_progress(&self.runtime, list)?;
        for zone in self.still_not_notified(found)? {
            let is_notified = self.unwritten.get(&zone.name).copied() == zone.serial();
            if !is_notified {
                // Stored when the messages are sent, which may be a minute later.
                self.notifier.changed(zone.name);
            }
        }
        Ok(())
    }

    /// Returns the zones that are still not notified a moment later: others have just changed, and are being notified.
    fn still_not_notified(
        &mut self,
        mut found: Vec<ZoneProgress>,
    ) -> Result<Vec<ZoneProgress>, WriteError> {
        found.retain(|zone| self.is_ours(&zone.name));
        if found.is_empty() || found.len() > SETTLED_MAX {
            return Ok(found);
        }
        thread::sleep(SETTLED);
        let notified = self.inbox.wait(Some(Duration::ZERO)).unwrap_or_default();
        let notified: Vec<NameBuf> = notified.into_iter().collect();
        self.note_serials(&notified)?;
        let names: Vec<NameBuf> = found.iter().map(|zone| zone.name).collect();
        let list = ZoneProgressList::Named(&names);
        let mut again = self.database.zone_progress(&self.runtime, list)?;
        again.retain(|zone| zone.is_unnotified() && found.contains(zone));
        Ok(again)
    }

    fn note_serial(&mut self, zone: &ZoneProgress) -> Result<(), WriteError> {
        let Some(serial) = zone.serial() else {
            return Ok(());
        };
        let backend = &self.database.backend;
        let set = backend.set_notified_serial(&zone.name, serial.0);
        let set = self.runtime.block_on(set);
        match &set {
            Ok(()) => self.unwritten.remove(&zone.name),
            Err(_) => self.unwritten.insert(zone.name, serial),
        };
        set
    }
}
