//! Upkeep of LUA records in memory: prepares what their answers need before they are queried.
//!
//! | LUA record | what is done | when |
//! |---|---|---|
//! | names a pool, in a zone signed here | signs the RRsets that the pool answers with, now and after the next change of health | the zone or a pool has changed; every minute, because signatures are renewed |
//! | any other script | runs it once, without a client: from then on the targets that it names are checked | the zone or the settings have changed; every half hour, because unused targets are removed |
//!
//! Live zones are not in memory: their records are prepared when they are queried.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nameward_base::time::now_seconds_32;
use nameward_base::worker::panic_guard_item;
use nameward_dnssec::{CanonicalSet, Making, Signing};
use nameward_stats::{Counter, Recorder, Stamp};
use nameward_steering::ScriptRules;
use nameward_steering::pools::{LikelyRecords, PreparedPools, pool_name};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{Node, ScriptedZones, Zone, ZoneTable};
use tokio::sync::watch;

use crate::pipeline::ServingState;
use crate::scripts::Scripts;
use crate::signing::SigningPacer;

/// Interval at which zones are checked for LUA records.
const TICK: Duration = Duration::from_secs(1);
/// Interval at which the RRsets of pools are signed again if their signatures must be renewed.
const SIGN_EVERY: Duration = Duration::from_secs(60);
/// How many seconds before renewal signatures are made: more than [`SIGN_EVERY`].
const SIGN_AHEAD: u32 = 150;
/// Interval at which scripts run without a query: less than the time after which unused targets are removed.
const RUN_EVERY: Duration = Duration::from_secs(1800);
/// Maximum number of RRsets signed before they are queried: the signature cache must have room for others.
const RRSETS_MAX: usize = 20_000;
/// The share of a core that this work may take.
const CPU_SHARE: f64 = 0.25;

/// Maintains what LUA records need until `stopping` is true.
pub async fn run(shared: Arc<ServingState>, mut stopping: watch::Receiver<bool>) {
    let Some(scripts) = shared.scripts().cloned() else {
        return;
    };
    let mut upkeep = ScriptUpkeep::new(shared, scripts, stopping.clone());
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stopping.wait_for(|stop| *stop) => return,
        }
        let step = move || {
            panic_guard_item("preparing LUA records", || upkeep.step());
            upkeep
        };
        match tokio::task::spawn_blocking(step).await {
            Ok(back) => upkeep = back,
            Err(_) => return,
        }
    }
}

struct ScriptUpkeep {
    shared: Arc<ServingState>,
    scripts: Arc<Scripts>,
    stopping: watch::Receiver<bool>,
    recorder: Recorder,
    scripted: ScriptedZones,
    /// The zone versions seen in the last pass, by name.
    versions: HashMap<NameBuf, Weak<Zone>>,
    pools: Arc<PreparedPools>,
    settings: ScriptRules,
    signed_at: Option<Instant>,
    run_at: Option<Instant>,
}

/// The RRsets of pools by name and type, each computed once per pass.
type LikelyByPool = HashMap<(Box<[u8]>, Type), LikelyRecords>;

/// One pass over the zones.
struct UpkeepPass<'u> {
    table: &'u ZoneTable,
    likely: LikelyByPool,
    pacer: SigningPacer,
    rrsets: usize,
    making: Making,
}

impl ScriptUpkeep {
    fn new(
        shared: Arc<ServingState>,
        scripts: Arc<Scripts>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        ScriptUpkeep {
            recorder: shared.stats.recorder(),
            shared,
            scripts,
            stopping,
            scripted: ScriptedZones::default(),
            versions: HashMap::new(),
            pools: Arc::default(),
            settings: ScriptRules::default(),
            signed_at: None,
            run_at: None,
        }
    }

    fn step(&mut self) {
        let table = self.shared.zones.load_full();
        let zones = self.scripted.over(&table);
        let pools = self.scripts.pools().load_full();
        let settings = self.scripts.settings();
        let is_due =
            |last: Option<Instant>, interval| last.is_none_or(|last| last.elapsed() >= interval);
        let signs_all = !Arc::ptr_eq(&pools, &self.pools) || is_due(self.signed_at, SIGN_EVERY);
        let runs_all = settings != self.settings || is_due(self.run_at, RUN_EVERY);
        (self.pools, self.settings) = (pools, settings);
        if signs_all {
            self.signed_at = Some(Instant::now());
        }
        if runs_all {
            self.run_at = Some(Instant::now());
        }
        let mut pass = UpkeepPass {
            table: &table,
            likely: HashMap::new(),
            pacer: SigningPacer::new(CPU_SHARE),
            rrsets: 0,
            making: Making::NOW,
        };
        let mut versions = HashMap::with_capacity(zones.len());
        for zone in &zones {
            let id = NameBuf::from(zone.id());
            let known = self.versions.get(&id).map(Weak::as_ptr);
            let is_new = known != Some(Arc::as_ptr(zone));
            if is_new || signs_all || runs_all {
                self.visit(zone, (is_new || signs_all, is_new || runs_all), &mut pass);
            }
            versions.insert(id, Arc::downgrade(zone));
        }
        self.versions = versions;
        let made = pass.making.take_made();
        if made > 0 {
            self.recorder.add(Counter::Signatures, made.into());
            self.recorder.flush(Stamp::now(), None);
        }
    }

    /// Signs the pools of a zone and runs its other scripts, as far as each is due.
    fn visit(&self, zone: &Zone, (signs, runs): (bool, bool), pass: &mut UpkeepPass<'_>) {
        let is_run = runs && self.scripts.is_enabled_for(&zone.id().into());
        let signing = zone.signing().online().filter(|_| signs);
        if !is_run && signing.is_none() {
            return;
        }
        for node in zone.script_nodes() {
            if *self.stopping.borrow() {
                return;
            }
            let scripts = node.rrset(Type::LUA);
            for script in scripts.into_iter().flat_map(|scripts| scripts.records()) {
                match pool_name(script.rdata) {
                    Some((rtype, pool)) => {
                        if let Some(signing) = signing
                            && is_prepared(zone, node, rtype)
                        {
                            self.sign(signing, node, (pool, rtype), pass);
                        }
                    }
                    None if is_run => {
                        let owner = (zone, node.name());
                        self.scripts
                            .run_for_targets(owner, script.rdata, pass.table);
                        pass.pacer.pause();
                    }
                    None => {}
                }
            }
        }
    }

    /// Signs the RRsets that a pool is likely to answer with.
    fn sign(
        &self,
        signing: &Signing,
        node: Node<'_>,
        (pool, rtype): (&[u8], Type),
        pass: &mut UpkeepPass<'_>,
    ) {
        let Some(ttl) = node.rrset(Type::LUA).map(|scripts| scripts.ttl()) else {
            return;
        };
        let likely = { pass.likely.entry((pool.into(), rtype)) }
            .or_insert_with(|| self.scripts.likely(pool, rtype));
        let each = if rtype == Type::A { 4 } else { 16 };
        let now = now_seconds_32();
        for records in likely.iter().take(RRSETS_MAX.saturating_sub(pass.rrsets)) {
            let set = CanonicalSet::new(node.name(), rtype, ttl, records.chunks_exact(each));
            for at in [now, now.wrapping_add(SIGN_AHEAD)] {
                // If the zone cannot be signed, its answers report that.
                let _ = signing.signatures(&set, at, &mut pass.making);
            }
            pass.rrsets += 1;
            pass.pacer.pause();
        }
    }
}

/// Checks whether the answer for a type, under the name of the node, consists of a pool's records alone.
fn is_prepared(zone: &Zone, node: Node<'_>, rtype: Type) -> bool {
    let scripts = node.rrset(Type::LUA).into_iter();
    let applying = scripts
        .flat_map(|scripts| scripts.records())
        .filter(|script| {
            let computed = script
                .rdata
                .first_chunk()
                .map(|octets| u16::from_be_bytes(*octets));
            computed.is_some_and(|computed| computed == rtype.0 || computed == Type::CNAME.0)
        });
    // RFC 9824 section 3.3: compact denial signs each name matched by a wildcard separately.
    let is_expanded = node.name().is_wildcard() && zone.signing().is_compact();
    applying.count() == 1 && node.rrset(rtype).is_none() && !is_expanded
}
