//! Multi-message responses (transfers) on a connection: produced as the client reads them, with waits while they are
//! prepared.

use std::io;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::super::stream::ByteStream;
use super::super::{READ_BYTES, StreamHandler};
use super::{StreamConnection, TURN_BYTES};
use crate::request::{NextMessage, REPOLL_INTERVAL, notified};

/// Maximum octets of further messages that are buffered while a multi-message response waits.
const READ_AHEAD_BYTES: usize = 16 * 1024;
/// Size of the length prefix of each message (RFC 1035 section 4.2.2), and of the largest message.
const PREFIX: usize = 2;
const MESSAGE_MAX: usize = u16::MAX as usize;

/// The result of producing messages.
pub(super) enum Pulled {
    Some,
    /// It waits for something.
    Nothing,
}

impl<H: StreamHandler, S: ByteStream> StreamConnection<H, S> {
    /// Produces the next messages of a multi-message response, up to the limit of a turn.
    pub(super) fn pull_messages(&mut self) -> io::Result<Pulled> {
        let mut buffers = self.slot.shared.take_buffers();
        let result = self.pull_into(&mut buffers.out);
        let is_none = buffers.out.is_empty() && self.messages.is_some();
        let written = result.and_then(|()| self.write(&buffers.out));
        self.slot.shared.return_buffers(buffers);
        written?;
        self.last_message = Instant::now();
        self.keep_within_bounds()?;
        Ok(if is_none {
            Pulled::Nothing
        } else {
            // It counts as active, like a connection that sends queries; idle ones are closed first.
            self.slot.shared.registry.touch(self.slot.id);
            Pulled::Some
        })
    }

    /// Waits until a multi-message response continues, for a bounded time; false if the server stops or the client
    /// has closed the connection. RFC 7766 section 6.2.4: pending answers are not sent to a client that closed it.
    pub(super) async fn wait_for_messages(&mut self, shutdown: &mut watch::Receiver<bool>) -> bool {
        let wake = self.messages.as_ref().and_then(|messages| messages.wake());
        let may_read = self.input.len() < READ_AHEAD_BYTES;
        tokio::select! {
            _ = timeout(REPOLL_INTERVAL, notified(wake.as_ref())) => true,
            _ = shutdown.wait_for(|stop| *stop) => false,
            _ = self.stream.readable(), if may_read => self.read_ahead(),
        }
    }

    /// Reads messages received before a multi-message response is complete, and keeps them for later; false if the
    /// client has closed the connection.
    fn read_ahead(&mut self) -> bool {
        let room = READ_AHEAD_BYTES.saturating_sub(self.input.len());
        let mut buffers = self.slot.shared.take_buffers();
        let into = buffers.input.get_mut(..room.min(READ_BYTES));
        let read = self.stream.try_read(into.unwrap_or_default());
        if let Ok(len) = read {
            self.input.extend_from_slice(&buffers.input[..len]);
        }
        self.slot.shared.return_buffers(buffers);
        match read {
            Ok(0) => false,
            Ok(_) => {
                self.message_started.get_or_insert_with(Instant::now);
                self.keep_within_bounds().is_ok()
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    fn pull_into(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        while out.len() < TURN_BYTES
            && let Some(stream) = &mut self.messages
        {
            let start = out.len();
            out.resize(start + PREFIX + MESSAGE_MAX, 0);
            let (prefix, room) = out[start..].split_at_mut(PREFIX);
            let written = match stream.next_message(room) {
                NextMessage::Written(len) => len.min(MESSAGE_MAX),
                NextMessage::Wait => {
                    out.truncate(start);
                    return Ok(());
                }
                NextMessage::End => {
                    out.truncate(start);
                    self.messages = None;
                    return Ok(());
                }
                // The client sees a connection that ends early, never a truncated response that looks complete.
                NextMessage::Broken => return Err(io::ErrorKind::ConnectionAborted.into()),
            };
            prefix.copy_from_slice(&(written as u16).to_be_bytes());
            out.truncate(start + PREFIX + written);
            let shared = &self.slot.shared;
            shared.handler.streamed(self.slot.ends.client, written);
        }
        Ok(())
    }
}
