//! Queries to primaries: serials and transfers; and the zones that autoprimaries create.
//!
//! ```text
//! soa        a primary's serial, over UDP (random port and ID, three tries) or over TLS
//! stream     a transfer over TCP or TLS, read as it arrives (`transfer_in`)
//! rate       the minimum rate of a transfer
//! unresponsive  primaries that did not respond recently
//! autoprimary  zones created because an autoprimary sends NOTIFY for them
//! progress   records and octets of running transfers, results of finished ones
//! ```
//! All of it runs on a separate runtime, since packing a large zone takes a second: clients of this server never wait
//! for a primary.

mod autoprimary;
mod failure;
mod progress;
mod rate;
pub(crate) mod soa;
mod stream;
mod unresponsive;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::secondary::driver::SecondaryHandle;
use crate::secondary::{
    PrimaryAnswer, PrimaryError, PrimaryReply, PrimaryRequest, PrimaryRequestId,
    PrimaryRequestStep, QueryPrimary, TransferWay,
};
use crate::transfer_in::{
    MemoryShare, SentRequest, SoaReply, TransferAnswer, TransferFailure, TransferMemory,
};
use nameward_dnssec::tsig::TsigKey;
use nameward_maintain::policy::{PolicyTable, RemoteServer};
use nameward_wire::Type;
use nameward_zone::Serial;
use tokio::runtime::Handle;

use crate::connections::PeerConnections;
pub use autoprimary::SecondaryNotifySink;
use failure::QueryFailure;
pub use progress::{TransferProgress, TransferResults, Transfers};
use unresponsive::UnresponsivePrimaries;

/// Response codes of servers that do not support EDNS.
const FORMERR: u8 = 1;
const NOTIMP: u8 = 4;
/// Response code of a server that does not answer this query, or not over this transport.
const REFUSED: u8 = 5;

/// The form of a query to a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryForm {
    /// Requests the remaining lifetime of the primary's own copy (RFC 7314).
    WithExpire,
    /// Without EDNS.
    Plain,
}

impl QueryForm {
    /// Returns the message; `have` is our serial, for an IXFR.
    fn message(self, query: &SentRequest, have: Option<Serial>) -> Vec<u8> {
        match self {
            QueryForm::WithExpire => query.message_with_expire(have),
            QueryForm::Plain => query.message(have),
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
    fn query(&mut self, request: PrimaryRequest) {
        let shared = Arc::clone(&self.outgoing.shared);
        let mut answer = PrimaryAnswerGuard {
            life: self.life.clone(),
            request_id: Some(request.request_id),
        };
        self.outgoing.runtime.spawn(async move {
            let reply = shared.query_primary(&request).await;
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
    async fn query_primary(&self, request: &PrimaryRequest) -> Result<PrimaryReply, QueryFailure> {
        let started = Instant::now();
        let address = request.primary.address;
        if let Some(ago) = self.unresponsive.unresponsive_since(address) {
            return Err(QueryFailure::Silent(ago));
        }
        let mut result = self.query_in_form(request, QueryForm::WithExpire).await;
        // RFC 6891 section 7: a server without EDNS answers FORMERR or NOTIMP, and is queried again without.
        if let Err(QueryFailure::Peer(TransferFailure::Code(FORMERR | NOTIMP))) = result {
            result = self.query_in_form(request, QueryForm::Plain).await;
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
        request: &PrimaryRequest,
        form: QueryForm,
    ) -> Result<PrimaryReply, QueryFailure> {
        let key = self.key_of(&request.primary)?;
        match request.step {
            PrimaryRequestStep::Serial => self.check(request, form, key.as_ref()).await,
            PrimaryRequestStep::Transfer(way) => {
                self.transfer_in_time((request, way, form), key.as_ref())
                    .await
            }
        }
    }

    /// Queries a primary for its serial.
    async fn check(
        &self,
        request: &PrimaryRequest,
        form: QueryForm,
        key: Option<&Arc<TsigKey>>,
    ) -> Result<PrimaryReply, QueryFailure> {
        let reply = soa::query_soa(
            &self.connections,
            (&request.primary, key),
            request.zone,
            form,
        );
        let reply = match reply.await {
            // Knot answers queries for catalog zones over TCP only.
            Err(QueryFailure::Peer(TransferFailure::Code(REFUSED))) => SoaReply::Truncated,
            reply => reply?,
        };
        let (serial, expire) = match reply {
            // The serial is unknown; the transfer starts with it anyway.
            SoaReply::Truncated => return Ok(PrimaryAnswer::Newer(None).into()),
            SoaReply::Serial(serial, expire) => (serial, expire),
        };
        let is_newer = request.have.is_none_or(|have| serial.is_after(have));
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
        (request, way, form): (&PrimaryRequest, TransferWay, QueryForm),
        key: Option<&Arc<TsigKey>>,
    ) -> Result<PrimaryReply, QueryFailure> {
        let progress = self.transfers.begin(request.zone, request.primary.address);
        let mut memory = Box::new(self.memory.share(request.primary.address.ip()));
        let transfer = self.transfer((request, way, form), key, (&progress, &mut memory));
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
        (request, way, form): (&PrimaryRequest, TransferWay, QueryForm),
        key: Option<&Arc<TsigKey>>,
        (progress, memory): (&TransferProgress, &mut MemoryShare),
    ) -> Result<TransferAnswer, QueryFailure> {
        if way == TransferWay::Incremental && request.have.is_some() {
            let ixfr = (request, Type::IXFR, form);
            match stream::transfer(ixfr, key, self, (progress, memory)).await {
                Err(QueryFailure::Peer(failure)) if stream::is_worth_axfr(&failure) => {
                    tracing::debug!(
                        "zone {}: IXFR failed: {failure}; retrying with AXFR",
                        request.zone
                    );
                }
                result => return result,
            }
        }
        let axfr = (request, Type::AXFR, form);
        stream::transfer(axfr, key, self, (progress, memory)).await
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
pub(crate) fn random_id() -> u16 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as u16
}
