//! The way of a query, from the received packet to the written reply and the counters.
//!
//! ```text
//! batch -> parse, hash the name, prefetch the zone's slot      read()
//!       -> find the zones, prefetching slots and nodes         find_zones()
//!       -> answer each from the same snapshot                   answer()
//! sent  -> this worker's counters and rings                     record()
//! ```
//! A worker takes no lock and allocates nothing: it reads the zone table and the engine through a cached pointer
//! that is renewed once a batch, so every answer of a batch comes from one snapshot.

mod record;
mod tcp;

pub(crate) use record::{record_answer, record_signatures};
pub use tcp::TcpPipeline;

use record::{record_malformed, record_received, udp};

use crate::live::{Attempt, Job, LiveSettings, LiveZones, Parts, ReplyTo, Tried, board};
use crate::udp::{BATCH, Batch, BatchHandler, BatchTiming, Queries};
use arc_swap::{ArcSwap, Cache};
use nameward_answer::{BackendFailure, Engine, Medium, Outcome, Reply, Scratch};
use nameward_stats::{Counter, Recorder, Stamp, Stats, Timing};
use nameward_wire::message::{HEADER, Malformed, Query};
use nameward_zone::{NameKey, Zone, ZoneTable};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// What all workers answer from. Maintenance swaps the pointers; workers follow with their next batch.
pub struct Shared {
    /// The zones.
    pub zones: ArcSwap<ZoneTable>,
    /// Policy and identity.
    pub engine: ArcSwap<Engine>,
    /// Counters and rings.
    pub stats: Arc<Stats>,
    /// Caches and look-ups for zones that are not in memory.
    pub live: LiveZones,
}

impl Shared {
    /// Starts without zones.
    pub fn new(engine: Engine, stats: Arc<Stats>) -> Arc<Self> {
        Self::with_live(engine, stats, LiveSettings::default())
    }

    /// Starts without zones, with these caches and bounds for live ones.
    pub fn with_live(engine: Engine, stats: Arc<Stats>, live: LiveSettings) -> Arc<Self> {
        let shared = Arc::new(Shared {
            zones: ArcSwap::from_pointee(ZoneTable::default()),
            engine: ArcSwap::from_pointee(engine),
            stats,
            live: LiveZones::new(live),
        });
        LiveZones::show_sizes(&shared, &shared.stats);
        shared
    }
}

/// Cached pointers into [`Shared`].
pub(crate) struct View {
    pub(crate) zones: Cache<SharedZones, Arc<ZoneTable>>,
    pub(crate) engine: Cache<SharedEngine, Arc<Engine>>,
}

/// The zone table as something a cache can watch.
pub(crate) struct SharedZones(Arc<Shared>);

impl std::ops::Deref for SharedZones {
    type Target = ArcSwap<ZoneTable>;

    fn deref(&self) -> &Self::Target {
        &self.0.zones
    }
}

/// The engine as something a cache can watch.
pub(crate) struct SharedEngine(Arc<Shared>);

impl std::ops::Deref for SharedEngine {
    type Target = ArcSwap<Engine>;

    fn deref(&self) -> &Self::Target {
        &self.0.engine
    }
}

impl View {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        View {
            zones: Cache::new(SharedZones(shared.clone())),
            engine: Cache::new(SharedEngine(shared)),
        }
    }
}

/// What is remembered of a datagram until its reply is sent.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    reply: Reply,
    qtype: u16,
    qname_len: u8,
}

impl Done {
    #[inline]
    pub(crate) fn new(reply: Reply, query: &Query<'_>) -> Self {
        Done {
            reply,
            qtype: query.qtype.0,
            qname_len: query.qname.as_wire().len() as u8,
        }
    }

    /// Octets of the question's name.
    pub(crate) fn qname_len(&self) -> usize {
        self.qname_len.into()
    }
}

/// Answers the datagrams of one worker.
pub struct UdpPipeline {
    shared: Arc<Shared>,
    view: View,
    recorder: Recorder,
    scratch: Scratch,
    keys: Box<[NameKey; BATCH]>,
    done: [Option<Done>; BATCH],
}

impl UdpPipeline {
    /// Makes the pipeline of one worker.
    pub fn new(shared: Arc<Shared>) -> Self {
        let recorder = shared.stats.recorder();
        let keys: Vec<NameKey> = vec![NameKey::default(); BATCH];
        let Ok(keys) = keys.into_boxed_slice().try_into() else {
            unreachable!("as long as the array")
        };
        UdpPipeline {
            view: View::new(Arc::clone(&shared)),
            shared,
            recorder,
            scratch: Scratch::default(),
            keys,
            done: [None; BATCH],
        }
    }
}

impl BatchHandler for UdpPipeline {
    fn handle(&mut self, batch: &mut Batch) {
        self.recorder.begin();
        self.scratch.set_now(crate::sys::seconds_since_1970());
        let zones = &**self.view.zones.load();
        let engine = &**self.view.engine.load();
        let (queries, mut replies) = batch.split();
        let mut parsed = [const { Err(Malformed::TooShort) }; BATCH];
        for (i, slot) in parsed[..queries.len()].iter_mut().enumerate() {
            *slot = read(&queries, i, zones, &mut self.keys[i]);
        }
        let found = find_zones(&parsed[..queries.len()], zones, &self.keys);
        // Read when the first live zone is asked for: others need no clock.
        let mut now = None;
        for (i, query) in parsed[..queries.len()].iter().enumerate() {
            let out = replies.buffer(i);
            let client = queries.client(i).ip();
            self.done[i] = match query {
                Ok(query) => {
                    record_received(&mut self.recorder, query, udp(client), client);
                    let reply = engine.respond(
                        zones,
                        query,
                        (&self.keys[i], found[i]),
                        Medium::Datagram,
                        &mut self.scratch,
                        out,
                    );
                    let mut reply = Some(reply);
                    if reply.is_some_and(|reply| reply.outcome == Outcome::Pending) {
                        let desk = Desk {
                            shared: &self.shared,
                            recorder: &mut self.recorder,
                            scratch: &mut self.scratch,
                            is_timed: now.is_none(),
                        };
                        let attempt = Attempt {
                            live: &self.shared.live,
                            engine,
                            zones,
                            query,
                            key: &self.keys[i],
                            own: found[i].and_then(|zone| zone.live()).map(|live| &**live),
                            medium: Medium::Datagram,
                            now: *now.get_or_insert_with(Instant::now),
                        };
                        let way_back =
                            || queries.return_path(i).map(Box::new).map(ReplyTo::Datagram);
                        reply = desk.answer_live(&attempt, queries.client(i), way_back, out);
                    }
                    reply.map(|reply| Done::new(reply, query))
                }
                Err(malformed) => {
                    record_malformed(&mut self.recorder, *malformed, client);
                    let reply = engine.respond_to_malformed(queries.query(i), *malformed, out);
                    reply.map(|reply| Done {
                        reply,
                        qtype: 0,
                        qname_len: 0,
                    })
                }
            };
            replies.set_len(i, self.done[i].map_or(0, |done| done.reply.len));
        }
        record_signatures(&mut self.recorder, &mut self.scratch);
    }

    fn sent(&mut self, batch: &Batch, timing: BatchTiming) {
        let mut answered = 0;
        for (i, done) in self.done.iter().enumerate().take(batch.len()) {
            if let Some(done) = done
                && !batch.replied(i).is_empty()
            {
                let qname = &batch.query(i)[HEADER..HEADER + done.qname_len as usize];
                let client = batch.client(i).ip();
                record_answer(&mut self.recorder, done, udp(client), client, qname);
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
    }

    fn idle(&mut self) {
        // Lets an old zone table go although no query comes.
        self.view.zones.load();
        self.recorder.flush(Stamp::now(), None);
    }
}

/// What a worker needs for a question whose answer needs a live zone.
struct Desk<'d> {
    shared: &'d Arc<Shared>,
    recorder: &'d mut Recorder,
    scratch: &'d mut Scratch,
    is_timed: bool,
}

impl Desk<'_> {
    /// Answers from the caches, or hands the question over to be answered later.
    fn answer_live(
        self,
        attempt: &Attempt<'_>,
        client: SocketAddr,
        way_back: impl FnOnce() -> Option<ReplyTo>,
        out: &mut [u8],
    ) -> Option<Reply> {
        if let Some(reply) = attempt.ask_packet_cache(self.recorder, self.is_timed, out) {
            return Some(reply);
        }
        let mut parts = Parts::new();
        let flight = match attempt.run(&mut parts, self.scratch, self.recorder, out) {
            Tried::Answered(reply) => return Some(reply),
            Tried::Missing(flight) => flight,
        };
        let job = Job {
            packet: attempt.query.packet().into(),
            client,
            reply_to: way_back()?,
            received: attempt.now,
            parts: parts.into_iter().collect(),
        };
        if board(self.shared, *flight, job).is_ok() {
            return None;
        }
        match attempt.medium {
            Medium::Datagram => {
                self.recorder.add(Counter::OverloadDrops, 1);
                None
            }
            // A stream is told at once, so that it does not wait in vain.
            Medium::Stream => Some(attempt.engine.respond_with_failure(
                attempt.query,
                BackendFailure::Unreachable,
                attempt.medium,
                out,
            )),
        }
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

/// Finds the zone of each question, in short passes over the batch: each loads what the next one needs, so
/// that the cache misses of all questions overlap instead of following each other.
#[inline]
fn find_zones<'z>(
    parsed: &[Result<Query<'_>, Malformed>],
    zones: &'z ZoneTable,
    keys: &[NameKey; BATCH],
) -> [Option<&'z Zone>; BATCH] {
    let asked = || {
        let numbered = parsed.iter().zip(keys.iter()).enumerate();
        numbered.filter_map(|(i, (query, key))| query.as_ref().ok().map(|query| (i, query, key)))
    };
    let mut found = [None; BATCH];
    // A single question has nothing to overlap with, and a single zone is in the cache.
    let look_ahead = parsed.len() > 1;
    if look_ahead && zones.len() > 1 {
        asked().for_each(|(_, _, key)| zones.prefetch_zone(key));
        asked().for_each(|(_, _, key)| zones.prefetch_apex(key));
    }
    for (i, query, key) in asked() {
        found[i] = zones.zone_for(key, query.qtype).map(|zone| &**zone);
        if let Some(zone) = found[i].filter(|_| look_ahead) {
            zone.prefetch_slots(key);
        }
    }
    if look_ahead {
        for (i, _, key) in asked() {
            if let Some(zone) = found[i] {
                zone.prefetch_node(key);
            }
        }
    }
    found
}
