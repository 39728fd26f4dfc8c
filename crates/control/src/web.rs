//! The status web interface: a small HTTP/1.0 server.
//!
//! Why not axum or hyper: every reply must be HTTP/1.0, also to HTTP/1.1 clients and for requests that do not parse,
//! and each request, malformed ones included, is one log message with the total size of its reply. hyper writes its
//! own 400s as HTTP/1.1, past any hook, and does not report their size. One request per connection, GET and HEAD
//! only, needs no framework, and less code is exposed to strangers.
//!
//! - One request per connection, then it is closed. Head, body, time, connections and octets of replies are limited
//!   (`WebLimits`). The text form of a ring is rendered while it is sent.
//! - At the connection limit, the one that has waited longest without a complete request is closed, else the one that
//!   reads its reply slowest: neither idle connections nor those that do not read can block the page. One that waits
//!   for the text of a ring while the queue is full is closed if all others read their replies.
//! - Pages are rendered on blocking threads, two at a time, never on those that answer DNS. Password hashes are
//!   computed one at a time, and guesses are limited per client. At most half of the connections wait for pages,
//!   and a quarter for hashes.
//! - A ring is ranked once for all clients that wait for its text, and chunks of texts have separate permits, which
//!   are released while a client does not read: clients that do not read hold nothing that others wait for.
//! - Probes, refusals and stylesheets never wait.
//! - A request is logged before its reply is sent: a client that has its reply finds it in the ring.

mod access;
mod answer;
mod api;
mod chart;
mod checks;
mod connection;
mod exposition;
mod guesses;
mod handover;
mod health;
mod host;
mod key_gate;
mod metrics;
mod outgoing_replies;
mod page;
pub mod request;
mod response;
mod ring_text;
mod ring_texts;
mod routes;
mod secret_check;
mod zone_list;
mod zone_page;

use nameward_base::secret::Secret;
use nameward_base::sync::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ipnet::IpNet;
use nameward_stats::{Stamp, Stats};
use nameward_wire::Type;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::operations::{ReadyRules, ServerStatus};
use access::Password;
pub use access::{BadHash, check_password, client_network, hash_password, is_allowed, same_secret};
pub use api::statistics;
pub use handover::ApiHandover;
pub use key_gate::KeyGate;
use outgoing_replies::OutgoingReplies;
use ring_texts::RingTexts;
use secret_check::SecretCheck;
pub use secret_check::{RETRY_SECONDS, SecretVerdict};
use zone_list::NoZones;
pub use zone_list::{ListedZonesView, ROWS as ZONE_ROWS, ZoneListPage, ZoneListQuery, escaped};
pub use zone_page::{ZoneConfigSource, ZoneFacts, state_class};

/// The stylesheet of the status page, on which the web administration builds.
pub const STYLE: &str = include_str!("../assets/style.css");
/// The icon of the server.
pub const ICON: &str = include_str!("../assets/icon.svg");

/// Returns the current state of the server.
type StatusSource = Box<dyn Fn() -> Arc<ServerStatus> + Send + Sync>;

/// The capacities that the page offers for a ring.
pub const RESIZE_CHOICES: [usize; 6] = [10, 100, 500, 1000, 10_000, 500_000];
/// Maximum number of pages rendered at the same time.
const RENDERS_MAX: usize = 2;
/// Maximum number of zone pages rendered at the same time; more are refused. They have separate permits, so that an
/// unresponsive database does not delay status pages.
const ZONE_RENDERS_MAX: usize = 4;
/// Maximum number of text chunks rendered at the same time.
const CHUNKS_MAX: usize = 2;
/// A client that reads nothing for this long is closed before those that wait for the server.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// The operator's settings.
pub struct Settings {
    /// Product and version, the title of the page.
    pub title: String,
    /// Clients that get an answer at all.
    pub allow_from: Vec<IpNet>,
    /// Required by Basic authentication with any user name; plain or a scrypt hash; empty: none.
    pub password: Secret<String>,
    /// The key of the API, plain or a scrypt hash; empty: there is no API.
    pub api_key: Secret<String>,
    /// Names under which the page is served without a password, besides the listen address and `localhost`.
    pub host_names: Vec<String>,
    /// Limits on clients.
    pub limits: WebLimits,
    /// The requirements of `/readyz`.
    pub ready: ReadyRules,
}

impl Settings {
    /// Creates settings without a password and without an API, from those that the operator always configures.
    pub fn new(allow_from: Vec<IpNet>, max_held_bytes: usize) -> Self {
        Settings {
            title: concat!("Nameward ", env!("CARGO_PKG_VERSION")).into(),
            allow_from,
            password: Secret::default(),
            api_key: Secret::default(),
            host_names: Vec::new(),
            limits: WebLimits::new(max_held_bytes),
            ready: ReadyRules::default(),
        }
    }
}

/// Limits on the resources of clients.
#[derive(Clone, Copy, Debug)]
pub struct WebLimits {
    /// Maximum number of connections.
    pub max_connections: usize,
    /// Maximum size of request line and header fields in octets.
    pub max_head_bytes: usize,
    /// Maximum declared body size in octets; the body is not read.
    pub max_body_bytes: u64,
    /// Time limit for the request head.
    pub head_timeout: Duration,
    /// Time limit for reading 64 KiB of the reply, or the rest of it.
    pub reply_timeout: Duration,
    /// Maximum number of octets of replies held for all clients together.
    pub max_held_bytes: usize,
}

impl WebLimits {
    /// Creates limits from the one that the operator configures; the others are fixed.
    pub fn new(max_held_bytes: usize) -> Self {
        WebLimits {
            max_connections: 256,
            max_head_bytes: 16 * 1024,
            max_body_bytes: 16 * 1024,
            head_timeout: Duration::from_secs(5),
            reply_timeout: Duration::from_secs(10),
            max_held_bytes,
        }
    }
}

/// The web server before it serves.
pub struct Web {
    shared: WebState,
}

/// The state that all connections share.
struct WebState {
    stats: Arc<Stats>,
    settings: Settings,
    password: Option<Arc<Password>>,
    api_key: Option<Arc<Password>>,
    /// Created at start; the forms of the page contain it, so that another site cannot reset a ring.
    token: String,
    status: StatusSource,
    zones: Arc<dyn ListedZonesView>,
    /// Takes connections for the API, if it shares this port.
    api: Option<ApiHandover>,
    drawings: Semaphore,
    zone_drawings: Semaphore,
    /// Permits to render a chunk of a text. Pages take longer and have others.
    pieces: Semaphore,
    ring_texts: Arc<RingTexts>,
    /// Requests that wait for rendering or ranking, or are in it.
    queue: Semaphore,
    secrets: SecretCheck,
    replies: Arc<OutgoingReplies>,
    connections: AtomicUsize,
    waiting: Mutex<WaitingConnections>,
}

impl Web {
    /// Creates the server. The status is read often and must never block. Fails only for an unusable password hash.
    pub fn with_status(
        stats: Arc<Stats>,
        settings: Settings,
        status: impl Fn() -> Arc<ServerStatus> + Send + Sync + 'static,
    ) -> Result<Self, BadHash> {
        let replies = OutgoingReplies::new(settings.limits.max_held_bytes);
        let shared = WebState {
            stats,
            password: Password::new(settings.password.reveal())?.map(Arc::new),
            api_key: Password::new(settings.api_key.reveal())?.map(Arc::new),
            token: uuid::Uuid::new_v4().simple().to_string(),
            status: Box::new(status),
            zones: Arc::new(NoZones),
            api: None,
            drawings: Semaphore::new(RENDERS_MAX),
            zone_drawings: Semaphore::new(ZONE_RENDERS_MAX),
            pieces: Semaphore::new(CHUNKS_MAX),
            ring_texts: RingTexts::new(Arc::clone(&replies)),
            queue: Semaphore::new(settings.limits.max_connections.div_ceil(2)),
            secrets: SecretCheck::new(settings.limits.max_connections.div_ceil(4)),
            replies,
            connections: AtomicUsize::new(0),
            waiting: Mutex::default(),
            settings,
        };
        Ok(Web { shared })
    }

    /// Shows the zone list, and a page for each zone.
    pub fn showing_zones(mut self, zones: Arc<dyn ListedZonesView>) -> Self {
        self.shared.zones = zones;
        self
    }

    /// Hands connections for the API over.
    pub fn with_api(mut self, api: ApiHandover) -> Self {
        self.shared.api = Some(api);
        self
    }

    /// Accepts connections until `shutdown` completes.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let shared = Arc::new(self.shared);
        let mut shutdown = std::pin::pin!(shutdown);
        let mut next = 0u64;
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    next += 1;
                    shared.admit(next, stream, peer);
                }
                // Usually out of descriptors: not a reason to spin or to end.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

/// Connections that may be closed, the oldest first.
#[derive(Default)]
struct WaitingConnections {
    /// Connections without a complete request yet.
    for_request: BTreeMap<u64, (IpAddr, AbortHandle)>,
    /// Connections that wait for the text of a ring and found the queue full.
    for_text: BTreeMap<u64, (IpAddr, AbortHandle)>,
    /// Number of connections by client.
    clients: HashMap<IpAddr, usize>,
}

/// The slot of a connection; released when dropped, however the connection ends.
struct ConnectionSlotGuard {
    id: u64,
    client: IpAddr,
    shared: Arc<WebState>,
}

impl ConnectionSlotGuard {
    /// Marks the connection as being answered, so that it is not closed as a waiting one. `None`: it was already.
    fn stop_waiting(&self) -> Option<AbortHandle> {
        let mut waiting = self.shared.waiting.lock();
        let for_request = waiting.for_request.remove(&self.id);
        let waited = for_request.or_else(|| waiting.for_text.remove(&self.id));
        waited.map(|(_, task)| task)
    }

    /// Marks the connection as having its reply, so that it may be closed again.
    fn wait_again(&self, task: AbortHandle) {
        let waits = (self.client, task);
        self.shared
            .waiting
            .lock()
            .for_request
            .insert(self.id, waits);
    }

    /// Marks the connection as waiting for the text of a ring outside the queue, so that it may be closed.
    fn wait_for_text(&self, task: AbortHandle) {
        let waits = (self.client, task);
        self.shared.waiting.lock().for_text.insert(self.id, waits);
    }
}

impl Drop for ConnectionSlotGuard {
    fn drop(&mut self) {
        self.stop_waiting();
        let mut waiting = self.shared.waiting.lock();
        if let Some(count) = waiting.clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                waiting.clients.remove(&self.client);
            }
        }
        drop(waiting);
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WebState {
    fn admit(self: &Arc<Self>, id: u64, stream: TcpStream, peer: SocketAddr) {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let is_for_api = |api: &ApiHandover| access::is_allowed(&api.allow_from, peer.ip());
        if !access::is_allowed(&self.settings.allow_from, peer.ip())
            && !self.api.as_ref().is_some_and(is_for_api)
        {
            return; // closed without an answer
        }
        let mut waiting = self.waiting.lock();
        let limit = self.settings.limits.max_connections;
        if self.connections.load(Ordering::Relaxed) >= limit
            && !self.make_room_for_connection(&mut waiting)
        {
            return; // every connection is being answered
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
        let client = access::client_network(peer.ip());
        *waiting.clients.entry(client).or_insert(0) += 1;
        let slot = ConnectionSlotGuard {
            id,
            client,
            shared: Arc::clone(self),
        };
        // The lock is held until the task is listed, so it cannot leave the list before it is in.
        let task = tokio::spawn(connection::handle_connection(slot, stream, peer));
        waiting
            .for_request
            .insert(id, (client, task.abort_handle()));
    }

    /// Closes a connection; false if none may be closed. The client with the most connections loses one, so that
    /// clients with a few are never closed for one with many. A client that does not read is closed before one that
    /// waits for us.
    fn make_room_for_connection(&self, waiting: &mut WaitingConnections) -> bool {
        let greediest = waiting.clients.iter().max_by_key(|(_, count)| **count);
        let greediest = greediest.filter(|(_, count)| **count > 1);
        let greediest = greediest.map(|(client, _)| *client);
        greediest.is_some_and(|client| self.close_one(waiting, Some(client)))
            || self.close_one(waiting, None)
    }

    /// Closes a connection of one client, or of any.
    fn close_one(&self, waiting: &mut WaitingConnections, of: Option<IpAddr>) -> bool {
        let cut_first = |connections: &mut BTreeMap<u64, (IpAddr, AbortHandle)>| {
            let mut all = connections.iter();
            let first = all.find(|(_, (client, _))| of.is_none_or(|of| of == *client));
            let first = first.map(|(id, _)| *id);
            let first = first.and_then(|id| connections.remove(&id));
            first.map(|(_, oldest)| oldest.abort()).is_some()
        };
        cut_first(&mut waiting.for_request)
            || self.replies.cut_slowest(STALL_TIMEOUT, of)
            || cut_first(&mut waiting.for_text)
            || self.replies.cut_slowest(Duration::ZERO, of)
    }
}

/// Returns the name of a record type; `None` for a type without a mnemonic.
fn mnemonic(rtype: u16) -> Option<&'static str> {
    Type(rtype).mnemonic()
}

/// Returns the name of a query type in statistics; `None` is the sum of the types without a count of their own.
fn type_text(qtype: Option<u16>) -> String {
    qtype.map_or_else(|| "other".into(), |qtype| Type(qtype).to_string())
}

/// Computes the rates once a second, for as long as the future is polled.
pub async fn tick_every_second(stats: Arc<Stats>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        stats.tick(Stamp::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_stats::RingCapacities;
    use std::sync::mpsc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn request(address: SocketAddr, target: &str, password: Option<&str>) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let authorization = password.map(|password| {
            let credentials = data_encoding::BASE64.encode(format!("x:{password}").as_bytes());
            format!("Authorization: Basic {credentials}\r\n")
        });
        let fields = authorization.unwrap_or_default();
        let text = format!("GET {target} HTTP/1.0\r\n{fields}\r\n");
        stream.write_all(text.as_bytes()).await.expect("sent");
        stream
    }

    async fn status(mut stream: TcpStream) -> String {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.expect("a reply");
        reply[9..12].to_owned()
    }

    #[tokio::test]
    async fn other_requests_do_not_wait_for_a_guess_being_computed() {
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let loopback = IpNet::from(std::net::IpAddr::from([127, 0, 0, 1]));
        let settings = Settings::new(vec![loopback], 1 << 20);
        let stats = Stats::new(RingCapacities::default());
        let mut web = Web::with_status(stats, settings, Arc::default).expect("settings");
        let password = Password::hashed(move |given| {
            let waits = given == "wrong";
            if waits {
                let released = released.lock();
                released.recv().expect("a release");
            }
            given == "right"
        });
        web.shared.password = Some(Arc::new(password));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(web.serve(listener, std::future::pending()));
        assert_eq!(
            status(request(address, "/", Some("right")).await).await,
            "200"
        );
        // One is computed, one waits for it, and the others are over their limit.
        let mut guesses = Vec::new();
        for _ in 0..20 {
            guesses.push(request(address, "/", Some("wrong")).await);
        }
        for _ in 0..3 {
            for probe in ["/livez", "/readyz"] {
                assert_eq!(status(request(address, probe, None).await).await, "200");
            }
            assert_eq!(status(request(address, "/", None).await).await, "401");
            assert_eq!(
                status(request(address, "/", Some("right")).await).await,
                "200"
            );
        }
        for _ in 0..2 {
            release.send(()).expect("a guess that waits");
        }
        let mut statuses = Vec::new();
        for guess in guesses {
            statuses.push(status(guess).await);
        }
        statuses.sort();
        assert_eq!(statuses[..2], ["401", "401"]);
        assert!(
            statuses[2..].iter().all(|status| status == "429"),
            "{statuses:?}"
        );
        serving.abort();
    }
}
