//! The NOTIFY sender (RFC 1996): sends messages for changed zones and processes the replies.
//!
//! A commit only queues the name of its zone. One task announces the version that is served when it
//! sends, so changes that come faster than messages are sent share one.
//!
//! ```text
//! received      hands a received NOTIFY to the secondary zones
//! pending       the servers to notify and those that have not answered yet; no sockets
//! sender        the task: targets, datagrams, replies
//! resolve       name servers whose addresses are outside our zones
//! live_servers  name servers of zones that are looked up in a database
//! serials       the last notified serials, across a restart
//! database_serials  the same in databases
//! tls           messages to servers with TLS settings
//! secondaries   the serials of secondaries, on operator request
//! ```

pub mod database_serials;
mod live_servers;
pub mod pending;
pub mod received;
mod resolve;
mod secondaries;
mod sender;
mod serials;
mod tls;

use nameward_base::sync::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nameward_maintain::leases::{LeaseTask, Leases};
use nameward_maintain::policy::{Policies, PolicySource, PolicyTable, ZoneOrigin, ZonePolicy};
use nameward_state::StateStore;
use nameward_wire::NameBuf;
use nameward_zone::{Zone, ZoneTable};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::connections::PeerConnections;
use database_serials::NotifiedSerials;
use nameward_serve::pipeline::ServingState;
pub use secondaries::{SecondarySerial, UnknownSerial};
pub use serials::forget_notified;
use serials::{SentSerials, StoredSerials};

/// Minimum interval between log lines about the same unanswered server.
const LOG_INTERVAL: Duration = Duration::from_secs(300);
/// Maximum number of servers logged in that time.
const LOGGED: usize = 64;

/// A reply and its sender.
type ReceivedReply = (Vec<u8>, SocketAddr);

/// Dependencies of the sender.
pub struct NotifyContext {
    /// The policies, which list the servers to notify.
    pub policies: Arc<PolicyTable>,
    /// The served zones, the databases, and the resolvers for name server addresses outside our zones.
    pub shared: Arc<ServingState>,
    /// The ranks of database backends: their native zones are replicated by the database and send no NOTIFY by default.
    pub databases: DatabaseRanks,
    /// Which server sends NOTIFY for the zones of a database.
    pub leases: Leases,
    /// Connections to servers that are notified over TLS.
    pub connections: Arc<PeerConnections>,
    /// Our listen addresses: the server does not notify itself.
    pub listens: Vec<SocketAddr>,
    /// Stores the notified serials.
    pub store: Option<StateStore>,
    /// The runtime that sends the messages.
    pub runtime: Handle,
    /// The runtime that the database connections belong to.
    pub database_runtime: Handle,
    /// Stores the notified serials of database zones.
    pub notified: NotifiedSerials,
}

/// The ranks of the backends that are databases.
#[derive(Debug, Clone, Default)]
pub struct DatabaseRanks(Arc<[u16]>);

impl FromIterator<u16> for DatabaseRanks {
    fn from_iter<I: IntoIterator<Item = u16>>(ranks: I) -> Self {
        DatabaseRanks(ranks.into_iter().collect())
    }
}

impl DatabaseRanks {
    fn origin(&self, zone: &Zone) -> ZoneOrigin {
        if self.0.contains(&zone.rank()) {
            ZoneOrigin::Database
        } else {
            ZoneOrigin::Local
        }
    }
}

/// Passes changed zones to the sender; clones share one queue.
#[derive(Clone)]
pub struct Notifier {
    shared: Arc<NotifierShared>,
}

struct NotifierShared {
    context: NotifyContext,
    /// Changed zones, and whether an operator requested the NOTIFY.
    changed: Mutex<HashMap<NameBuf, bool>>,
    wake: Notify,
    waiting: AtomicU64,
    sent: AtomicU64,
    sent_serials: Mutex<SentSerials>,
}

impl Notifier {
    /// Notifies the secondaries of a zone that it has changed.
    pub fn changed(&self, zone: NameBuf) {
        // Waking the sender costs more than a small change.
        if !self.shared.context.sends_notify(&zone) {
            return;
        }
        self.shared.changed.lock().entry(zone).or_insert(false);
        self.shared.wake.notify_one();
    }

    /// Notifies the secondaries of a zone at once, regardless of its policy.
    pub fn notify_now(&self, zone: NameBuf) {
        self.shared.changed.lock().insert(zone, true);
        self.shared.wake.notify_one();
    }

    /// Returns how many servers have not answered yet, counted per zone.
    pub fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Returns how many messages were sent.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Writes the serials that must survive a restart, and waits for the disk.
    pub fn end(&self) {
        self.shared.sent_serials.lock().write_all();
    }

    /// Starts the sender on its runtime.
    pub fn start(context: NotifyContext) -> Self {
        let shared = Arc::new(NotifierShared {
            sent_serials: Mutex::new(SentSerials::new(context.store.clone())),
            context,
            changed: Mutex::default(),
            wake: Notify::new(),
            waiting: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        });
        sender::start(&shared);
        Notifier { shared }
    }

    /// Notifies the secondaries of zones whose current serial was not notified: zones that changed
    /// while the server was down. May wait for the disk. Without a state store this is unknown, and
    /// no NOTIFY is sent.
    pub fn notify_of_changes_before_start(&self) {
        let context = &self.shared.context;
        let Some(stored) = context.store.as_ref().and_then(StoredSerials::read) else {
            return;
        };
        let (table, policies) = context.load();
        for zone in table
            .zones()
            .filter(|zone| zone.is_ready() && !zone.is_stub())
        {
            let policy = policies.get(zone.id());
            // Databases store the serials of their zones themselves.
            let is_notified = policy.sends_notify(context.databases.origin(zone))
                && !matches!(policy.declared_by, PolicySource::Backend(_));
            let name = NameBuf::from(zone.id());
            if is_notified && !stored.contains(&name, zone.serial()) {
                self.changed(name);
            }
        }
    }
}

impl NotifyContext {
    /// Returns the zones and the policies of this moment.
    fn load(&self) -> (Arc<ZoneTable>, Arc<Policies>) {
        (self.shared.zones.load_full(), self.policies.load())
    }

    /// Returns whether any server is notified of changes of a zone. For a zone that is not in the
    /// table, the sender decides.
    fn sends_notify(&self, zone: &NameBuf) -> bool {
        let (table, policies) = self.load();
        let policy = policies.get(zone.as_name());
        table.exact(zone.as_name()).is_none_or(|zone| {
            policy.sends_notify(self.databases.origin(zone)) && self.leads_zone(zone, policy)
        })
    }

    /// Checks whether this server notifies the secondaries of a zone. Otherwise another server of
    /// the same database does: it sees the change, too, and detects missed ones by the last
    /// notified serial.
    fn leads_zone(&self, zone: &Zone, policy: &ZonePolicy) -> bool {
        let rank = match policy.declared_by {
            _ if self.databases.origin(zone) == ZoneOrigin::Database => zone.rank(),
            PolicySource::Backend(rank) => rank,
            _ => return true,
        };
        self.leases.holds(rank, LeaseTask::Notify)
    }
}
