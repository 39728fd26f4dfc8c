//! One transfer over a connection: its slot, its version, its messages, and its log line.

use nameward_base::text::counted;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::transfer_out::encode::TransferRequest;
use nameward_answer::Medium;
use nameward_stats::Counter;
use nameward_wire::{Name, NameBuf, Rcode, Type};
use nameward_zone::Serial;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::client_disconnect::ClientDisconnect;
use super::fault::PrepareFault;
use super::messages::{OutgoingMessage, OutgoingMessages};
use super::prepare::{PreparedTransfer, TransferSource};
use super::slots::{SlotAnswer, TransferSlot, WaitingSlot};
use super::{KeyNote, OutgoingTransfers};
use nameward_serve::pipeline::ServingState;
use nameward_serve::request::{MessageStream, NextMessage, Request, extended_error};

/// Maximum time a transfer waits for its slot, and then for its version. Secondaries give up after about a minute.
const STAGE_TIMEOUT: Duration = Duration::from_secs(50);

/// Response code of a transfer whose version is not available.
const NOT_READY: (Rcode, Option<u16>) = (Rcode::ServFail, Some(extended_error::NOT_READY));

/// A transfer over a connection.
pub(super) struct OutgoingTransfer {
    transfers: Arc<OutgoingTransfers>,
    shared: Arc<ServingState>,
    request: TransferRequest,
    stage: TransferStage,
    slot: Option<TransferSlot>,
    wake: Arc<Notify>,
    deadline: Instant,
    log: TransferLog,
}

enum TransferStage {
    Queued(WaitingSlot, TransferSource),
    /// Its version is being prepared.
    Preparing(Preparation),
    Sending(Box<OutgoingMessages>),
    /// It failed: a message with the response code is sent.
    Failed(Rcode, Option<u16>),
    Over,
}

/// The task that prepares a transfer. It ends when the transfer is dropped.
struct Preparation {
    prepared: oneshot::Receiver<Result<PreparedTransfer, PrepareFault>>,
    task: AbortHandle,
    _disconnect: watch::Sender<()>,
}

impl Drop for Preparation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OutgoingTransfer {
    /// Starts a transfer, or queues it for a slot; `None` if the queue is full.
    pub(super) fn begin(
        transfers: &Arc<OutgoingTransfers>,
        shared: &Arc<ServingState>,
        (source, request): (TransferSource, TransferRequest),
        log: TransferLog,
    ) -> Option<Self> {
        let wake = Arc::new(Notify::new());
        let (slot, waiting) = match transfers.slots.take(log.peer.ip(), &wake) {
            SlotAnswer::Granted(slot) => (Some(slot), None),
            SlotAnswer::Wait(waiting) => (None, Some(waiting)),
            SlotAnswer::Full => return None,
        };
        let mut transfer = OutgoingTransfer {
            transfers: Arc::clone(transfers),
            shared: Arc::clone(shared),
            request,
            stage: TransferStage::Over,
            slot,
            wake,
            deadline: Instant::now() + STAGE_TIMEOUT,
            log,
        };
        transfer.stage = match waiting {
            Some(waiting) => TransferStage::Queued(waiting, source),
            None => transfer.prepare(source),
        };
        Some(transfer)
    }

    /// Starts preparing the version: in a task, unless it is available at once.
    fn prepare(&mut self, source: TransferSource) -> TransferStage {
        if let Some(prepared) = self.transfers.prepare_at_once(&source, &self.request) {
            return self.send(prepared);
        }
        let (done, prepared) = oneshot::channel();
        let (transfers, shared) = (Arc::clone(&self.transfers), Arc::clone(&self.shared));
        let (request, wake) = (self.request.clone(), Arc::clone(&self.wake));
        let (sender, disconnect) = ClientDisconnect::new();
        self.deadline = Instant::now() + STAGE_TIMEOUT;
        let task = self.transfers.runtime.spawn(async move {
            let result = transfers
                .prepare(&shared, (source, disconnect), request)
                .await;
            let _ = done.send(result);
            wake.notify_one();
        });
        TransferStage::Preparing(Preparation {
            prepared,
            task: task.abort_handle(),
            _disconnect: sender,
        })
    }

    fn send(&mut self, mut prepared: PreparedTransfer) -> TransferStage {
        self.log.serial = prepared.serial;
        prepared.messages.wake_by(&self.wake);
        TransferStage::Sending(Box::new(prepared.messages))
    }

    /// Advances to the next stage if that is possible without waiting; otherwise `None`.
    fn step(&mut self) -> Option<TransferStage> {
        let is_late = Instant::now() >= self.deadline;
        match std::mem::replace(&mut self.stage, TransferStage::Over) {
            TransferStage::Queued(waiting, source) => match waiting.claim() {
                Some(slot) => {
                    self.slot = Some(slot);
                    Some(self.prepare(source))
                }
                None if is_late => {
                    Some(self.fail(NOT_READY, "timed out waiting for a transfer slot"))
                }
                None => {
                    self.transfers.slots.make_room(Instant::now());
                    self.stage = TransferStage::Queued(waiting, source);
                    None
                }
            },
            TransferStage::Preparing(mut preparation) => match preparation.prepared.try_recv() {
                Ok(Ok(prepared)) => Some(self.send(prepared)),
                Ok(Err(fault)) => Some(self.fail(fault.code(), fault)),
                Err(TryRecvError::Empty) if !is_late => {
                    self.stage = TransferStage::Preparing(preparation);
                    None
                }
                Err(TryRecvError::Empty) => {
                    Some(self.fail(NOT_READY, "timed out reading the zone"))
                }
                Err(TryRecvError::Closed) => {
                    Some(self.fail(NOT_READY, "internal error while reading the zone"))
                }
            },
            other => Some(other),
        }
    }

    /// Logs and counts a failed transfer.
    fn fail(
        &mut self,
        (rcode, error): (Rcode, Option<u16>),
        reason: impl std::fmt::Display,
    ) -> TransferStage {
        self.transfers.count(Counter::TransfersOutFailed);
        let log = &self.log;
        tracing::error!("{log} failed after {} records: {reason}", log.records);
        TransferStage::Failed(rcode, error)
    }

    /// Writes the message for a failed transfer.
    fn write_failure(&self, code: (Rcode, Option<u16>), out: &mut [u8]) -> NextMessage {
        let engine = self.shared.engine.load();
        let query = self.request.query();
        let reply = engine.respond_with_code(&query, code, Medium::Stream, out);
        NextMessage::Written(reply.len())
    }
}

impl MessageStream for OutgoingTransfer {
    fn next_message(&mut self, out: &mut [u8]) -> NextMessage {
        if let Some(slot) = &self.slot {
            slot.record_read();
        }
        if matches!(
            self.stage,
            TransferStage::Queued(..) | TransferStage::Preparing(_)
        ) {
            // A transfer that leaves the queue may have its version at once.
            for _ in 0..2 {
                match self.step() {
                    Some(stage) => self.stage = stage,
                    None => return NextMessage::Wait,
                }
            }
        }
        match &mut self.stage {
            TransferStage::Sending(messages) => {
                let next = messages.next_message(out);
                self.log.records = messages.records();
                match next {
                    Ok(OutgoingMessage::Written(len)) => {
                        self.log.add(len);
                        NextMessage::Written(len)
                    }
                    Ok(OutgoingMessage::Unready) => NextMessage::Wait,
                    Ok(OutgoingMessage::End) => {
                        self.stage = TransferStage::Over;
                        self.transfers.count(Counter::TransfersOut);
                        self.log.log_completed();
                        NextMessage::End
                    }
                    Err(fault) => {
                        let is_started = self.log.messages > 0;
                        self.stage = self.fail((Rcode::ServFail, None), fault);
                        if is_started {
                            self.stage = TransferStage::Over;
                            return NextMessage::Broken;
                        }
                        self.next_message(out)
                    }
                }
            }
            TransferStage::Failed(rcode, error) => {
                let code = (*rcode, *error);
                self.stage = TransferStage::Over;
                self.write_failure(code, out)
            }
            TransferStage::Queued(..) | TransferStage::Preparing(_) => NextMessage::Wait,
            TransferStage::Over => NextMessage::End,
        }
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(Arc::clone(&self.wake))
    }

    fn cut(&self) -> Option<Arc<Notify>> {
        self.slot.as_ref().map(TransferSlot::cut)
    }
}

impl Drop for OutgoingTransfer {
    fn drop(&mut self) {
        if !matches!(self.stage, TransferStage::Over | TransferStage::Failed(..)) {
            self.transfers.count(Counter::TransfersOutFailed);
            let (log, records) = (&self.log, self.log.records);
            tracing::info!(
                "{log} aborted after {records} records: the client closed the connection or stopped reading"
            );
        }
    }
}

/// The data for the log line of a transfer.
pub(super) struct TransferLog {
    zone: NameBuf,
    qtype: Type,
    pub(super) peer: SocketAddr,
    key: Option<NameBuf>,
    started: Instant,
    serial: Serial,
    records: u64,
    messages: u64,
    octets: u64,
}

impl TransferLog {
    pub(super) fn new(request: &Request<'_>, zone: Name<'_>) -> Self {
        TransferLog {
            zone: zone.into(),
            qtype: request.query.qtype,
            peer: request.peer,
            key: request.key_name().map(NameBuf::from),
            started: Instant::now(),
            serial: Serial::default(),
            records: 0,
            messages: 0,
            octets: 0,
        }
    }

    fn add(&mut self, octets: usize) {
        self.messages += 1;
        self.octets += octets as u64;
    }

    fn log_completed(&self) {
        let (serial, records) = (self.serial, counted(self.records as usize, "record"));
        let messages = counted(self.messages as usize, "message");
        let (octets, seconds) = (self.octets, self.started.elapsed().as_secs_f64());
        tracing::info!(
            "{self} completed: serial {serial}, {records}, {messages}, {octets} octets, {seconds:.3} s"
        );
    }
}

impl std::fmt::Display for TransferLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (zone, qtype, peer) = (&self.zone, self.qtype, self.peer);
        let key = KeyNote(self.key.as_ref().map(NameBuf::as_name));
        write!(f, "zone {zone}: {qtype} to {peer}{key}")
    }
}
