//! The connections of all clients: bounded, and shared fairly.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nameward_base::sync::Mutex;
use nameward_control::web::client_network;
use tokio::task::AbortHandle;

/// All connections.
pub struct Connections {
    table: Arc<Mutex<ConnectionTable>>,
    max: usize,
}

#[derive(Default)]
struct ConnectionTable {
    next: u64,
    /// By number: the oldest connections first.
    all: BTreeMap<u64, ConnectionEntry>,
}

struct ConnectionEntry {
    client: IpAddr,
    slot: Weak<ApiConnection>,
    task: Option<AbortHandle>,
}

/// The slot of one connection; released when it is dropped.
pub struct ApiConnection {
    id: u64,
    table: Arc<Mutex<ConnectionTable>>,
    running: AtomicUsize,
}

/// An operation that runs for a connection.
pub struct RunningOperation(Arc<ApiConnection>);

impl ApiConnection {
    /// Records the start of an operation; the connection is not closed for another one until the returned value is
    /// dropped.
    pub fn begin(self: &Arc<Self>) -> RunningOperation {
        self.running.fetch_add(1, Ordering::Relaxed);
        RunningOperation(Arc::clone(self))
    }
}

impl Drop for RunningOperation {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ApiConnection {
    fn drop(&mut self) {
        self.table.lock().all.remove(&self.id);
    }
}

impl Connections {
    pub fn new(max: usize) -> Self {
        Connections {
            table: Arc::default(),
            max,
        }
    }

    /// Gives a new connection a place and starts it. When all are taken, an idle connection of the client with the most makes room;
    /// if there is none, the new connection is dropped.
    pub fn admit(&self, client: IpAddr, start: impl FnOnce(Arc<ApiConnection>) -> AbortHandle) {
        let client = client_network(client);
        let mut table = self.table.lock();
        if table.all.len() >= self.max && !table.make_room(client) {
            return;
        }
        table.next += 1;
        let id = table.next;
        let slot = Arc::new(ApiConnection {
            id,
            table: Arc::clone(&self.table),
            running: AtomicUsize::new(0),
        });
        let entry = ConnectionEntry {
            client,
            slot: Arc::downgrade(&slot),
            task: None,
        };
        table.all.insert(id, entry);
        drop(table);
        let task = start(slot);
        if let Some(entry) = self.table.lock().all.get_mut(&id) {
            entry.task = Some(task);
        }
    }
}

impl ConnectionTable {
    /// Ends an idle connection; false if there is none. A client does not displace one that has fewer connections than itself.
    fn make_room(&mut self, newcomer: IpAddr) -> bool {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for entry in self.all.values() {
            *counts.entry(entry.client).or_default() += 1;
        }
        let own = counts.get(&newcomer).copied().unwrap_or(0);
        let is_idle = |entry: &ConnectionEntry| {
            let slot = entry.slot.upgrade();
            let running = slot.map(|slot| slot.running.load(Ordering::Relaxed));
            entry.task.is_some() && running == Some(0)
        };
        let idle = self.all.iter().filter(|(_, entry)| is_idle(entry));
        let count = |entry: &ConnectionEntry| counts.get(&entry.client).copied().unwrap_or(0);
        // The oldest of the client with the most.
        let victim = idle.max_by_key(|(id, entry)| (count(entry), std::cmp::Reverse(**id)));
        let Some((id, _)) = victim.filter(|(_, entry)| count(entry) >= own) else {
            return false;
        };
        let id = *id;
        if let Some(entry) = self.all.remove(&id)
            && let Some(task) = entry.task
        {
            task.abort();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Admits a connection that stays until it is ended; returns its slot if it was admitted.
    fn admit(connections: &Connections, client: &str) -> Option<Weak<ApiConnection>> {
        let mut admitted = None;
        connections.admit(address(client), |slot| {
            admitted = Some(Arc::downgrade(&slot));
            let task = tokio::spawn(async move {
                let _place = slot;
                std::future::pending::<()>().await;
            });
            task.abort_handle()
        });
        admitted
    }

    #[tokio::test]
    async fn the_client_with_the_most_connections_loses_one() {
        let connections = Connections::new(4);
        let few = admit(&connections, "192.0.2.1").unwrap();
        let many: Vec<_> = (0..3)
            .map(|_| admit(&connections, "192.0.2.2").unwrap())
            .collect();
        assert!(admit(&connections, "192.0.2.3").is_some());
        while many[0].upgrade().is_some() {
            tokio::task::yield_now().await;
        }
        assert!(few.upgrade().is_some());
        assert!(many[1].upgrade().is_some() && many[2].upgrade().is_some());
    }

    #[tokio::test]
    async fn busy_connections_are_not_closed() {
        let connections = Connections::new(1);
        let slot = admit(&connections, "192.0.2.1").unwrap();
        let running = slot.upgrade().unwrap().begin();
        assert!(admit(&connections, "192.0.2.2").is_none());
        drop(running);
        assert!(admit(&connections, "192.0.2.2").is_some());
    }
}
