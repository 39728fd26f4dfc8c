//! Answers questions that had to wait, away from the buffers of the workers.

use std::sync::Arc;
use std::time::Instant;

use nameward_answer::{BackendFailure, Making, Medium, Scratch, TCP_MAX};
use nameward_stats::{Counter, Recorder, Stamp};
use nameward_zone::NameKey;

use super::{Job, Parts, Tried, board};
use crate::pipeline::{LateReplies, Shared, Snapshots, Turn};
use crate::request::Verdict;

/// Everything that one thread needs to answer.
pub(crate) struct Answerer {
    snapshots: Snapshots,
    pub(crate) recorder: Recorder,
    scratch: Scratch,
    making: Making,
    key: NameKey,
    out: Box<[u8]>,
    replies: LateReplies,
}

impl Answerer {
    /// `making` tells whether it signs, or leaves that to the threads that do.
    pub(crate) fn new(shared: &Arc<Shared>, making: Making) -> Self {
        Answerer {
            snapshots: Snapshots::new(shared),
            recorder: shared.stats.recorder(),
            scratch: Scratch::default(),
            making,
            key: NameKey::default(),
            out: vec![0; TCP_MAX].into_boxed_slice(),
            replies: LateReplies::new(),
        }
    }

    /// Decides about a question that waited.
    fn decide(
        &mut self,
        shared: &Arc<Shared>,
        job: Job,
        how: impl FnOnce(&mut Turn<'_>, &mut NameKey, Job, &mut [u8]) -> (Option<Job>, Verdict),
    ) {
        let mut turn = Turn::new(
            shared,
            &mut self.snapshots,
            &mut self.recorder,
            &mut self.scratch,
        );
        turn.scratch.set_making(self.making);
        let (job, verdict) = how(&mut turn, &mut self.key, job, &mut self.out);
        drop(turn);
        if let (Some(job), Verdict::Reply(reply)) = (job, verdict) {
            let octets = &self.out[..reply.len];
            self.replies
                .send(*job.request, (reply, octets), &mut self.recorder);
        }
    }

    /// Answers a question with the parts it has, or lets it wait for one more, or for signatures.
    pub(crate) fn answer(&mut self, shared: &Arc<Shared>, job: Job) {
        self.decide(shared, job, |turn, key, mut job, out| {
            let query = job.request.query();
            let request = job.request.request(&query);
            let out = room(request.medium(), out);
            let mut parts = Parts::new();
            if job
                .parts
                .drain(..)
                .any(|held| parts.try_push(held).is_err())
            {
                let verdict = turn.fail(&request, BackendFailure::BadData, out);
                return (Some(job), verdict);
            }
            key.set(query.qname);
            let zone = turn.zones.zone_for(key, query.qtype).map(|zone| &**zone);
            let attempt = turn.attempt(&request, (key, zone), Instant::now());
            let flight = match attempt.run(&mut parts, turn.scratch, turn.recorder, out) {
                Tried::Answered(reply) => return (Some(job), Verdict::Reply(reply)),
                Tried::Missing(flight) => Ok(flight),
                Tried::Unsigned => Err(attempt.place_for_signing()),
            };
            job.parts.extend(parts);
            let (waits, is_lookup) = match flight {
                Ok(flight) => (board(shared, *flight, job), true),
                Err(place) => (turn.wait_for_signatures(place, job), false),
            };
            let Err(job) = waits else {
                return (None, Verdict::Later);
            };
            let query = job.request.query();
            let request = job.request.request(&query);
            let verdict = match is_lookup {
                true => turn.turn_away(&request, out),
                false => turn.refuse_signing(&request, out),
            };
            (Some(job), verdict)
        });
    }

    /// Answers SERVFAIL.
    pub(crate) fn fail(&mut self, shared: &Arc<Shared>, job: Job, failure: BackendFailure) {
        self.decide(shared, job, |turn, _, job, out| {
            let query = job.request.query();
            let request = job.request.request(&query);
            let verdict = turn.fail(&request, failure, room(request.medium(), out));
            (Some(job), verdict)
        });
    }

    /// A question that has waited for too long: a datagram is dropped, a stream is told.
    pub(crate) fn give_up(&mut self, shared: &Arc<Shared>, job: Job) {
        match job.request.medium() {
            Medium::Datagram => self.recorder.add(Counter::TimedoutPackets, 1),
            Medium::Stream => self.fail(shared, job, BackendFailure::Unreachable),
        }
    }

    /// Sends what has not left yet, and makes the counts visible.
    pub(crate) fn flush(&mut self) {
        self.replies.flush(&mut self.recorder);
        self.recorder.flush(Stamp::now(), None);
    }
}

/// As much as the buffers of the workers have, so that the same answer is given whoever writes it.
fn room(medium: Medium, out: &mut [u8]) -> &mut [u8] {
    match medium {
        Medium::Datagram => &mut out[..crate::udp::REPLY_MAX],
        Medium::Stream => out,
    }
}
