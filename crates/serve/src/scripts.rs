//! LUA records and pools: which zones run scripts, the records that scripts look up, and scripts that fail.
//!
//! ```text
//! worker:  engine reports the scripts it needs -> run each, in this thread -> their RRsets -> the engine again
//!                                                   ├── needs records that are not in memory: the query waits for a look-up
//!                                                   └── needs records outside our zones: the query waits for the resolver
//! ```
//! A script that fails costs only its own name an answer (SERVFAIL). It is listed as a fault until it works again, or
//! until it has not failed for an hour: it may no longer exist.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use ipnet::IpNet;
use nameward_answer::{
    ComputedName, ComputedRrset, EffectiveClient, NeededScripts, TargetLocation, ZoneView, Zones,
    find_target,
};
use nameward_base::sync::Mutex;
use nameward_base::time::now_seconds;
use nameward_maintain::policy::PolicyTable;
use nameward_stats::LogThrottle;
use nameward_steering::lua::{
    FoundRecords, NeededRecords, ScriptAnswer, ScriptClient, ScriptFailure, ScriptQuery, run_script,
};
use nameward_steering::pools::{LikelyRecords, PoolClient, PreparedPools, pool_name};
use nameward_steering::{ScriptRules, Steering};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{AccessClient, Find, NameKey, Rrset, ViewId, Zone, ZoneTable};

use crate::access::ClientZones;
use crate::alias::{AliasResolver, TargetFound};
use crate::recursor::UpstreamMessage;
use crate::request::Request;

/// Maximum number of record sets that one script may read: each requires another run.
const FACTS_MAX: usize = 8;
/// Maximum number of failing scripts listed.
const FAILURES_MAX: usize = 100;
/// Interval between two log lines about the same failure.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of different failures logged per interval.
const LOG_LINES_MAX: usize = 10;

/// How long a failure is listed after it last occurred.
const LISTED_FOR: u64 = 3600;

/// A LUA record whose script failed when it was last run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingScript {
    /// The owner of the record, which may be a wildcard, whatever name was queried.
    pub name: NameBuf,
    /// The type that the script computes.
    pub rtype: Type,
    /// When it first failed, in seconds since 1970.
    pub since: u64,
    /// When it failed last.
    pub last: u64,
    /// Why it failed last.
    pub reason: ScriptFailure,
    /// The pool or map, if the script is nothing but a call to it.
    pub pool: Option<Box<[u8]>>,
}

/// Failing scripts by the version of their zone, their owner and their computed type.
type FailingScripts = HashMap<(NameBuf, NameBuf, u16), FailingScript>;

/// Runs the scripts of LUA records.
pub struct Scripts {
    steering: Arc<Steering>,
    policies: Arc<PolicyTable>,
    failing: Mutex<FailingScripts>,
    /// Whether any script is listed as failing.
    has_failing: AtomicBool,
    log: Mutex<LogThrottle>,
}

/// The outcome of the scripts of a name.
pub(crate) enum Computation {
    Done(ComputedName),
    /// A script needs the records of this name, which are not in memory.
    Lacks(NameBuf),
    /// A script needs records that must be resolved.
    Unresolved(UpstreamMessage),
}

/// The sources of the records that scripts look up.
pub(crate) struct RecordSources<'a, F> {
    /// Creates a view of our zones for each look-up.
    pub(crate) zones: F,
    pub(crate) resolver: Option<&'a Arc<AliasResolver>>,
    pub(crate) now: Instant,
}

impl Scripts {
    /// Creates the runner of scripts for zones with these policies.
    pub fn new(steering: Arc<Steering>, policies: Arc<PolicyTable>) -> Self {
        Scripts {
            steering,
            policies,
            failing: Mutex::default(),
            has_failing: AtomicBool::new(false),
            log: Mutex::new(LogThrottle::by_text(LOG_INTERVAL, LOG_LINES_MAX)),
        }
    }

    /// Returns the scripts that failed when they were last run.
    pub fn failing(&self) -> Vec<FailingScript> {
        let mut failing = self.failing.lock();
        self.remove_old(&mut failing);
        let mut failing: Vec<_> = failing.values().cloned().collect();
        failing.sort_by(|a, b| a.name.as_name().canonical_cmp(b.name.as_name()));
        failing
    }

    /// Checks whether the LUA records of a version of a zone are run.
    pub(crate) fn is_enabled_for(&self, zone: &NameBuf) -> bool {
        let policies = self.policies.load();
        let own = policies.get(zone.as_name()).runs_scripts;
        own.unwrap_or_else(|| self.steering.script_settings().is_enabled)
    }

    /// Runs the scripts that an answer needs. In zones where scripts are disabled, they compute nothing.
    pub(crate) fn compute<Z: Zones>(
        &self,
        needed: &NeededScripts,
        request: &Request<'_>,
        sources: &RecordSources<'_, impl Fn() -> Z>,
    ) -> Computation {
        let done = |rrsets, bits| {
            Computation::Done(ComputedName {
                name: needed.name,
                rrsets,
                client_bits: Some(bits).filter(|bits| *bits > 0),
            })
        };
        let is_enabled = self.is_enabled_for(&needed.zone);
        let mut bits = 0;
        let query = script_query(needed, request);
        let mut rrsets = Vec::<ComputedRrset>::new();
        for script in &needed.scripts {
            // Pools run no code, so they need not be enabled.
            let result = match pool_name(script) {
                Some((rtype, name)) => self.choose(rtype, name, request, &mut bits),
                None if is_enabled => self.run(script, &query, sources, &mut bits),
                None => continue,
            };
            let (rtype, records) = match result {
                Ok(result) => result,
                Err(RunStop::Lacks(name)) => return Computation::Lacks(*name),
                Err(RunStop::Unresolved(target)) => return Computation::Unresolved(*target),
                Err(RunStop::Failed(failure)) => {
                    self.record_failure(needed, script, failure);
                    return done(None, bits);
                }
            };
            self.record_success(needed, rtype);
            if records.is_empty() {
                continue;
            }
            match rrsets.iter_mut().find(|rrset| rrset.rtype == rtype) {
                Some(rrset) => rrset.records.extend(records),
                None => rrsets.push(ComputedRrset {
                    rtype,
                    ttl: needed.ttl,
                    records,
                }),
            }
        }
        if let Some(rrset) = rrsets
            .iter_mut()
            .find(|rrset| rrset.rtype == request.query.qtype)
        {
            rrset.records.extend_from_slice(&needed.records);
            rrset.records.sort_unstable();
            rrset.records.dedup();
        }
        done(Some(rrsets), bits)
    }

    /// Chooses records from a pool, or from that of a map.
    fn choose(
        &self,
        rtype: Type,
        name: &[u8],
        request: &Request<'_>,
        bits: &mut u8,
    ) -> Result<(Type, Vec<Vec<u8>>), RunStop> {
        let client = to_pool_client(request.effective_client());
        let prepared = self.pools().load();
        let text = String::from_utf8_lossy(name);
        let choice = prepared.choose(name, rtype, client);
        let choice = choice.ok_or_else(|| RunStop::failed(format!("no pool {text:?}")))?;
        *bits = (*bits).max(choice.bits);
        let records = choice.records;
        let records = records
            .ok_or_else(|| RunStop::failed(format!("all members of pool {text:?} are down")))?;
        Ok((rtype, records.iter().map(<[u8]>::to_vec).collect()))
    }

    /// Runs a script of a zone without a query, to register the targets that it names for checks. Failures are not
    /// recorded: the script may need a real query.
    pub(crate) fn run_for_targets(
        &self,
        (zone, owner): (&Zone, Name<'_>),
        script: &[u8],
        table: &ZoneTable,
    ) {
        let address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let query = ScriptQuery {
            name: owner.into(),
            zone: zone.apex_name().into(),
            zone_id: 0,
            client: ScriptClient {
                address: SocketAddr::new(address, 0),
                local: None,
                subnet: IpNet::new(address, 0).ok(),
            },
            is_stream: false,
            dnssec_ok: false,
            udp_payload: 0,
            header: [0; 12],
        };
        let zones = || ClientZones {
            table,
            client: AccessClient::in_plain_text(address, None),
            view: ViewId::DEFAULT,
            pools: None,
        };
        let sources = RecordSources {
            zones,
            resolver: None,
            now: Instant::now(),
        };
        let _ = self.run(script, &query, &sources, &mut 0);
    }

    /// Returns the RRsets that a pool or map is likely to answer with.
    pub(crate) fn likely(&self, pool: &[u8], rtype: Type) -> LikelyRecords {
        let health = self.steering.health();
        self.steering.pools().likely(health, pool, rtype)
    }

    /// Returns the settings for scripts.
    pub(crate) fn settings(&self) -> ScriptRules {
        self.steering.script_settings()
    }

    /// Returns the answers of pools.
    pub(crate) fn pools(&self) -> &ArcSwap<PreparedPools> {
        self.steering.pools().prepared()
    }

    /// Returns the number of scripts that an answer runs.
    pub(crate) fn count_runs(&self, needed: &NeededScripts) -> usize {
        let scripts = needed.scripts.iter();
        scripts.filter(|script| pool_name(script).is_none()).count()
    }

    /// Runs one script, again for each record set that it requests.
    fn run<Z: Zones>(
        &self,
        script: &[u8],
        query: &ScriptQuery,
        sources: &RecordSources<'_, impl Fn() -> Z>,
        bits: &mut u8,
    ) -> Result<(Type, Vec<Vec<u8>>), RunStop> {
        let mut facts = Vec::new();
        loop {
            let mut scope = 0;
            let answer = run_script(&self.steering, script, (query, &facts), &mut scope);
            *bits = (*bits).max(scope);
            match answer {
                ScriptAnswer::Records(rtype, records) => return Ok((rtype, records)),
                ScriptAnswer::Failed(failure) => return Err(RunStop::Failed(failure)),
                ScriptAnswer::Needs(_) if facts.len() == FACTS_MAX => {
                    let reason = format!("it reads more than {FACTS_MAX} record sets");
                    return Err(RunStop::failed(reason));
                }
                ScriptAnswer::Needs(need) => facts.push(sources.find(*need)?),
            }
        }
    }

    fn record_failure(&self, needed: &NeededScripts, script: &[u8], reason: ScriptFailure) {
        let rtype = script
            .split_first_chunk()
            .map_or(0, |(octets, _)| u16::from_be_bytes(*octets));
        let (name, rtype) = (needed.owner, Type(rtype));
        let text = format!("{name} {rtype}: {reason}");
        if let Some(others) = self.log.lock().admit(&text, Instant::now()) {
            tracing::warn!(
                "zone {}: the LUA record at {text}; answering SERVFAIL ({others} similar messages suppressed)",
                needed.zone
            );
        }
        let (key, now) = ((needed.zone, name, rtype.0), now_seconds());
        let mut failing = self.failing.lock();
        if failing.len() >= FAILURES_MAX {
            self.remove_old(&mut failing);
        }
        let is_full = failing.len() >= FAILURES_MAX;
        match failing.get_mut(&key) {
            Some(known) => {
                known.last = now;
                known.reason = reason;
            }
            None if is_full => {}
            None => {
                let entry = FailingScript {
                    name,
                    rtype,
                    since: now,
                    last: now,
                    reason,
                    pool: pool_name(script).map(|(_, name)| name.into()),
                };
                failing.insert(key, entry);
            }
        }
        self.has_failing.store(true, Ordering::Relaxed);
    }

    /// Removes scripts that have not failed for an hour, and pools that work: their successes are not recorded.
    fn remove_old(&self, failing: &mut FailingScripts) {
        let (now, pools) = (now_seconds(), self.pools().load());
        failing.retain(|_, script| {
            let pool = script.pool.as_ref();
            script.last + LISTED_FOR > now
                && pool.is_none_or(|pool| pools.is_failing(pool, script.rtype))
        });
    }

    fn record_success(&self, needed: &NeededScripts, rtype: Type) {
        if self.has_failing.load(Ordering::Relaxed) {
            let mut failing = self.failing.lock();
            failing.remove(&(needed.zone, needed.owner, rtype.0));
            self.has_failing
                .store(!failing.is_empty(), Ordering::Relaxed);
        }
    }
}

/// Converts the client of an answer for pools, which compare canonical addresses.
#[inline]
pub(crate) fn to_pool_client(client: EffectiveClient) -> PoolClient {
    PoolClient {
        address: client.address.to_canonical(),
        prefix: client.prefix,
    }
}

/// Why a script has no result yet.
enum RunStop {
    Lacks(Box<NameBuf>),
    Unresolved(Box<UpstreamMessage>),
    Failed(ScriptFailure),
}

impl RunStop {
    fn failed(reason: String) -> Self {
        RunStop::Failed(ScriptFailure::Error(reason))
    }
}

impl<F: Fn() -> Z, Z: Zones> RecordSources<'_, F> {
    /// Finds the records that a script needs.
    fn find(&self, need: NeededRecords) -> Result<FoundRecords, RunStop> {
        let (records, ttl) = match &need {
            NeededRecords::Records(name, rtype) => {
                (find_records(&(self.zones)(), name, *rtype)?, 0)
            }
            NeededRecords::Resolved(name, rtype) => self.resolve(name, *rtype)?,
        };
        Ok(FoundRecords { need, records, ttl })
    }

    /// Finds the records of any name: in our zones, as this client sees them, or with the resolver. Names that cannot
    /// be resolved have no records, as in PowerDNS.
    fn resolve(&self, name: &NameBuf, rtype: Type) -> Result<(Vec<Vec<u8>>, u32), RunStop> {
        let zones = (self.zones)();
        let mut key = NameKey::default();
        let outside = match find_target(&zones, (name.as_name(), rtype), &mut key) {
            TargetLocation::Here(rrset) => return Ok(copy(Some(rrset))),
            // Scripts of that name are not run.
            TargetLocation::Computed(_, node, _) => return Ok(copy(node.rrset(rtype))),
            TargetLocation::Nowhere => return Ok(copy(None)),
            TargetLocation::Outside(name) => NameBuf::from(name),
            TargetLocation::Pending => {
                let lacking = key.suffix(key.labels()).into();
                return Err(RunStop::Lacks(Box::new(lacking)));
            }
            TargetLocation::Failed => {
                return Err(RunStop::failed(format!(
                    "resolve: {name}: its zone is not loaded, or its aliases are a loop"
                )));
            }
        };
        let resolver = self
            .resolver
            .filter(|resolver| resolver.resolvers().is_some());
        let Some(resolver) = resolver else {
            return Err(RunStop::failed(format!(
                "resolve: no resolver is configured for {name}; set recursor.address"
            )));
        };
        let target = UpstreamMessage::new(outside.as_name(), rtype);
        match resolver.find(&target, self.now) {
            TargetFound::Known(found) => Ok((found.records.clone(), found.ttl)),
            TargetFound::Missing => Err(RunStop::Unresolved(Box::new(target))),
            TargetFound::Failed => Ok(copy(None)),
        }
    }
}

/// Returns the data of an RRset, and its TTL.
fn copy(rrset: Option<Rrset<'_>>) -> (Vec<Vec<u8>>, u32) {
    let records = rrset.into_iter().flat_map(|rrset| rrset.records());
    let records = records.map(|record| record.rdata.to_vec()).collect();
    (records, rrset.map_or(0, |rrset| rrset.ttl()))
}

/// Finds records in our zones. Scripts of that name are not run.
fn find_records<Z: Zones>(zones: &Z, name: &NameBuf, rtype: Type) -> Result<Vec<Vec<u8>>, RunStop> {
    let key = NameKey::new(name.as_name());
    let Some(zone) = zones.zone_for(&key, rtype) else {
        return Ok(Vec::new());
    };
    if zone.is_elsewhere() {
        return Err(if zone.is_ready() {
            RunStop::Lacks(Box::new(*name))
        } else {
            RunStop::failed(format!("the zone of {name} is not loaded"))
        });
    }
    let node = match zone.find(&key) {
        Find::Exact(node) | Find::Wildcard { node, .. } => node,
        Find::Missing { .. } | Find::Cut { .. } | Find::Dname { .. } => return Ok(Vec::new()),
    };
    Ok(copy(node.rrset(rtype)).0)
}

/// Describes a query to scripts.
fn script_query(needed: &NeededScripts, request: &Request<'_>) -> ScriptQuery {
    let (query, client) = (request.query, request.effective_client());
    let subnet = IpNet::new(client.address, client.prefix).ok();
    let mut header = [0; 12];
    if let Some(octets) = query.packet().first_chunk() {
        header = *octets;
    }
    ScriptQuery {
        name: needed.name,
        zone: needed.apex,
        zone_id: 0,
        client: ScriptClient {
            address: request.peer,
            local: request.local,
            subnet: subnet.filter(|_| client.is_subnet),
        },
        is_stream: request.medium() == nameward_answer::Medium::Stream,
        dnssec_ok: query.edns.is_some_and(|edns| edns.dnssec_ok),
        udp_payload: query.edns.map_or(0, |edns| edns.payload),
        header,
    }
}
