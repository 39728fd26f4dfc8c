//! Answers datagrams: a batch is parsed as a whole before the first query is decided, so that cache misses
//! overlap.

use super::path::{Arrival, Turn};
use super::record::{Done, record_answer};
use super::{ReplyTo, ServingState, Snapshots};
use crate::listen::UdpListener;
use crate::request::Verdict;
use crate::tap::Exchange;
use crate::udp::{
    self, BATCH, BatchHandler, BatchTiming, DatagramBatch, Queries, UdpWorker, WorkerSwitch,
};
use crate::xdp::{self, XdpClosing, XdpPorts};
use arrayvec::ArrayVec;
use nameward_answer::Scratch;
use nameward_stats::{Counter, Protocol, Recorder, Stamp, Timing, Transport};
use nameward_wire::message::{HEADER, Malformed, Query};
use nameward_zone::{NameKey, ZoneMatch, ZoneTable};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Answers the datagrams of one worker.
pub struct UdpPipeline {
    shared: Arc<ServingState>,
    snapshots: Snapshots,
    recorder: Recorder,
    scratch: Scratch,
    keys: Box<[NameKey; BATCH]>,
    done: [Done; BATCH],
}

impl UdpPipeline {
    /// Creates the pipeline of one worker.
    pub fn new(shared: Arc<ServingState>) -> Self {
        let recorder = shared.stats.recorder();
        let keys: Vec<NameKey> = vec![NameKey::default(); BATCH];
        let Ok(keys) = keys.into_boxed_slice().try_into() else {
            unreachable!("as long as the array")
        };
        UdpPipeline {
            snapshots: Snapshots::new(&shared),
            shared,
            recorder,
            scratch: Scratch::default(),
            keys,
            done: [Done::NOTHING; BATCH],
        }
    }

    /// Starts a worker for each element of [`crate::listen::Bound::udp`].
    ///
    /// Generic code is compiled in the crate that names its types. The loop of a worker is named here, so that it gets
    /// the optimisation of this crate and not that of the command line.
    pub fn spawn_workers(
        shared: &Arc<ServingState>,
        sockets: Vec<Vec<UdpListener>>,
        switch: &Arc<WorkerSwitch>,
    ) -> io::Result<Vec<UdpWorker>> {
        udp::spawn_workers(sockets, switch, |_| UdpPipeline::new(Arc::clone(shared)))
    }

    /// Starts at most `threads` workers for the queues of interfaces.
    pub fn spawn_xdp_workers(
        shared: &Arc<ServingState>,
        (ports, threads): (XdpPorts, usize),
        switches: (&Arc<WorkerSwitch>, &XdpClosing),
    ) -> io::Result<Vec<UdpWorker>> {
        xdp::spawn_workers(ports, threads, switches, || {
            UdpPipeline::new(Arc::clone(shared))
        })
    }
}

impl UdpPipeline {
    /// Hands a batch that was sent to the query log and dnstap. Late replies are handed over when they are sent.
    #[cold]
    fn tap_batch(&self, batch: &DatagramBatch, took: Duration) {
        let replied = SystemTime::now();
        let zones = self.shared.zones.load();
        for i in 0..batch.len() {
            let view = self.done[i].view;
            self.shared.tap.pass(&Exchange {
                protocol: Protocol::Udp,
                client: batch.client(i),
                local: batch.local(i),
                view: zones.views().and_then(|views| views.name(view)),
                query: Some(batch.query(i)),
                reply: Some(batch.replied(i)).filter(|reply| !reply.is_empty()),
                received: replied.checked_sub(took).unwrap_or(replied),
                replied,
            });
        }
    }
}

impl BatchHandler for UdpPipeline {
    fn handle(&mut self, batch: &mut DatagramBatch) {
        self.recorder.begin();
        if batch.rules().proxies.is_some() {
            let (recorder, log) = (&mut self.recorder, &self.shared.proxy_log);
            batch.read_proxy_headers(|sender| {
                recorder.add(Counter::ProxyHeaderErrors, 1);
                log.warn(sender, "UDP");
            });
        }
        let mut turn = Turn::new(
            &self.shared,
            &mut self.snapshots,
            &mut self.recorder,
            &mut self.scratch,
        );
        turn.note_datagrams(batch.len());
        let (queries, mut replies) = batch.split();
        turn.rules = queries.rules();
        let mut parsed = ArrayVec::<ParsedQuery<'_>, BATCH>::new();
        for i in 0..queries.len().min(BATCH) {
            parsed.push(ParsedQuery::UNREAD);
            parsed[i].read(&queries, i, turn.zones, &mut self.keys[i]);
        }
        let found = find_zones(&parsed, turn.zones, &self.keys);
        if let Some(limits) = turn.limits.filter(|_| queries.len() > 1) {
            for (i, _, key) in well_formed(&parsed, &self.keys) {
                limits.prefetch(queries.client(i), (key, found[i]));
            }
        }
        for (i, parsed) in parsed.iter().enumerate() {
            let (peer, out) = (queries.client(i), replies.buffer(i));
            let done = &mut self.done[i];
            match &parsed.malformed {
                _ if turn.drops(peer) => *done = Done::NOTHING,
                None => {
                    let query = &parsed.query;
                    let mut datagram = Datagram {
                        queries: &queries,
                        i,
                        peer: &peer,
                    };
                    let queried = (&self.keys[i], found[i]);
                    match turn.decide(query, &mut datagram, queried, out) {
                        Verdict::Reply(reply) => done.set(&reply, query, turn.view),
                        // Codes and streams have become replies by now.
                        Verdict::Drop | Verdict::Later | Verdict::Code(..) | Verdict::Stream(_) => {
                            *done = Done::NOTHING;
                        }
                    }
                }
                Some(malformed) => {
                    let packet = queries.query(i);
                    let reply = turn
                        .decide_malformed(packet, *malformed, peer, out)
                        .and_then(|reply| turn.limit_malformed(reply, packet, peer));
                    *done = reply.map_or(Done::NOTHING, Done::without_question);
                }
            }
            replies.set_len(i, done.len());
        }
    }

    fn sent(&mut self, batch: &DatagramBatch, timing: BatchTiming) {
        let mut answered = 0;
        for (i, done) in self.done.iter().enumerate().take(batch.len()) {
            if !batch.replied(i).is_empty() {
                let qname = &batch.query(i)[HEADER..HEADER + done.qname_len()];
                let client = batch.client(i).ip();
                let transport = Transport::to(Protocol::Udp, client);
                record_answer(&mut self.recorder, done, transport, client, qname);
                answered += 1;
            }
        }
        let timing = Timing {
            received: batch.len() as u32,
            answered,
            receive_ns: timing.receive_ns,
            answer_ns: timing.answer_ns,
            send_ns: Some(timing.send_ns),
        };
        self.recorder.flush(Stamp::now(), Some(timing));
        if self.shared.tap.is_on() {
            self.tap_batch(batch, Duration::from_nanos(timing.answer_ns));
        }
    }

    fn dropped(&mut self, count: u64) {
        self.recorder.add(Counter::XdpDrops, count);
    }

    fn idle(&mut self) {
        self.snapshots.renew();
        self.recorder.flush(Stamp::now(), None);
    }
}

/// A datagram of a batch.
struct Datagram<'b> {
    queries: &'b Queries<'b>,
    i: usize,
    peer: &'b SocketAddr,
}

impl Arrival for Datagram<'_> {
    #[inline]
    fn peer(&self) -> SocketAddr {
        *self.peer
    }

    fn local(&self) -> Option<SocketAddr> {
        self.queries.local(self.i)
    }

    #[inline]
    fn transport(&self) -> Transport {
        Transport::to(Protocol::Udp, self.peer.ip())
    }

    fn reply_to(&mut self) -> Option<ReplyTo> {
        let path = self.queries.return_path(self.i)?;
        Some(ReplyTo::Datagram(path))
    }
}

/// A datagram of a batch after parsing.
struct ParsedQuery<'q> {
    query: Query<'q>,
    /// Why there is no valid query.
    malformed: Option<Malformed>,
}

impl<'q> ParsedQuery<'q> {
    const UNREAD: ParsedQuery<'static> = ParsedQuery {
        query: Query::EMPTY,
        malformed: None,
    };

    #[inline]
    fn read(&mut self, queries: &Queries<'q>, i: usize, zones: &ZoneTable, key: &mut NameKey) {
        let mut result = self.query.read(queries.query(i));
        if result.is_ok() && queries.truncated(i) {
            result = Err(Malformed::FormErrAfterQuestion(self.query.question_end));
        }
        match result {
            Ok(()) => {
                key.set(self.query.qname);
                zones.prefetch(key);
            }
            Err(malformed) => self.malformed = Some(malformed),
        }
    }
}

/// Returns the valid queries of a batch with their numbers and keys.
#[inline]
fn well_formed<'p>(
    parsed: &'p [ParsedQuery<'_>],
    keys: &'p [NameKey; BATCH],
) -> impl Iterator<Item = (usize, &'p Query<'p>, &'p NameKey)> {
    let numbered = parsed.iter().zip(keys).enumerate();
    numbered
        .filter(|(_, (parsed, _))| parsed.malformed.is_none())
        .map(|(i, (parsed, key))| (i, &parsed.query, key))
}

/// Finds the zone of each query, in short passes over the batch: each loads what the next one needs, so that the
/// cache misses of all queries overlap instead of following each other.
#[inline]
fn find_zones<'z>(
    parsed: &[ParsedQuery<'_>],
    zones: &'z ZoneTable,
    keys: &[NameKey; BATCH],
) -> [Option<ZoneMatch<'z>>; BATCH] {
    let parsed_queries = || well_formed(parsed, keys);
    let mut found = [None; BATCH];
    // A single query has nothing to overlap with, and a single zone is in the cache.
    let look_ahead = parsed.len() > 1;
    if look_ahead && zones.len() > 1 {
        parsed_queries().for_each(|(_, _, key)| zones.prefetch_zone(key));
        parsed_queries().for_each(|(_, _, key)| zones.prefetch_apex(key));
    }
    for (i, query, key) in parsed_queries() {
        found[i] = zones.match_for(key, query.qtype);
        if let Some(found) = found[i].filter(|_| look_ahead) {
            found.zone.prefetch_slots(key);
        }
    }
    if look_ahead {
        for (i, _, key) in parsed_queries() {
            if let Some(found) = found[i] {
                found.zone.prefetch_node(key);
            }
        }
    }
    found
}
