//! One transfer over TCP or TLS: the connection, its time limits, and its messages passed to the reader as they arrive.

use nameward_base::time::now_seconds;
use std::io;
use std::sync::Arc;

use crate::secondary::PrimaryRequest;
use crate::transfer_in::{
    MemoryShare, SentRequest, TransferAnswer, TransferFailure, TransferReader, TransferStep,
};
use nameward_dnssec::tsig::{TsigKey, sign_request};
use nameward_maintain::policy::RemoteServer;
use nameward_wire::Type;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout, timeout_at};

use super::failure::QueryFailure;
use super::progress::TransferProgress;
use super::rate::RateCheck;
use super::{OutgoingSettings, PrimaryClient, QueryForm, message_id};
use crate::connections::{self, MessageTransport};

/// Read buffer size: one message of maximum size, and as much of the next.
const BUFFER: usize = 2 * (2 + u16::MAX as usize);

/// Transfers a zone from its primary.
pub(super) async fn transfer(
    (request, qtype, form): (&PrimaryRequest, Type, QueryForm),
    key: Option<&Arc<TsigKey>>,
    client: &PrimaryClient,
    (progress, memory): (&TransferProgress, &mut MemoryShare),
) -> Result<TransferAnswer, QueryFailure> {
    let PrimaryClient {
        connections,
        settings,
        ..
    } = client;
    let mut connection = connections
        .open(&request.primary, settings.connect_timeout)
        .await?;
    loop {
        let query = SentRequest::query(message_id(&request.primary), request.zone, qtype);
        let mut message = form.message(&query, request.have.filter(|_| qtype == Type::IXFR));
        let verifier = key.map(|key| sign_request(key, &mut message, now_seconds()));
        let mut reader = TransferReader::new(query, request.have, verifier, request.octets_max);
        let mut messages = MessageBuffer::new(&mut connection.stream);
        let query = (&message[..], &request.primary);
        let result = exchange(
            query,
            (&mut messages, &mut reader),
            settings,
            (progress, memory),
        );
        let result = result.await;
        let (is_empty, is_unused) = (messages.start == messages.end, !messages.is_used);
        match result {
            Ok(answer) => {
                // Octets after the end of a transfer do not belong to any query of ours.
                if is_empty {
                    connections.put_back(&request.primary, connection.stream);
                }
                return Ok(answer);
            }
            // The primary has closed the reused connection.
            Err(_) if connection.is_reused && is_unused => {
                let time_limit = settings.connect_timeout;
                connection = connections.connect(&request.primary, time_limit).await?;
            }
            Err(QueryFailure::Network(action, error)) => {
                let error = if is_unused {
                    connections.refused(error, &request.primary)
                } else {
                    connections.lost(error, &request.primary)
                };
                return Err(QueryFailure::Network(action, error));
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn lost(error: io::Error) -> QueryFailure {
    QueryFailure::Network("connection lost", error)
}

/// Sends the query, and reads messages until the transfer is complete.
async fn exchange(
    (query, primary): (&[u8], &RemoteServer),
    (messages, reader): (&mut MessageBuffer<'_>, &mut TransferReader),
    settings: &OutgoingSettings,
    (progress, memory): (&TransferProgress, &mut MemoryShare),
) -> Result<TransferAnswer, QueryFailure> {
    let sending = connections::send(messages.stream, query, primary);
    timeout(settings.idle_timeout, sending)
        .await
        .map_err(|_| QueryFailure::Timeout("cannot send the query"))?
        .map_err(lost)?;
    let mut rate = RateCheck::new(settings.rate_min, settings.idle_timeout, now());
    loop {
        // A whole message in time, not one octet: a primary cannot hold a slot by trickling data.
        let deadline = Instant::now() + settings.idle_timeout;
        let message = match timeout_at(deadline, messages.next()).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => return Err(reader.cut_short().into()),
            Ok(Err(error)) => return Err(lost(error)),
            Err(_) => return Err(QueryFailure::Timeout("the primary stopped sending")),
        };
        let octets = message.len();
        let step = reader.take(message, now_seconds());
        progress.update(reader);
        if let TransferStep::Done(answer) = step? {
            return Ok(answer);
        }
        rate.add(octets, now())?;
        let grown = memory.grow_to(reader.memory()).await;
        if grown.map_err(QueryFailure::Memory)? {
            rate.restart(now());
        }
        tokio::task::yield_now().await;
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// Received octets, and the position of the next message in them.
struct MessageBuffer<'s> {
    stream: &'s mut Box<dyn MessageTransport>,
    octets: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether anything was received.
    is_used: bool,
}

impl<'s> MessageBuffer<'s> {
    fn new(stream: &'s mut Box<dyn MessageTransport>) -> Self {
        MessageBuffer {
            stream,
            octets: vec![0; BUFFER],
            start: 0,
            end: 0,
            is_used: false,
        }
    }

    /// Waits for the next message; `None` at the end of the stream.
    async fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let len = loop {
            if let Some(len) = self.complete() {
                break len;
            }
            if self.start > 0 {
                self.octets.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            match self.stream.read(&mut self.octets[self.end..]).await? {
                0 => return Ok(None),
                read => (self.end, self.is_used) = (self.end + read, true),
            }
        };
        let at = self.start + 2;
        self.start = at + len;
        Ok(Some(&self.octets[at..at + len]))
    }

    /// Returns the length of the next message if it is complete.
    fn complete(&self) -> Option<usize> {
        let here = &self.octets[self.start..self.end];
        let (len, rest) = here.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_be_bytes(*len));
        (rest.len() >= len).then_some(len)
    }
}

/// Checks whether an AXFR is worth trying after a failed IXFR: the primary may not support IXFR, or have invalid
/// differences. A peer that is not trusted is not tried again, and a zone that is too large stays so.
pub(super) fn is_worth_axfr(failure: &TransferFailure) -> bool {
    !matches!(
        failure,
        TransferFailure::Tsig(_) | TransferFailure::TooLarge(_) | TransferFailure::NoMemory
    )
}
