//! Wiring of secondary zones and NOTIFY: queries to primaries, NOTIFY to secondaries, and what operators see of both.

use nameward_base::time::now_seconds;
use std::{collections::HashMap, io, sync::Arc};

use nameward_control::operations::{
    ItemSink, ListedItem, ListedZone, ListedZoneStatus, OperationError, OperationResult, Outcome,
    RunningTransferStatus, ZoneDetails, zone_name,
};
use nameward_control::web::{ZoneConfigSource, ZoneFacts};
use nameward_maintain::policy::{CONFIGURED_RANK, UNCONFIGURED_RANK, ZoneKind};
use nameward_maintain::schedule::ClassLimit;
use nameward_peers::notify::received::NotifySink;
use nameward_peers::primaries::OutgoingSettings;
use nameward_peers::primaries::PrimaryClient;
use nameward_peers::primaries::SecondaryNotifySink;
use nameward_peers::secondary::zone::ZoneState;
use nameward_peers::secondary::{
    SecondaryStatus,
    driver::{self, Retrieval, SecondaryHandle},
};
use nameward_stats::{Gauge, Stats};
use nameward_wire::{Name, NameBuf};
use nameward_zone::Zone;

use super::core::ServerCore;
use crate::config::settings;

/// Secondary zones and NOTIFY of a running server.
#[derive(Clone)]
pub struct SecondaryZones {
    core: ServerCore,
    /// The thread that refreshes them.
    pub handle: SecondaryHandle,
    pub outgoing: Arc<PrimaryClient>,
}

/// The states of secondary zones that are not current, by name.
pub struct TroubledStates(HashMap<String, &'static str>);

impl TroubledStates {
    /// Sets the state of a zone that is among them and served from here.
    pub fn apply(&self, zone: &mut ListedZone) {
        if matches!(zone.state.as_str(), "not served" | "not loaded") {
            return;
        }
        if let Some(state) = self.0.get(&zone.name.to_ascii_lowercase()) {
            zone.state = (*state).into();
        }
    }
}

impl SecondaryZones {
    /// Starts them; `loaded` is called when the zones in the state store are served. Call within the runtime of the
    /// database connections.
    pub fn start(
        core: &ServerCore,
        server: &settings::Server,
        loaded: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (policies, runtime) = (Arc::clone(&core.maintain.policies), &core.outgoing_runtime);
        let connections = Arc::clone(&core.peer_connections);
        let settings = outgoing_settings(server);
        let outgoing = PrimaryClient::new(policies, connections, settings, runtime.clone());
        let transfers = ClassLimit {
            running: server.transfers_in_max.get(),
            per_lane: server.transfers_in_per_primary.get(),
        };
        let handle = driver::start(&core.maintain, transfers, &outgoing, loaded)?;
        let zones = SecondaryZones {
            core: core.clone(),
            handle,
            outgoing,
        };
        zones.show_gauges(&core.shared.stats);
        Ok(zones)
    }

    /// Returns the receiver of NOTIFY messages. Call within the runtime of the database connections.
    pub fn notify_sink(&self) -> Arc<dyn NotifySink> {
        let (handle, outgoing) = (self.handle.clone(), self.outgoing.clone());
        let core = self.core.maintain.clone();
        Arc::new(SecondaryNotifySink::new(handle, outgoing, core))
    }

    /// Stops them: work in progress is abandoned.
    pub fn end(&self) {
        self.handle.end();
        self.core.notifier.end();
        self.core.notified.end();
    }

    fn show_gauges(&self, stats: &Stats) {
        let handle = |read: fn(&SecondaryHandle) -> u64| {
            let handle = self.handle.clone();
            move || read(&handle)
        };
        stats.gauge_from(Gauge::XfrQueue, handle(|handle| handle.summary().waiting));
        stats.gauge_from(
            Gauge::SecondariesStale,
            handle(|handle| handle.summary().stale),
        );
        let expired = handle(|handle| handle.summary().expired);
        stats.gauge_from(Gauge::SecondariesExpired, expired);
        let age = handle(|handle| handle.summary().oldest_refresh_seconds);
        stats.gauge_from(Gauge::SecondariesRefreshAge, age);
        let results = |read: fn(&nameward_peers::primaries::TransferResults) -> u64| {
            let transfers = Arc::clone(self.outgoing.transfers());
            move || read(&transfers.results())
        };
        stats.gauge_from(Gauge::TransfersInWhole, results(|r| r.whole));
        stats.gauge_from(Gauge::TransfersInIncremental, results(|r| r.incremental));
        stats.gauge_from(Gauge::TransfersInNotNewer, results(|r| r.not_newer));
        stats.gauge_from(Gauge::TransfersInRefused, results(|r| r.refused));
        stats.gauge_from(Gauge::TransfersInFailed, results(|r| r.failed));
        let notifier = self.core.notifier.clone();
        stats.gauge_from(Gauge::NotifyWaiting, move || notifier.waiting());
        let notifier = self.core.notifier.clone();
        stats.gauge_from(Gauge::NotifySent, move || notifier.sent());
    }

    /// Returns the state of a served zone for its page, without its signing status.
    pub fn facts(&self, served: &Zone) -> Option<ZoneFacts> {
        let zone: NameBuf = served.id().into();
        let status = match self.handle.status(Some(zone)).pop() {
            Some(status) => self.secondary_status(&status),
            None => self.other_status(zone).ok()?,
        };
        Some(ZoneFacts {
            status,
            source: match served.rank() {
                CONFIGURED_RANK => ZoneConfigSource::Configuration,
                UNCONFIGURED_RANK => ZoneConfigSource::StateStore,
                rank => ZoneConfigSource::Backend(rank.into()),
            },
            signing: None,
            names: (!served.is_stub()).then(|| served.name_count()),
        })
    }

    /// Returns the state of a secondary zone that is not current.
    pub fn troubled_state(&self, zone: NameBuf) -> Option<&'static str> {
        troubled_state(&self.handle.status(Some(zone)).pop()?)
    }

    /// Sets the state of a secondary zone that is not current and served from here.
    pub fn set_state(&self, zone: &mut ZoneDetails) {
        if matches!(zone.state.as_str(), "not served" | "not loaded") {
            return;
        }
        let name: Option<NameBuf> = zone.name.parse().ok();
        if let Some(state) = name.and_then(|name| self.troubled_state(name)) {
            zone.state = state.into();
        }
    }

    /// Returns the secondary zones that are not current.
    pub fn troubled_states(&self) -> TroubledStates {
        let all = self.handle.status(None);
        let troubled = all.into_iter().filter_map(|status| {
            let name = status.zone.to_string().to_ascii_lowercase();
            Some((name, troubled_state(&status)?))
        });
        TroubledStates(troubled.collect())
    }

    /// Lists the status of one zone, or of all that are transferred or notified.
    pub fn status(&self, zone: Option<&str>, items: ItemSink<'_>) -> Outcome {
        let zone = zone.map(zone_name).transpose()?;
        let mut count = 0;
        let mut give = |item: ListedZoneStatus| {
            count += 1;
            items(ListedItem::Status(item))
        };
        if let Some(zone) = zone {
            let mut secondary = self.handle.status(Some(zone));
            give(match secondary.pop() {
                Some(status) => self.secondary_status(&status),
                None => self.other_status(zone)?,
            });
            return Ok(OperationResult::Listed { items: count });
        }
        let mut all = self.handle.status(None);
        all.sort_by(|a, b| a.zone.as_name().canonical_cmp(b.zone.as_name()));
        for status in &all {
            if !give(self.secondary_status(status)) {
                return Ok(OperationResult::Listed { items: count });
            }
        }
        let policies = self.core.maintain.policies.load();
        let own = policies
            .zones()
            .filter(|(_, policy)| matches!(policy.kind, ZoneKind::Primary | ZoneKind::Producer));
        let mut others: Vec<NameBuf> = own.map(|(zone, _)| zone.into()).collect();
        others.sort_by(|a, b| a.as_name().canonical_cmp(b.as_name()));
        for zone in others {
            if let Ok(status) = self.other_status(zone)
                && !give(status)
            {
                break;
            }
        }
        Ok(OperationResult::Listed { items: count })
    }

    /// Checks whether a zone is transferred from a primary.
    pub fn is_transferred(&self, zone: Name<'_>) -> bool {
        self.core
            .maintain
            .policies
            .load()
            .get(zone)
            .kind
            .is_transferred()
    }

    fn kind_of(&self, zone: Name<'_>) -> &'static str {
        self.core.maintain.policies.load().get(zone).kind.word()
    }

    fn secondary_status(&self, status: &SecondaryStatus) -> ListedZoneStatus {
        let has_contents = status.state != ZoneState::Empty;
        let transfer = self.outgoing.transfers().get(&status.zone);
        ListedZoneStatus {
            name: status.zone.to_string(),
            kind: self.kind_of(status.zone.as_name()).into(),
            state: match status.state {
                ZoneState::Empty => "empty",
                ZoneState::Current => "current",
                ZoneState::Expired => "expired",
            }
            .into(),
            serial: status.serial.map(|serial| serial.0),
            primary: status.primary.map(|primary| primary.to_string()),
            serial_at_primary: status.serial_there.map(|serial| serial.0),
            last_check: status.checked,
            last_refresh: has_contents.then_some(status.timers.refreshed),
            next_check: status.next_check,
            expires: has_contents.then_some(status.timers.expires),
            is_checking: status.is_checking,
            is_queued: status.is_queued,
            failures: status.failures,
            last_error: status.last_error.clone(),
            transfer: transfer.map(|transfer| RunningTransferStatus {
                primary: transfer.primary.to_string(),
                records: transfer.records(),
                octets: transfer.octets(),
                seconds: transfer.started.elapsed().as_secs(),
            }),
            signing: None,
            secondaries: None,
            now: now_seconds(),
        }
    }

    /// Returns the status of a zone that is not a secondary.
    fn other_status(&self, zone: NameBuf) -> Outcome<ListedZoneStatus> {
        let table = self.core.shared.zones.load();
        let served = table.exact(zone.as_name()).ok_or_else(|| {
            OperationError::not_found(format!("zone {zone} not found; see `nameward zone list`"))
        })?;
        let state = match (served.is_ready(), served.is_stub()) {
            (false, _) => "not ready",
            (true, true) => "live",
            (true, false) => "current",
        };
        Ok(ListedZoneStatus {
            name: zone.to_string(),
            kind: self.kind_of(zone.as_name()).into(),
            state: state.into(),
            serial: (!served.is_stub()).then(|| served.serial().0),
            now: now_seconds(),
            ..ListedZoneStatus::default()
        })
    }

    /// Waits until a change of a zone's policy has been applied.
    pub fn wait_for_policy(&self, zone: NameBuf) {
        // Status requests are answered after earlier changes.
        self.handle.status(Some(zone));
    }

    /// Refreshes a secondary zone at once: transfers it if its primary has a newer version, or unconditionally.
    pub fn retrieve(&self, zone: &str, force: bool) -> Outcome {
        let name = zone_name(zone)?;
        let (retrieval, what) = if force {
            (Retrieval::Forced, "forced transfer")
        } else {
            (Retrieval::IfNewer, "check")
        };
        if !self.handle.check(name, retrieval) {
            return Err(OperationError::not_found(format!(
                "zone {name} is not a secondary zone of this server"
            )));
        }
        tracing::info!("zone {name}: {what} requested via control socket");
        let zone = name.to_string();
        Ok(OperationResult::ZoneRetrieving { zone })
    }

    /// Notifies the servers that are configured for a zone.
    pub fn notify(&self, zone: &str) -> Outcome {
        let name = zone_name(zone)?;
        self.other_status(name)?;
        self.core.notifier.notify_now(name);
        tracing::info!("zone {name}: NOTIFY requested via control socket");
        let zone = name.to_string();
        Ok(OperationResult::ZoneNotifying { zone })
    }
}

/// Returns the state of a secondary zone that is not current.
fn troubled_state(status: &SecondaryStatus) -> Option<&'static str> {
    match status.state {
        ZoneState::Empty => Some("empty"),
        ZoneState::Expired => Some("expired"),
        ZoneState::Current if status.failures > 0 => Some("stale"),
        ZoneState::Current => None,
    }
}

fn outgoing_settings(server: &settings::Server) -> OutgoingSettings {
    OutgoingSettings {
        memory_max: (server.transfers_in_memory_mb.get() as u64) << 20,
        rate_min: server.transfer_rate_min.get() as u64,
        connect_timeout: server.transfer_connect_timeout_ms.millis(),
        idle_timeout: server.transfer_idle_timeout_ms.millis(),
        total_timeout: server.transfer_total_timeout_ms.millis(),
    }
}
