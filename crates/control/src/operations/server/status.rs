//! The server state as one structure, used by the command line, the status page, `/metrics` and `/readyz`.

use super::backend_status::BackendStatus;
use serde::{Deserialize, Serialize};

use super::fault::{FaultKind, ServerFault};
use super::health::HealthTarget;

/// The state of a server. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The version of the program.
    pub version: String,
    /// The process ID.
    pub process: u32,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// The configuration file; none for the built-in example.
    pub config: Option<String>,
    /// The name of this server: `server.nsid`, or else the host's.
    pub host: String,
    /// All zones were loaded, and each database was queried once.
    pub is_started: bool,
    /// The addresses that DNS is answered on.
    pub listeners: Vec<ListenerStatus>,
    /// The address of the status page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web: Option<String>,
    /// Number of UDP threads.
    pub workers: usize,
    /// Number of served zones.
    pub zones: usize,
    /// Zones without data to serve, which are answered SERVFAIL, for any reason.
    pub zones_not_ready: usize,
    /// Secondary zones that were never transferred; `zones_not_ready` includes them.
    #[serde(default)]
    pub zones_never_transferred: usize,
    /// PRESIGNED zones that are answered without signatures because their rows have none.
    #[serde(default)]
    pub zones_unsigned: usize,
    /// Zones whose file has errors, with or without an older version in service.
    pub zones_with_errors: usize,
    /// Secondary zones that are served although their last check failed.
    pub zones_stale: usize,
    /// Secondary zones whose primaries have a lower serial.
    #[serde(default)]
    pub zones_ahead_of_primary: usize,
    /// Secondary zones that no primary has confirmed for too long; they are not served.
    pub zones_expired: usize,
    /// Zones in memory that are served with signatures. Which live zones have keys is known only to their database.
    pub zones_signed: usize,
    /// The sources of zones, in configuration order.
    pub backends: Vec<BackendStatus>,
    /// The last requested reload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reload: Option<ReloadStatus>,
    /// Running transfers.
    pub transfers: TransferCounts,
    /// Queries per second over all transports.
    pub queries_per_second: QueryRates,
    /// Octets of memory in use.
    pub memory_bytes: u64,
    /// The restrictions of the process since its start.
    #[serde(default)]
    pub sandbox: String,
    /// The interfaces with XDP, each with its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xdp: Vec<XdpStatus>,
    /// dnstap, if it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dnstap: Option<Box<DnstapStatus>>,
    /// Response rate limiting, if it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Box<RateLimitStatus>>,
    /// Panics since the start; each cost only the work that caused it.
    #[serde(default)]
    pub internal_errors: u64,
    /// The last panic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_internal_error: Option<InternalError>,
    /// How often work was rejected for lack of memory since the start.
    #[serde(default)]
    pub memory_refusals: u64,
    /// The last rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_memory_refusal: Option<MemoryRefusal>,
    /// The queues of maintenance work.
    #[serde(default)]
    pub queues: Vec<QueueStatus>,
    /// The views, with the number of requests in each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<(String, u64)>,
    /// The targets of health checks, with their state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health: Vec<HealthTarget>,
    /// The number of other servers whose results of health checks are used, if they are shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_shared_with: Option<usize>,
    /// Items that only this server has although it shares its database with others, such as `2 TSIG keys`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only_here: Vec<String>,
    /// The faults that need an operator, the worst first.
    pub faults: Vec<ServerFault>,
}

/// An address that DNS is answered on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerStatus {
    /// The address with its port.
    pub address: String,
    /// Its transports: `UDP`, `TCP`, `TLS`, `HTTPS`, `QUIC`.
    pub transports: Vec<String>,
}

/// A panic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InternalError {
    /// When it was.
    pub at: u64,
    /// Source file and line.
    pub location: String,
}

/// An interface whose datagrams bypass the kernel's sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpStatus {
    /// Its name.
    pub interface: String,
    /// The mode and the number of queues, or why it is not used.
    pub state: String,
    /// Checks whether it is used.
    pub is_used: bool,
}

/// Work that was rejected for lack of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRefusal {
    /// When it was.
    pub at: u64,
    /// The work, as in "a transfer of example.org".
    pub work: String,
}

/// The fill level of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// The name of its thread, or of its work.
    pub name: String,
    /// Number of waiting items.
    pub waiting: usize,
    /// Maximum number of waiting items.
    pub limit: usize,
    /// Items that found the queue full since the start: refused, or their senders had to wait.
    pub full: u64,
}

/// The state of dnstap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnstapStatus {
    /// The socket of the collector.
    pub socket: String,
    /// A collector is connected.
    pub is_connected: bool,
    /// Messages that were sent since the start.
    pub sent: u64,
    /// Messages that were dropped since the start.
    pub dropped: u64,
}

/// The state of response rate limiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimitStatus {
    /// Responses over the limit are sent, and only counted.
    pub is_log_only: bool,
    /// The client networks that were limited within the last minute, the most limited first; not all if there are
    /// many.
    pub limited: Vec<LimitedNetwork>,
}

/// A client network whose responses are being limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitedNetwork {
    /// Address and prefix length.
    pub network: String,
    /// Responses over the limit since the limiting started.
    pub responses: u64,
}

/// The outcome of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadStatus {
    /// When it ended.
    pub at: u64,
    /// Everything was applied.
    pub is_ok: bool,
    /// Counts of zones in words, or the first error.
    pub text: String,
}

/// Running transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TransferCounts {
    /// From primaries.
    pub incoming: usize,
    /// Zones that wait for a check or a transfer.
    pub incoming_waiting: usize,
    /// To secondaries.
    pub outgoing: usize,
    /// Requests of secondaries that wait for a slot.
    pub outgoing_waiting: usize,
}

/// Averages of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QueryRates {
    /// Over one minute.
    pub minute_1: f64,
    /// Over five minutes.
    pub minutes_5: f64,
    /// Over ten minutes.
    pub minutes_10: f64,
}

/// The requirements of `/readyz` for a server that has started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadyRules {
    /// The faults that make the server not ready.
    pub faults: Vec<FaultKind>,
    /// The share of zones, in percent, that must have data to serve; at least one zone.
    pub zones_percent: usize,
}

impl ReadyRules {
    /// Checks whether a fault makes the server not ready. `backend_down` includes every database that does not
    /// respond.
    fn counts(&self, kind: FaultKind) -> bool {
        kind == FaultKind::Starting
            || self.faults.contains(&kind)
            || (kind == FaultKind::BackendLost && self.faults.contains(&FaultKind::BackendDown))
    }
}

impl ServerStatus {
    /// Returns the number of zones that have data to serve.
    pub fn zones_answered(&self) -> usize {
        let unreachable = self.backends.iter().map(BackendStatus::unreachable_zones);
        let without_answer = unreachable.sum::<usize>() + self.zones_not_ready;
        self.zones.saturating_sub(without_answer)
    }

    /// Returns the reasons why the server is not ready, each kind once. A server that has not started is never ready,
    /// and neither is one that has zones and cannot answer for any.
    pub fn reasons(&self, rules: &ReadyRules) -> Vec<&'static str> {
        let exists = |kind: FaultKind| {
            let is_lost =
                kind == FaultKind::BackendLost && self.backends.iter().any(|one| one.is_lost);
            is_lost || self.faults.iter().any(|fault| fault.kind == kind)
        };
        let kinds = FaultKind::ALL.iter().copied();
        let mut reasons: Vec<_> = kinds
            .filter(|kind| rules.counts(*kind) && exists(*kind))
            .map(FaultKind::reason)
            .collect();
        let answered = self.zones_answered();
        if !self.is_started || self.zones == 0 {
            return reasons;
        }
        if answered == 0 {
            reasons.push("no zone can be answered");
        } else if answered * 100 < rules.zones_percent * self.zones {
            reasons.push("fewer zones can be answered than web.ready_zones_percent requires");
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: FaultKind) -> ServerFault {
        ServerFault {
            kind,
            since: 0,
            text: "zone secret.test".into(),
            effect: String::new(),
            remedy: String::new(),
        }
    }

    fn rules(faults: &[FaultKind], zones_percent: usize) -> ReadyRules {
        ReadyRules {
            faults: faults.into(),
            zones_percent,
        }
    }

    #[test]
    fn each_reason_is_listed_once_and_only_if_it_counts() {
        let kinds = [
            FaultKind::BackendDown,
            FaultKind::BackendDown,
            FaultKind::ZoneStale,
        ];
        let status = ServerStatus {
            faults: kinds.map(fault).into(),
            ..ServerStatus::default()
        };
        assert_eq!(
            status.reasons(&rules(FaultKind::ALL, 0)),
            [
                "a backend does not respond",
                "the last refresh of a secondary zone failed"
            ]
        );
        assert_eq!(status.reasons(&rules(&[FaultKind::ZoneStale], 0)).len(), 1);
        assert_eq!(status.reasons(&rules(&[], 0)), Vec::<&str>::new());
        let starting = ServerStatus {
            faults: vec![fault(FaultKind::Starting)],
            ..ServerStatus::default()
        };
        assert_eq!(starting.reasons(&rules(&[], 0)).len(), 1);
    }

    /// Returns a started server with this many zones, of which some have no data.
    fn server(zones: usize, zones_not_ready: usize) -> ServerStatus {
        ServerStatus {
            is_started: true,
            zones,
            zones_not_ready,
            ..ServerStatus::default()
        }
    }

    #[test]
    fn a_share_of_zones_without_data_counts_only_as_configured() {
        let none = "no zone can be answered";
        let few = "fewer zones can be answered than web.ready_zones_percent requires";
        for (zones, without_data, percent, expected) in [
            (0, 0, 100, None),
            (1000, 999, 0, None),
            (1000, 1000, 0, Some(none)),
            (1000, 101, 90, Some(few)),
            (1000, 100, 90, None),
            (1, 1, 0, Some(none)),
        ] {
            let reasons = server(zones, without_data).reasons(&rules(&[], percent));
            assert_eq!(
                reasons.first().copied(),
                expected,
                "{without_data} of {zones}"
            );
        }
    }

    #[test]
    fn an_unreachable_backend_counts_as_configured_and_its_zones_in_the_share() {
        let backend = BackendStatus {
            backend: 1,
            engine: "sqlite".into(),
            address: "sqlite:/a.db".into(),
            mode: "live".into(),
            is_up: false,
            since: 0,
            last_error: None,
            last_error_at: None,
            unseen_changes: None,
            failed_servers: Vec::new(),
            lag: None,
            zones: 9,
            is_lost: true,
        };
        let mut status = server(10, 0);
        status.backends.push(backend);
        let lost = "no zone of a backend can be answered";
        for counted in [FaultKind::BackendLost, FaultKind::BackendDown] {
            assert_eq!(status.reasons(&rules(&[counted], 0)), [lost]);
        }
        assert_eq!(status.reasons(&rules(&[], 0)), Vec::<&str>::new());
        assert_eq!(status.reasons(&rules(&[], 50)).len(), 1);
    }

    #[test]
    fn kinds_are_found_by_their_keywords() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::from_word(kind.word()), Some(*kind));
            let json = serde_json::to_string(kind).unwrap();
            assert_eq!(json, format!("\"{}\"", kind.word()));
        }
    }
}
