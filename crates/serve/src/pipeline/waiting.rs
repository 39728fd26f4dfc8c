//! Queries whose answer is not in memory: they wait for a look-up, for the addresses of an ALIAS target, or for
//! signatures, or are refused because too many wait.

use std::time::Instant;

use nameward_answer::{AnswerKind, BackendFailure, Medium, Reply};
use nameward_stats::Counter;

use super::late::{LateRequest, ReplyTo};
use super::path::{QueriedName, Turn};
use crate::live::{
    Attempt, AttemptOutcome, MissingInput, PacketCaching, Parts, WaitingQuery, join_lookup,
};
use crate::request::{Request, Verdict};
use crate::signing::SigningLocation;

/// Why a query may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitRefusal {
    /// Too many queries wait for a backend or a resolver.
    Overload,
    /// Too many queries wait for signatures.
    Signing,
}

impl<'t> Turn<'t> {
    /// Decides a query whose answer needs a live zone or signatures: from the caches, after a look-up, or after
    /// signing. `reply` is the engine's result.
    #[inline(never)]
    pub(super) fn decide_later(
        &mut self,
        request: &Request<'_>,
        (queried, reply): (QueriedName<'_>, Reply),
        reply_to: &mut dyn FnMut() -> Option<ReplyTo>,
        out: &mut [u8],
    ) -> Verdict {
        // One cache look-up is timed as a sample for the batch.
        let is_timed = self.now.is_none();
        let now = *self.now.get_or_insert_with(Instant::now);
        let attempt = self.attempt(request, queried, now);
        let mut parts = Parts::new();
        if reply.outcome == AnswerKind::Pending
            && let Some(reply) = attempt.find_in_packet_cache(self.recorder, is_timed, out)
        {
            return Verdict::Reply(reply);
        }
        let outcome = match reply.outcome {
            AnswerKind::Unsigned => {
                AttemptOutcome::Waits(MissingInput::Signatures(attempt.signing_location()))
            }
            _ => attempt.run(&mut parts, self.scratch, self.recorder, out),
        };
        let missing = match outcome {
            AttemptOutcome::Answered(reply) => return Verdict::Reply(reply),
            AttemptOutcome::Waits(missing) => missing,
        };
        let Some(reply_to) = reply_to() else {
            return Verdict::Drop;
        };
        let waiting = WaitingQuery {
            request: Box::new(LateRequest::new(request, reply_to, now)),
            parts: parts.into_iter().collect(),
            slot: None,
        };
        match self.wait_for(missing, waiting) {
            Ok(()) => Verdict::Later,
            Err((_, refusal)) => self.refuse_to_wait(refusal, request, out),
        }
    }

    /// Queues a query for what its answer lacks; returns it if the queue is full.
    pub(crate) fn wait_for(
        &mut self,
        missing: MissingInput,
        waiting: WaitingQuery,
    ) -> Result<(), (WaitingQuery, WaitRefusal)> {
        let (waits, refusal) = match missing {
            MissingInput::Part(lookup) => {
                let waits = join_lookup(self.shared, lookup, waiting);
                (waits, WaitRefusal::Overload)
            }
            MissingInput::Addresses(target) => {
                let waits = match self.shared.aliases() {
                    Some(aliases) => aliases.wait(target, waiting),
                    None => Err(waiting),
                };
                // Targets are shared and bounded by themselves.
                return waits.map_err(|waiting| (waiting, WaitRefusal::Overload));
            }
            MissingInput::Signatures(location) => {
                let waits = self.wait_for_signatures(location, waiting);
                (waits, WaitRefusal::Signing)
            }
        };
        waits.map_err(|waiting| {
            if waiting.slot.is_none() {
                self.recorder.add(Counter::ClientShareRefusals, 1);
            }
            (waiting, refusal)
        })
    }

    /// Decides a query that may not wait.
    pub(crate) fn refuse_to_wait(
        &mut self,
        refusal: WaitRefusal,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Verdict {
        match refusal {
            WaitRefusal::Overload => self.turn_away(request, out),
            WaitRefusal::Signing => self.refuse_signing(request, out),
        }
    }

    /// Queues a query for signatures; returns it if the queue is full.
    fn wait_for_signatures(
        &mut self,
        location: SigningLocation,
        mut waiting: WaitingQuery,
    ) -> Result<(), WaitingQuery> {
        let client = waiting.request.client();
        waiting.slot = None;
        waiting.slot = self.shared.live.signing_shares.take(client);
        if waiting.slot.is_none() {
            return Err(waiting);
        }
        self.shared.signing.push(location, waiting)?;
        self.recorder.add(Counter::SigningWaits, 1);
        Ok(())
    }

    /// Decides a query that cannot wait for signatures: a datagram gets TC, so that its client retries over TCP, a
    /// stream gets SERVFAIL.
    fn refuse_signing(&mut self, request: &Request<'_>, out: &mut [u8]) -> Verdict {
        self.recorder.add(Counter::SigningRefusals, 1);
        match request.medium() {
            Medium::Datagram => Verdict::Reply(self.engine.respond_truncated(request.query, out)),
            Medium::Stream => self.fail(request, BackendFailure::NotReady, out),
        }
    }

    /// Prepares one attempt to answer a query for live zones from memory.
    pub(crate) fn attempt<'a>(
        &self,
        request: &Request<'a>,
        (key, found): QueriedName<'a>,
        now: Instant,
    ) -> Attempt<'a>
    where
        't: 'a,
    {
        Attempt {
            live: &self.shared.live,
            aliases: self.shared.aliases(),
            scripts: self.shared.scripts(),
            request: *request,
            engine: self.engine,
            zones: self.zones_of(request.client()),
            query: request.query,
            key,
            own: found.and_then(|found| found.zone.live()),
            view: request.view,
            medium: request.medium(),
            now,
            caching: PacketCaching::All,
        }
    }

    /// Decides a query for which there is no room: a datagram is dropped, a stream gets SERVFAIL, so that its client
    /// does not wait in vain.
    pub(crate) fn turn_away(&mut self, request: &Request<'_>, out: &mut [u8]) -> Verdict {
        match request.medium() {
            Medium::Datagram => {
                self.recorder.add(Counter::OverloadDrops, 1);
                Verdict::Drop
            }
            Medium::Stream => self.fail(request, BackendFailure::Unreachable, out),
        }
    }

    /// Decides a query whose data a backend did not return.
    pub(crate) fn fail(
        &self,
        request: &Request<'_>,
        failure: BackendFailure,
        out: &mut [u8],
    ) -> Verdict {
        let (query, medium) = (request.query, request.medium());
        Verdict::Reply(
            self.engine
                .respond_with_failure(query, failure, medium, out),
        )
    }
}
