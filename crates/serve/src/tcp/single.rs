//! Messages of transports with their own framing (HTTP, QUIC). Each is answered by itself, on a connection that is
//! counted and limited together with those of TCP.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::body::Bytes;
use nameward_zone::TlsPeer;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::later::Later;
use super::{
    AcceptedAt, Endpoints, RegistrySlot, StreamAction, StreamHandler, StreamState, TcpSettings,
    behind_proxy, serve_listeners, spawn_admitted,
};
use crate::listener::{ListenerRules, StreamListener};
use crate::request::MessageStream;

/// Timeout for a late answer. The components that answer late give up earlier.
const LATE_MAX: Duration = Duration::from_secs(60);
/// Size of the length prefix of each message (RFC 1035 section 4.2.2).
const PREFIX: usize = 2;
/// Initial buffer size, sufficient for most answers.
const REPLY_BYTES: usize = 512;

/// The connections of a transport.
pub struct MessageServer<H: StreamHandler> {
    state: Arc<StreamState<H>>,
}

impl<H: StreamHandler> Clone for MessageServer<H> {
    fn clone(&self) -> Self {
        MessageServer {
            state: Arc::clone(&self.state),
        }
    }
}

/// A message behind its length prefix, as it is sent over streams.
pub struct FramedMessage(Bytes);

impl FramedMessage {
    /// Returns the message without its prefix.
    pub fn message(&self) -> &[u8] {
        &self.0[PREFIX..]
    }

    /// Returns the message without its prefix, not copied.
    pub fn into_message(self) -> Bytes {
        self.0.slice(PREFIX..)
    }

    /// Returns the message with its prefix.
    pub fn into_framed(self) -> Bytes {
        self.0
    }
}

/// The answer to a message.
pub enum MessageAnswer {
    /// One message.
    Reply(FramedMessage),
    /// Several messages: the first, if it is already known, and the source of the others.
    Messages(Option<FramedMessage>, Box<dyn MessageStream>),
    /// No answer: the message was dropped.
    Nothing,
    /// No answer, and the connection must be closed.
    Close,
}

impl<H: StreamHandler> MessageServer<H> {
    /// Creates a server whose messages are answered by `handler`.
    pub fn new(handler: Arc<H>, settings: TcpSettings) -> Self {
        MessageServer {
            state: Arc::new(StreamState::new(handler, settings)),
        }
    }

    /// Returns the limits of connections.
    pub fn settings(&self) -> &TcpSettings {
        &self.state.settings
    }

    /// Accepts TCP connections, each served by a task that `serve` returns, until the server stops.
    pub async fn serve_listeners<F: Future<Output = ()> + Send + 'static>(
        &self,
        listeners: Vec<StreamListener>,
        shutdown: watch::Receiver<bool>,
        serve: impl Fn(TcpStream, MessageConnection<H>) -> F + Clone + Send + 'static,
    ) -> io::Result<()> {
        let server = self.clone();
        let accept = move |stream, at: AcceptedAt| {
            let serve = serve.clone();
            let serve = move |stream, slot| serve(stream, MessageConnection::new(slot));
            let (ends, rules) = &at;
            if rules.is_proxy(ends.client) {
                behind_proxy::admit(&server.state, stream, at, serve);
            } else {
                spawn_admitted(&server.state, at, |slot| serve(stream, slot));
            }
        };
        serve_listeners(&self.state, listeners, shutdown, accept).await
    }

    /// Starts the task of a connection, unless its client has too many.
    pub fn admit<F: Future<Output = ()> + Send + 'static>(
        &self,
        at: (Endpoints, Arc<ListenerRules>),
        serve: impl FnOnce(MessageConnection<H>) -> F,
    ) {
        spawn_admitted(&self.state, at, |slot| serve(MessageConnection::new(slot)));
    }

    /// Lets connections deliver pending answers, for a limited time.
    pub async fn wait_for_end(&self, shutdown: &watch::Receiver<bool>) {
        self.state.wait_for_end(shutdown).await;
    }
}

/// One connection, which is counted until it is dropped.
pub struct MessageConnection<H: StreamHandler> {
    slot: RegistrySlot<H>,
    /// The client, when the handshake is complete.
    peer: OnceLock<Arc<TlsPeer>>,
}

impl<H: StreamHandler> MessageConnection<H> {
    /// Returns the addresses of the connection.
    pub fn ends(&self) -> Endpoints {
        self.slot.ends
    }

    fn new(slot: RegistrySlot<H>) -> Self {
        MessageConnection {
            slot,
            peer: OnceLock::new(),
        }
    }

    /// Sets the client, once.
    pub fn identify(&self, peer: Arc<TlsPeer>) {
        let _ = self.peer.set(peer);
    }

    /// Reports that its handshake has ended.
    pub fn established(&self, is_ok: bool) {
        let (handler, client) = (&self.slot.shared.handler, self.slot.ends.client);
        handler.established(client, is_ok);
    }

    /// Reports a further message of a multi-message response.
    pub fn streamed(&self, octets: usize) {
        let (handler, client) = (&self.slot.shared.handler, self.slot.ends.client);
        handler.streamed(client, octets);
        // It counts as active, like a connection that sends queries; idle ones are closed first.
        self.slot.shared.registry.touch(self.slot.id);
    }

    /// Answers one message.
    pub async fn answer(&self, message: &[u8]) -> MessageAnswer {
        let (shared, id) = (&self.slot.shared, self.slot.id);
        let (mut mailbox, mut out) = (None, Vec::with_capacity(REPLY_BYTES));
        // Early data arrives before the client has presented a certificate.
        let anonymous = Arc::default();
        let action = {
            let connection = (&shared.registry, id);
            // HTTP and QUIC announce idle timeouts themselves.
            let keepalive = Duration::ZERO;
            let rules = &self.slot.rules;
            let later = Later::new(connection, &mut mailbox, keepalive, rules);
            let mut later = later.with_tls(Some(self.peer.get().unwrap_or(&anonymous)));
            let handler = &shared.handler;
            handler.handle(message, self.slot.ends, &mut out, &mut later)
        };
        shared.registry.touch(id);
        if let (true, Some(mailbox)) = (out.is_empty(), mailbox) {
            while mailbox.tickets() > 0 {
                if timeout(LATE_MAX, mailbox.delivered()).await.is_err() {
                    break;
                }
            }
            let octets = mailbox.collect(&mut out);
            let held = shared.registry.hold(id, 0, octets, Instant::now());
            if held.is_err() {
                return MessageAnswer::Close;
            }
        }
        let reply = (out.len() >= PREFIX).then(|| FramedMessage(Bytes::from(out)));
        match (action, reply) {
            (StreamAction::Messages(stream), first) => MessageAnswer::Messages(first, stream),
            (_, Some(reply)) => MessageAnswer::Reply(reply),
            (StreamAction::Close, None) => MessageAnswer::Close,
            (StreamAction::Continue, None) => MessageAnswer::Nothing,
        }
    }
}
