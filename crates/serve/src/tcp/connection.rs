//! One TCP connection: turns of reading, answering and writing, and the deadlines between them.
//!
//! A turn is synchronous and works in a borrowed buffer. What remains after it (an incomplete message, unread
//! answers) is kept in the connection's own buffers, which are empty and not allocated while the connection is idle.
//!
//! RFC 7766: messages may be pipelined (6.2.1.1), prefix and message are written together (8), a half-closed
//! connection still gets its answers.

mod many;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::drain::{DRAIN_BUSY, DRAIN_IDLE};
use super::holdings::UNCOUNTED_BYTES;
use super::later::{ConnectionReplies, Later, MAX_TICKETS};
use super::stream::ByteStream;
use super::{RegistrySlot, StreamAction, StreamHandler, TurnBuffers};
use crate::request::{MessageStream, notified};
use many::Pulled;

/// Maximum number of messages per turn, so that other connections get their turns.
const TURN_MESSAGES: usize = 128;
/// Size of a turn's answers at which it accepts no further message.
const TURN_BYTES: usize = 64 * 1024;
/// Number of bytes a client must read within the write timeout.
const WRITE_WINDOW: usize = 64 * 1024;
/// When we close first: how long and how much we still read, so that a reset does not destroy the last answers in
/// flight (RFC 1122 section 4.2.2.13).
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1 << 20;
pub(super) struct StreamConnection<H: StreamHandler, S: ByteStream> {
    pub(super) stream: S,
    pub(super) slot: RegistrySlot<H>,
    /// Received and not yet answered.
    pub(super) input: Vec<u8>,
    /// Answers the client has not read yet.
    output: Vec<u8>,
    /// Receives answers that take longer than a turn; created for the first of them.
    mailbox: Option<Arc<ConnectionReplies>>,
    /// A multi-message response; its next message is produced when the client has read the previous ones.
    pub(super) messages: Option<Box<dyn MessageStream>>,
    /// Octets of both buffers as last reported to the registry.
    held: usize,
    /// Octets taken from the mailbox that the registry still counts there.
    collected: usize,
    /// Since when the client has not read a full window of `output`.
    unread_since: Option<Instant>,
    queries: u64,
    /// While another process accepts connections: until when further messages are accepted here.
    drains_until: Option<Instant>,
    /// No further messages are accepted.
    closing: bool,
    opened: Instant,
    /// When the last message was completed (or the connection was opened).
    pub(super) last_message: Instant,
    /// When the first byte of an incomplete message arrived.
    pub(super) message_started: Option<Instant>,
}

/// Why the wait for the client ended.
enum Woken {
    Readable,
    /// A late answer has arrived, or its ticket was dropped.
    Delivered,
    Stopping,
    /// Another process accepts connections.
    Draining,
    TimedOut,
}

impl<H: StreamHandler, S: ByteStream> StreamConnection<H, S> {
    pub(super) fn new(stream: S, slot: RegistrySlot<H>) -> StreamConnection<H, S> {
        let now = Instant::now();
        StreamConnection {
            stream,
            slot,
            input: Vec::new(),
            output: Vec::new(),
            mailbox: None,
            messages: None,
            held: 0,
            collected: 0,
            unread_since: None,
            queries: 0,
            drains_until: None,
            closing: false,
            opened: now,
            last_message: now,
            message_started: None,
        }
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(mut self, mut shutdown: watch::Receiver<bool>) {
        if !self.establish(&mut shutdown).await {
            return;
        }
        loop {
            let tickets = self.collect();
            if self.has_unread() && (self.keep_within_bounds().is_err() || !self.flush().await) {
                return;
            }
            if self.messages.is_some() {
                // Yield to other connections between two pieces.
                tokio::task::yield_now().await;
                match self.pull_messages() {
                    Ok(Pulled::Some) => {}
                    Ok(Pulled::Nothing) if !self.wait_for_messages(&mut shutdown).await => return,
                    Ok(Pulled::Nothing) => {}
                    Err(_) => return,
                }
                continue;
            }
            if self.closing && tickets == 0 {
                return self.linger().await;
            }
            let may_read = !self.closing && tickets < MAX_TICKETS;
            if may_read && first_message(&self.input).is_some() {
                // The last turn left messages unanswered; yield to other connections first.
                tokio::task::yield_now().await;
                if !self.answer_input() {
                    return;
                }
                continue;
            }
            match self.wait(&mut shutdown, may_read).await {
                Woken::Readable => {}
                Woken::Delivered => continue,
                Woken::Draining => {
                    self.drains_until = Some(Instant::now() + DRAIN_BUSY);
                    continue;
                }
                // Pending queries are still answered.
                Woken::Stopping if tickets > 0 => {
                    self.closing = true;
                    continue;
                }
                Woken::Stopping | Woken::TimedOut => return,
            }
            match self.turn() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A client that has closed its side may still wait for answers.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && tickets > 0 => {
                    self.closing = true;
                }
                Err(_) => return,
            }
            self.closing |= self.age() >= self.slot.shared.settings.lifetime;
        }
    }

    /// Prepares the stream. Returns whether messages can be exchanged.
    async fn establish(&mut self, shutdown: &mut watch::Receiver<bool>) -> bool {
        let established = tokio::select! {
            biased;
            established = self.stream.establish() => established,
            _ = shutdown.wait_for(|stop| *stop) => return false,
        };
        let (handler, client) = (&self.slot.shared.handler, self.slot.ends.client);
        handler.established(client, established.is_ok());
        self.last_message = Instant::now();
        established.is_ok()
    }

    /// Checks whether there are answers that the client has not read.
    fn has_unread(&self) -> bool {
        !self.output.is_empty() || self.stream.unsent() > 0
    }

    /// Collects late answers; returns how many are still pending.
    fn collect(&mut self) -> usize {
        let Some(mailbox) = &self.mailbox else {
            return 0;
        };
        // Read the number of tickets first: a ticket returned in between then only costs one extra wait, which ends
        // at once.
        let tickets = mailbox.tickets();
        self.collected += mailbox.collect(&mut self.output);
        self.note_unread();
        tickets
    }

    fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Returns the time after which the connection is closed if nothing is received.
    fn idle_timeout(&self) -> Duration {
        let configured = self.slot.shared.settings.idle_timeout;
        let has_tickets = || self.mailbox.as_ref().is_some_and(|all| all.tickets() > 0);
        if self.drains_until.is_some() && !has_tickets() {
            configured.min(DRAIN_IDLE)
        } else {
            configured
        }
    }

    /// Checks whether the next message is the last one, because another process accepts connections.
    fn has_drained(&mut self) -> bool {
        if !self.slot.shared.settings.drain.has_started() {
            return false;
        }
        let now = Instant::now();
        now >= *self.drains_until.get_or_insert(now + DRAIN_BUSY)
    }

    async fn wait(&mut self, shutdown: &mut watch::Receiver<bool>, may_read: bool) -> Woken {
        let settings = &self.slot.shared.settings;
        let deadline = match self.message_started {
            Some(at) => at + settings.message_timeout,
            None => self.last_message + self.idle_timeout(),
        };
        let deadline = deadline.min(self.opened + settings.lifetime);
        let is_draining = self.drains_until.is_some();
        let has_ended = |stop: &bool| *stop || (!is_draining && settings.drain.has_started());
        let (stream, closing) = (&mut self.stream, self.closing);
        let delivered = async {
            match &self.mailbox {
                Some(mailbox) => mailbox.delivered().await,
                None => std::future::pending().await,
            }
        };
        let woken = async {
            tokio::select! {
                biased;
                () = delivered => Woken::Delivered,
                _ = stream.readable(), if may_read => Woken::Readable,
                stop = shutdown.wait_for(has_ended), if !closing => match stop {
                    Ok(stop) if !*stop => Woken::Draining,
                    _ => Woken::Stopping,
                },
            }
        };
        // A slow writer makes the socket readable again and again: the deadline counts, not the wake-up.
        if self.message_started.is_some() && Instant::now() >= deadline {
            return Woken::TimedOut;
        }
        timeout_at(deadline, woken).await.unwrap_or(Woken::TimedOut)
    }

    /// Reads once and answers the complete messages. An error ends the connection, except WouldBlock.
    fn turn(&mut self) -> io::Result<()> {
        if !self.input.is_empty() {
            self.read_rest()?;
            if first_message(&self.input).is_none() {
                return self.keep_within_bounds();
            }
            return if self.answer_input() {
                Ok(())
            } else {
                Err(io::ErrorKind::ConnectionAborted.into())
            };
        }
        let mut buffers = self.slot.shared.take_buffers();
        let result = self.read_fresh(&mut buffers);
        self.slot.shared.return_buffers(buffers);
        result?;
        self.keep_within_bounds()
    }

    /// Reads into the turn's buffer, answers from it, and keeps what is left.
    fn read_fresh(&mut self, buffers: &mut TurnBuffers) -> io::Result<()> {
        let len = match self.stream.try_read(&mut buffers.input)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => len,
        };
        let used = self.answer(&buffers.input[..len], &mut buffers.out);
        if used < len && !self.closing {
            self.input.extend_from_slice(&buffers.input[used..len]);
        }
        self.write(&buffers.out)
    }

    /// Reads up to the end of the message that is incomplete in `input`, and no further. The buffer grows with the
    /// octets received, not with the length prefix.
    fn read_rest(&mut self) -> io::Result<()> {
        let have = self.input.len();
        let want = match self.input[..] {
            [high, low, ..] => 2 + usize::from(u16::from_be_bytes([high, low])),
            _ => 2,
        };
        let room = want
            .saturating_sub(have)
            .clamp(1, have.max(UNCOUNTED_BYTES));
        self.input.resize(have + room, 0);
        let read = self.stream.try_read(&mut self.input[have..]);
        self.input.truncate(have + *read.as_ref().unwrap_or(&0));
        match read? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Answers the complete messages in `input`. Returns whether the connection continues.
    fn answer_input(&mut self) -> bool {
        let mut buffers = self.slot.shared.take_buffers();
        let input = std::mem::take(&mut self.input);
        let used = self.answer(&input, &mut buffers.out);
        if used < input.len() && !self.closing {
            self.input = input[used..].to_vec();
        }
        let written = self.write(&buffers.out);
        self.slot.shared.return_buffers(buffers);
        written.and_then(|()| self.keep_within_bounds()).is_ok()
    }

    /// Answers the complete messages at the start of `data`, within the limits of a turn; returns how many
    /// bytes they had.
    fn answer(&mut self, data: &[u8], out: &mut Vec<u8>) -> usize {
        let has_drained = self.has_drained();
        let shared = &self.slot.shared;
        let (mut used, mut messages) = (0, 0);
        while let Some(message) = first_message(&data[used..]) {
            let tickets = self.mailbox.as_ref().map_or(0, |mailbox| mailbox.tickets());
            if messages == TURN_MESSAGES || out.len() >= TURN_BYTES || tickets >= MAX_TICKETS {
                break;
            }
            used += 2 + message.len();
            messages += 1;
            let connection = (&shared.registry, self.slot.id);
            let most = shared.settings.max_queries_per_connection;
            let last = has_drained || self.queries + messages as u64 >= most;
            let idle_timeout = if last {
                Duration::ZERO
            } else {
                let lifetime = shared
                    .settings
                    .lifetime
                    .saturating_sub(self.opened.elapsed());
                shared.settings.idle_timeout.min(lifetime)
            };
            let later = Later::new(
                connection,
                &mut self.mailbox,
                idle_timeout,
                &self.slot.rules,
            );
            let mut later = later.with_tls(self.stream.tls_peer());
            let action = shared
                .handler
                .handle(message, self.slot.ends, out, &mut later);
            self.closing |= last;
            match action {
                StreamAction::Continue if !last => {}
                StreamAction::Continue => break,
                StreamAction::Close => {
                    self.closing = true;
                    break;
                }
                // Messages after it are answered when its last message is written.
                StreamAction::Messages(stream) => {
                    self.messages = Some(stream);
                    break;
                }
            }
        }
        self.queries += messages as u64;
        let now = Instant::now();
        if messages > 0 {
            self.last_message = now;
            self.message_started = None;
            shared.registry.touch(self.slot.id);
        }
        if used < data.len() && self.message_started.is_none() {
            self.message_started = Some(now);
        }
        used
    }

    /// Writes what the socket accepts now and keeps the rest.
    pub(super) fn write(&mut self, answers: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < answers.len() {
            match self.stream.try_write(&answers[written..]) {
                Ok(len) => written += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.output.extend_from_slice(&answers[written..]);
        self.note_unread();
        Ok(())
    }

    fn note_unread(&mut self) {
        if self.has_unread() && self.unread_since.is_none() {
            self.unread_since = Some(Instant::now());
        }
    }

    /// Delivers the pending answers. Returns whether the client read them in time.
    async fn flush(&mut self) -> bool {
        let write_timeout = self.slot.shared.settings.write_timeout;
        let cut = self.messages.as_ref().and_then(|messages| messages.cut());
        let mut written = 0;
        while written < self.output.len() || self.stream.unsent() > 0 {
            if written > 0 {
                self.unread_since = Some(Instant::now());
                if self.keep_within_bounds().is_err() {
                    return false;
                }
            }
            let window = self.output.len().min(written + WRITE_WINDOW);
            let deadline = Instant::now() + write_timeout;
            while written < window || (window == self.output.len() && self.stream.unsent() > 0) {
                let writable = async {
                    tokio::select! {
                        biased;
                        () = notified(cut.as_ref()) => Err(io::ErrorKind::TimedOut.into()),
                        writable = self.stream.writable() => writable,
                    }
                };
                match timeout_at(deadline, writable).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return false,
                }
                match self.stream.try_write(&self.output[written..]) {
                    Ok(len) => written += len,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return false,
                }
            }
        }
        self.output = Vec::new();
        self.unread_since = None;
        // Time spent on a slow reader is not deducted from the time for the next message.
        if self.message_started.is_some() {
            self.message_started = Some(Instant::now());
        }
        self.last_message = Instant::now();
        self.keep_within_bounds().is_ok()
    }

    /// Reports the octets held by this connection; fails if the total is over the limit and this connection is the
    /// worst.
    pub(super) fn keep_within_bounds(&mut self) -> io::Result<()> {
        let held = self.input.capacity() + self.output.capacity() + self.stream.unsent();
        let held = if held <= UNCOUNTED_BYTES { 0 } else { held };
        let collected = std::mem::take(&mut self.collected);
        let before = std::mem::replace(&mut self.held, held);
        if before == 0 && held == 0 && collected == 0 {
            return Ok(());
        }
        // A slow writer gains nothing from each octet it sends, but a reader gains from each window it reads.
        let incomplete_since = self.message_started.filter(|_| !self.input.is_empty());
        let since = [incomplete_since, self.unread_since].into_iter().flatten();
        let since = since.min().unwrap_or_else(Instant::now);
        self.slot
            .shared
            .registry
            .hold(self.slot.id, held, collected, since)
            .map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    /// Closes our side and keeps reading for a moment, until the client has closed its side.
    async fn linger(mut self) {
        self.input = Vec::new();
        let _ = self.keep_within_bounds();
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let _ = timeout(LINGER, async {
            let mut left = LINGER_BYTES;
            while left > 0 && self.stream.readable().await.is_ok() {
                let mut buffers = self.slot.shared.take_buffers();
                let read = self.stream.try_read(&mut buffers.input);
                self.slot.shared.return_buffers(buffers);
                match read {
                    Ok(0) => return,
                    Ok(len) => left = left.saturating_sub(len),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        })
        .await;
    }
}

/// Returns the message at the start of `data`, if it is complete.
fn first_message(data: &[u8]) -> Option<&[u8]> {
    let (&[high, low], rest) = data.split_first_chunk::<2>()?;
    rest.get(..usize::from(u16::from_be_bytes([high, low])))
}
