//! Upkeep of LUA records in memory: what their answers need exists before they are queried.
//!
//! | LUA record | what is done | when |
//! |---|---|---|
//! | names a pool, in a zone signed here | the RRsets that the pool answers with, now and after the next change of health, are signed | the zone or a pool has changed; every minute, because signatures are renewed |
//! | any other script | it runs once, without a client: the targets that it names are checked from now on | the zone or the settings have changed; every half hour, because targets that are not named are forgotten |
//!
//! Live zones are not in memory: their records are treated like this when they are queried.

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

/// Interval at which zones with LUA records are found.
const TICK: Duration = Duration::from_secs(1);
/// Interval at which the RRsets of pools are signed again, if their signatures are renewed.
const SIGN_EVERY: Duration = Duration::from_secs(60);
/// Seconds by which signatures are made before they are renewed: more than [`SIGN_EVERY`].
const SIGN_AHEAD: u32 = 150;
/// Interval at which scripts run without a query: less than the time after which targets are forgotten.
const RUN_EVERY: Duration = Duration::from_secs(1800);
/// Maximum number of RRsets signed before they are queried, so that they leave room for others in the signature cache.
const RRSETS_MAX: usize = 20_000;
/// The share of a core that this work may take.
const CPU_SHARE: f64 = 0.25;

/// Keeps what LUA records need until `stopping` is true.
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
    /// The versions of zones that were met last, by their names.
    versions: HashMap<NameBuf, Weak<Zone>>,
    pools: Arc<PreparedPools>,
    settings: ScriptRules,
    signed_at: Option<Instant>,
    run_at: Option<Instant>,
}

/// The RRsets of pools by name and type, each found once in a pass.
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

    /// Signs the pools of a zone, and runs its other scripts, as far as each is due.
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
                // A zone that cannot be signed is reported by its answers.
                let _ = signing.signatures(&set, at, &mut pass.making);
            }
            pass.rrsets += 1;
            pass.pacer.pause();
        }
    }
}

/// Checks whether the records of a pool alone are the answer for a type, under the name of the node.
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
    // RFC 9824 section 3.3: compact denial signs each name that a wildcard matches by itself.
    let is_expanded = node.name().is_wildcard() && zone.signing().is_compact();
    applying.count() == 1 && node.rrset(rtype).is_none() && !is_expanded
}
