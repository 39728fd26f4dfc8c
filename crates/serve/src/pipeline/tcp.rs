//! Answers stream messages, one at a time, whatever the streams are carried by.

use super::path::{Arrival, Turn};
use super::record::{Done, record_answer};
use super::{ReplyTo, ServingState, Snapshots};
use crate::https::{self, HttpsSettings};
use crate::listener::StreamListener;
use crate::quic::{self, QuicListener, QuicSettings};
use crate::request::{NextMessage, Verdict};
use crate::tap::Exchange;
use crate::tcp::{self, Endpoints, Later, StreamAction, StreamHandler, TcpSettings};
use crate::tls::TlsLayer;
use nameward_answer::{AnswerKind, Reply, Scratch, TCP_MAX};
use nameward_base::sync::{Mutex, MutexGuard};
use nameward_stats::{Counter, Gauge, Protocol, Recorder, Stamp, Stats, Timing, Transport};
use nameward_wire::Rcode;
use nameward_wire::message::Query;
use nameward_zone::{NameKey, ViewId};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Answers the messages of connections: TCP, or a protocol over it.
pub struct TcpPipeline {
    protocol: Protocol,
    stats: Arc<Stats>,
    /// One per runtime thread, so that the locks are uncontended.
    states: Box<[Mutex<TcpState>]>,
}

struct TcpState {
    protocol: Protocol,
    shared: Arc<ServingState>,
    snapshots: Snapshots,
    recorder: Recorder,
    scratch: Scratch,
    key: NameKey,
    /// The view of the last message.
    view: ViewId,
    out: Box<[u8; TCP_MAX]>,
}

impl TcpPipeline {
    /// Creates a pipeline for TCP on a runtime of `threads` threads.
    pub fn new(shared: &Arc<ServingState>, threads: usize) -> Self {
        Self::over(Protocol::Tcp, shared, threads)
    }

    /// Creates a pipeline for messages that are carried by this protocol.
    pub fn over(protocol: Protocol, shared: &Arc<ServingState>, threads: usize) -> Self {
        let state = || {
            Mutex::new(TcpState {
                protocol,
                shared: shared.clone(),
                snapshots: Snapshots::new(shared),
                recorder: shared.stats.recorder(),
                scratch: Scratch::default(),
                key: NameKey::default(),
                view: ViewId::DEFAULT,
                out: vec![0; TCP_MAX]
                    .into_boxed_slice()
                    .try_into()
                    .unwrap_or_else(|_| unreachable!("of this length")),
            })
        };
        TcpPipeline {
            protocol,
            stats: shared.stats.clone(),
            states: (0..threads.max(1)).map(|_| state()).collect(),
        }
    }

    /// Serves connections with this pipeline, see [`tcp::serve`]. Boxed, so that it is compiled in this crate
    /// ([`super::UdpPipeline::spawn_workers`]).
    pub fn serve(
        self: Arc<Self>,
        listeners: Vec<StreamListener>,
        settings: TcpSettings,
        shutdown: watch::Receiver<bool>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>> {
        Box::pin(tcp::serve(listeners, self, settings, shutdown))
    }

    /// Like [`TcpPipeline::serve`], for DNS over TLS (RFC 7858).
    pub fn serve_tls(
        self: Arc<Self>,
        listeners: Vec<StreamListener>,
        settings: TcpSettings,
        layer: Arc<TlsLayer>,
        shutdown: watch::Receiver<bool>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>> {
        let lay_over = move |stream| layer.over(stream);
        Box::pin(tcp::serve_over(
            listeners, self, settings, shutdown, lay_over,
        ))
    }

    /// Like [`TcpPipeline::serve`], for DNS over HTTPS (RFC 8484).
    pub fn serve_https(
        self: Arc<Self>,
        listeners: Vec<StreamListener>,
        settings: HttpsSettings,
        shutdown: watch::Receiver<bool>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>> {
        Box::pin(https::serve(listeners, self, settings, shutdown))
    }

    /// Like [`TcpPipeline::serve`], for DNS over QUIC (RFC 9250).
    pub fn serve_quic(
        self: Arc<Self>,
        listeners: Vec<QuicListener>,
        settings: QuicSettings,
        shutdown: watch::Receiver<bool>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>> {
        Box::pin(quic::serve(listeners, self, settings, shutdown))
    }

    fn open_connections(&self) -> Gauge {
        match self.protocol {
            Protocol::Udp | Protocol::Tcp => Gauge::OpenTcpConnections,
            Protocol::Tls => Gauge::OpenTlsConnections,
            Protocol::Https => Gauge::OpenHttpsConnections,
            Protocol::Quic => Gauge::OpenQuicConnections,
        }
    }

    fn state(&self) -> MutexGuard<'_, TcpState> {
        let free = self.states.iter().find_map(|state| state.try_lock());
        free.unwrap_or_else(|| self.states[0].lock())
    }
}

impl StreamHandler for TcpPipeline {
    fn handle(
        &self,
        message: &[u8],
        ends: Endpoints,
        out: &mut Vec<u8>,
        later: &mut Later<'_>,
    ) -> StreamAction {
        let mut state = self.state();
        let (started, before) = (Stamp::now(), out.len());
        let action = state.answer(message, ends, out, later);
        let now = Stamp::now();
        let timing = Timing {
            received: 1,
            answered: u32::from(out.len() > before),
            answer_ns: now.0.saturating_sub(started.0),
            ..Timing::default()
        };
        state.recorder.flush(now, Some(timing));
        if state.shared.tap.is_on() {
            let took = Duration::from_nanos(timing.answer_ns);
            state.tap(ends, (message, out.get(before + 2..)), took);
        }
        action
    }

    fn streamed(&self, client: SocketAddr, octets: usize) {
        let mut state = self.state();
        let transport = Transport::to(self.protocol, client.ip());
        state.recorder.answered_more(transport, octets);
        state.recorder.flush(Stamp::now(), None);
    }

    fn opened(&self, _client: SocketAddr) {
        self.stats.raise_gauge(self.open_connections(), 1);
    }

    fn closed(&self, _client: SocketAddr) {
        self.stats.lower_gauge(self.open_connections(), 1);
    }

    fn header_refused(&self, proxy: SocketAddr) {
        let mut state = self.state();
        state.recorder.add(Counter::ProxyHeaderErrors, 1);
        state.recorder.flush(Stamp::now(), None);
        state.shared.proxy_log.warn(proxy, "TCP");
    }

    fn established(&self, _client: SocketAddr, is_ok: bool) {
        if self.protocol == Protocol::Tcp {
            return;
        }
        let mut state = self.state();
        let counter = if is_ok {
            Counter::TlsHandshakes
        } else {
            Counter::TlsHandshakesFailed
        };
        state.recorder.add(counter, 1);
        state.recorder.flush(Stamp::now(), None);
    }
}

impl TcpState {
    /// Passes a stream message, and its reply if there is one already, to the query log and dnstap.
    #[cold]
    fn tap(&self, ends: Endpoints, (query, reply): (&[u8], Option<&[u8]>), took: Duration) {
        let replied = SystemTime::now();
        let zones = self.shared.zones.load();
        self.shared.tap.pass(&Exchange {
            protocol: self.protocol,
            client: ends.client,
            local: Some(ends.local),
            view: zones.views().and_then(|views| views.name(self.view)),
            query: Some(query),
            reply: reply.filter(|reply| !reply.is_empty()),
            received: replied.checked_sub(took).unwrap_or(replied),
            replied,
        });
    }

    fn answer(
        &mut self,
        packet: &[u8],
        ends: Endpoints,
        out: &mut Vec<u8>,
        later: &mut Later<'_>,
    ) -> StreamAction {
        let transport = Transport::to(self.protocol, ends.client.ip());
        let mut turn = Turn::new(
            &self.shared,
            &mut self.snapshots,
            &mut self.recorder,
            &mut self.scratch,
        );
        turn.rules = later.rules();
        turn.tls = later.tls();
        if turn.drops(ends.client) {
            return StreamAction::Close;
        }
        let (mut action, mut qname) = (StreamAction::Continue, &[][..]);
        let done = match Query::parse(packet) {
            Ok(query) => {
                qname = query.qname.as_wire();
                self.key.set(query.qname);
                let queried = (&self.key, turn.zones.match_for(&self.key, query.qtype));
                let mut message = StreamMessage {
                    transport,
                    ends,
                    later,
                };
                let verdict = turn.decide(&query, &mut message, queried, &mut self.out[..]);
                self.view = turn.view;
                match verdict {
                    Verdict::Reply(reply) => Done::new(reply, &query, turn.view),
                    // Codes have become replies by now.
                    Verdict::Drop | Verdict::Later | Verdict::Code(..) => return action,
                    Verdict::Stream(mut stream) => {
                        // The first message is counted as the response.
                        let first = match stream.next_message(&mut self.out[..]) {
                            NextMessage::Written(len) => {
                                Reply::new(len, Rcode::NoError, AnswerKind::Other)
                            }
                            NextMessage::Wait => return StreamAction::Messages(stream),
                            NextMessage::End | NextMessage::Broken => return StreamAction::Close,
                        };
                        action = StreamAction::Messages(stream);
                        Done::new(first, &query, turn.view)
                    }
                }
            }
            Err(malformed) => {
                let reply =
                    turn.decide_malformed(packet, malformed, ends.client, &mut self.out[..]);
                match reply {
                    Some(reply) => Done::without_question(reply),
                    // Not answerable, so not a DNS client.
                    None => return StreamAction::Close,
                }
            }
        };
        record_answer(turn.recorder, &done, transport, ends.client.ip(), qname);
        out.extend_from_slice(&(done.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.out[..done.len()]);
        action
    }
}

/// A message received over a stream.
struct StreamMessage<'m, 'l> {
    transport: Transport,
    ends: Endpoints,
    later: &'m mut Later<'l>,
}

impl Arrival for StreamMessage<'_, '_> {
    fn peer(&self) -> SocketAddr {
        self.ends.client
    }

    fn local(&self) -> Option<SocketAddr> {
        Some(self.ends.local)
    }

    fn transport(&self) -> Transport {
        self.transport
    }

    fn reply_to(&mut self) -> Option<ReplyTo> {
        Some(ReplyTo::Stream(self.later.ticket()))
    }

    fn keepalive(&self) -> Option<u16> {
        // HTTP and QUIC have idle times of their own (RFC 9250 section 5.5.2).
        if !matches!(self.transport.protocol, Protocol::Tcp | Protocol::Tls) {
            return None;
        }
        let units = self.later.idle_timeout().as_millis() / 100;
        Some(u16::try_from(units).unwrap_or(u16::MAX))
    }
}
