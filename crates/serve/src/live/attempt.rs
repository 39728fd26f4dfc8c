//! One attempt to answer a query from memory: the packet cache, then the engine over the live zone fragments in the
//! query cache. Never blocks.

use std::sync::Arc;
use std::time::Instant;

use nameward_answer::{
    AnswerKind, BackendFailure, ComputedName, Engine, Medium, Reply, Scratch, Zones,
};
use nameward_stats::{Counter, Latency, Recorder};
use nameward_wire::NameBuf;
use nameward_wire::message::Query;
use nameward_zone::{Live, LiveHandle, NameKey};

use crate::access::ClientZones;
use crate::alias::{AliasResolver, TargetFound};
use crate::pipeline::record_signatures;
use crate::recursor::UpstreamMessage;
use crate::request::{Request, ViewId};
use crate::scripts::{Computation, RecordSources, Scripts};
use crate::signing::SigningLocation;

use super::{Cached, FetchedFragment, Fit, Hit, LiveView, LiveZones, Lookup, Parts, Used};

/// A query and everything it is answered with.
pub(crate) struct Attempt<'a> {
    pub(crate) live: &'a LiveZones,
    pub(crate) aliases: Option<&'a Arc<AliasResolver>>,
    pub(crate) scripts: Option<&'a Arc<Scripts>>,
    pub(crate) request: Request<'a>,
    pub(crate) engine: &'a Engine,
    pub(crate) zones: ClientZones<'a>,
    pub(crate) query: &'a Query<'a>,
    pub(crate) key: &'a NameKey,
    /// The zone of the query, if it is a live zone.
    pub(crate) own: Option<&'a Live>,
    pub(crate) view: ViewId,
    pub(crate) medium: Medium,
    pub(crate) now: Instant,
    /// Whether a complete answer is worth caching.
    pub(crate) caching: PacketCaching,
}

/// Which complete answers are added to the packet cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketCaching {
    /// All that are cacheable.
    All,
    /// None whose fragment is in the query cache: the query waited for a look-up, so it is the first for its name,
    /// and most names that are looked up are not queried again soon. The second query adds the answer.
    UnlessInQueryCache,
}

/// The result of an attempt to answer.
pub(crate) enum AttemptOutcome {
    /// The reply has been written.
    Answered(Reply),
    /// The query has to wait.
    Waits(MissingInput),
}

/// The missing input that an answer has to wait for.
pub(crate) enum MissingInput {
    /// A zone fragment that must be looked up.
    Part(Arc<Lookup>),
    /// The addresses of an ALIAS target, or records that a script needs, which must be resolved.
    Addresses(UpstreamMessage),
    /// Signatures that must be made.
    Signatures(SigningLocation),
}

/// Records that a script needs and that are not in memory.
enum ScriptLack {
    /// The records of a name in a live zone.
    Records(Box<NameBuf>),
    /// Records that a resolver must find.
    Resolution(UpstreamMessage),
}

/// The result of a query cache look-up.
enum CacheFinding {
    Part(FetchedFragment),
    Failure(BackendFailure),
    Nothing,
}

impl Attempt<'_> {
    fn fit(&self) -> Option<Fit> {
        let limit = self.engine.limit(self.query, self.medium);
        Fit::from_query(self.query, self.view, limit, self.medium)
            .filter(|_| self.live.packets.is_on())
    }

    /// Answers from the packet cache. If `is_timed`, the clock is read twice: that costs a good part of the look-up
    /// itself, so one look-up per batch is timed as a sample.
    pub(crate) fn find_in_packet_cache(
        &self,
        recorder: &mut Recorder,
        is_timed: bool,
        out: &mut [u8],
    ) -> Option<Reply> {
        let (live, fit) = (self.own?, self.fit()?);
        let packets = &self.live.packets;
        let started = is_timed.then(Instant::now);
        let hit = packets.answer(self.query, (self.key, fit), live, self.now, out);
        if let Some(started) = started {
            recorder.add_latency(Latency::Cache, 1, started.elapsed().as_nanos() as u64);
        }
        let (counter, reply) = match hit {
            Hit::Answered(reply) => (Counter::PacketcacheHit, Some(reply)),
            Hit::Nothing => (Counter::PacketcacheMiss, None),
            Hit::Busy => (Counter::DeferredPacketcacheLookup, None),
        };
        recorder.add(counter, 1);
        reply
    }

    /// Runs the engine, with fragments from the query cache and ALIAS target addresses where it needs them.
    pub(crate) fn run(
        &self,
        parts: &mut Parts,
        scratch: &mut Scratch,
        recorder: &mut Recorder,
        out: &mut [u8],
    ) -> AttemptOutcome {
        let outcome = self.run_with_addresses(parts, scratch, recorder, out);
        // Addresses expire, so the next query must look them up in the cache again.
        scratch.set_addresses(None);
        scratch.clear_computed();
        outcome
    }

    fn run_with_addresses(
        &self,
        parts: &mut Parts,
        scratch: &mut Scratch,
        recorder: &mut Recorder,
        out: &mut [u8],
    ) -> AttemptOutcome {
        loop {
            let view = LiveView::new(self.zones, parts);
            let zone = view.zone_for(self.key, self.query.qtype);
            if zone.is_none() && self.zones.denies(self.key, self.query.qtype) {
                // The access list changed while the query waited.
                let reply = self.engine.respond_denied(self.query, self.medium, out);
                return AttemptOutcome::Answered(reply);
            }
            let queried = (self.key, zone);
            scratch.forget_client();
            let reply = self
                .engine
                .respond(&view, self.query, queried, self.medium, scratch, out);
            let used = view.used();
            if reply.outcome == AnswerKind::Unsigned {
                return AttemptOutcome::Waits(MissingInput::Signatures(self.signing_location()));
            }
            if reply.outcome == AnswerKind::Resolving {
                match self.find_addresses(scratch, out) {
                    Some(outcome) => return outcome,
                    None => continue,
                }
            }
            let mut script_name = None;
            if reply.outcome == AnswerKind::Computing {
                match self.compute(parts, scratch, recorder) {
                    Some(ScriptLack::Records(name)) => {
                        script_name = Some(NameKey::new(name.as_name()));
                    }
                    Some(ScriptLack::Resolution(target)) => {
                        return AttemptOutcome::Waits(MissingInput::Addresses(target));
                    }
                    None => continue,
                }
            } else if reply.outcome != AnswerKind::Pending {
                record_signatures(recorder, scratch);
                if let Used::One(index) = used
                    && self.is_cacheable(reply, scratch)
                {
                    self.cache_packet(&parts[index], (reply, &out[..reply.len()]), recorder);
                }
                return AttemptOutcome::Answered(reply);
            }
            let is_own = zone.is_none_or(|zone| zone.live().is_some());
            let name = match &script_name {
                Some(key) => key,
                None if is_own => self.key,
                None => scratch.pending(),
            };
            let zone = self.zones.find(name, self.query.qtype);
            let Some((zone, live)) = zone.and_then(|zone| Some((zone, zone.live()?))) else {
                // Unreachable, since the engine reported a live zone; a bug costs one answer.
                return AttemptOutcome::Answered(reply);
            };
            // Read before the look-up: later changes are newer than its result.
            let generation = live.generation();
            let is_new = match self.find_in_query_cache(live, name, recorder) {
                CacheFinding::Part(held) => parts.try_push(held).is_err(),
                CacheFinding::Failure(kind) => {
                    let (engine, medium) = (self.engine, self.medium);
                    let reply = engine.respond_with_failure(self.query, kind, medium, out);
                    return AttemptOutcome::Answered(reply);
                }
                CacheFinding::Nothing => true,
            };
            if is_new && let Some(live) = LiveHandle::new(zone) {
                return AttemptOutcome::Waits(MissingInput::Part(Arc::new(Lookup {
                    live,
                    generation,
                    name: name.suffix(name.labels()).into(),
                    name_hash: name.hash(name.labels()),
                    requested_at: self.now,
                })));
            }
        }
    }

    /// Checks whether other clients may get the same reply from the packet cache.
    fn is_cacheable(&self, reply: Reply, scratch: &Scratch) -> bool {
        (self.caching == PacketCaching::All || !self.live.queries.is_on())
            // A zone that cannot be signed is not cached: its keys may work the next time.
            && reply.outcome != AnswerKind::BackendFailure
            && !scratch.has_made_names()
            && !scratch.has_foreign_addresses()
            && !scratch.depends_on_client()
            && !scratch.has_computed()
    }

    /// Finds the addresses that an ALIAS record needs; `None` means that they are known now and the engine must run
    /// again.
    fn find_addresses(&self, scratch: &mut Scratch, out: &mut [u8]) -> Option<AttemptOutcome> {
        let target = scratch.unresolved()?;
        let subnet = self.query.reply_options.subnet;
        let target = UpstreamMessage::new(target, self.query.qtype).with_subnet(subnet);
        let found = self.aliases.map(|aliases| aliases.find(&target, self.now));
        match found {
            Some(TargetFound::Known(addresses)) => {
                scratch.set_addresses(Some(addresses));
                None
            }
            Some(TargetFound::Missing) => {
                Some(AttemptOutcome::Waits(MissingInput::Addresses(target)))
            }
            Some(TargetFound::Failed) | None => {
                let failure = BackendFailure::Unreachable;
                let (engine, medium) = (self.engine, self.medium);
                let reply = engine.respond_with_failure(self.query, failure, medium, out);
                Some(AttemptOutcome::Answered(reply))
            }
        }
    }

    /// Runs the scripts that an answer needs. `None` means that the engine must run again; otherwise a script needs
    /// records that are not in memory.
    #[cold]
    fn compute(
        &self,
        parts: &Parts,
        scratch: &mut Scratch,
        recorder: &mut Recorder,
    ) -> Option<ScriptLack> {
        let needed = scratch.needed_scripts()?;
        let nothing = ComputedName {
            name: needed.name,
            rrsets: Some(Vec::new()),
            client_bits: None,
        };
        let computed = match self.scripts {
            None => nothing,
            Some(scripts) => {
                recorder.add(Counter::LuaRuns, scripts.count_runs(&needed) as u64);
                // A view of its own for each look-up: one that follows a chain stays in the fragment it is in.
                let sources = RecordSources {
                    zones: || LiveView::new(self.zones, parts),
                    resolver: self.aliases,
                    now: self.now,
                };
                match scripts.compute(&needed, &self.request, &sources) {
                    Computation::Lacks(name) => return Some(ScriptLack::Records(Box::new(name))),
                    Computation::Unresolved(target) => {
                        return Some(ScriptLack::Resolution(target));
                    }
                    Computation::Done(computed) => computed,
                }
            }
        };
        if computed.rrsets.is_none() {
            recorder.add(Counter::LuaFailures, 1);
        }
        scratch.add_computed(computed);
        None
    }

    /// Returns the query's position in the signing queue.
    pub(crate) fn signing_location(&self) -> SigningLocation {
        let zone = self.zones.zone_for(self.key, self.query.qtype);
        let apex_labels = zone.map_or(0, |zone| zone.apex_labels());
        // The same question in another view has another answer.
        let view_hash = u64::from(self.view.0).wrapping_mul(0xd1b5_4a32_d192_ed03);
        let type_hash = u64::from(self.query.qtype.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        SigningLocation {
            zone: self.key.hash(apex_labels) ^ view_hash,
            question: self.key.hash(self.key.labels()) ^ type_hash ^ view_hash,
        }
    }

    fn find_in_query_cache(
        &self,
        live: &Live,
        name: &NameKey,
        recorder: &mut Recorder,
    ) -> CacheFinding {
        let Some(cached) = self.live.queries.find(live, name, self.now) else {
            return CacheFinding::Nothing;
        };
        let (counter, part) = match cached {
            Cached::Fresh(part) => (Counter::QueryCacheHit, Some(part)),
            Cached::Old(part) if self.live.serves_stale(live.backend()) => {
                (Counter::QueryCacheHit, Some(part))
            }
            Cached::Failed(kind) => {
                recorder.add(Counter::QueryCacheHit, 1);
                return CacheFinding::Failure(kind);
            }
            Cached::Old(_) | Cached::Nothing => (Counter::QueryCacheMiss, None),
            Cached::Busy => (Counter::DeferredCacheLookup, None),
        };
        recorder.add(counter, 1);
        part.map_or(CacheFinding::Nothing, |part| {
            CacheFinding::Part(FetchedFragment::new(live, name, part.generation, part.zone))
        })
    }

    fn cache_packet(
        &self,
        held: &FetchedFragment,
        answer: (Reply, &[u8]),
        recorder: &mut Recorder,
    ) {
        if let (Some(live), Some(fit)) = (self.own, self.fit())
            && !self
                .live
                .packets
                .insert((self.key, fit), (live, held.generation), self.now, answer)
        {
            recorder.add(Counter::DeferredPacketcacheInserts, 1);
        }
    }
}

impl LiveZones {
    /// Checks whether stale data of this backend is served without waiting for it.
    fn serves_stale(&self, backend: u32) -> bool {
        self.backend(backend)
            .is_some_and(|backend| backend.serves_stale())
    }
}
