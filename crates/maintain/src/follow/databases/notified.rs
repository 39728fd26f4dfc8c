//! The last notified serials, as stored in databases (`domains.notified_serial`).
//!
//! A zone with another serial has changed unobserved: while the server was down, or in a database without change
//! notices. Its servers are notified then. As in PowerDNS the serial is stored when NOTIFY is sent, not when it is
//! acknowledged: a server that is away for long is not notified forever.

use super::{Databases, FollowedDatabase};
use crate::panic_guard::spare_thread;
use crate::policy::{PolicySource, PolicyTable, ZoneKind};
use nameward_base::sync::{Condvar, Mutex};
use nameward_store::sql::write::{StandingZone, StandingZones, WriteError};
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;

/// Delay of the first check of all zones after the start, and the maximum interval: PowerDNS checks once a minute.
/// The interval doubles.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long serials of zones being notified are collected.
const COLLECTED: Duration = Duration::from_millis(300);

/// Receives zones that are being notified; clones share it.
#[derive(Clone, Default)]
pub struct NotifiedSerials {
    inboxes: Arc<OnceLock<Vec<Arc<NotifiedInbox>>>>,
}

/// Zones that were notified and whose serials are not stored yet.
#[derive(Default)]
struct NotifiedInbox {
    zones: Mutex<HashSet<NameBuf>>,
    woken: Condvar,
}

/// Dependencies of the threads.
pub struct NotifiedParts {
    /// The databases.
    pub databases: Databases,
    /// The policies, which tell who has a zone and whether any server is notified.
    pub policies: Arc<PolicyTable>,
    /// Notifies the servers of a zone.
    pub notify: Arc<dyn Fn(NameBuf) + Send + Sync>,
}

impl NotifiedSerials {
    /// Records that the servers of a zone are being notified.
    pub fn note(&self, zone: NameBuf) {
        for inbox in self.inboxes.get().into_iter().flatten() {
            inbox.zones.lock().insert(zone);
            inbox.woken.notify_one();
        }
    }

    /// Starts a thread for each database. Call within the runtime of their connections; only the first call counts.
    pub fn start(&self, parts: NotifiedParts) -> io::Result<()> {
        let mut inboxes = Vec::new();
        for database in parts.databases.all() {
            let inbox = Arc::new(NotifiedInbox::default());
            let mut keeper = SerialKeeper {
                database: database.clone(),
                policies: Arc::clone(&parts.policies),
                notify: Arc::clone(&parts.notify),
                runtime: Handle::current(),
                inbox: Arc::clone(&inbox),
                unwritten: HashMap::new(),
            };
            inboxes.push(inbox);
            thread::Builder::new()
                .name(format!("notified-{}", database.rank))
                .spawn(move || keeper.run())?;
        }
        let _ = self.inboxes.set(inboxes);
        Ok(())
    }
}

/// The thread of one database.
struct SerialKeeper {
    database: FollowedDatabase,
    policies: Arc<PolicyTable>,
    notify: Arc<dyn Fn(NameBuf) + Send + Sync>,
    runtime: Handle,
    inbox: Arc<NotifiedInbox>,
    /// Serials that the database rejected: its account may not have write access.
    unwritten: HashMap<NameBuf, Serial>,
}

impl SerialKeeper {
    fn run(&mut self) {
        let mut wait = FIRST_LOOK;
        loop {
            let notified = self.wait(wait);
            if notified.is_empty() {
                wait = (wait * 2).min(LOOK_EVERY);
            }
            spare_thread("serials of notified zones were kept", || {
                let looked = match notified.is_empty() {
                    true => self.look_at_all(),
                    false => self.note_serials(&notified),
                };
                if let Err(error) = looked {
                    tracing::debug!("serials of notified zones not kept: {error}");
                }
            });
        }
    }

    /// Waits for zones being notified; returns none when it is time to check all.
    fn wait(&self, most: Duration) -> Vec<NameBuf> {
        let zones = self.inbox.zones.lock();
        let is_empty = |zones: &mut HashSet<NameBuf>| zones.is_empty();
        let zones = self.inbox.woken.wait_timeout_while(zones, most, is_empty);
        let is_any_notified = !zones.is_empty();
        drop(zones);
        if is_any_notified {
            thread::sleep(COLLECTED);
        }
        let mut zones = self.inbox.zones.lock();
        zones.drain().collect()
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
        let asked = self.database.backend.standing(StandingZones::Named(&ours));
        for zone in self.runtime.block_on(asked)? {
            if zone.is_unnotified() {
                self.note_serial(&zone)?;
            }
        }
        Ok(())
    }

    fn look_at_all(&mut self) -> Result<(), WriteError> {
        let asked = self.database.backend.standing(StandingZones::Unnotified);
        for zone in self.runtime.block_on(asked)? {
            let is_notified = self.unwritten.get(&zone.name).copied() == zone.serial();
            if self.is_ours(&zone.name) && !is_notified {
                // Stored when the messages are sent, which may be a minute later.
                (self.notify)(zone.name);
            }
        }
        Ok(())
    }

    fn note_serial(&mut self, zone: &StandingZone) -> Result<(), WriteError> {
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
