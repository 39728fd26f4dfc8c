//! The same way for the messages of TCP connections, one at a time.

use super::record::{record_answer, record_malformed, record_received, record_signatures, tcp};
use super::{Desk, Done, Shared, View};
use crate::live::{Attempt, ReplyTo};
use crate::tcp::{Later, StreamAction, StreamHandler};
use nameward_answer::{Medium, Outcome, Scratch, TCP_MAX};
use nameward_stats::{Gauge, Recorder, Stamp, Stats, Timing};
use nameward_wire::message::Query;
use nameward_zone::NameKey;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Answers the messages of TCP connections.
pub struct TcpPipeline {
    stats: Arc<Stats>,
    /// One for each thread of the runtime, so that the locks are free.
    states: Box<[Mutex<TcpState>]>,
}

struct TcpState {
    shared: Arc<Shared>,
    view: View,
    recorder: Recorder,
    scratch: Scratch,
    key: NameKey,
    out: Box<[u8; TCP_MAX]>,
}

impl TcpPipeline {
    /// Makes a pipeline for a runtime of `threads` threads.
    pub fn new(shared: &Arc<Shared>, threads: usize) -> Self {
        let state = || {
            Mutex::new(TcpState {
                shared: shared.clone(),
                view: View::new(shared.clone()),
                recorder: shared.stats.recorder(),
                scratch: Scratch::default(),
                key: NameKey::default(),
                out: vec![0; TCP_MAX]
                    .into_boxed_slice()
                    .try_into()
                    .unwrap_or_else(|_| unreachable!("of this length")),
            })
        };
        TcpPipeline {
            stats: shared.stats.clone(),
            states: (0..threads.max(1)).map(|_| state()).collect(),
        }
    }
}

impl StreamHandler for TcpPipeline {
    fn handle(
        &self,
        query: &[u8],
        client: SocketAddr,
        out: &mut Vec<u8>,
        later: &mut Later<'_>,
    ) -> StreamAction {
        let free = self.states.iter().find_map(|state| state.try_lock().ok());
        let mut state = free.unwrap_or_else(|| {
            self.states[0]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        });
        let (started, before) = (Stamp::now(), out.len());
        let action = state.answer(query, client, out, later);
        let now = Stamp::now();
        let timing = Timing {
            received: 1,
            answered: u32::from(out.len() > before),
            answer_ns: now.0.saturating_sub(started.0),
            ..Timing::default()
        };
        state.recorder.flush(now, Some(timing));
        action
    }

    fn opened(&self, _client: SocketAddr) {
        self.stats.raise_gauge(Gauge::OpenTcpConnections, 1);
    }

    fn closed(&self, _client: SocketAddr) {
        self.stats.lower_gauge(Gauge::OpenTcpConnections, 1);
    }
}

impl TcpState {
    fn answer(
        &mut self,
        packet: &[u8],
        client: SocketAddr,
        out: &mut Vec<u8>,
        later: &mut Later<'_>,
    ) -> StreamAction {
        let (peer, transport) = (client, tcp(client.ip()));
        let client = client.ip();
        let zones = &**self.view.zones.load();
        let engine = &**self.view.engine.load();
        let (done, qname) = match Query::parse(packet) {
            Ok(query) => {
                record_received(&mut self.recorder, &query, transport, client);
                self.key.set(query.qname);
                self.scratch.set_now(crate::sys::seconds_since_1970());
                let zone = zones.zone_for(&self.key, query.qtype).map(|zone| &**zone);
                let mut reply = engine.respond(
                    zones,
                    &query,
                    (&self.key, zone),
                    Medium::Stream,
                    &mut self.scratch,
                    &mut self.out[..],
                );
                if reply.outcome == Outcome::Pending {
                    let desk = Desk {
                        shared: &self.shared,
                        recorder: &mut self.recorder,
                        scratch: &mut self.scratch,
                        is_timed: true,
                    };
                    let attempt = Attempt {
                        live: &self.shared.live,
                        engine,
                        zones,
                        query: &query,
                        key: &self.key,
                        own: zone.and_then(|zone| zone.live()).map(|live| &**live),
                        medium: Medium::Stream,
                        now: Instant::now(),
                    };
                    let way_back = || Some(ReplyTo::Stream(later.ticket()));
                    match desk.answer_live(&attempt, peer, way_back, &mut self.out[..]) {
                        Some(known) => reply = known,
                        None => return StreamAction::Continue,
                    }
                }
                record_signatures(&mut self.recorder, &mut self.scratch);
                (Done::new(reply, &query), query.qname.as_wire())
            }
            Err(malformed) => {
                record_malformed(&mut self.recorder, malformed, client);
                let Some(reply) = engine.respond_to_malformed(packet, malformed, &mut self.out[..])
                else {
                    // Nothing that could be answered: not a DNS client.
                    return StreamAction::Close;
                };
                let done = Done {
                    reply,
                    qtype: 0,
                    qname_len: 0,
                };
                (done, &[][..])
            }
        };
        record_answer(&mut self.recorder, &done, transport, client, qname);
        out.extend_from_slice(&(done.reply.len as u16).to_be_bytes());
        out.extend_from_slice(&self.out[..done.reply.len]);
        StreamAction::Continue
    }
}
