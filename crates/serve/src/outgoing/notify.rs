//! The sender of NOTIFY messages (RFC 1996): changed zones in, datagrams out, replies in.
//!
//! A commit only leaves the name of its zone here. One task notifies of the version that is served then, so changes that come
//! faster than messages go out share one.
//!
//! ```text
//! sender        the task: targets, datagrams, replies
//! resolve       name servers whose addresses are in no zone here
//! live_servers  name servers of zones that are looked up in a database
//! serials       the serials that secondaries were notified of, over a restart
//! secondaries   the serials that secondaries have, when an operator asks
//! ```

mod live_servers;
mod resolve;
mod secondaries;
mod sender;
mod serials;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arc_swap::ArcSwap;
use nameward_maintain::policy::{PolicySource, PolicyTable};
use nameward_store::state::StateStore;
use nameward_wire::NameBuf;
use nameward_zone::ZoneTable;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::lock;
use crate::pipeline::ServingState;
pub use secondaries::{SecondarySerial, UnknownSerial};
pub use serials::forget_notified;
use serials::{KeptSerials, SentSerials};

/// The parts that the sender works with.
pub struct NotifierParts {
    /// Who is notified of which zone.
    pub policies: Arc<PolicyTable>,
    /// The zones that are served.
    pub zones: Arc<ArcSwap<ZoneTable>>,
    /// The addresses that this server listens on: it does not notify itself.
    pub listens: Vec<SocketAddr>,
    /// Keeps the serials that were notified of.
    pub store: Option<StateStore>,
    /// Has the resolvers that are asked for the addresses of name servers that are in no zone here, and the databases.
    pub shared: Arc<ServingState>,
    /// The runtime that the connections of databases belong to.
    pub database_runtime: Handle,
    /// Called with each zone whose NOTIFY messages go out, or that nobody is to be notified of.
    pub on_sent: Box<dyn Fn(NameBuf) + Send + Sync>,
}

/// Hands changed zones over to the sender; clones are the same.
#[derive(Clone, Default)]
pub struct Notifier {
    shared: Arc<NotifierShared>,
}

#[derive(Default)]
struct NotifierShared {
    /// Zones that changed, and whether an operator has asked for the NOTIFY.
    changed: Mutex<HashMap<NameBuf, bool>>,
    wake: Notify,
    waiting: AtomicU64,
    sent: AtomicU64,
    start: OnceLock<StartParts>,
    sent_serials: Mutex<SentSerials>,
}

impl Notifier {
    /// Has the servers of a zone notified that it has changed.
    pub fn changed(&self, zone: NameBuf) {
        // Waking the sender costs more than a small change.
        let begun = self.shared.start.get();
        if begun.is_some_and(|begun| !begun.policies.load().of(zone.as_name()).sends_notify()) {
            return;
        }
        lock(&self.shared.changed).entry(zone).or_insert(false);
        self.shared.wake.notify_one();
    }

    /// Has the servers of a zone notified at once, whatever its policy says.
    pub fn notify_now(&self, zone: NameBuf) {
        lock(&self.shared.changed).insert(zone, true);
        self.shared.wake.notify_one();
    }

    /// Returns how many servers have not answered yet, those of each zone counted.
    pub fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Returns how many messages were sent.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Has everything written that is to be kept over a restart, and waits for the disk.
    pub fn end(&self) {
        lock(&self.shared.sent_serials).write_all();
    }

    /// Starts the sender on a runtime.
    pub fn start(&self, parts: NotifierParts, runtime: &Handle) {
        *lock(&self.shared.sent_serials) = SentSerials::new(parts.store.clone());
        let _ = self.shared.start.set(StartParts {
            store: parts.store.clone(),
            policies: Arc::clone(&parts.policies),
            zones: Arc::clone(&parts.zones),
            listens: parts.listens.clone(),
            shared: Arc::clone(&parts.shared),
            database_runtime: parts.database_runtime.clone(),
            runtime: runtime.clone(),
        });
        sender::start(&self.shared, parts, runtime);
    }

    /// Has the servers notified of zones whose serial they were not notified of before: zones that changed while the server was
    /// down. May wait for the disk. Without a state store nobody knows, and nobody is notified.
    pub fn notify_of_changes_before_start(&self) {
        let start = self.shared.start.get();
        let Some(StartParts {
            store: Some(store),
            policies,
            zones,
            ..
        }) = start
        else {
            return;
        };
        let Some(kept) = KeptSerials::read(store) else {
            return;
        };
        let (table, policies) = (zones.load(), policies.load());
        for zone in table
            .zones()
            .filter(|zone| zone.is_ready() && !zone.is_stand_in())
        {
            let policy = policies.of(zone.apex_name());
            // Databases keep the serials of their zones themselves.
            let is_notified = (policy.notify_name_servers || !policy.also_notify.is_empty())
                && !matches!(policy.declared_by, PolicySource::Backend(_));
            let name = NameBuf::from(zone.apex_name());
            if is_notified && !kept.has(&name, zone.serial()) {
                self.changed(name);
            }
        }
    }
}

/// The parts that are needed besides the task that sends.
struct StartParts {
    store: Option<StateStore>,
    policies: Arc<PolicyTable>,
    zones: Arc<ArcSwap<ZoneTable>>,
    listens: Vec<SocketAddr>,
    shared: Arc<ServingState>,
    database_runtime: Handle,
    runtime: Handle,
}
