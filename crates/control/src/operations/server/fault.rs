//! The faults that need an operator, and their kinds.

use serde::{Deserialize, Serialize};

/// A fault that needs an operator: what is wrong, since when, what it costs, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// When the fault started or was first seen, in seconds since 1970.
    #[serde(default)]
    pub since: u64,
    /// The fault: the backend or zone, and the reason.
    pub text: String,
    /// The cost: the answers that clients get in the meantime.
    #[serde(default)]
    pub effect: String,
    /// The action for the operator.
    pub remedy: String,
}

macro_rules! fault_kinds {
    ($($(#[doc = $doc:literal])* $name:ident = $word:literal, $reason:literal;)+) => {
        /// The kind of a fault, the worst first.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum FaultKind {
            $(#[doc = $reason] $(#[doc = $doc])* #[serde(rename = $word)] $name,)+
        }

        impl FaultKind {
            /// All kinds.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$name,)+];

            /// Returns the keyword in settings and metrics.
            pub fn word(self) -> &'static str {
                match self { $(FaultKind::$name => $word,)+ }
            }

            /// Returns the sentence for probes, without zones and addresses: probes need no password.
            pub fn reason(self) -> &'static str {
                match self { $(FaultKind::$name => $reason,)+ }
            }
        }
    };
}

fault_kinds! {
    Starting = "starting", "the server is starting: zones are being loaded";
    ListenerDown = "listener_down", "queries are no longer received over UDP or TCP";
    /// A database does not respond, and its zones are not in memory.
    BackendLost = "backend_lost", "no zone of a backend can be answered";
    /// A database does not respond; its zones are served from memory.
    BackendDown = "backend_down", "a backend does not respond";
    ChangesUnseen = "changes_unseen", "changes of a backend are not seen";
    BackendBehind = "backend_behind", "a backend is too far behind the server that accepts changes";
    BackendServerDown = "backend_server_down", "one of several servers of a backend does not respond";
    /// The state store cannot be written, or its file is lost.
    StateStore = "state_store", "the state store cannot be written: changes are refused";
    ZoneEmpty = "zone_empty", "a zone has no data to serve";
    ZoneNeverTransferred = "zone_never_transferred", "a secondary zone was never transferred";
    ZoneExpired = "zone_expired", "a secondary zone has expired";
    ZoneUnsigned = "zone_unsigned", "a zone signed elsewhere is answered without signatures";
    ZoneErrors = "zone_errors", "a zone file has errors: the previous version is served";
    FileConflict = "file_conflict", "a zone file contradicts changes that were made through this server";
    ZoneFileMissing = "zone_file_missing", "zone files are missing: their zones are still served";
    SignaturesBroken = "signatures_broken", "signatures of a zone signed elsewhere have expired or are missing";
    /// A directory, list or configuration of zone files could not be read.
    FileSource = "file_source", "a source of zone files could not be read";
    ReloadFailed = "reload_failed", "the last reload failed";
    TlsCertificate = "tls_certificate", "a TLS certificate expires soon, or a new one cannot be loaded";
    PeerTls = "peer_tls", "no encrypted connection can be made to a primary or a secondary";
    XdpUnused = "xdp_unused", "XDP is configured for an interface and not used";
    /// A GeoIP database is damaged or missing.
    GeoDatabase = "geo_database", "a GeoIP database cannot be used";
    TargetDown = "target_down", "a target of a health check is down";
    HealthUnshared = "health_unshared", "results of health checks are not shared with other servers";
    /// A LUA record failed when it was last run.
    LuaFailed = "lua_failed", "a LUA record failed";
    /// A panic within the last day.
    InternalError = "internal_error", "a piece of work ended with an internal error";
    /// Work was rejected for lack of memory within the last hour.
    OutOfMemory = "out_of_memory", "work was rejected because there was no memory for it";
    /// Stored signatures expire soon.
    SignaturesEnding = "signatures_ending", "signatures of a zone signed elsewhere expire within two days";
    PrimaryBehind = "primary_behind", "the primary of a secondary zone has a lower serial";
    /// Secondary zones are served although their last refresh failed.
    ZoneStale = "zone_stale", "the last refresh of a secondary zone failed";
}

impl FaultKind {
    /// Returns the kind for a keyword.
    pub fn from_word(word: &str) -> Option<FaultKind> {
        let mut all = FaultKind::ALL.iter().copied();
        all.find(|kind| kind.word() == word)
    }
}
