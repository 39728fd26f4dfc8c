//! The life of zones in a world of its own: a fake clock, fake primaries, a disk with faults, restarts; all from a seed.
//!
//! After each step the invariants are checked: what is served is a version that existed, never older than one that was
//! acknowledged; contents, serial and journal agree; an expired zone is not served, one that is not is. In the end,
//! when nothing fails any more, every zone has the last version. A seed that fails is run again alone by
//! `SEED=n cargo nextest run -p nameward-maintain --test maintain simulation::`.

use crate::common::{
    BOUNDS, CommitAndWait, Hosts, Random, TIMES, build, hosts_of, name, open_store, set_host,
};
use nameward_maintain::policy::{PolicyFragment, PolicySource, RemoteServer, ZoneKind, ZonePolicy};
use nameward_maintain::{
    CommitError, Commits, Durable, Moment, TableWriter, VersionSource, WrittenDone, contents_of,
    read_contents,
};
use nameward_peers::secondary::zone::{SecondarySettings, ZoneState};
use nameward_peers::secondary::{
    PrimaryAnswer, PrimaryError, PrimaryReply, PrimaryRequest, PrimaryRequestStep, QueryPrimary,
    Secondaries, SecondaryStatus,
};
use nameward_peers::transfer_in::WholeZone;
use nameward_state::{JournalOrigin, StateChange, StateError, StateStore, ZoneStorage};
use nameward_wire::NameBuf;
use nameward_zone::{Serial, TableChange, Zone};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const SECONDARIES: usize = 4;
const LOCALS: usize = 2;
const STEPS: usize = 120;
const LOCAL_RANK: u16 = 7;
const SECONDARY_RANK: u16 = 3;

/// A disk that may refuse what it is given.
struct Disk {
    store: StateStore,
    fault: Arc<Fault>,
}

#[derive(Default)]
struct Fault {
    /// 0: the disk works; 1: it is full.
    kind: AtomicU8,
    /// It has refused something since the last start.
    has_refused: AtomicBool,
}

impl Fault {
    fn set(&self, kind: u8) {
        self.kind.store(kind, Ordering::SeqCst);
    }
}

impl Durable for Disk {
    fn submit(&self, changes: Vec<StateChange>, done: WrittenDone) {
        if self.fault.kind.load(Ordering::SeqCst) == 0 {
            return self.store.submit(changes, done);
        }
        self.fault.has_refused.store(true, Ordering::SeqCst);
        // In the order of those that are on their way.
        let path = self.store.path().to_path_buf();
        let refuse = move |_| done(Err(StateError::Full(path)));
        self.store.submit(Vec::new(), Box::new(refuse));
    }

    fn store(&self) -> &StateStore {
        &self.store
    }
}

/// Questions that wait for an answer of the world.
#[derive(Default)]
struct Net {
    requests: Vec<PrimaryRequest>,
}

impl QueryPrimary for Net {
    fn query(&mut self, request: PrimaryRequest) {
        self.requests.push(request);
    }
}

/// A zone as its primary has it: all versions there ever were.
struct Primary {
    versions: Vec<(u32, Hosts)>,
}

impl Primary {
    fn last(&self) -> &(u32, Hosts) {
        self.versions.last().unwrap()
    }

    fn version(&self, serial: Serial) -> Option<usize> {
        self.versions.iter().position(|(s, _)| *s == serial.0)
    }
}

/// A zone that is changed here: the versions that were acknowledged, and those that were refused or may be either.
struct Local {
    acknowledged: (u32, Hosts),
    history: BTreeMap<u32, Hosts>,
}

struct Running {
    commits: Arc<Commits>,
    secondaries: Secondaries<Net>,
}

struct World {
    random: Random,
    now: Moment,
    directory: TempDir,
    fault: Arc<Fault>,
    is_net_down: bool,
    primaries: Vec<(NameBuf, Primary)>,
    locals: Vec<(NameBuf, Local)>,
    /// The newest serial that was served of each secondary.
    seen: Vec<Option<Serial>>,
    running: Option<Running>,
}

/// A policy with two primaries.
fn policy() -> Arc<ZonePolicy> {
    let primary = |octet| RemoteServer {
        address: SocketAddr::from(([192, 0, 2, octet], 53)),
        key: None,
        source: None,
        tls: None,
    };
    let part = PolicyFragment {
        kind: Some(ZoneKind::Secondary),
        primaries: Some(vec![primary(1), primary(2)]),
        ..PolicyFragment::default()
    };
    Arc::new(part.finish(PolicySource::Configured))
}

fn whole_answer(zone: Zone) -> PrimaryAnswer {
    let contents = contents_of(&zone);
    PrimaryAnswer::Whole(Box::new(WholeZone { zone, contents }))
}

fn source(zone: NameBuf) -> VersionSource {
    VersionSource {
        zone,
        rank: LOCAL_RANK,
        storage: ZoneStorage::Store,
        origin: JournalOrigin::Change,
        confirmed: None,
        author: None,
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut serials = [1, 1000, u32::MAX - 3, 2_000_000_000].into_iter().cycle();
        let primaries = (0..SECONDARIES).map(|n| {
            let hosts = Hosts::from([(1, random.below(250) as u8)]);
            let versions = vec![(serials.next().unwrap(), hosts)];
            (name(&format!("s{n}.test.")), Primary { versions })
        });
        let primaries = primaries.collect();
        let locals = (0..LOCALS).map(|n| {
            let acknowledged = (1, Hosts::from([(1, 1)]));
            let history = BTreeMap::from([acknowledged.clone()]);
            (
                name(&format!("l{n}.test.")),
                Local {
                    acknowledged,
                    history,
                },
            )
        });
        let mut world = World {
            random,
            now: Moment::from_seconds(1_700_000_000),
            directory: TempDir::new().unwrap(),
            fault: Arc::default(),
            is_net_down: false,
            primaries,
            locals: locals.collect(),
            seen: vec![None; SECONDARIES],
            running: None,
        };
        world.start();
        world
    }

    /// Starts the server: stored zones are served before any primary is queried.
    fn start(&mut self) {
        let store = open_store(self.directory.path(), BOUNDS);
        let kept = store.zones().unwrap();
        let disk = Disk {
            store,
            fault: Arc::clone(&self.fault),
        };
        let commits =
            Commits::new(Arc::new(TableWriter::default()), Some(Arc::new(disk)), ()).unwrap();
        let mut secondaries = Secondaries::new(
            Arc::clone(&commits),
            Net::default(),
            self.random.below(1 << 60),
        );
        for (zone, _) in &self.primaries {
            let settings = SecondarySettings {
                name: zone.as_name().into(),
                rank: SECONDARY_RANK,
                policy: policy(),
            };
            let timers = kept
                .iter()
                .find(|kept| kept.name == *zone)
                .and_then(|kept| kept.timers);
            secondaries.add(settings, timers, self.now).unwrap();
        }
        assert!(
            secondaries.outgoing().requests.is_empty(),
            "no primary is queried before zones are served"
        );
        for (zone, local) in &self.locals {
            let version = read_contents(commits.store().unwrap(), zone).unwrap();
            let mut stub = Zone::not_ready(zone.as_name());
            stub.set_rank(LOCAL_RANK);
            commits
                .table()
                .publish(&[TableChange::Offer(Arc::new(stub))]);
            let mut version = match version {
                Some(version) => version,
                None => {
                    let first = build(zone, 1, &local.history[&1]);
                    commits.version_and_wait(source(*zone), first).unwrap();
                    continue;
                }
            };
            version.set_rank(LOCAL_RANK);
            commits
                .table()
                .publish(&[TableChange::Offer(Arc::new(version))]);
        }
        self.running = Some(Running {
            commits,
            secondaries,
        });
    }

    /// Ends the server as a crash does: what was not acknowledged may be there or not.
    fn crash(&mut self) {
        let states = self.states();
        self.running = None;
        self.fault.set(0);
        self.start();
        // A restart serves at once what was served before, without asking anybody. Only a disk that was full may have
        // forgotten that a primary has confirmed a version.
        let has_refused = self.fault.has_refused.swap(false, Ordering::SeqCst);
        for (before, after) in states.iter().zip(self.states()) {
            let is_forgotten = has_refused && after.0 == ZoneState::Expired;
            assert!(
                before.1 == after.1 && (before.0 == after.0 || is_forgotten),
                "{before:?} {after:?}"
            );
        }
        for (n, (zone, primary)) in self.primaries.iter().enumerate() {
            if let (Some(seen), Some(served)) = (self.seen[n], self.version(zone, SECONDARY_RANK)) {
                assert!(
                    !seen.is_after(served.serial()),
                    "{zone}: {} after {seen}",
                    served.serial()
                );
                assert!(primary.version(served.serial()).is_some());
            }
        }
    }

    /// Which secondaries are served, with which serial.
    fn states(&self) -> Vec<(ZoneState, Option<Serial>)> {
        let running = self.running.as_ref().unwrap();
        let status = |(zone, _): &(NameBuf, Primary)| running.secondaries.status(zone).unwrap();
        let state = |status: SecondaryStatus| (status.state, status.serial);
        self.primaries
            .iter()
            .map(|zone| state(status(zone)))
            .collect()
    }

    fn running(&mut self) -> &mut Running {
        self.running.as_mut().unwrap()
    }

    fn version(&self, zone: &NameBuf, rank: u16) -> Option<Arc<Zone>> {
        let table = self.running.as_ref().unwrap().commits.table();
        table
            .version(zone.as_name(), rank)
            .filter(|zone| !zone.is_stub())
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=3 => self.change_at_primary(),
            4..=6 => self.change_locally(),
            7 => self.is_net_down = !self.is_net_down,
            8 => {
                let fault = u8::from(self.random.one_in(2));
                self.fault.set(fault);
            }
            9 => self.crash(),
            10..=11 => {
                let n = self.random.below(SECONDARIES as u64) as usize;
                let (zone, serial) = (self.primaries[n].0, Serial(self.primaries[n].1.last().0));
                let now = self.now;
                assert!(
                    self.running()
                        .secondaries
                        .notified(&zone, Some(serial), now)
                );
            }
            12 => {
                self.now = self
                    .now
                    .plus(Duration::from_secs(self.random.below(200_000)))
            }
            _ => self.now = self.now.plus(Duration::from_secs(self.random.below(2000))),
        }
        self.run();
        self.check();
    }

    fn run(&mut self) {
        let now = self.now;
        for _ in 0..20 {
            let running = self.running.as_mut().unwrap();
            running.secondaries.run(now);
            running.secondaries.wait_for_storage(now);
            let requests = std::mem::take(&mut running.secondaries.outgoing().requests);
            if requests.is_empty() {
                return;
            }
            for request in requests {
                let answer = self.answer(&request);
                let reply = answer.map(PrimaryReply::from);
                self.running()
                    .secondaries
                    .answered(request.request_id, reply, now);
                self.running().secondaries.wait_for_storage(now);
            }
        }
        panic!("the questions have no end");
    }

    /// The primaries of the world, of which some lie.
    fn answer(&mut self, request: &PrimaryRequest) -> Result<PrimaryAnswer, PrimaryError> {
        let failed = |text: &str| Err(PrimaryError(text.into()));
        if self.is_net_down || self.random.one_in(6) {
            return failed("timed out");
        }
        let zone = request.zone;
        let (_, primary) = self
            .primaries
            .iter()
            .find(|(name, _)| *name == zone)
            .unwrap();
        let here = request.have.and_then(|have| primary.version(have));
        let last = primary.versions.len() - 1;
        if request.step == PrimaryRequestStep::Serial {
            let serial = match self.random.below(10) {
                // It is behind.
                0 => primary.versions[0].0,
                1 => return Ok(PrimaryAnswer::Newer(None)),
                _ => primary.last().0,
            };
            let is_newer = request
                .have
                .is_none_or(|have| Serial(serial).is_after(have));
            return Ok(if is_newer {
                PrimaryAnswer::Newer(Some(Serial(serial)))
            } else {
                PrimaryAnswer::Same(Serial(serial))
            });
        }
        let whole = |at: usize| {
            let (serial, hosts) = &primary.versions[at];
            build(&zone, *serial, hosts)
        };
        Ok(match self.random.below(10) {
            // It is behind.
            0 => PrimaryAnswer::Same(Serial(primary.versions[0].0)),
            // It gives an old version, or one of another zone.
            1 => whole_answer(whole(0)),
            2 => whole_answer(build(&name("other.test."), 5, &Hosts::new())),
            // Differences that do not fit.
            3 if last >= 1 => {
                let difference = whole(1).difference_from(&whole(0));
                PrimaryAnswer::Differences(vec![difference.clone(), difference])
            }
            4 => PrimaryAnswer::Differences(Vec::new()),
            _ if here == Some(last) => PrimaryAnswer::Same(Serial(primary.last().0)),
            5..=7 if here.is_some() => {
                let steps = here.unwrap()..last;
                PrimaryAnswer::Differences(
                    steps
                        .map(|at| whole(at + 1).difference_from(&whole(at)))
                        .collect(),
                )
            }
            _ => whole_answer(whole(last)),
        })
    }

    fn change_at_primary(&mut self) {
        let n = self.random.below(SECONDARIES as u64) as usize;
        let (host, octet) = (self.random.below(6) as u8, self.random.below(250) as u8);
        let step = 1 + self.random.below(3) as u32;
        let primary = &mut self.primaries[n].1;
        let (serial, mut hosts) = primary.last().clone();
        if hosts.remove(&host).is_none() || octet % 2 == 0 {
            hosts.insert(host, octet);
        }
        primary.versions.push((serial.wrapping_add(step), hosts));
    }

    /// Several changes at once, some of them refused by the disk.
    fn change_locally(&mut self) {
        let n = self.random.below(LOCALS as u64) as usize;
        let zone = self.locals[n].0;
        let mut waiting = Vec::new();
        for _ in 0..1 + self.random.below(5) {
            let (host, octet) = (self.random.below(6) as u8, self.random.below(250) as u8);
            let octet = (octet % 5 != 0).then_some(octet);
            if self.random.one_in(8) {
                self.fault.set(1);
            }
            let (sender, receiver) = std::sync::mpsc::channel();
            let commits = Arc::clone(&self.running().commits);
            commits.change(source(zone), &set_host(&zone, host, octet), move |result| {
                sender.send(result).unwrap()
            });
            waiting.push(receiver);
        }
        let local = &mut self.locals[n].1;
        for receiver in waiting {
            match receiver.recv().unwrap() {
                Ok(committed) => {
                    let (serial, hosts) = (committed.zone.serial().0, hosts_of(&committed.zone));
                    local.history.insert(serial, hosts.clone());
                    if Serial(serial).is_after(Serial(local.acknowledged.0)) {
                        local.acknowledged = (serial, hosts);
                    }
                }
                Err(CommitError::State(StateError::Full(_) | StateError::Gap { .. })) => {}
                Err(error) => panic!("{zone}: {error}"),
            }
        }
    }

    fn check(&mut self) {
        for (zone, local) in &self.locals {
            let served = self.version(zone, LOCAL_RANK).unwrap();
            let (serial, hosts) = &local.acknowledged;
            assert_eq!(
                (served.serial().0, &hosts_of(&served)),
                (*serial, hosts),
                "{zone}"
            );
            self.check_kept(zone, &served, |serial| local.history.get(&serial).cloned());
        }
        for n in 0..SECONDARIES {
            let (zone, primary) = &self.primaries[n];
            let running = self.running.as_ref().unwrap();
            let status = running.secondaries.status(zone).unwrap();
            let served = self.version(zone, SECONDARY_RANK);
            assert_eq!(
                served.is_some(),
                status.state == ZoneState::Current,
                "{zone}: {status:?}"
            );
            if status.state == ZoneState::Current {
                assert!(
                    self.now.seconds() < status.timers.expires,
                    "{zone} should have expired"
                );
                assert!(status.timers.expires <= self.now.seconds() + u64::from(TIMES[2]));
            }
            let Some(served) = served else { continue };
            // Whole versions of the primary, and never back.
            let at = primary.version(served.serial());
            let (_, hosts) =
                &primary.versions[at.unwrap_or_else(|| panic!("{zone}: {}", served.serial()))];
            assert_eq!(
                &hosts_of(&served),
                hosts,
                "{zone} serial {}",
                served.serial()
            );
            assert!(
                self.seen[n].is_none_or(|seen| !seen.is_after(served.serial())),
                "{zone}"
            );
            let version = |serial| {
                primary
                    .version(Serial(serial))
                    .map(|at| primary.versions[at].1.clone())
            };
            self.check_kept(zone, &served, version);
            self.seen[n] = Some(served.serial());
        }
        assert_eq!(
            self.running().secondaries.running(),
            0,
            "all that was begun has ended"
        );
    }

    /// Checks that the disk has what is served, and that the journal leads there from every version it has.
    fn check_kept(&self, zone: &NameBuf, served: &Zone, version: impl Fn(u32) -> Option<Hosts>) {
        let store = self.running.as_ref().unwrap().commits.store().unwrap();
        let kept = read_contents(store, zone).unwrap().unwrap();
        assert_eq!(
            (kept.serial(), hosts_of(&kept)),
            (served.serial(), hosts_of(served)),
            "{zone}"
        );
        for back in 1..8 {
            let from = Serial(served.serial().0.wrapping_sub(back));
            let (Some(entries), Some(hosts)) =
                (store.journal_from(zone, from).unwrap(), version(from.0))
            else {
                continue;
            };
            let mut reached = Arc::new(build(zone, from.0, &hosts));
            for entry in entries {
                reached = Arc::new(reached.apply(&entry.difference).unwrap());
            }
            assert_eq!(
                (reached.serial(), hosts_of(&reached)),
                (served.serial(), hosts_of(served)),
                "{zone} from {from}"
            );
        }
    }

    /// When nothing fails any more, every zone gets the last version, within the times of its SOA.
    fn check_that_all_arrive(&mut self) {
        self.is_net_down = false;
        self.fault.set(0);
        for _ in 0..400 {
            self.now = self.now.plus(Duration::from_secs(300));
            self.run();
            self.check();
            let is_there = |(zone, primary): &(NameBuf, Primary)| {
                let served = self.version(zone, SECONDARY_RANK);
                served.is_some_and(|served| served.serial().0 == primary.last().0)
            };
            if self.primaries.iter().all(is_there) {
                return;
            }
        }
        panic!("some zones never got the last version");
    }
}

fn simulate(seed: u64) {
    let outcome = std::panic::catch_unwind(|| {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.check_that_all_arrive();
        let faults = StateStore::check(world.directory.path()).unwrap().faults;
        assert_eq!(faults, [""; 0]);
    });
    if outcome.is_err() {
        panic!("SEED={seed} fails");
    }
}

fn seeds(from: u64, count: u64) {
    match std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        Some(seed) => simulate(seed),
        None => {
            let factor = std::env::var("SIMULATIONS")
                .ok()
                .and_then(|n| n.parse().ok())
                .unwrap_or(1);
            (from * factor..(from + count) * factor).for_each(simulate);
        }
    }
}

#[test]
fn zones_live_through_faults_and_restarts() {
    seeds(0, 6);
}

#[test]
fn zones_live_through_other_faults_and_restarts() {
    seeds(6, 6);
}
