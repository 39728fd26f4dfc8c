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
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal, $reason:literal;)+) => {
        /// The kind of a fault, the worst first.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum FaultKind {
            $($(#[doc = $doc])+ #[serde(rename = $word)] $name,)+
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
    /// Zones are being loaded.
    Starting = "starting", "the server is starting: zones are being loaded";
    /// Queries are no longer received over UDP or TCP.
    ListenerDown = "listener_down", "queries are no longer received over UDP or TCP";
    /// A database does not respond, and its zones are not in memory.
    BackendLost = "backend_lost", "no zone of a backend can be answered";
    /// A database does not respond; its zones are served from memory.
    BackendDown = "backend_down", "a backend does not respond";
    /// Changes of a database are not seen.
    ChangesUnseen = "changes_unseen", "changes of a backend are not seen";
    /// A database server that is read is too far behind the one that accepts changes.
    BackendBehind = "backend_behind", "a backend is too far behind the server that accepts changes";
    /// One of several servers of a database does not respond.
    BackendServerDown = "backend_server_down", "one of several servers of a backend does not respond";
    /// The state store cannot be written, or its file is lost.
    StateStore = "state_store", "the state store cannot be written: changes are refused";
    /// Zones have no data to serve.
    ZoneEmpty = "zone_empty", "a zone has no data to serve";
    /// Secondary zones were never transferred.
    ZoneNeverTransferred = "zone_never_transferred", "a secondary zone was never transferred";
    /// Secondary zones have expired.
    ZoneExpired = "zone_expired", "a secondary zone has expired";
    /// PRESIGNED zones are answered without signatures.
    ZoneUnsigned = "zone_unsigned", "a zone signed elsewhere is answered without signatures";
    /// Zone files have errors, and the previous version is served.
    ZoneErrors = "zone_errors", "a zone file has errors: the previous version is served";
    /// Zone files contradict changes that were made through this server.
    FileConflict = "file_conflict", "a zone file contradicts changes that were made through this server";
    /// Zones are served although their files are missing.
    ZoneFileMissing = "zone_file_missing", "zone files are missing: their zones are still served";
    /// Stored signatures have expired or are missing.
    SignaturesBroken = "signatures_broken", "signatures of a zone signed elsewhere have expired or are missing";
    /// A directory, list or configuration of zone files could not be read.
    FileSource = "file_source", "a source of zone files could not be read";
    /// The last reload failed.
    ReloadFailed = "reload_failed", "the last reload failed";
    /// The TLS certificate expires soon, or a new one cannot be loaded.
    TlsCertificate = "tls_certificate", "a TLS certificate expires soon, or a new one cannot be loaded";
    /// No encrypted connection can be made to a primary, or to a server that is notified.
    PeerTls = "peer_tls", "no encrypted connection can be made to a primary or a secondary";
    /// XDP is configured for an interface and not used.
    XdpUnused = "xdp_unused", "XDP is configured for an interface and not used";
    /// A GeoIP database is damaged or missing.
    GeoDatabase = "geo_database", "a GeoIP database cannot be used";
    /// A target of a health check is down.
    TargetDown = "target_down", "a target of a health check is down";
    /// Results of health checks are not shared with other servers.
    HealthUnshared = "health_unshared", "results of health checks are not shared with other servers";
    /// A LUA record failed when it was last run.
    LuaFailed = "lua_failed", "a LUA record failed";
    /// A panic within the last day.
    InternalError = "internal_error", "a piece of work ended with an internal error";
    /// Work was rejected for lack of memory within the last hour.
    OutOfMemory = "out_of_memory", "work was rejected because there was no memory for it";
    /// Stored signatures expire soon.
    SignaturesEnding = "signatures_ending", "signatures of a zone signed elsewhere expire within two days";
    /// The primaries of secondary zones have a lower serial than this server.
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
