//! Owns the state of a server as one structure: the command line prints it, the page shows it, `/metrics` and `/readyz` are
//! made of it.

use serde::{Deserialize, Serialize};

/// The state of a server. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The version of the program.
    pub version: String,
    /// The process id.
    pub process: u32,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// The configuration file; none for the built-in example.
    pub config: Option<String>,
    /// The name of this server: `server.nsid`, or else the host's.
    pub host: String,
    /// All zones were loaded, and each database was asked once.
    pub is_started: bool,
    /// Addresses that are answered on, UDP and TCP.
    pub listeners: Vec<String>,
    /// The address of the status page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<String>,
    /// Threads that answer UDP.
    pub workers: usize,
    /// Zones that are served.
    pub zones: usize,
    /// Zones of these that have no contents yet, or none that can be served.
    pub zones_not_ready: usize,
    /// Zones whose file has errors, with an older version in service or without.
    pub zones_with_errors: usize,
    /// Secondary zones that are served although their last check failed.
    pub zones_stale: usize,
    /// Secondary zones that no primary has confirmed for too long; they are not served.
    pub zones_expired: usize,
    /// Zones in memory that are answered with signatures. Which live zones have keys, their database knows.
    pub zones_signed: usize,
    /// The sources of zones, in the order of the configuration.
    pub backends: Vec<BackendStatus>,
    /// The last reload that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reload: Option<ReloadStatus>,
    /// Transfers under way.
    pub transfers: TransferCounts,
    /// Questions over UDP and TCP a second.
    pub queries_per_second: QueryRates,
    /// Octets of memory in use.
    pub memory_bytes: u64,
    /// dnstap, where it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dnstap: Option<Box<DnstapStatus>>,
    /// The faults that an operator should look at, the worst first.
    pub faults: Vec<ServerFault>,
}

/// The state of a source of zones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendStatus {
    /// The number of the backend; 0 for zones that `[[zone]]` declares.
    pub backend: u32,
    /// `file`, `sqlite`, `postgres` or `mysql`.
    pub engine: String,
    /// The address of a database, without its password; where files stand.
    pub address: String,
    /// `live` or `resident`; files are always in memory.
    pub mode: String,
    /// It answers, or can be read.
    pub is_up: bool,
    /// When that began.
    pub since: u64,
    /// The last failure, also of one that is up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<u64>,
    /// Zones that it serves.
    pub zones: usize,
}

/// The state of dnstap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnstapStatus {
    /// The socket of the collector.
    pub socket: String,
    /// The collector listens.
    pub is_connected: bool,
    /// Messages that were sent since the start.
    pub sent: u64,
    /// Messages that were dropped since the start.
    pub dropped: u64,
}

/// The outcome of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadStatus {
    /// When it ended.
    pub at: u64,
    /// Everything was taken.
    pub is_ok: bool,
    /// Counts of zones in words, or the first error.
    pub text: String,
}

/// Transfers under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TransferCounts {
    /// From primaries.
    pub incoming: usize,
    /// Zones that wait for a check or a transfer.
    pub incoming_waiting: usize,
    /// To secondaries.
    pub outgoing: usize,
    /// Requests of secondaries that wait for a place.
    pub outgoing_waiting: usize,
}

/// Averages of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QueryRates {
    /// Of one minute.
    pub minute_1: f64,
    /// Of five.
    pub minutes_5: f64,
    /// Of ten.
    pub minutes_10: f64,
}

/// A fault of a server that an operator should look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFault {
    /// Its kind.
    pub kind: FaultKind,
    /// The fault in words: which backend or zone, since when, why.
    pub text: String,
    /// The thing to do about it.
    pub remedy: String,
}

macro_rules! fault_kinds {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal, $reason:literal;)+) => {
        /// The kind of a fault, the worst first.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum FaultKind {
            $($(#[doc = $doc])+ #[serde(rename = $word)] $name,)+
        }

        impl FaultKind {
            /// All kinds.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$name,)+];

            /// The word for it in settings and metrics.
            pub fn word(self) -> &'static str {
                match self { $(FaultKind::$name => $word,)+ }
            }

            /// The sentence that a probe gets, which names no zone and no address: probes ask for no password.
            pub fn reason(self) -> &'static str {
                match self { $(FaultKind::$name => $reason,)+ }
            }
        }
    };
}

fault_kinds! {
    /// Zones are being loaded.
    Starting = "starting", "the server is starting: zones are being loaded";
    /// A database does not answer.
    BackendDown = "backend_down", "a backend does not answer";
    /// Zones have no contents that can be served.
    ZoneEmpty = "zone_empty", "a zone has no contents that can be served";
    /// Secondary zones have expired.
    ZoneExpired = "zone_expired", "a secondary zone has expired";
    /// Files of zones have errors, and an older version is served.
    ZoneErrors = "zone_errors", "the file of a zone has errors: an older version is served";
    /// Signatures that zones bring with them have ended or are missing.
    SignaturesBroken = "signatures_broken", "signatures that a zone brings with it have ended or are missing";
    /// A directory, list or configuration of files could not be used as it is.
    FileSource = "file_source", "a source of zone files could not be read";
    /// The last reload failed.
    ReloadFailed = "reload_failed", "the last reload failed";
    /// Signatures that zones bring with them end soon.
    SignaturesEnding = "signatures_ending", "signatures that a zone brings with it end within two days";
    /// Secondary zones are served although their last check failed.
    ZoneStale = "zone_stale", "the last check of a secondary zone failed";
}

impl FaultKind {
    /// The kind of a word.
    pub fn from_word(word: &str) -> Option<FaultKind> {
        let mut all = FaultKind::ALL.iter().copied();
        all.find(|kind| kind.word() == word)
    }
}

impl ServerStatus {
    /// The reasons why the server is not ready, each kind once; `counted` says which faults count. A server that has not
    /// started is never ready.
    pub fn reasons(&self, counted: &[FaultKind]) -> Vec<&'static str> {
        let counts = |kind: FaultKind| kind == FaultKind::Starting || counted.contains(&kind);
        let kinds = FaultKind::ALL.iter().copied();
        kinds
            .filter(|kind| counts(*kind) && self.faults.iter().any(|fault| fault.kind == *kind))
            .map(FaultKind::reason)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_listed_once_and_only_if_it_counts() {
        let fault = |kind| ServerFault {
            kind,
            text: "zone secret.test".into(),
            remedy: String::new(),
        };
        let status = ServerStatus {
            faults: [
                FaultKind::BackendDown,
                FaultKind::BackendDown,
                FaultKind::ZoneStale,
            ]
            .map(fault)
            .into(),
            ..ServerStatus::default()
        };
        let all = status.reasons(FaultKind::ALL);
        assert_eq!(
            all,
            [
                "a backend does not answer",
                "the last check of a secondary zone failed"
            ]
        );
        assert_eq!(status.reasons(&[FaultKind::ZoneStale]).len(), 1);
        assert_eq!(status.reasons(&[]), Vec::<&str>::new());
        let starting = ServerStatus {
            faults: vec![fault(FaultKind::Starting)],
            ..ServerStatus::default()
        };
        assert_eq!(starting.reasons(&[]).len(), 1);
    }

    #[test]
    fn kinds_are_found_by_their_words() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::from_word(kind.word()), Some(*kind));
            let json = serde_json::to_string(kind).unwrap();
            assert_eq!(json, format!("\"{}\"", kind.word()));
        }
    }
}
