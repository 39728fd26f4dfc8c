//! One stream of a QUIC connection: a query and its response, which is several messages for a transfer.
//!
//! RFC 9250: the message ID is 0 (section 4.2.1), each message has a length prefix (4.2), and edns-tcp-keepalive is
//! an error (5.5.2). Early data may be replayed (4.5): a message that must not be repeated waits for the end of the
//! handshake.

use std::sync::Arc;

use hyper::body::Bytes;
use nameward_wire::message::{Message, Query};
use nameward_wire::{Opcode, Type};
use quinn::{ReadToEndError, RecvStream, SendStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{EXCESSIVE_LOAD, INTERNAL_ERROR, REQUEST_CANCELLED};
use crate::pipeline::TcpPipeline;
use crate::request::{MessageStream, NextMessage, REPOLL_INTERVAL, notified};
use crate::tcp::{FramedMessage, MessageAnswer, MessageConnection, TcpSettings};

/// Size of the length prefix of each message, and of the largest message.
const PREFIX: usize = 2;
const MESSAGE_MAX: usize = u16::MAX as usize;
/// The edns-tcp-keepalive option (RFC 7828).
const KEEPALIVE: u16 = 11;

/// The state that the streams of a connection share.
pub(super) struct QuicStreams {
    pub(super) connection: Arc<MessageConnection<TcpPipeline>>,
    pub(super) settings: TcpSettings,
    /// Whether the handshake is complete.
    pub(super) is_complete: watch::Receiver<bool>,
}

/// The client violates the protocol: its connection is closed.
#[derive(Debug)]
pub(super) struct QuicViolation;

/// Why a response ended early.
enum ResponseEnd {
    /// The client did not read it, or has disconnected.
    Unread,
    /// It cannot be completed.
    Broken,
}

/// Answers the query of a stream.
pub(super) async fn serve(
    streams: &QuicStreams,
    mut send: SendStream,
    mut receive: RecvStream,
) -> Result<(), QuicViolation> {
    let is_early = receive.is_0rtt();
    let reading = receive.read_to_end(PREFIX + MESSAGE_MAX);
    let message = match timeout(streams.settings.message_timeout, reading).await {
        Ok(Ok(message)) => message,
        Ok(Err(ReadToEndError::TooLong)) => return Err(QuicViolation),
        Ok(Err(ReadToEndError::Read(_))) => {
            let _ = send.reset(REQUEST_CANCELLED);
            return Ok(());
        }
        Err(_) => {
            let _ = receive.stop(EXCESSIVE_LOAD);
            let _ = send.reset(EXCESSIVE_LOAD);
            return Ok(());
        }
    };
    let message = only_message(&message).ok_or(QuicViolation)?;
    // Other early data waits for the handshake, whose result decides what the client may do.
    if !(is_early && is_replay_safe(message)) {
        let mut is_complete = streams.is_complete.clone();
        if is_complete
            .wait_for(|is_complete| *is_complete)
            .await
            .is_err()
        {
            return Ok(());
        }
    }
    let answer = tokio::select! {
        biased;
        answer = streams.connection.answer(message) => answer,
        // RFC 9250 section 4.3.1: a client that no longer wants the response cancels the stream.
        _ = send.stopped() => return Ok(()),
    };
    let is_transfer = matches!(answer, MessageAnswer::Messages(..));
    let ended = match answer {
        MessageAnswer::Reply(reply) => streams.write(&mut send, reply.into_framed()).await,
        MessageAnswer::Messages(first, messages) => {
            streams.write_all(&mut send, first, messages).await
        }
        MessageAnswer::Nothing => Err(ResponseEnd::Broken),
        MessageAnswer::Close => return Err(QuicViolation),
    };
    let _ = match ended {
        Ok(()) => send.finish(),
        Err(ResponseEnd::Unread) => send.reset(EXCESSIVE_LOAD),
        Err(ResponseEnd::Broken) => send.reset(INTERNAL_ERROR),
    };
    // A connection without running streams may be closed, and what the client has not received by then is lost.
    if is_transfer || streams.settings.drain.has_started() {
        let _ = send.stopped().await;
    }
    Ok(())
}

/// Returns the message of a stream if the stream contains exactly one that the protocol allows.
fn only_message(octets: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = octets.split_first_chunk::<PREFIX>()?;
    let is_complete = usize::from(u16::from_be_bytes(*prefix)) == message.len();
    let is_valid = is_complete && message.starts_with(&[0, 0]) && !has_keepalive(message);
    is_valid.then_some(message)
}

/// Checks whether the OPT record of a message has the edns-tcp-keepalive option.
fn has_keepalive(message: &[u8]) -> bool {
    let Ok(message) = Message::parse(message) else {
        return false;
    };
    let records = message.records().map_while(Result::ok);
    let mut opts = records.filter(|record| record.rtype == Type::OPT);
    opts.any(|opt| {
        let mut rest = opt.raw_data();
        while let Some((head, behind)) = rest.split_first_chunk::<4>() {
            if u16::from_be_bytes([head[0], head[1]]) == KEEPALIVE {
                return true;
            }
            let length = u16::from_be_bytes([head[2], head[3]]);
            rest = behind.get(usize::from(length)..).unwrap_or_default();
        }
        false
    })
}

/// Checks whether a message of early data can be answered at once: an attacker may send it again.
fn is_replay_safe(message: &[u8]) -> bool {
    Query::parse(message).is_ok_and(|query| {
        query.opcode == Opcode::QUERY && !matches!(query.qtype, Type::AXFR | Type::IXFR)
    })
}

impl QuicStreams {
    /// Writes a message with its prefix, within the time that a client has to read.
    async fn write(&self, send: &mut SendStream, framed: Bytes) -> Result<(), ResponseEnd> {
        match timeout(self.settings.write_timeout, send.write_chunk(framed)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ResponseEnd::Unread),
        }
    }

    /// Writes a multi-message response, each message once the client has read the previous one.
    async fn write_all(
        &self,
        send: &mut SendStream,
        first: Option<FramedMessage>,
        mut messages: Box<dyn MessageStream>,
    ) -> Result<(), ResponseEnd> {
        if let Some(first) = first {
            self.write(send, first.into_framed()).await?;
        }
        let mut buffer = vec![0; MESSAGE_MAX];
        loop {
            match messages.next_message(&mut buffer) {
                NextMessage::Written(len) => {
                    let message = buffer.get(..len).ok_or(ResponseEnd::Broken)?;
                    let framed = [&(len as u16).to_be_bytes()[..], message].concat();
                    let cut = messages.cut();
                    tokio::select! {
                        written = self.write(send, framed.into()) => written?,
                        () = notified(cut.as_ref()) => return Err(ResponseEnd::Unread),
                    }
                    self.connection.streamed(len);
                }
                NextMessage::Wait => {
                    let wake = messages.wake();
                    tokio::select! {
                        _ = timeout(REPOLL_INTERVAL, notified(wake.as_ref())) => {}
                        _ = send.stopped() => return Err(ResponseEnd::Unread),
                    }
                }
                NextMessage::End => return Ok(()),
                NextMessage::Broken => return Err(ResponseEnd::Broken),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        [&(message.len() as u16).to_be_bytes()[..], message].concat()
    }

    #[test]
    fn a_stream_has_one_message_with_id_0_and_no_keepalive() {
        let mut query = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 6, 0, 1];
        let opt = |options: &[u8]| {
            let mut opt = vec![0, 0, 41, 4, 208, 0, 0, 0, 0, 0, options.len() as u8];
            opt.extend(options);
            opt
        };
        let plain = [&query[..], &opt(&[0, 3, 0, 0])].concat();
        assert!(only_message(&framed(&plain)).is_some());
        let keepalive = [&query[..], &opt(&[0, 3, 0, 0, 0, 11, 0, 0])].concat();
        assert!(only_message(&framed(&keepalive)).is_none());
        assert!(only_message(&[&framed(&plain)[..], &[0]].concat()).is_none());
        assert!(only_message(&framed(&plain)[..20]).is_none());
        query[1] = 1;
        assert!(only_message(&framed(&query)).is_none());
    }

    #[test]
    fn only_queries_are_answered_from_early_data() {
        let query =
            |flags: u8, rtype: u8| vec![0, 0, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, rtype, 0, 1];
        assert!(is_replay_safe(&query(0, 1)));
        for (flags, rtype) in [(0, 252), (0, 251), (0x20, 6), (0x28, 6), (0x80, 1)] {
            assert!(!is_replay_safe(&query(flags, rtype)), "{flags} {rtype}");
        }
    }
}
