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
use nameward_answer::Scratch;
use nameward_stats::{Counter, Protocol, Recorder, Stamp, Timing, Transport};
use nameward_wire::message::{HEADER, Malformed, Query};
use nameward_zone::{NameKey, ViewId, ZoneMatch, ZoneTable};
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
    done: [Option<Done>; BATCH],
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
            done: [None; BATCH],
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
            let view = self.done[i].map_or(ViewId::DEFAULT, |done| done.view);
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
        let mut parsed = [const { Err(Malformed::TooShort) }; BATCH];
        for (i, slot) in parsed[..queries.len()].iter_mut().enumerate() {
            *slot = read(&queries, i, turn.zones, &mut self.keys[i]);
        }
        let found = find_zones(&parsed[..queries.len()], turn.zones, &self.keys);
        if let Some(limits) = turn.limits.filter(|_| queries.len() > 1) {
            for (i, query) in parsed[..queries.len()].iter().enumerate() {
                if query.is_ok() {
                    limits.prefetch(queries.client(i), (&self.keys[i], found[i]));
                }
            }
        }
        for (i, query) in parsed[..queries.len()].iter().enumerate() {
            let (peer, out) = (queries.client(i), replies.buffer(i));
            self.done[i] = match query {
                _ if turn.drops(peer) => None,
                Ok(query) => {
                    let mut datagram = Datagram {
                        queries: &queries,
                        i,
                        peer,
                    };
                    let asked = (&self.keys[i], found[i]);
                    match turn.decide(query, &mut datagram, asked, out) {
                        Verdict::Reply(reply) => Some(Done::new(reply, query, turn.view)),
                        // Codes and streams have become replies by now.
                        Verdict::Drop | Verdict::Later | Verdict::Code(..) | Verdict::Stream(_) => {
                            None
                        }
                    }
                }
                Err(malformed) => turn
                    .decide_malformed(queries.query(i), *malformed, peer, out)
                    .and_then(|reply| turn.limit_malformed(reply, queries.query(i), peer))
                    .map(Done::without_question),
            };
            replies.set_len(i, self.done[i].map_or(0, |done| done.reply.len));
        }
    }

    fn sent(&mut self, batch: &DatagramBatch, timing: BatchTiming) {
        let mut answered = 0;
        for (i, done) in self.done.iter().enumerate().take(batch.len()) {
            if let Some(done) = done
                && !batch.replied(i).is_empty()
            {
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
    peer: SocketAddr,
}

impl Arrival for Datagram<'_> {
    #[inline]
    fn peer(&self) -> SocketAddr {
        self.peer
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

#[inline]
fn read<'q>(
    queries: &Queries<'q>,
    i: usize,
    zones: &ZoneTable,
    key: &mut NameKey,
) -> Result<Query<'q>, Malformed> {
    let query = Query::parse(queries.query(i))?;
    if queries.truncated(i) {
        return Err(Malformed::FormErrAfterQuestion(query.question_end));
    }
    key.set(query.qname);
    zones.prefetch(key);
    Ok(query)
}

/// Finds the zone of each query, in short passes over the batch: each loads what the next one needs, so that the
/// cache misses of all queries overlap instead of following each other.
#[inline]
fn find_zones<'z>(
    parsed: &[Result<Query<'_>, Malformed>],
    zones: &'z ZoneTable,
    keys: &[NameKey; BATCH],
) -> [Option<ZoneMatch<'z>>; BATCH] {
    let asked = || {
        let numbered = parsed.iter().zip(keys.iter()).enumerate();
        numbered.filter_map(|(i, (query, key))| query.as_ref().ok().map(|query| (i, query, key)))
    };
    let mut found = [None; BATCH];
    // A single query has nothing to overlap with, and a single zone is in the cache.
    let look_ahead = parsed.len() > 1;
    if look_ahead && zones.len() > 1 {
        asked().for_each(|(_, _, key)| zones.prefetch_zone(key));
        asked().for_each(|(_, _, key)| zones.prefetch_apex(key));
    }
    for (i, query, key) in asked() {
        found[i] = zones.match_for(key, query.qtype);
        if let Some(found) = found[i].filter(|_| look_ahead) {
            found.zone.prefetch_slots(key);
        }
    }
    if look_ahead {
        for (i, _, key) in asked() {
            if let Some(found) = found[i] {
                found.zone.prefetch_node(key);
            }
        }
    }
    found
}
