//! Queries to other servers: serials and transfers from primaries, NOTIFY, DS records at parents.
//!
//! ```text
//! connections  TCP and TLS connections: certificates, reuse
//! soa        a primary's serial, over UDP (random port and ID, three tries) or over TLS
//! stream     a transfer over TCP or TLS, read as it arrives (maintain::transfer)
//! rate       the minimum rate of a transfer
//! unresponsive  primaries that did not respond recently
//! autoprimary  zones created because an autoprimary sends NOTIFY for them
//! notify     the NOTIFY sender (maintain::notify_out)
//! parent     a zone's DS records, queried from its parent's servers
//! progress   records and octets of running transfers, results of finished ones
//! ```
//! All of it runs on a separate runtime, since packing a large zone takes a second: clients of this server never wait
//! for a primary.

mod autoprimary;
pub(crate) mod connections;
mod failure;
mod notify;
mod parent;
mod progress;
mod rate;
mod sink;
mod soa;
mod stream;
mod unresponsive;

use std::sync::Arc;
use std::time::{Duration, Instant};

use nameward_dnssec::tsig::TsigKey;
use nameward_maintain::policy::{PolicyTable, RemoteServer};
use nameward_maintain::secondary::driver::SecondaryHandle;
use nameward_maintain::secondary::{
    PrimaryAnswer, PrimaryError, PrimaryReply, PrimaryRequest, PrimaryRequestId,
    PrimaryRequestStep, QueryPrimary, TransferWay,
};
use nameward_maintain::transfer::{
    MemoryShare, SentRequest, SoaReply, TransferAnswer, TransferFailure, TransferMemory,
};
use nameward_wire::Type;
use nameward_zone::Serial;
use tokio::runtime::Handle;

pub use autoprimary::AutoprimarySink;
pub use connections::{PeerConnections, PeerRole, PeerTlsFault};
use failure::QueryFailure;
pub use notify::{
    DatabaseRanks, Notifier, NotifyContext, SecondarySerial, UnknownSerial, forget_notified,
};
pub use parent::{ParentClient, find_ds};
pub use progress::{TransferProgress, TransferResults, Transfers};
pub use sink::SecondarySink;
use unresponsive::UnresponsivePrimaries;

/// Response codes of servers that do not support EDNS.
const FORMERR: u8 = 1;
const NOTIMP: u8 = 4;
/// Response code of a server that does not answer this query, or not over this transport.
const REFUSED: u8 = 5;

/// The form of a query to a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueryForm {
    /// Requests the remaining lifetime of the primary's own copy (RFC 7314).
    WithExpire,
    /// Without EDNS.
    Plain,
}

impl QueryForm {
    /// Returns the message; `have` is our serial, for an IXFR.
    fn message(self, asked: &SentRequest, have: Option<Serial>) -> Vec<u8> {
        match self {
            QueryForm::WithExpire => asked.message_with_expire(have),
            QueryForm::Plain => asked.message(have),
        }
    }
}

/// Settings for outgoing queries.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingSettings {
    /// Maximum number of octets that all transfers together may hold in memory.
    pub memory_max: u64,
    /// Minimum rate of a primary in octets per second, measured over `idle_timeout`; 0 for any rate.
    pub rate_min: u64,
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Time within which a primary must complete a message.
    pub idle_timeout: Duration,
    /// Maximum duration of a transfer.
    pub total_timeout: Duration,
}

/// Queries primaries.
#[derive(Clone)]
pub struct PrimaryClient {
    shared: Arc<OutgoingShared>,
    runtime: Handle,
}

struct OutgoingShared {
    connections: Arc<PeerConnections>,
    policies: Arc<PolicyTable>,
    settings: OutgoingSettings,
    unresponsive: UnresponsivePrimaries,
    memory: TransferMemory,
    transfers: Arc<Transfers>,
}

impl PrimaryClient {
    /// Creates a client that runs on `runtime`.
    pub fn new(
        policies: Arc<PolicyTable>,
        connections: Arc<PeerConnections>,
        settings: OutgoingSettings,
        runtime: Handle,
    ) -> Self {
        let shared = OutgoingShared {
            connections,
            policies,
            settings,
            unresponsive: UnresponsivePrimaries::default(),
            memory: TransferMemory::new(settings.memory_max),
            transfers: Arc::default(),
        };
        PrimaryClient {
            shared: Arc::new(shared),
            runtime,
        }
    }

    /// Returns the running transfers and the results of finished ones.
    pub fn transfers(&self) -> &Arc<Transfers> {
        &self.shared.transfers
    }

    /// Returns the octets of memory that incoming transfers hold.
    pub fn transfer_memory(&self) -> u64 {
        self.shared.memory.used()
    }

    /// Records that a server is up, for example because it sent NOTIFY: it is queried even if it
    /// did not respond a moment ago.
    pub fn mark_responsive(&self, address: std::net::IpAddr) {
        self.shared.unresponsive.mark_responsive(address);
    }

    /// Returns the client that the refresh of secondary zones uses.
    pub fn querier(&self, life: SecondaryHandle) -> PrimaryQuerier {
        PrimaryQuerier {
            outgoing: self.clone(),
            life,
        }
    }
}

/// Queries primaries and passes their answers to the refresh of secondary zones.
pub struct PrimaryQuerier {
    outgoing: PrimaryClient,
    life: SecondaryHandle,
}

impl QueryPrimary for PrimaryQuerier {
    fn ask(&mut self, ask: PrimaryRequest) {
        let shared = Arc::clone(&self.outgoing.shared);
        let mut answer = PrimaryAnswerGuard {
            life: self.life.clone(),
            request_id: Some(ask.request_id),
        };
        self.outgoing.runtime.spawn(async move {
            let reply = shared.query_primary(&ask).await;
            let reply = reply.map_err(|failure| PrimaryError(failure.to_string()));
            answer.deliver(reply);
        });
    }
}

/// Guarantees an answer even if the task ends early: otherwise the zone would wait forever.
struct PrimaryAnswerGuard {
    life: SecondaryHandle,
    request_id: Option<PrimaryRequestId>,
}

impl PrimaryAnswerGuard {
    fn deliver(&mut self, reply: Result<PrimaryReply, PrimaryError>) {
        if let Some(request_id) = self.request_id.take() {
            self.life.answered(request_id, reply);
        }
    }
}

impl Drop for PrimaryAnswerGuard {
    fn drop(&mut self) {
        self.deliver(Err(PrimaryError("the query was cancelled".into())));
    }
}

impl OutgoingShared {
    /// Queries a primary for its serial, or transfers a newer version.
    async fn query_primary(&self, ask: &PrimaryRequest) -> Result<PrimaryReply, QueryFailure> {
        let started = Instant::now();
        let address = ask.primary.address;
        if let Some(ago) = self.unresponsive.unresponsive_since(address) {
            return Err(QueryFailure::Silent(ago));
        }
        let mut result = self.query_in_form(ask, QueryForm::WithExpire).await;
        // RFC 6891 section 7: a server without EDNS answers FORMERR or NOTIMP, and is queried again without.
        if let Err(QueryFailure::Peer(TransferFailure::Code(FORMERR | NOTIMP))) = result {
            result = self.query_in_form(ask, QueryForm::Plain).await;
        }
        if result.as_ref().is_err_and(QueryFailure::is_unresponsive) {
            self.unresponsive.record_timeout(address);
        }
        let mut reply = result?;
        reply.took = started.elapsed();
        Ok(reply)
    }

    async fn query_in_form(
        &self,
        ask: &PrimaryRequest,
        form: QueryForm,
    ) -> Result<PrimaryReply, QueryFailure> {
        let key = self.key_of(&ask.primary)?;
        match ask.step {
            PrimaryRequestStep::Serial => self.check(ask, form, key.as_ref()).await,
            PrimaryRequestStep::Transfer(way) => {
                self.transfer_in_time((ask, way, form), key.as_ref()).await
            }
        }
    }

    /// Queries a primary for its serial.
    async fn check(
        &self,
        ask: &PrimaryRequest,
        form: QueryForm,
        key: Option<&Arc<TsigKey>>,
    ) -> Result<PrimaryReply, QueryFailure> {
        let asked = soa::query_soa(&self.connections, (&ask.primary, key), ask.zone, form);
        let reply = match asked.await {
            // Knot answers queries for catalog zones over TCP only.
            Err(QueryFailure::Peer(TransferFailure::Code(REFUSED))) => SoaReply::Truncated,
            reply => reply?,
        };
        let (serial, expire) = match reply {
            // The serial is unknown; the transfer starts with it anyway.
            SoaReply::Truncated => return Ok(PrimaryAnswer::Newer(None).into()),
            SoaReply::Serial(serial, expire) => (serial, expire),
        };
        let is_newer = ask.have.is_none_or(|have| serial.is_after(have));
        let answer = if is_newer {
            PrimaryAnswer::Newer(Some(serial))
        } else {
            PrimaryAnswer::Same(serial)
        };
        Ok(PrimaryReply {
            expire: expire.map(|seconds| Duration::from_secs(seconds.into())),
            ..answer.into()
        })
    }

    async fn transfer_in_time(
        &self,
        (ask, way, form): (&PrimaryRequest, TransferWay, QueryForm),
        key: Option<&Arc<TsigKey>>,
    ) -> Result<PrimaryReply, QueryFailure> {
        let progress = self.transfers.begin(ask.zone, ask.primary.address);
        let mut memory = Box::new(self.memory.share(ask.primary.address.ip()));
        let transfer = self.transfer((ask, way, form), key, (&progress, &mut memory));
        let result = match tokio::time::timeout(self.settings.total_timeout, transfer).await {
            Ok(result) => result,
            Err(_) => Err(QueryFailure::Timeout("the transfer timed out")),
        };
        self.transfers.count(&result);
        let answer = match result? {
            TransferAnswer::NotNewer(serial) => return Ok(PrimaryAnswer::Same(serial).into()),
            TransferAnswer::Differences(list) => PrimaryAnswer::Differences(list),
            TransferAnswer::Whole(whole) => {
                memory.set_final(whole.memory());
                PrimaryAnswer::Whole(whole)
            }
        };
        Ok(PrimaryReply {
            answer,
            expire: progress.expire(),
            records: progress.records(),
            octets: progress.octets(),
            took: Duration::ZERO,
            memory: Some(memory),
        })
    }

    /// Transfers a newer version: by differences if the transfer method allows and the primary has them, else the
    /// whole zone.
    async fn transfer(
        &self,
        (ask, way, form): (&PrimaryRequest, TransferWay, QueryForm),
        key: Option<&Arc<TsigKey>>,
        (progress, memory): (&TransferProgress, &mut MemoryShare),
    ) -> Result<TransferAnswer, QueryFailure> {
        if way == TransferWay::Incremental && ask.have.is_some() {
            let asked = (ask, Type::IXFR, form);
            match stream::transfer(asked, key, self, (progress, memory)).await {
                Err(QueryFailure::Peer(failure)) if stream::is_worth_axfr(&failure) => {
                    tracing::debug!(
                        "zone {}: IXFR failed: {failure}; retrying with AXFR",
                        ask.zone
                    );
                }
                result => return result,
            }
        }
        let asked = (ask, Type::AXFR, form);
        stream::transfer(asked, key, self, (progress, memory)).await
    }

    /// Finds the TSIG key of a server.
    fn key_of(&self, server: &RemoteServer) -> Result<Option<Arc<TsigKey>>, QueryFailure> {
        let Some(name) = &server.key else {
            return Ok(None);
        };
        let policies = self.policies.load();
        match policies.keys().find(name.as_name()) {
            Some(key) => Ok(Some(Arc::clone(key))),
            None => Err(QueryFailure::NoKey(name.to_string())),
        }
    }
}

/// Returns the ID of a message to a server: 0 over QUIC (RFC 9250 section 4.2.1), else unpredictable.
fn message_id(server: &RemoteServer) -> u16 {
    if server.is_quic() { 0 } else { random_id() }
}

/// Returns an unpredictable ID: the keys of a hasher are random.
fn random_id() -> u16 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u16
}

/// Returns the source address for messages to a server, with a port chosen by the kernel.
fn local_address(server: &RemoteServer) -> std::net::SocketAddr {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    let unspecified = match server.address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let source = server
        .source
        .filter(|source| source.is_ipv4() == server.address.is_ipv4());
    SocketAddr::new(source.unwrap_or(unspecified), 0)
}
