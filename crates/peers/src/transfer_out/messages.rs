//! The messages of an outgoing transfer: each is written when the client has read the previous one and, for a zone
//! that is signed while it is sent, as far as it is signed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::transfer_out::encode::{
    AxfrMessages, IxfrMessages, OutgoingFault, SignedMessages, SignedReady,
};

use super::copies::CopyReader;
use super::fault::PrepareFault;

/// How long to wait for a full message before the records signed so far are sent, so that a slow signer does not make
/// a secondary time out.
const PARTIAL_MESSAGE_DELAY: Duration = Duration::from_secs(1);

/// The messages of a transfer.
pub(super) enum OutgoingMessages {
    Whole(AxfrMessages),
    Differences(IxfrMessages),
    Signed(SignedTransfer),
}

/// A zone that is sent while it is signed.
pub(super) struct SignedTransfer {
    messages: SignedMessages,
    reader: CopyReader,
    /// When the last message was written.
    last: Instant,
}

/// The next message of a transfer, if it can be written.
pub(super) enum OutgoingMessage {
    Written(usize),
    /// Its records must be signed first.
    Unready,
    End,
}

impl OutgoingMessages {
    pub(super) fn next_message(&mut self, out: &mut [u8]) -> Result<OutgoingMessage, SendFault> {
        let written = match self {
            OutgoingMessages::Whole(messages) => messages.next_message(out)?,
            OutgoingMessages::Differences(messages) => messages.next_message(out)?,
            OutgoingMessages::Signed(transfer) => {
                if !transfer.is_ready()? {
                    return Ok(OutgoingMessage::Unready);
                }
                transfer.next_message(out)?
            }
        };
        Ok(written.map_or(OutgoingMessage::End, OutgoingMessage::Written))
    }

    pub(super) fn records(&self) -> u64 {
        match self {
            OutgoingMessages::Whole(messages) => messages.records(),
            OutgoingMessages::Differences(messages) => messages.records(),
            OutgoingMessages::Signed(transfer) => transfer.messages.records(),
        }
    }

    /// Uses this notification to signal that there is more to send.
    pub(super) fn wake_by(&mut self, wake: &Arc<tokio::sync::Notify>) {
        if let OutgoingMessages::Signed(transfer) = self {
            transfer.reader.wake_by(Arc::clone(wake));
        }
    }
}

impl SignedTransfer {
    pub(super) fn new(messages: SignedMessages, reader: CopyReader) -> Self {
        SignedTransfer {
            messages,
            reader,
            last: Instant::now(),
        }
    }

    fn is_ready(&self) -> Result<bool, PrepareFault> {
        if let Some(fault) = self.reader.fault() {
            return Err(fault);
        }
        Ok(match self.messages.ready() {
            SignedReady::Message => true,
            SignedReady::Part => self.last.elapsed() >= PARTIAL_MESSAGE_DELAY,
            SignedReady::Nothing => false,
        })
    }

    fn next_message(&mut self, out: &mut [u8]) -> Result<Option<usize>, OutgoingFault> {
        let written = self.messages.next_message(out)?;
        self.last = Instant::now();
        self.reader.advance(self.messages.position());
        Ok(written)
    }
}

/// Why a transfer ends before its last message.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendFault {
    #[error("{0}")]
    Outgoing(#[from] OutgoingFault),
    #[error("{0}")]
    Unsigned(#[from] PrepareFault),
}
