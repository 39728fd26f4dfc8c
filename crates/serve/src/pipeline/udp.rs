//! Answers datagrams: a batch is parsed as a whole before the first query is decided, so that cache misses
//! overlap.

use super::path::{Arrival, QueriedName, Turn};
use super::recent::{RecentReplies, Repeated};
use super::record::{Done, record_answer};
use super::{ReplyTo, ServingState, Snapshots};
use crate::listen::UdpListener;
use crate::rate_limit::Account;
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
use nameward_zone::{NameKey, Zone, ZoneMatch, ZoneTable};
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
    recent: RecentReplies,
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
            recent: RecentReplies::new(),
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
        let mut recent = turn.recent(&mut self.recent, queries.len());
        let mut parsed = ArrayVec::<ParsedQuery<'_>, BATCH>::new();
        for i in 0..queries.len().min(BATCH) {
            parsed.push(ParsedQuery::UNREAD);
            match repetition(&mut recent, &queries, i) {
                Some(repeated) => parsed[i].state = ParseState::Repeated(repeated),
                None => parsed[i].read(&queries, i, turn.zones, &mut self.keys[i]),
            }
        }
        let found = find_zones(&parsed, turn.zones, &self.keys);
        if let Some(limits) = turn.limits.filter(|_| queries.len() > 1) {
            for (i, parsed) in parsed.iter().enumerate() {
                let peer = queries.client(i);
                match (parsed.state, &recent) {
                    (ParseState::WellFormed, _) => {
                        limits.prefetch(peer, (&self.keys[i], found[i]));
                    }
                    (ParseState::Repeated(repeated), Some(recent)) => {
                        limits.prefetch_account(peer, recent.account(repeated));
                    }
                    _ => {}
                }
            }
        }
        for (i, parsed) in parsed.iter().enumerate() {
            let (peer, out) = (queries.client(i), replies.buffer(i));
            let done = &mut self.done[i];
            match parsed.state {
                _ if turn.drops(peer) => *done = Done::NOTHING,
                ParseState::WellFormed => {
                    let mut datagram = Datagram {
                        queries: &queries,
                        i,
                        peer: &peer,
                    };
                    let queried = (&self.keys[i], found[i]);
                    let reply = (&mut *done, &mut out[..]);
                    turn.answer(&parsed.query, &mut datagram, queried, reply, &mut recent);
                }
                ParseState::Repeated(repeated) => {
                    let packet = queries.query(i);
                    *done = turn.repeat(&recent, repeated, (packet, peer), out);
                }
                ParseState::Malformed(malformed) => {
                    let packet = queries.query(i);
                    let reply = turn
                        .decide_malformed(packet, malformed, peer, out)
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

/// Looks for the reply to a query that is equal to datagram `i`.
#[inline]
fn repetition(
    recent: &mut Option<&mut RecentReplies>,
    queries: &Queries<'_>,
    i: usize,
) -> Option<Repeated> {
    let recent = recent.as_mut()?;
    if queries.truncated(i) {
        return None;
    }
    recent.find(queries.query(i))
}

impl Turn<'_> {
    /// Answers a query, and keeps the reply for equal ones if it is the same for all.
    #[inline]
    fn answer(
        &mut self,
        query: &Query<'_>,
        datagram: &mut Datagram<'_>,
        queried: QueriedName<'_>,
        (done, out): (&mut Done, &mut [u8]),
        recent: &mut Option<&mut RecentReplies>,
    ) {
        self.is_from_memory = false;
        match self.decide(query, datagram, queried, out) {
            Verdict::Reply(reply) => {
                done.set(&reply, query, self.view);
                if let Some(recent) = recent
                    && self.is_repeatable(query, &reply)
                {
                    let (key, found) = queried;
                    let zone = found.map(|found| &**found.zone);
                    let account = Account::new(&reply, query, (key, zone));
                    recent.keep(query, (*done, account), &out[..reply.len()]);
                }
            }
            // Codes and streams have become replies by now.
            Verdict::Drop | Verdict::Later | Verdict::Code(..) | Verdict::Stream(_) => {
                *done = Done::NOTHING;
            }
        }
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
    state: ParseState,
}

#[derive(Clone, Copy)]
enum ParseState {
    WellFormed,
    /// There is no valid query, for this reason.
    Malformed(Malformed),
    /// An equal query has a reply.
    Repeated(Repeated),
}

impl<'q> ParsedQuery<'q> {
    const UNREAD: ParsedQuery<'static> = ParsedQuery {
        query: Query::EMPTY,
        state: ParseState::WellFormed,
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
            Err(malformed) => self.state = ParseState::Malformed(malformed),
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
        .filter(|(_, (parsed, _))| matches!(parsed.state, ParseState::WellFormed))
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
        let mut likely = ArrayVec::<&Zone, BATCH>::new();
        for (_, _, key) in parsed_queries() {
            if let Some(zone) = zones.likely_match(key) {
                zone.prefetch();
                likely.push(zone);
            }
        }
        likely.iter().for_each(|zone| zone.prefetch_apex());
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
