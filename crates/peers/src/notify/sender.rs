//! The task that sends NOTIFY messages: determines targets of changed zones, sends messages,
//! matches replies.

use nameward_base::time::now_seconds;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket as PlainSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::notify::pending::{
    NOTIFY_ROUND, NOTIFY_TRIES, NotifyChange, NotifyQueue, NotifyTargets, NotifyTry,
    UnansweredNotify, name_server_targets, notify_targets,
};
use crate::transfer_in::{TransferFailure, read_notify_reply};
use nameward_base::text::counted;
use nameward_dnssec::tsig::{ReplyVerifier, TsigFailure, sign_request};
use nameward_maintain::Moment;
use nameward_maintain::policy::RemoteServer;
use nameward_stats::LogThrottle;
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::live_servers::{LiveServerLookup, LiveServers, NotifyTime};
use super::resolve::{NameServerResolver, ResolvedServers};
use super::tls::EncryptedNotify;
use super::{LOG_INTERVAL, LOGGED, NotifierShared, NotifyContext, ReceivedReply};
use crate::connections::local_address;
use crate::primaries::random_id;

/// Maximum number of received replies that are queued.
const REPLY_QUEUE_MAX: usize = 1024;
/// Receive buffer size for a reply.
const REPLY_BUFFER: usize = 4096;
/// Maximum number of messages sent before replies are read.
const BURST: usize = 256;
/// Maximum number of open sockets, one per source address.
const SOCKETS_MAX: usize = 64;

/// Starts the task on its runtime.
pub(super) fn start(shared: &Arc<NotifierShared>) {
    let context = &shared.context;
    let (replies, replied) = mpsc::channel(REPLY_QUEUE_MAX);
    let (found, resolved) = mpsc::channel(REPLY_QUEUE_MAX);
    let (looked_up, from_databases) = mpsc::channel(REPLY_QUEUE_MAX);
    let sender = NotifySender {
        shared: Arc::clone(shared),
        resolver: NameServerResolver::new(Arc::clone(&context.shared), found),
        live_servers: LiveServerLookup::new(
            Arc::clone(&context.shared),
            context.database_runtime.clone(),
            looked_up,
        ),
        delayed: HashMap::new(),
        queue: NotifyQueue::default(),
        verifiers: HashMap::new(),
        sockets: HashMap::new(),
        encrypted: EncryptedNotify::new(Arc::clone(&context.connections), replies.clone()),
        replies,
        log: LogThrottle::by_text(LOG_INTERVAL, LOGGED),
    };
    context
        .runtime
        .spawn(sender.run(replied, resolved, from_databases));
}

struct NotifySender {
    shared: Arc<NotifierShared>,
    queue: NotifyQueue,
    resolver: NameServerResolver,
    live_servers: LiveServerLookup,
    /// Serials of zones whose servers are notified once per minute. Until then they do not count as
    /// notified, since the server may stop before.
    delayed: HashMap<NameBuf, Option<Serial>>,
    /// The verifiers for the replies to the last signed message of each target.
    verifiers: HashMap<u64, ReplyVerifier>,
    sockets: HashMap<SocketAddr, Arc<UdpSocket>>,
    encrypted: EncryptedNotify,
    replies: mpsc::Sender<ReceivedReply>,
    log: LogThrottle,
}

impl NotifySender {
    fn context(&self) -> &NotifyContext {
        &self.shared.context
    }

    async fn run(
        mut self,
        mut replied: mpsc::Receiver<ReceivedReply>,
        mut resolved: mpsc::Receiver<ResolvedServers>,
        mut from_databases: mpsc::Receiver<LiveServers>,
    ) {
        loop {
            self.process_changes();
            let has_more = self.send_due().await;
            while let Ok((octets, from)) = replied.try_recv() {
                self.process_reply(&octets, from);
            }
            self.shared.sent_serials.lock().write_due();
            let waiting = self.queue.len() as u64;
            self.shared.waiting.store(waiting, Ordering::Relaxed);
            if has_more {
                tokio::task::yield_now().await;
                continue;
            }
            let wait = match self.queue.next() {
                Some(at) => Duration::from_millis(at.0.saturating_sub(now().0).max(1)),
                None => Duration::from_secs(3600),
            };
            let next_write = self.shared.sent_serials.lock().next_write();
            let wait = next_write.map_or(wait, |write| wait.min(write));
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                () = shared.wake.notified() => {}
                Some((octets, from)) = replied.recv() => self.process_reply(&octets, from),
                Some(servers) = resolved.recv() => self.process_resolved(&servers),
                Some(servers) = from_databases.recv() => self.process_live(servers),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Determines the targets of the zones that have changed.
    fn process_changes(&mut self) {
        let changed = std::mem::take(&mut *self.shared.changed.lock());
        if changed.is_empty() {
            return;
        }
        let (table, policies) = self.context().load();
        for (name, is_requested) in changed {
            let Some(zone) = table.exact(name.as_name()) else {
                continue;
            };
            let policy = policies.get(name.as_name());
            if !is_requested && !self.context().leads_zone(zone, policy) {
                continue;
            }
            let origin = self.context().databases.origin(zone);
            let NotifyTargets {
                servers: mut targets,
                unknown,
            } = notify_targets((zone, origin), &table, policy);
            targets.retain(|target| !self.is_own_address(target.address));
            if !unknown.is_empty() {
                self.resolver.resolve(name, unknown);
            }
            let change = NotifyChange::from_zone(zone);
            let is_now = is_requested || policy.notify_at_once;
            let is_live = policy.notifies_name_servers(origin) && zone.live().is_some();
            if is_live {
                let time = if is_now {
                    NotifyTime::Now
                } else {
                    NotifyTime::NextRound
                };
                self.live_servers.look_up(name, time);
            }
            if is_now || targets.is_empty() && !is_live {
                self.record_sent(name, change.serial)
            } else {
                self.delayed.insert(name, change.serial);
            }
            if targets.is_empty() {
                continue;
            }
            let servers = counted(targets.len(), "server");
            match change.serial {
                _ if !is_now => {}
                Some(serial) => {
                    tracing::info!("zone {name}: sending notifies (serial {serial}) to {servers}");
                }
                None => tracing::info!("zone {name}: sending notifies to {servers}"),
            }
            let at = if is_now {
                now()
            } else {
                now().plus(NOTIFY_ROUND)
            };
            self.add_targets(&change, targets, at);
        }
    }

    fn add_targets(&mut self, change: &NotifyChange, targets: Vec<RemoteServer>, at: Moment) {
        let dropped = self.queue.add(change, targets, at);
        if dropped > 0 {
            tracing::error!(
                "zone {}: NOTIFY queue full, {} not notified",
                change.zone,
                counted(dropped, "server")
            );
        }
    }

    /// Notifies a zone's name servers whose addresses were resolved of the currently served
    /// version.
    fn process_resolved(&mut self, servers: &ResolvedServers) {
        self.resolver.finish(servers);
        let (table, policies) = self.context().load();
        let Some(zone) = table.exact(servers.zone.as_name()) else {
            return;
        };
        let policy = policies.get(servers.zone.as_name());
        let mut targets = name_server_targets(policy, servers.addresses.iter().copied());
        targets.retain(|target| !self.is_own_address(target.address));
        if targets.is_empty() {
            return;
        }
        let list: Vec<String> = targets
            .iter()
            .map(|target| target.address.to_string())
            .collect();
        tracing::info!(
            "zone {}: sending notifies to {} (addresses from the recursor)",
            servers.zone,
            list.join(", ")
        );
        self.add_targets(&NotifyChange::from_zone(zone), targets, now());
    }

    /// Records that the servers of a zone are notified of a serial.
    fn record_sent(&mut self, zone: NameBuf, serial: Option<Serial>) {
        self.delayed.remove(&zone);
        if let Some(serial) = serial {
            self.shared.sent_serials.lock().record(zone, serial);
        }
        self.context().notified.note(zone);
    }

    /// Notifies the name servers of a database zone.
    fn process_live(&mut self, servers: LiveServers) {
        let LiveServers {
            zone: name,
            time,
            addresses,
            unknown,
            failure,
        } = servers;
        self.live_servers.finish(&name);
        if let Some(error) = failure {
            tracing::warn!(
                "zone {name}: cannot send notifies to its name servers: {}",
                error.reason
            );
        }
        let (table, policies) = self.context().load();
        let Some(zone) = table.exact(name.as_name()) else {
            return;
        };
        let policy = policies.get(name.as_name());
        let mut targets = name_server_targets(policy, addresses);
        targets.sort_by_key(|target| target.address);
        targets.dedup_by_key(|target| target.address);
        targets.retain(|target| !self.is_own_address(target.address));
        let change = NotifyChange::from_zone(zone);
        if !unknown.is_empty() {
            self.resolver.resolve(name, unknown);
        }
        if targets.is_empty() {
            if policy.also_notify.is_empty() {
                self.record_sent(name, change.serial);
            }
            return;
        }
        let at = match time {
            NotifyTime::Now => {
                let list: Vec<String> = targets.iter().map(|t| t.address.to_string()).collect();
                tracing::info!("zone {name}: sending notifies to {}", list.join(", "));
                now()
            }
            NotifyTime::NextRound => now().plus(NOTIFY_ROUND),
        };
        self.add_targets(&change, targets, at);
    }

    /// Sends due messages; true if there are more.
    async fn send_due(&mut self) -> bool {
        let mut unanswered = Vec::new();
        for _ in 0..BURST {
            let Some(next) = self.queue.begin(now(), &mut unanswered) else {
                self.log_unanswered(&unanswered);
                return false;
            };
            if let Err(error) = self.send(&next).await {
                // It is retried, as if the datagram had been lost.
                let (zone, peer) = (next.change.zone, next.target.address);
                tracing::debug!("zone {zone}: cannot send NOTIFY to {peer}: {error}");
            }
        }
        self.log_unanswered(&unanswered);
        true
    }

    async fn send(&mut self, next: &NotifyTry) -> io::Result<()> {
        let id = random_id();
        let mut message = next.change.message(id);
        self.queue.sent(next.number, id);
        if let Some(name) = &next.target.key {
            let policies = self.context().policies.load();
            let Some(key) = policies.keys().find(name.as_name()) else {
                let (zone, peer) = (next.change.zone, next.target.address);
                tracing::error!(
                    "zone {zone}: cannot send NOTIFY to {peer}: unknown TSIG key {name}"
                );
                self.queue.remove(next.number);
                return Ok(());
            };
            let verifier = sign_request(key, &mut message, now_seconds());
            self.verifiers.insert(next.number, verifier);
        }
        if let Some(serial) = self.delayed.get(&next.change.zone).copied() {
            self.record_sent(next.change.zone, serial);
        }
        if next.target.tls.is_some() {
            // Plain text would reveal which zone has changed.
            let target = next.target.clone();
            if !self.encrypted.send(next.change.zone, target, message) {
                return Ok(());
            }
        } else {
            let socket = self.socket(local_address(&next.target)).await?;
            socket.send_to(&message, next.target.address).await?;
        }
        self.shared.sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the socket for a local address, with a task that receives its replies.
    async fn socket(&mut self, local: SocketAddr) -> io::Result<Arc<UdpSocket>> {
        if let Some(socket) = self.sockets.get(&local) {
            return Ok(Arc::clone(socket));
        }
        let socket = Arc::new(UdpSocket::bind(local).await?);
        let (receiver, replies) = (Arc::downgrade(&socket), self.replies.clone());
        if self.sockets.len() >= SOCKETS_MAX {
            self.sockets.clear();
        }
        self.sockets.insert(local, Arc::clone(&socket));
        tokio::spawn(async move {
            let mut buffer = [0; REPLY_BUFFER];
            while let Some(socket) = receiver.upgrade() {
                let received = tokio::time::timeout(LOG_INTERVAL, socket.recv_from(&mut buffer));
                // If the queue is full, the reply counts as lost.
                if let Ok(Ok((len, from))) = received.await {
                    let _ = replies.try_send((buffer[..len].to_vec(), from));
                }
            }
        });
        Ok(socket)
    }

    fn process_reply(&mut self, octets: &[u8], from: SocketAddr) {
        let Some(&[high, low]) = octets.first_chunk() else {
            return;
        };
        let found = self.queue.find(u16::from_be_bytes([high, low]), from);
        let Some((number, request, _)) = found else {
            return;
        };
        let read = read_notify_reply(&request, octets);
        if read.as_ref().is_err_and(TransferFailure::is_forgeable) {
            return;
        }
        if let Some(mut verifier) = self.verifiers.remove(&number) {
            match verifier.verify(octets, now_seconds()) {
                Ok(_) => {}
                // A server that does not know the key cannot sign its refusal.
                Err(TsigFailure::Unsigned | TsigFailure::RefusedByPeer(_)) if read.is_err() => {}
                // Forged or late: the next attempt has its own signature.
                Err(_) => return,
            }
        }
        if let Err(failure) = read
            && self
                .log
                .admit(&from.to_string(), std::time::Instant::now())
                .is_some()
        {
            let failure = failure.to_string().replace("the primary", "the server");
            tracing::warn!("zone {}: NOTIFY to {from} failed: {failure}", request.zone);
        }
        self.queue.remove(number);
    }

    fn log_unanswered(&mut self, unanswered: &[UnansweredNotify]) {
        for UnansweredNotify { zone, target } in unanswered {
            if self
                .log
                .admit(&target.to_string(), std::time::Instant::now())
                .is_some()
            {
                tracing::warn!(
                    "zone {zone}: NOTIFY to {target}: no response after {NOTIFY_TRIES} attempts"
                );
            }
        }
        if !unanswered.is_empty() {
            let queue = &self.queue;
            self.verifiers.retain(|number, _| queue.has(*number));
        }
    }

    /// Checks whether an address is one that this server listens on (RFC 1996 section 3.3: a server does not notify
    /// itself).
    fn is_own_address(&self, target: SocketAddr) -> bool {
        is_own_address(&self.context().listens, target)
    }
}

/// Checks whether an address is one that this server listens on.
pub(super) fn is_own_address(listens: &[SocketAddr], target: SocketAddr) -> bool {
    let same_port = |listen: &&SocketAddr| listen.port() == target.port();
    let mut listens = listens.iter().filter(same_port);
    listens.any(|listen| {
        if listen.ip().is_unspecified() {
            is_local(target)
        } else {
            listen.ip().to_canonical() == target.ip().to_canonical()
        }
    })
}

/// Checks whether an address belongs to this machine: the kernel then uses the address itself as the source.
fn is_local(target: SocketAddr) -> bool {
    let server = RemoteServer::plain(target);
    let found = PlainSocket::bind(local_address(&server)).and_then(|socket| {
        socket.connect(target)?;
        socket.local_addr()
    });
    found.is_ok_and(|own| own.ip() == target.ip())
}

/// Returns a monotonic time, unaffected by clock changes; it is neither stored nor displayed.
fn now() -> Moment {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    Moment(0).plus(elapsed)
}
