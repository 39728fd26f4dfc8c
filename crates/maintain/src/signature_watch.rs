//! Watches stored signatures of zones from files, transfers and databases.
//!
//! The signer of such a zone may stop, and its answers stay as they are while their signatures expire. So every
//! version is inspected when it is new, and again every hour. Faults are logged when they start, counted on the
//! status page, and exported as metrics for alerts.

use nameward_base::sync::Mutex;
use nameward_base::time::now_seconds;
use nameward_base::worker::{self, Mailbox, panic_guard};
use nameward_wire::NameBuf;
use nameward_zone::{RrsetName, SigningState, StoredInspection, Zone, ZoneTable};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Signatures that expire within this time cause a warning: a signer renews them days before.
pub const SOON_SECONDS: u64 = 2 * 86_400;
/// Interval at which a version is inspected again.
const AGAIN: Duration = Duration::from_secs(3600);
/// Interval between two checks of the table.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause is at least this many times as long as the previous check, so that it takes a hundredth of a core.
const PAUSE_FACTOR: u32 = 100;
/// Maximum number of log lines per check.
const LINES_MAX: usize = 100;

/// The zones that need an operator, for the page and metrics.
#[derive(Debug, Clone, Default)]
pub struct SignatureTotals {
    /// Number of zones with stored signatures that validators reject, all of them or some.
    pub broken: usize,
    /// Number of zones with signatures that expire soon.
    pub ending: usize,
    /// The fault of one of the broken zones, with its name.
    pub first_broken: Option<String>,
    /// The RRset of a zone whose signatures expire soon, with the name of the zone.
    pub first_ending: Option<String>,
}

/// The totals as of the last check.
#[derive(Default)]
pub struct SignatureSums(Mutex<SignatureTotals>);

impl SignatureSums {
    /// Returns the totals.
    pub fn now(&self) -> SignatureTotals {
        self.0.lock().clone()
    }
}

/// One zone as last inspected.
struct WatchedZone {
    version: Weak<Zone>,
    inspected: Instant,
    health: SignatureHealth,
}

/// The result of an inspection, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct SignatureHealth {
    faults: Vec<String>,
    /// The RRset whose signatures expire first, if that is soon.
    ends_soon: Option<(u64, RrsetName)>,
}

impl SignatureHealth {
    fn from_inspection(inspection: StoredInspection, now: u64) -> Self {
        SignatureHealth {
            faults: inspection.faults(),
            ends_soon: inspection
                .first_end
                .filter(|(end, _)| (now..now + SOON_SECONDS).contains(end)),
        }
    }

    /// Returns the log lines for new faults.
    fn lines(&self, before: &SignatureHealth, now: u64) -> Vec<String> {
        let new = self
            .faults
            .iter()
            .filter(|fault| !before.faults.contains(fault));
        let mut lines: Vec<String> = new
            .map(|fault| format!("{fault}; DNSSEC validation fails"))
            .collect();
        if let (Some((end, rrset)), None) = (&self.ends_soon, &before.ends_soon) {
            let hours = (end - now) / 3600;
            lines.push(format!(
                "signatures expire soon and were not renewed: {rrset} in {hours} h"
            ));
        }
        lines
    }
}

/// All zones with stored signatures.
#[derive(Default)]
pub struct SignatureWatch {
    zones: HashMap<NameBuf, WatchedZone>,
    last: Option<(Weak<ZoneTable>, Instant)>,
    sums: Arc<SignatureSums>,
}

impl SignatureWatch {
    /// Creates a watch without zones that maintains these totals.
    pub fn new(sums: Arc<SignatureSums>) -> Self {
        SignatureWatch {
            sums,
            ..SignatureWatch::default()
        }
    }

    /// Returns the totals that the watch maintains.
    pub fn sums(&self) -> Arc<SignatureSums> {
        Arc::clone(&self.sums)
    }

    /// Checks a table and returns log lines. `now` is in seconds since 1970.
    pub fn check(&mut self, table: &Arc<ZoneTable>, time: Instant, now: u64) -> Vec<String> {
        if let Some((last, at)) = &self.last
            && last.as_ptr() == Arc::as_ptr(table)
            && time.duration_since(*at) < AGAIN
        {
            return Vec::new();
        }
        let mut before = std::mem::take(&mut self.zones);
        let mut lines = Vec::new();
        let stored = table
            .zones()
            .filter(|zone| matches!(zone.signing(), SigningState::Stored(_)));
        for zone in stored {
            let name: NameBuf = zone.id().into();
            let previous = before.remove(&name);
            let is_current = previous.as_ref().is_some_and(|previous| {
                previous.version.as_ptr() == Arc::as_ptr(zone)
                    && time.duration_since(previous.inspected) < AGAIN
            });
            let watched = match previous {
                Some(previous) if is_current => previous,
                previous => {
                    let inspection = zone.inspect_signatures(now).unwrap_or_default();
                    let health = SignatureHealth::from_inspection(inspection, now);
                    let was = previous.map(|previous| previous.health).unwrap_or_default();
                    let new = health.lines(&was, now);
                    lines.extend(new.into_iter().map(|line| format!("zone {name}: {line}")));
                    WatchedZone {
                        version: Arc::downgrade(zone),
                        inspected: time,
                        health,
                    }
                }
            };
            self.zones.insert(name, watched);
        }
        self.sum_up();
        self.last = Some((Arc::downgrade(table), time));
        lines
    }

    fn sum_up(&self) {
        let mut totals = SignatureTotals::default();
        for (name, zone) in &self.zones {
            if let Some(fault) = zone.health.faults.first() {
                totals.broken += 1;
                let first = &mut totals.first_broken;
                first.get_or_insert_with(|| format!("zone {name}: {fault}"));
            }
            if let Some((_, rrset)) = &zone.health.ends_soon {
                totals.ending += 1;
                let first = &mut totals.first_ending;
                first.get_or_insert_with(|| format!("zone {name}: {rrset}"));
            }
        }
        *self.sums.0.lock() = totals;
    }
}

/// The thread of a watch. It ends when this is dropped.
pub struct WatchThread {
    mailbox: Mailbox<()>,
}

impl Drop for WatchThread {
    fn drop(&mut self) {
        self.mailbox.stop();
    }
}

/// Starts a thread that checks the table periodically.
pub fn start(
    mut watch: SignatureWatch,
    table: impl Fn() -> Arc<ZoneTable> + Send + 'static,
) -> std::io::Result<WatchThread> {
    let mailbox = Mailbox::default();
    let own = mailbox.clone();
    let run = move || {
        loop {
            let begin = Instant::now();
            let mut lines = Vec::new();
            panic_guard("checking signature lifetimes", || {
                lines = watch.check(&table(), begin, now_seconds());
            });
            for line in lines.iter().take(LINES_MAX) {
                tracing::warn!("{line}");
            }
            if let Some(more) = lines.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
                tracing::warn!("{more} more messages about zone signatures");
            }
            let pause = PAUSE.max(begin.elapsed() * PAUSE_FACTOR);
            if own.wait(Some(pause)).is_none() {
                return;
            }
        }
    };
    worker::start("signature-watch", run)?;
    Ok(WatchThread { mailbox })
}
