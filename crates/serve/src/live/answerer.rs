//! Answers queries that had to wait, outside the workers' buffers.

use std::sync::Arc;
use std::time::Instant;

use nameward_answer::{BackendFailure, Making, Medium, Scratch, TCP_MAX};
use nameward_stats::{Counter, Recorder, Stamp};
use nameward_zone::NameKey;

use super::{AttemptOutcome, FetchedFragment, PacketCaching, Parts, WaitingQuery};
use crate::pipeline::{LateReplies, ServingState, Snapshots, Turn};
use crate::recursor::offer_recursion;
use crate::request::Verdict;

/// Everything that one thread needs to answer queries.
pub(crate) struct Answerer {
    snapshots: Snapshots,
    pub(crate) recorder: Recorder,
    scratch: Scratch,
    making: Making,
    /// The key of the current name.
    pub(super) key: NameKey,
    out: Box<[u8]>,
    replies: LateReplies,
}

impl Answerer {
    /// Creates an answerer. `making` says whether it signs, or leaves that to the signing threads.
    pub(crate) fn new(shared: &Arc<ServingState>, making: Making) -> Self {
        Answerer {
            snapshots: Snapshots::new(shared),
            recorder: shared.stats.recorder(),
            scratch: Scratch::default(),
            making,
            key: NameKey::default(),
            out: vec![0; TCP_MAX].into_boxed_slice(),
            replies: LateReplies::new(&shared.tap),
        }
    }

    /// Decides a query that waited, and sends the reply if there is one.
    fn decide(
        &mut self,
        shared: &Arc<ServingState>,
        (waiting, now): (WaitingQuery, Instant),
        how: impl FnOnce(
            &mut Turn<'_>,
            &mut NameKey,
            WaitingQuery,
            &mut [u8],
        ) -> (Option<WaitingQuery>, Verdict),
    ) {
        let mut turn = Turn::new(
            shared,
            &mut self.snapshots,
            &mut self.recorder,
            &mut self.scratch,
        );
        turn.scratch.set_making(self.making);
        let (waiting, verdict) = how(&mut turn, &mut self.key, waiting, &mut self.out);
        drop(turn);
        if let (Some(waiting), Verdict::Reply(reply)) = (waiting, verdict) {
            if shared.recurses_for(waiting.request.client()) {
                offer_recursion(&mut self.out);
            }
            let octets = &self.out[..reply.len()];
            self.replies.send(
                shared,
                waiting.request,
                ((reply, octets), now),
                &mut self.recorder,
            );
        }
    }

    /// Answers a query with the fragments it has and the one just fetched for it, or lets it wait for one more, or for signatures.
    /// `now` is the caller's: one reading of the clock serves many queries.
    pub(crate) fn answer(
        &mut self,
        shared: &Arc<ServingState>,
        (waiting, fetched): (WaitingQuery, Option<FetchedFragment>),
        now: Instant,
    ) {
        let waited = now.saturating_duration_since(waiting.request.received());
        // Its client no longer waits: an answer would only add load, and its signatures and look-ups, too.
        if waited >= shared.live.query_timeout() {
            return self.give_up(shared, waiting);
        }
        self.decide(shared, (waiting, now), |turn, key, mut waiting, out| {
            let query = waiting.request.query();
            let request = waiting.request.request(&query);
            let out = room(request.medium(), out);
            let mut parts = Parts::new();
            let mut fragments = waiting.parts.drain(..).chain(fetched);
            if fragments.any(|held| parts.try_push(held).is_err()) {
                drop(fragments);
                let verdict = turn.fail(&request, BackendFailure::BadData, out);
                return (Some(waiting), verdict);
            }
            drop(fragments);
            // It is the name that was looked up, unless an alias led there.
            if key.suffix(key.labels()) != query.qname {
                key.set(query.qname);
            }
            turn.view = request.view;
            let found = turn.zones.match_in(request.view, key, query.qtype);
            let mut attempt = turn.attempt(&request, (key, found), now);
            attempt.caching = PacketCaching::UnlessInQueryCache;
            let missing = match attempt.run(&mut parts, turn.scratch, turn.recorder, out) {
                AttemptOutcome::Answered(reply) => return (Some(waiting), Verdict::Reply(reply)),
                AttemptOutcome::Waits(missing) => missing,
            };
            waiting.parts.extend(parts);
            let Err((waiting, refusal)) = turn.wait_for(missing, waiting) else {
                return (None, Verdict::Later);
            };
            let query = waiting.request.query();
            let request = waiting.request.request(&query);
            let verdict = turn.refuse_to_wait(refusal, &request, out);
            (Some(waiting), verdict)
        });
    }

    /// Answers SERVFAIL.
    pub(crate) fn fail(
        &mut self,
        shared: &Arc<ServingState>,
        waiting: WaitingQuery,
        failure: BackendFailure,
    ) {
        let now = Instant::now();
        self.decide(shared, (waiting, now), |turn, _, waiting, out| {
            let query = waiting.request.query();
            let request = waiting.request.request(&query);
            let verdict = turn.fail(&request, failure, room(request.medium(), out));
            (Some(waiting), verdict)
        });
    }

    /// Gives up on a query that has waited too long: a datagram is dropped, a stream gets SERVFAIL.
    pub(crate) fn give_up(&mut self, shared: &Arc<ServingState>, waiting: WaitingQuery) {
        match waiting.request.medium() {
            Medium::Datagram => self.recorder.add(Counter::TimedoutPackets, 1),
            Medium::Stream => self.fail(shared, waiting, BackendFailure::Unreachable),
        }
    }

    /// Sends the queued replies, and publishes the counters.
    pub(crate) fn flush(&mut self) {
        self.replies.flush(&mut self.recorder);
        self.recorder.flush(Stamp::now(), None);
    }
}

/// Returns as much buffer as the workers have, so that the answer does not depend on which thread
/// writes it.
fn room(medium: Medium, out: &mut [u8]) -> &mut [u8] {
    match medium {
        Medium::Datagram => &mut out[..crate::udp::REPLY_MAX],
        Medium::Stream => out,
    }
}
