//! One transfer over TCP: the connection, its time limits, and its messages passed to the reader as they arrive.

use nameward_base::time::now_seconds;
use std::io;
use std::sync::Arc;

use nameward_dnssec::tsig::{TsigKey, sign_request};
use nameward_maintain::secondary::Ask;
use nameward_maintain::transfer::{
    AskedQuestion, MemoryShare, TransferAnswer, TransferFailure, TransferReader, TransferStep,
};
use nameward_wire::Type;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout, timeout_at};

use super::failure::QueryFailure;
use super::progress::TransferProgress;
use super::rate::RateCheck;
use super::{OutgoingSettings, QuestionForm, local_address, random_id};

/// Read buffer size: a message of maximum size and as much of the next.
const BUFFER: usize = 2 * (2 + u16::MAX as usize);

/// Transfers a zone from its primary.
pub(super) async fn transfer(
    (ask, qtype, form): (&Ask, Type, QuestionForm),
    key: Option<&Arc<TsigKey>>,
    settings: &OutgoingSettings,
    (progress, memory): (&TransferProgress, &mut MemoryShare),
) -> Result<TransferAnswer, QueryFailure> {
    let connecting = timeout(settings.connect_timeout, connect(ask)).await;
    let mut stream = match connecting {
        Ok(connected) => {
            connected.map_err(|error| QueryFailure::Network("cannot connect", error))?
        }
        Err(_) => return Err(QueryFailure::NoAnswer),
    };
    let asked = AskedQuestion::query(random_id(), ask.zone, qtype);
    let mut question = form.message(&asked, ask.have.filter(|_| qtype == Type::IXFR));
    let verifier = key.map(|key| sign_request(key, &mut question, now_seconds()));
    let mut framed = (question.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(&question);
    let sent = timeout(settings.idle_timeout, stream.write_all(&framed)).await;
    let lost = |error| QueryFailure::Network("connection lost", error);
    sent.map_err(|_| QueryFailure::Timeout("cannot send the query"))?
        .map_err(lost)?;
    let mut reader = TransferReader::new(asked, ask.have, verifier, ask.octets_max);
    let mut messages = MessageBuffer::new();
    let mut rate = RateCheck::new(settings.rate_min, settings.idle_timeout, now());
    loop {
        // A whole message in time, not one octet: a primary cannot hold a slot by trickling data.
        let deadline = Instant::now() + settings.idle_timeout;
        let message = match timeout_at(deadline, messages.next(&mut stream)).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => return Err(reader.cut_short().into()),
            Ok(Err(error)) => return Err(lost(error)),
            Err(_) => return Err(QueryFailure::Timeout("the primary stopped sending")),
        };
        let octets = message.len();
        let step = reader.take(message, now_seconds());
        progress.update(&reader);
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

async fn connect(ask: &Ask) -> io::Result<TcpStream> {
    let socket = if ask.primary.address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    if ask.primary.source.is_some() {
        socket.bind(local_address(&ask.primary))?;
    }
    socket.connect(ask.primary.address).await
}

/// Received octets, and the position of the next message in them.
struct MessageBuffer {
    octets: Vec<u8>,
    start: usize,
    end: usize,
}

impl MessageBuffer {
    fn new() -> Self {
        MessageBuffer {
            octets: vec![0; BUFFER],
            start: 0,
            end: 0,
        }
    }

    /// Waits for the next message; `None` at the end of the stream.
    async fn next(&mut self, stream: &mut TcpStream) -> io::Result<Option<&[u8]>> {
        let len = loop {
            if let Some(len) = self.complete() {
                break len;
            }
            if self.start > 0 {
                self.octets.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            match stream.read(&mut self.octets[self.end..]).await? {
                0 => return Ok(None),
                read => self.end += read,
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

/// Checks whether a primary that failed with an IXFR is tried with an AXFR: it may not support IXFR, or have invalid
/// differences. One that is not trusted is not tried again.
pub(super) fn is_worth_whole(failure: &TransferFailure) -> bool {
    !matches!(
        failure,
        TransferFailure::Tsig(_) | TransferFailure::TooLarge(_)
    )
}
