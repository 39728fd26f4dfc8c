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
    PrimaryAnswer, PrimaryError, PrimaryReply, PrimaryRequest, PrimaryRequestStep, QueryPrimary,
    TransferWay,
};
use crate::transfer_in::{SentRequest, SoaReply, TransferAnswer, TransferFailure, TransferMemory};
use nameward_dnssec::tsig::TsigKey;
use nameward_maintain::policy::{PolicyTable, RemoteServer};
use nameward_wire::Type;
use nameward_zone::Serial;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::connections::PeerConnections;
pub use autoprimary::SecondaryNotifySink;
use failure::QueryFailure;
pub use progress::{TransferResults, Transfers};
use unresponsive::UnresponsivePrimaries;

/// Response codes of servers that do not support EDNS.
const FORMERR: u8 = 1;
const NOTIMP: u8 = 4;
/// Response code of a server that does not answer this query, or not over this transport.
const REFUSED: u8 = 5;

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
pub struct PrimaryClient {
    connections: Arc<PeerConnections>,
    policies: Arc<PolicyTable>,
    settings: OutgoingSettings,
    unresponsive: UnresponsivePrimaries,
    memory: TransferMemory,
    transfers: Arc<Transfers>,
    runtime: Handle,
}

impl PrimaryClient {
    /// Creates a client that runs on `runtime`.
    pub fn new(
        policies: Arc<PolicyTable>,
        connections: Arc<PeerConnections>,
        settings: OutgoingSettings,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(PrimaryClient {
            connections,
            policies,
            settings,
            unresponsive: UnresponsivePrimaries::default(),
            memory: TransferMemory::new(settings.memory_max),
            transfers: Arc::default(),
            runtime,
        })
    }

    /// Returns the running transfers and the results of finished ones.
    pub fn transfers(&self) -> &Arc<Transfers> {
        &self.transfers
    }
}

/// Queries primaries and passes their answers to the refresh of secondary zones.
pub(crate) struct PrimaryQuerier {
    pub(crate) client: Arc<PrimaryClient>,
    pub(crate) secondaries: SecondaryHandle,
}

impl QueryPrimary for PrimaryQuerier {
    fn query(&mut self, request: PrimaryRequest) {
        let (client, secondaries) = (Arc::clone(&self.client), self.secondaries.clone());
        let (request_id, runtime) = (request.request_id, &self.client.runtime);
        let querying = runtime.spawn(async move { client.query_primary(&request).await });
        // In a task of its own, so that there is an answer even after a panic: otherwise the zone would wait forever.
        runtime.spawn(async move {
            let reply = match querying.await {
                Ok(reply) => reply.map_err(|failure| PrimaryError(failure.to_string())),
                Err(_) => Err(PrimaryError("the query was cancelled".into())),
            };
            secondaries.answered(request_id, reply);
        });
    }
}

impl PrimaryClient {
    /// Queries a primary for its serial, or transfers a newer version.
    async fn query_primary(&self, request: &PrimaryRequest) -> Result<PrimaryReply, QueryFailure> {
        let started = Instant::now();
        let address = request.primary.address;
        if let Some(ago) = self.unresponsive.unresponsive_since(address) {
            return Err(QueryFailure::Silent(ago));
        }
        let key = self.key_of(&request.primary)?;
        let key = key.as_ref();
        let mut form = QueryForm::WithExpire;
        let result = loop {
            let result = match request.step {
                PrimaryRequestStep::Serial => {
                    let (primary, connections) = (&request.primary, &self.connections);
                    let reply = soa::query_soa(connections, (primary, key), request.zone, form);
                    serial_answer(reply.await, request.have)
                }
                PrimaryRequestStep::Transfer(way) => self.transfer((request, way, form), key).await,
            };
            match (&result, form) {
                // RFC 6891 section 7: a server without EDNS answers FORMERR or NOTIMP, and is queried again without.
                (
                    Err(QueryFailure::Peer(TransferFailure::Code(FORMERR | NOTIMP))),
                    QueryForm::WithExpire,
                ) => form = QueryForm::Plain,
                _ => break result,
            }
        };
        if result.as_ref().is_err_and(QueryFailure::is_unresponsive) {
            self.unresponsive.record_timeout(address);
        }
        let mut reply = result?;
        reply.took = started.elapsed();
        Ok(reply)
    }

    /// Transfers a newer version: by differences if the transfer method allows and the primary has them, else the
    /// whole zone.
    async fn transfer(
        &self,
        (request, way, form): (&PrimaryRequest, TransferWay, QueryForm),
        key: Option<&Arc<TsigKey>>,
    ) -> Result<PrimaryReply, QueryFailure> {
        let progress = self.transfers.begin(request.zone, request.primary.address);
        let mut memory = Box::new(self.memory.share(request.primary.address.ip()));
        let transfer = async {
            if way == TransferWay::Incremental && request.have.is_some() {
                let ixfr = (request, Type::IXFR, form);
                match stream::transfer(ixfr, key, self, (&progress, &mut memory)).await {
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
            stream::transfer(axfr, key, self, (&progress, &mut memory)).await
        };
        let result = match timeout(self.settings.total_timeout, transfer).await {
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

/// Returns what a primary's serial means for a zone of which we have a version.
fn serial_answer(
    reply: Result<SoaReply, QueryFailure>,
    have: Option<Serial>,
) -> Result<PrimaryReply, QueryFailure> {
    let (serial, expire) = match reply {
        Ok(SoaReply::Serial(serial, expire)) => (serial, expire),
        // The serial is unknown; the transfer starts with it anyway. Knot answers queries for catalog zones over TCP
        // only.
        Ok(SoaReply::Truncated) | Err(QueryFailure::Peer(TransferFailure::Code(REFUSED))) => {
            return Ok(PrimaryAnswer::Newer(None).into());
        }
        Err(failure) => return Err(failure),
    };
    let answer = if have.is_none_or(|have| serial.is_after(have)) {
        PrimaryAnswer::Newer(Some(serial))
    } else {
        PrimaryAnswer::Same(serial)
    };
    Ok(PrimaryReply {
        expire: expire.map(|seconds| Duration::from_secs(seconds.into())),
        ..answer.into()
    })
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
