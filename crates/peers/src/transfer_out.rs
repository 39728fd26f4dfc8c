//! Transfers to secondaries: access control, the version to send, and limits.
//!
//! ```text
//! request -> zone, access, limits                     here; decided by a worker without waiting
//!         -> slot                                     slots: at once, or in turn
//!         -> version                                  prepare: a zone in memory as it is; differences from the journal
//!                                                     and database zones on a thread that may block;
//!                                                     copies, signers: signed while it is sent
//!         -> messages, as the client reads them       stream
//! ```
//! A client that disconnects releases its slot at once, and cancels all work that no other client waits for.
//!
//! Zones with stored signatures are sent as they are, online-signed zones with signatures and a real NSEC or NSEC3
//! chain; if configured, ALIAS records are replaced by addresses. A transfer is of one version, whatever happens to
//! the zone in the meantime. Over UDP an IXFR is answered if it fits into one message, otherwise with the SOA alone
//! (RFC 1995 section 2), and an AXFR is a format error (RFC 5936 section 4.2).

mod access;
mod client_disconnect;
mod copies;
mod copy_job;
mod digests;
pub mod encode;
mod expand;
mod fault;
mod hints;
mod live_reads;
mod messages;
mod prepare;
mod refusals;
mod sent;
mod signers;
mod slots;
mod stream;
mod version_state;

use nameward_base::sync::Mutex;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Instant;

use crate::secondary::driver::SecondaryHandle;
use crate::transfer_out::encode::{IxfrMessages, TransferRequest};
use nameward_answer::{AnswerKind, Medium, Reply};
use nameward_maintain::policy::PolicyTable;
use nameward_state::StateStore;
use nameward_stats::{Counter, Recorder, Stamp, Stats};
use nameward_wire::message::{Message, MessageSection};
use nameward_wire::{Class, Name, NameBuf, Rcode, Type};
use nameward_zone::change::soa_serial;
use nameward_zone::{Serial, Zone};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use access::{TransferAccess, access_of};
use copies::OutgoingCopies;
use live_reads::{LiveReads, Turns};
use nameward_serve::pipeline::{ReplyPath, ServingState};
use nameward_serve::request::{Request, Verdict, extended_error};
use prepare::TransferSource;
pub(crate) use refusals::LoggedRefusals;
use sent::SentVersions;
pub use slots::TransferLimits;
use slots::TransferSlots;
use stream::{OutgoingTransfer, TransferLog};

/// Maximum number of concurrent IXFR queries over UDP that need the journal; others are directed to TCP.
const DATAGRAMS_MAX: usize = 64;
/// Maximum number of threads that read the journal for transfers over TCP.
const JOURNAL_READS_MAX: usize = 64;
/// Maximum number of threads that copy, hash or compare whole zones for transfers.
const HEAVY_WORK_MAX: usize = 4;

/// The transfers to secondaries of a server.
pub struct OutgoingTransfers {
    policies: Arc<PolicyTable>,
    store: Option<StateStore>,
    runtime: Handle,
    slots: Arc<TransferSlots>,
    datagrams: Arc<Semaphore>,
    live_reads: LiveReads,
    /// Versions of zones without a journal: signed versions, and those sent last.
    copies: Arc<OutgoingCopies>,
    /// Copies of an unsigned zone are made one at a time.
    copy_turns: Turns<NameBuf>,
    /// Threads that read the journal, and those whose work depends on the zone's size.
    journal_reads: Arc<Semaphore>,
    heavy_work: Arc<Semaphore>,
    counters: Arc<TransferCounters>,
    refusals: Mutex<LoggedRefusals>,
    /// For the expiry times of secondary zones.
    secondaries: Option<SecondaryHandle>,
}

struct TransferCounters(Mutex<Recorder>);

impl TransferCounters {
    fn add(&self, counter: Counter, by: u64) {
        if by == 0 {
            return;
        }
        let mut recorder = self.0.lock();
        recorder.add(counter, by);
        recorder.flush(Stamp::now(), None);
    }
}

impl Drop for OutgoingTransfers {
    fn drop(&mut self) {
        self.copies.queue.close();
    }
}

/// Why a transfer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TransferRefusal {
    #[error("not authoritative for this zone")]
    NotOurs,
    #[error("not in allow_transfer")]
    NotAllowed,
    #[error("zone not loaded or expired")]
    NotReady,
    #[error("AXFR over UDP")]
    Datagram,
    #[error("missing or invalid SOA record in the IXFR request")]
    NoSerial,
    #[error("too many transfers are waiting")]
    TooMany,
}

impl TransferRefusal {
    fn verdict(self) -> Verdict {
        use extended_error::{NOT_AUTHORITATIVE, NOT_READY, PROHIBITED};
        match self {
            // RFC 5936 section 2.2.1: NOTAUTH for a zone that is not served here.
            TransferRefusal::NotOurs => Verdict::Code(Rcode::NotAuth, Some(NOT_AUTHORITATIVE)),
            TransferRefusal::NotAllowed => Verdict::Code(Rcode::Refused, Some(PROHIBITED)),
            TransferRefusal::NotReady => Verdict::Code(Rcode::ServFail, Some(NOT_READY)),
            TransferRefusal::Datagram | TransferRefusal::NoSerial => {
                Verdict::Code(Rcode::FormErr, None)
            }
            TransferRefusal::TooMany => Verdict::Code(Rcode::ServFail, None),
        }
    }
}

/// How ALIAS records are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AliasForm {
    Records,
    Addresses,
}

/// The version that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedVersion {
    /// The whole zone (AXFR).
    Whole,
    /// The changes since a serial (IXFR).
    Since(Serial),
}

impl OutgoingTransfers {
    /// Creates the transfers of a server. Call within the runtime. Without a store incremental transfers become whole
    /// ones; without `secondaries`, which have the expiry times of secondary zones (RFC 7314), EXPIRE options are not sent for them.
    pub fn new(
        policies: Arc<PolicyTable>,
        store: Option<StateStore>,
        limits: TransferLimits,
        secondaries: Option<SecondaryHandle>,
        stats: &Arc<Stats>,
    ) -> Arc<Self> {
        let counters = Arc::new(TransferCounters(Mutex::new(stats.recorder())));
        let sent = SentVersions::new(limits.sent_octets_max);
        Arc::new(OutgoingTransfers {
            policies,
            store,
            runtime: Handle::current(),
            slots: TransferSlots::new(limits),
            datagrams: Arc::new(Semaphore::new(DATAGRAMS_MAX)),
            live_reads: LiveReads::default(),
            copies: OutgoingCopies::new(sent, Arc::clone(&counters)),
            copy_turns: Turns::default(),
            journal_reads: Arc::new(Semaphore::new(JOURNAL_READS_MAX)),
            heavy_work: Arc::new(Semaphore::new(HEAVY_WORK_MAX)),
            counters,
            refusals: Mutex::default(),
            secondaries,
        })
    }

    /// Returns how many transfers are running and how many wait for a slot.
    pub fn counts(&self) -> (usize, usize) {
        self.slots.counts()
    }

    /// Checks whether a zone is sent as it is in memory.
    fn is_plain(&self, zone: &Zone) -> bool {
        // The journal has the serials of the unsigned contents.
        let is_as_stored = zone.unsigned_version().is_none() && !zone.is_layered();
        zone.live().is_none()
            && zone.signing().online().is_none()
            && is_as_stored
            && !self.computes_digest(zone)
    }

    /// Returns how many signed copies are in progress.
    pub fn copies_in_progress(&self) -> usize {
        self.copies.in_progress()
    }

    fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }

    /// Decides a transfer request.
    pub(crate) fn decide(
        self: &Arc<Self>,
        request: &Request<'_>,
        reply_path: &mut ReplyPath<'_>,
        out: &mut [u8],
    ) -> Verdict {
        match self.admit(request, reply_path.shared()) {
            Ok(source) => self.answer(request, source, reply_path, out),
            Err(refusal) => {
                self.log_refusal(request, refusal);
                refusal.verdict()
            }
        }
    }

    /// Counts a refusal, and logs it once per client and zone.
    fn log_refusal(&self, request: &Request<'_>, refusal: TransferRefusal) {
        self.count(Counter::TransfersOutRefused);
        let (client, zone) = (request.peer.ip(), request.query.qname);
        let mut refusals = self.refusals.lock();
        if refusals.admit(client, zone, Instant::now()) {
            let (peer, qtype) = (request.peer, request.query.qtype);
            let key = KeyNote(request.key_name());
            tracing::warn!("zone {zone}: {qtype} to {peer}{key} refused: {refusal}");
        }
    }

    /// Checks whether the client may transfer the zone, and determines the requested version.
    fn admit(
        &self,
        request: &Request<'_>,
        shared: &ServingState,
    ) -> Result<TransferSource, TransferRefusal> {
        let query = request.query;
        let table = shared.zones.load();
        let version = table.version_in(request.view, query.qname);
        let zone = version.as_ref().and_then(|id| table.exact(id.as_name()));
        let zone = zone.filter(|_| query.qclass == Class::IN);
        let zone = zone.ok_or(TransferRefusal::NotOurs)?;
        let policies = self.policies.load();
        let policy = policies.get(zone.id());
        let access = access_of(policy, request, zone, &table);
        if access == TransferAccess::Refused {
            return Err(TransferRefusal::NotAllowed);
        }
        if !zone.is_ready() {
            return Err(TransferRefusal::NotReady);
        }
        let requested = match query.qtype {
            Type::IXFR => {
                RequestedVersion::Since(client_serial(request).ok_or(TransferRefusal::NoSerial)?)
            }
            _ if request.medium() == Medium::Datagram => return Err(TransferRefusal::Datagram),
            _ => RequestedVersion::Whole,
        };
        Ok(TransferSource {
            zone: Arc::clone(zone),
            requested,
            alias_form: if policy.expands_alias {
                AliasForm::Addresses
            } else {
                AliasForm::Records
            },
            client: request.peer.ip(),
            view: request.view,
            access,
        })
    }

    /// Answers a request that passed access control.
    fn answer(
        self: &Arc<Self>,
        request: &Request<'_>,
        source: TransferSource,
        reply_path: &mut ReplyPath<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let shared = Arc::clone(reply_path.shared());
        let zone = &source.zone;
        let transfer_request = self.transfer_request(request, zone, &shared);
        let is_plain = self.is_plain(zone);
        if let RequestedVersion::Since(serial) = source.requested
            && is_plain
            && !is_behind(serial, zone.serial())
        {
            // RFC 1995 section 2: a client that has the newest version gets its SOA.
            return soa_alone(zone, transfer_request, out);
        }
        if request.medium() == Medium::Datagram {
            if !is_plain {
                // The SOA alone would need a look-up or a signature; TC directs the client to TCP as well.
                let engine = shared.engine.load();
                return Verdict::Reply(engine.respond_truncated(request.query, out));
            }
            if source.alias_form == AliasForm::Addresses || zone.has_auto_hints() {
                return soa_alone(zone, transfer_request, out);
            }
            return self.answer_datagram(source, transfer_request, reply_path, out);
        }
        let log = TransferLog::new(request, source.zone.id());
        match OutgoingTransfer::begin(self, &shared, (source, transfer_request), log) {
            Some(transfer) => Verdict::Stream(Box::new(transfer)),
            None => {
                self.log_refusal(request, TransferRefusal::TooMany);
                TransferRefusal::TooMany.verdict()
            }
        }
    }

    /// Answers an IXFR over UDP: with the differences if they fit, else with the SOA alone, which directs the client
    /// to TCP.
    fn answer_datagram(
        self: &Arc<Self>,
        TransferSource {
            zone, requested, ..
        }: TransferSource,
        request: TransferRequest,
        reply_path: &mut ReplyPath<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let permit = Arc::clone(&self.datagrams).try_acquire_owned();
        let (Some(_), Ok(permit)) = (&self.store, permit) else {
            return soa_alone(&zone, request, out);
        };
        let Some(late) = reply_path.take() else {
            return Verdict::Drop;
        };
        let (transfers, room) = (Arc::clone(self), out.len());
        self.runtime.spawn_blocking(move || {
            let _permit = permit;
            let mut out = vec![0; room];
            let RequestedVersion::Since(serial) = requested else {
                return;
            };
            let differences = transfers.differences(&zone, serial);
            let whole = differences.and_then(|differences| {
                let mut messages = IxfrMessages::new(&zone, differences, request.clone());
                let len = messages.next_message(&mut out).ok()??;
                messages.is_done().then_some(len)
            });
            let len = whole.or_else(|| {
                let mut messages = IxfrMessages::new(&zone, Vec::new(), request);
                messages.next_message(&mut out).ok()?
            });
            if let Some(len) = len {
                late.send(&out[..len], Rcode::NoError);
            }
        });
        Verdict::Later
    }

    /// Returns the request with the OPT record for its replies.
    fn transfer_request(
        &self,
        request: &Request<'_>,
        zone: &Zone,
        shared: &ServingState,
    ) -> TransferRequest {
        let engine = shared.engine.load();
        let mut opt = engine.opt(request.query, None);
        if let (Some(opt), Some(edns)) = (&mut opt, request.query.edns)
            && edns.expire
        {
            opt.expire = self.expires_in(zone);
        }
        TransferRequest::new(request.query, opt)
    }

    /// Returns the seconds after which a zone expires: for a secondary zone the time left (RFC 7314 section 3.2.1),
    /// for others the SOA expire value.
    pub(crate) fn expires_in(&self, zone: &Zone) -> Option<u32> {
        let policies = self.policies.load();
        let name = zone.id();
        if policies.get(name).kind.is_transferred() {
            self.secondaries.as_ref()?.seconds_to_expiry(name)
        } else {
            zone.soa_expire()
        }
    }
}

/// The TSIG key of a client, at the end of a log line.
pub(crate) struct KeyNote<'n>(pub(crate) Option<Name<'n>>);

impl std::fmt::Display for KeyNote<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(key) => write!(f, " (key {key})"),
            None => Ok(()),
        }
    }
}

/// Checks whether a client is behind: the zone's serial is ahead, or so far away that the order is undefined (RFC
/// 1982 section 3.2), which a whole transfer fixes.
fn is_behind(serial: Serial, newest: Serial) -> bool {
    matches!(newest.compare(serial), Some(Ordering::Greater) | None)
}

/// Answers with the SOA of the newest version.
fn soa_alone(zone: &Arc<Zone>, request: TransferRequest, out: &mut [u8]) -> Verdict {
    let mut messages = IxfrMessages::new(zone, Vec::new(), request);
    match messages.next_message(out) {
        Ok(Some(len)) => {
            let mut reply = Reply::new(len, Rcode::NoError, AnswerKind::Answer);
            reply.zone_found = Some(true);
            Verdict::Reply(reply)
        }
        _ => Verdict::Code(Rcode::ServFail, None),
    }
}

/// Reads the client's serial from the SOA in the authority section of an IXFR (RFC 1995 section 3).
fn client_serial(request: &Request<'_>) -> Option<Serial> {
    let message = Message::parse(request.query.packet()).ok()?;
    for record in message.records() {
        let record = record.ok()?;
        if record.section == MessageSection::Authority
            && record.rtype == Type::SOA
            && record.name() == request.query.qname
        {
            let mut data = Vec::new();
            record.expand_data(&mut data).ok()?;
            return soa_serial(&data);
        }
    }
    None
}
