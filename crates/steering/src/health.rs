//! The health of targets: which addresses are checked how, and what the last checks found. The checker itself is above this
//! crate; here are the list of checks and their state.
//!
//! A target is checked from the time it is first named, whether a client asks or a zone is loaded, until it has not been named
//! for a while. Readers take no lock.

mod fleet;

pub use fleet::OtherResults;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use nameward_base::sync::Mutex;
use nameward_base::time::now_seconds as now;

/// Maximum number of checks.
const CHECKS_MAX: usize = 20_000;
/// How long a target is checked after it was last named.
const EXPIRE_AFTER: Duration = Duration::from_secs(3600);
/// The state of a target that was not checked yet.
const UNKNOWN: i64 = -1;

/// How a target is checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CheckKind {
    /// A TCP connection to a port.
    Port(u16),
    /// A DNS query over UDP, which must be answered without an error.
    Dns {
        /// The port.
        port: u16,
        /// The queried name; the type is SOA.
        name: String,
    },
    /// An HTTP request.
    Url {
        /// The URL; its host is the name in the request, the connection goes to the target.
        url: String,
        /// A text that the response must contain.
        string_match: String,
        /// The User-Agent of the request.
        user_agent: String,
        /// Octets of the response that are read; 0 is the default limit.
        bytes_limit: usize,
        /// The status that the response must have.
        http_code: u16,
        /// Whether the body is the weight of the target.
        has_weight: bool,
    },
}

/// A check of one target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HealthCheck {
    /// The address that is connected to; `None` connects to the host of the URL.
    pub address: Option<IpAddr>,
    /// How it is checked.
    pub kind: CheckKind,
    /// The address to connect from.
    pub source: Option<IpAddr>,
    /// The time that a check may take, in milliseconds.
    pub timeout_ms: u64,
    /// Seconds between checks; 0 is the configured interval.
    pub interval: u64,
    /// Failed checks in a row after which the target is down.
    pub minimum_failures: u32,
    /// Successful checks in a row after which a target that was down is up.
    pub minimum_successes: u32,
}

/// The known health of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetHealth {
    /// It was not checked yet.
    Unknown,
    /// The checks fail.
    Down,
    /// It works, with this weight: 1 unless it reports another one.
    Up(u32),
}

/// A state that an operator set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForcedHealth {
    /// The checks decide.
    No,
    /// The target is down regardless of its checks.
    Down,
    /// The target is up regardless of its checks.
    Up,
}

/// The reason why a check failed, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CheckFailure(pub String);

impl From<&str> for CheckFailure {
    fn from(text: &str) -> Self {
        CheckFailure(text.to_owned())
    }
}

impl From<std::io::Error> for CheckFailure {
    fn from(error: std::io::Error) -> Self {
        CheckFailure(error.to_string())
    }
}

/// A check and its state.
#[derive(Debug)]
pub struct CheckedTarget {
    /// How it is checked.
    pub check: Arc<HealthCheck>,
    /// [`UNKNOWN`], 0 for down, else the weight.
    state: AtomicI64,
    /// Results of other servers.
    others: fleet::AtomicResults,
    /// [`HealthCheck::shared_key`], once it was needed.
    key: OnceLock<String>,
    forced: AtomicU8,
    failures: AtomicU32,
    successes: AtomicU32,
    /// Whether a pool contains it: then it is checked even if no script names it.
    is_kept: AtomicBool,
    last_named: AtomicU64,
    last_checked: AtomicU64,
    last_changed: AtomicU64,
    is_running: AtomicBool,
    error: Mutex<String>,
}

/// The state of a check, for displays.
#[derive(Debug, Clone)]
pub struct TargetReport {
    /// How it is checked.
    pub check: HealthCheck,
    /// The result of the checks, of all servers if they share theirs.
    pub health: TargetHealth,
    /// The result of the checks of this server.
    pub own: TargetHealth,
    /// The results of other servers.
    pub others: OtherResults,
    /// The state that an operator set.
    pub forced: ForcedHealth,
    /// When it was last checked, in seconds since 1970; 0 if never.
    pub last_checked: u64,
    /// Since when it is in this state.
    pub since: u64,
    /// Why the last check failed; empty if it did not.
    pub error: String,
}

/// All checks.
#[derive(Debug, Default)]
pub struct HealthChecks {
    /// A new target costs a copy of the list, so its entries are shared.
    targets: ArcSwap<HashMap<Arc<HealthCheck>, Arc<CheckedTarget>>>,
    /// Held while the list changes.
    changes: Mutex<()>,
    /// Seconds between checks of targets without their own interval.
    interval: AtomicU64,
    /// The file with the authorities that HTTPS targets are verified with; none is that of the system.
    authorities: ArcSwapOption<PathBuf>,
}

impl CheckedTarget {
    fn new(check: &Arc<HealthCheck>) -> Self {
        CheckedTarget {
            check: Arc::clone(check),
            state: AtomicI64::new(UNKNOWN),
            others: fleet::AtomicResults::default(),
            key: OnceLock::new(),
            forced: AtomicU8::new(0),
            failures: AtomicU32::new(0),
            successes: AtomicU32::new(0),
            is_kept: AtomicBool::new(false),
            last_named: AtomicU64::new(now()),
            last_checked: AtomicU64::new(0),
            last_changed: AtomicU64::new(now()),
            is_running: AtomicBool::new(false),
            error: Mutex::default(),
        }
    }

    /// Returns the health of the target, as forced or found.
    pub fn health(&self) -> TargetHealth {
        match self.forced() {
            ForcedHealth::Down => TargetHealth::Down,
            ForcedHealth::Up => TargetHealth::Up(1),
            ForcedHealth::No => self.decided(),
        }
    }

    /// Returns the result of this server's checks and those of others.
    fn decided(&self) -> TargetHealth {
        self.others.load().decide(self.found())
    }

    /// Returns what this server finds.
    fn found(&self) -> TargetHealth {
        match self.state.load(Ordering::Relaxed) {
            UNKNOWN => TargetHealth::Unknown,
            0 => TargetHealth::Down,
            weight => TargetHealth::Up(u32::try_from(weight).unwrap_or(1)),
        }
    }

    fn key(&self) -> &str {
        self.key.get_or_init(|| self.check.shared_key())
    }

    fn forced(&self) -> ForcedHealth {
        match self.forced.load(Ordering::Relaxed) {
            1 => ForcedHealth::Down,
            2 => ForcedHealth::Up,
            _ => ForcedHealth::No,
        }
    }

    /// Forces a state; returns the previous one.
    fn set_forced(&self, forced: ForcedHealth) -> ForcedHealth {
        let before = self.forced();
        let state = match forced {
            ForcedHealth::No => 0,
            ForcedHealth::Down => 1,
            ForcedHealth::Up => 2,
        };
        self.forced.store(state, Ordering::Relaxed);
        before
    }

    /// Notes the result of a check: the weight of the target, or why it failed.
    pub fn finish(&self, result: Result<u32, CheckFailure>) {
        let before = self.decided();
        let state = match result {
            Ok(weight) => {
                self.failures.store(0, Ordering::Relaxed);
                let successes = self.successes.fetch_add(1, Ordering::Relaxed);
                self.error.lock().clear();
                let was_down = self.state.load(Ordering::Relaxed) == 0;
                let is_early = successes.saturating_add(1) < self.check.minimum_successes;
                if was_down && is_early {
                    0
                } else {
                    i64::from(weight)
                }
            }
            Err(error) => {
                self.successes.store(0, Ordering::Relaxed);
                let failures = self
                    .failures
                    .fetch_add(1, Ordering::Relaxed)
                    .saturating_add(1);
                *self.error.lock() = error.0;
                let before = self.state.load(Ordering::Relaxed);
                let is_tolerated = before > 0 && failures < self.check.minimum_failures;
                if is_tolerated { before } else { 0 }
            }
        };
        self.state.store(state, Ordering::Relaxed);
        if self.decided() != before {
            self.last_changed.store(now(), Ordering::Relaxed);
        }
        self.last_checked.store(now(), Ordering::Relaxed);
        self.is_running.store(false, Ordering::Release);
    }

    /// Returns the state for displays.
    pub fn report(&self) -> TargetReport {
        TargetReport {
            check: HealthCheck::clone(&self.check),
            health: self.decided(),
            own: self.found(),
            others: self.others.load(),
            forced: self.forced(),
            last_checked: self.last_checked.load(Ordering::Relaxed),
            since: self.last_changed.load(Ordering::Relaxed),
            error: self.error.lock().clone(),
        }
    }
}

/// The target and how it is checked.
impl fmt::Display for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(address) = self.address {
            write!(f, "{address} ")?;
        }
        match &self.kind {
            CheckKind::Port(port) => write!(f, "port {port}"),
            CheckKind::Dns { port, name } => write!(f, "port {port} {name} SOA"),
            CheckKind::Url { url, .. } => f.write_str(url),
        }
    }
}

impl HealthChecks {
    /// Sets the seconds between checks of targets without their own interval.
    pub fn set_interval(&self, seconds: u64) {
        self.interval.store(seconds, Ordering::Relaxed);
    }

    /// Sets the file with the authorities that HTTPS targets are verified with; `None` is that of the system.
    pub fn set_authorities(&self, path: Option<PathBuf>) {
        self.authorities.store(path.map(Arc::new));
    }

    /// Returns the file with the authorities that HTTPS targets are verified with.
    pub fn authorities(&self) -> Option<Arc<PathBuf>> {
        self.authorities.load_full()
    }

    /// Returns the health of a target, which is checked from now on if it was not.
    pub fn health_of(&self, check: &HealthCheck) -> TargetHealth {
        let targets = self.targets.load();
        match targets.get(check) {
            Some(target) => {
                target.last_named.store(now(), Ordering::Relaxed);
                target.health()
            }
            None => {
                self.add(check);
                TargetHealth::Unknown
            }
        }
    }

    /// Returns the health of a target without naming it.
    pub fn state_of(&self, check: &HealthCheck) -> TargetHealth {
        let targets = self.targets.load();
        { targets.get(check) }.map_or(TargetHealth::Unknown, |target| target.health())
    }

    /// Checks these targets from now on, and no longer those of the previous pools, unless scripts name them.
    pub fn set_required<'c>(&self, checks: impl Iterator<Item = &'c HealthCheck>) {
        let _changing = self.changes.lock();
        let mut targets = HashMap::clone(&self.targets.load());
        let mut kept = HashSet::new();
        for check in checks {
            kept.insert(check);
            if targets.contains_key(check) || targets.len() >= CHECKS_MAX {
                continue;
            }
            let check = Arc::new(check.clone());
            let target = CheckedTarget::new(&check);
            target.last_named.store(0, Ordering::Relaxed);
            targets.insert(check, Arc::new(target));
        }
        for (check, target) in &targets {
            target
                .is_kept
                .store(kept.contains(&**check), Ordering::Relaxed);
        }
        self.targets.store(Arc::new(targets));
    }

    fn add(&self, check: &HealthCheck) {
        let _changing = self.changes.lock();
        let targets = self.targets.load();
        if targets.contains_key(check) {
            return;
        }
        if targets.len() >= CHECKS_MAX {
            tracing::warn!(
                "health checks: more than {CHECKS_MAX} targets; the others count as down"
            );
            return;
        }
        let mut targets = HashMap::clone(&targets);
        let check = Arc::new(check.clone());
        let target = Arc::new(CheckedTarget::new(&check));
        targets.insert(check, target);
        self.targets.store(Arc::new(targets));
    }

    /// Returns the targets that must be checked now; each is reserved until [`CheckedTarget::finish`]. Forgets those that were
    /// not named for long.
    pub fn take_due(&self) -> Vec<Arc<CheckedTarget>> {
        let (now, interval) = (now(), self.interval.load(Ordering::Relaxed));
        let targets = self.targets.load_full();
        let is_expired = |target: &CheckedTarget| {
            !target.is_kept.load(Ordering::Relaxed)
                && target.last_named.load(Ordering::Relaxed) + EXPIRE_AFTER.as_secs() < now
        };
        if targets.values().any(|target| is_expired(target)) {
            let _changing = self.changes.lock();
            let mut kept = HashMap::clone(&self.targets.load());
            kept.retain(|_, target| !is_expired(target));
            self.targets.store(Arc::new(kept));
        }
        let due = targets.values().filter(|target| {
            let interval = match target.check.interval {
                0 => interval,
                own => own,
            };
            let last = target.last_checked.load(Ordering::Relaxed);
            (last == 0 || last + interval <= now)
                && !target.is_running.swap(true, Ordering::Acquire)
        });
        due.cloned().collect()
    }

    /// Returns what this server finds, by the name of each target among servers: 0 for down, else the weight.
    pub fn own_results(&self) -> BTreeMap<String, i64> {
        let targets = self.targets.load();
        let known = targets.values().filter_map(|target| {
            let state = target.state.load(Ordering::Relaxed);
            (state != UNKNOWN).then(|| (target.key().to_owned(), state))
        });
        known.collect()
    }

    /// Uses these results of other servers from now on; returns the targets whose state has changed.
    pub fn set_others(&self, results: &HashMap<&str, OtherResults>) -> Vec<TargetReport> {
        let targets = self.targets.load();
        let changed = targets.values().filter(|target| {
            let (before, forced) = (target.decided(), target.health());
            let others = results.get(target.key()).copied();
            target.others.store(others.unwrap_or_default());
            if target.decided() != before {
                target.last_changed.store(now(), Ordering::Relaxed);
            }
            target.health() != forced
        });
        changed.map(|target| target.report()).collect()
    }

    /// Returns the state of all checks, sorted.
    pub fn reports(&self) -> Vec<TargetReport> {
        let targets = self.targets.load();
        let mut reports: Vec<_> = targets.values().map(|target| target.report()).collect();
        reports.sort_by(|a, b| a.check.cmp(&b.check));
        reports
    }

    /// Forces the state of all targets with an address, and of the targets of some checks; returns how many there are.
    pub fn force(&self, address: IpAddr, checks: &[HealthCheck], forced: ForcedHealth) -> usize {
        let targets = self.targets.load();
        let matching = targets.values().filter(|target| {
            target.check.address == Some(address) || checks.contains(&*target.check)
        });
        let forced = matching.inspect(|target| {
            target.set_forced(forced);
        });
        forced.count()
    }

    /// Forces the states of the targets of some addresses and checks, and of no others; returns whether that changes any.
    pub fn force_only(&self, forced: &[(IpAddr, Vec<HealthCheck>, ForcedHealth)]) -> bool {
        let targets = self.targets.load();
        let changed = targets.values().filter(|target| {
            let mut matching = forced.iter().filter(|(address, checks, _)| {
                target.check.address == Some(*address) || checks.contains(&*target.check)
            });
            let state = matching
                .next()
                .map_or(ForcedHealth::No, |(.., state)| *state);
            target.set_forced(state) != state
        });
        changed.count() > 0
    }
}
