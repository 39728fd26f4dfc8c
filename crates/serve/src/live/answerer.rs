//! Answers questions that had to wait, away from the buffers of the workers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use nameward_answer::{BackendFailure, Medium, Reply, Scratch, TCP_MAX};
use nameward_stats::{Counter, Recorder, Stamp, Transport};
use nameward_wire::message::{HEADER, Query};
use nameward_zone::NameKey;

use super::{Attempt, Job, Parts, ReplyTo, Tried, board};
use crate::pipeline::{Done, Shared, View, record_answer};
use crate::sys::outbox::Outbox;

/// An answer that is in the outbox, for the counters.
struct Leaving {
    done: Done,
    transport: Transport,
    client: IpAddr,
    received: Instant,
    packet: Box<[u8]>,
}

/// What one thread needs to answer.
pub(crate) struct Answerer {
    view: View,
    pub(crate) recorder: Recorder,
    scratch: Scratch,
    key: NameKey,
    out: Box<[u8]>,
    outbox: Outbox,
    /// What the outbox answers, one for each reply in it.
    leaving: Vec<Leaving>,
}

impl Answerer {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Answerer {
            view: View::new(Arc::clone(shared)),
            recorder: shared.stats.recorder(),
            scratch: Scratch::default(),
            key: NameKey::default(),
            out: vec![0; TCP_MAX].into_boxed_slice(),
            outbox: Outbox::new(),
            leaving: Vec::new(),
        }
    }

    /// Answers a question with the parts it has, or lets it wait for one more.
    pub(crate) fn answer(&mut self, shared: &Arc<Shared>, mut job: Job) {
        let mut parts = Parts::new();
        let is_too_long = job
            .parts
            .drain(..)
            .any(|held| parts.try_push(held).is_err());
        let Ok(query) = Query::parse(&job.packet) else {
            return;
        };
        if is_too_long {
            return self.fail(job, BackendFailure::BadData);
        }
        self.key.set(query.qname);
        self.scratch.set_now(crate::sys::seconds_since_1970());
        let zones = &**self.view.zones.load();
        let own = zones.zone_for(&self.key, query.qtype);
        let attempt = Attempt {
            live: &shared.live,
            engine: self.view.engine.load(),
            zones,
            query: &query,
            key: &self.key,
            own: own.and_then(|zone| zone.live()).map(|live| &**live),
            medium: job.medium(),
            now: Instant::now(),
        };
        let room = room(job.medium());
        let out = &mut self.out[..room];
        match attempt.run(&mut parts, &mut self.scratch, &mut self.recorder, out) {
            Tried::Answered(reply) => self.send(job, reply),
            Tried::Missing(flight) => {
                job.parts.extend(parts);
                if let Err(job) = board(shared, *flight, job) {
                    self.turn_away(job);
                }
            }
        }
    }

    /// Answers SERVFAIL.
    pub(crate) fn fail(&mut self, job: Job, failure: BackendFailure) {
        let Ok(query) = Query::parse(&job.packet) else {
            return;
        };
        let (medium, room) = (job.medium(), room(job.medium()));
        let engine = &**self.view.engine.load();
        let reply = engine.respond_with_failure(&query, failure, medium, &mut self.out[..room]);
        self.send(job, reply);
    }

    /// A question for which there is no room: a datagram is dropped, a stream is told.
    fn turn_away(&mut self, job: Job) {
        match job.medium() {
            Medium::Datagram => self.recorder.add(Counter::OverloadDrops, 1),
            Medium::Stream => self.fail(job, BackendFailure::Unreachable),
        }
    }

    /// A question that has waited for too long: a datagram is dropped, a stream is told.
    pub(crate) fn give_up(&mut self, job: Job) {
        match job.medium() {
            Medium::Datagram => self.recorder.add(Counter::TimedoutPackets, 1),
            Medium::Stream => self.fail(job, BackendFailure::Unreachable),
        }
    }

    /// Lets a reply go: a datagram with the next ones, at the latest when counts are made visible.
    fn send(&mut self, job: Job, reply: Reply) {
        let transport = job.transport();
        let Ok(query) = Query::parse(&job.packet) else {
            return;
        };
        let leaving = Leaving {
            done: Done::new(reply, &query),
            transport,
            client: job.client.ip(),
            received: job.received,
            packet: job.packet,
        };
        let reply = &self.out[..reply.len];
        match job.reply_to {
            ReplyTo::Stream(ticket) => {
                self.recorder.begin();
                ticket.deliver(reply);
                self.record(&leaving);
            }
            ReplyTo::Datagram(path) => {
                if self.outbox.push(*path, reply) {
                    self.leaving.push(leaving);
                }
                if self.outbox.is_full() {
                    self.send_all();
                }
            }
        }
    }

    fn send_all(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        self.recorder.begin();
        let sent = self.outbox.flush();
        let leaving = std::mem::take(&mut self.leaving);
        for (i, leaving) in leaving.iter().enumerate() {
            if sent & (1 << i) != 0 {
                self.record(leaving);
            }
        }
        self.leaving = leaving;
        self.leaving.clear();
    }

    fn record(&mut self, leaving: &Leaving) {
        let Leaving { done, packet, .. } = leaving;
        let qname = &packet[HEADER..HEADER + done.qname_len()];
        record_answer(
            &mut self.recorder,
            done,
            leaving.transport,
            leaving.client,
            qname,
        );
        let waited_ns = leaving.received.elapsed().as_nanos() as u64;
        self.recorder.answered_after(waited_ns);
    }

    /// Sends what has not left yet, and makes the counts visible.
    pub(crate) fn flush(&mut self) {
        self.send_all();
        self.recorder.flush(Stamp::now(), None);
    }
}

/// As much as the buffers of the workers have, so that the same answer is given whoever writes it.
fn room(medium: Medium) -> usize {
    match medium {
        Medium::Datagram => crate::udp::REPLY_MAX,
        Medium::Stream => TCP_MAX,
    }
}
