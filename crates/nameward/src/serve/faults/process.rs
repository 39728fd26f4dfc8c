//! Faults of the process itself, not of its zones: the TLS certificate, connections to other servers, GeoIP databases,
//! targets of health checks, LUA records, and internal errors.

use nameward_base::text::{counted, utc_text};
use nameward_base::time::now_seconds;
use nameward_control::operations::{FaultKind, ServerFault, ServerStatus};
use nameward_peers::connections::PeerRole;
use nameward_peers::connections::PeerTlsFault;
use nameward_serve::scripts::FailingScript;
use nameward_serve::tls::TlsFault;
use nameward_steering::geo::GeoFault;
use nameward_steering::health::TargetReport;

use super::super::shared_health::SharingFailure;
use super::{NAMED_MAX, and_more, fault, fault_since};

/// Seconds for which a panic is a fault: what it cost may go unnoticed for that long.
const INTERNAL_ERROR_SHOWN: u64 = 86_400;
/// Seconds for which work that was rejected for lack of memory is a fault.
const MEMORY_REFUSAL_SHOWN: u64 = 3600;

/// Returns the single fault of a server whose zones are not loaded yet.
pub(super) fn start_faults() -> Vec<ServerFault> {
    vec![fault(
        FaultKind::Starting,
        "The server is starting: zones are being loaded.",
        "Zones that are not loaded yet are answered SERVFAIL.",
        "Wait: each zone is served as soon as it is loaded.",
    )]
}

/// Returns the fault of a TLS certificate that expires soon or cannot be loaded.
pub(super) fn certificate_fault(found: &TlsFault) -> ServerFault {
    match found {
        TlsFault::Rejected { error, since } => fault_since(
            *since,
            FaultKind::TlsCertificate,
            format!("The new TLS certificate cannot be used: {error}."),
            "New connections still get the previous certificate, until it expires.",
            "Fix the files: a certificate chain and its private key in PEM, readable by the user of the server. They are \
                 loaded again when they change.",
        ),
        TlsFault::Expiring { path, at } => fault(
            FaultKind::TlsCertificate,
            format!(
                "TLS certificate {} expires on {}.",
                path.display(),
                utc_text(*at)
            ),
            "From then on clients refuse to connect to the API and over TLS.",
            "Renew the certificate; the new files are loaded when they change.",
        ),
    }
}

/// Returns the fault of interfaces with XDP that is not used.
pub(super) fn xdp_fault(status: &ServerStatus) -> Option<ServerFault> {
    let unused: Vec<_> = status.xdp.iter().filter(|one| !one.is_used).collect();
    if unused.is_empty() {
        return None;
    }
    let named = named(&unused, |one| format!("{} ({})", one.interface, one.state));
    Some(fault(
        FaultKind::XdpUnused,
        format!("XDP is configured and not in use: {named}."),
        "Queries that arrive there are answered through ordinary sockets, at a higher cost.",
        "Remove the cause and restart the server, or remove the interface from `xdp.interfaces`.",
    ))
}

/// Returns the fault of a GeoIP database that is not used.
pub(super) fn geo_database_fault(found: &GeoFault) -> ServerFault {
    let effect = if found.has_previous {
        "The previous contents are still in use."
    } else {
        "Clients have no location: LUA records that depend on it answer as for an unknown client."
    };
    fault(
        FaultKind::GeoDatabase,
        format!(
            "GeoIP database {} cannot be used: {}.",
            found.path.display(),
            found.error
        ),
        effect,
        "Install an intact file in the MaxMind format. It is loaded when it changes.",
    )
}

pub(super) fn target_fault((down, all): (&[TargetReport], usize)) -> Option<ServerFault> {
    let named = named(
        down,
        |TargetReport {
             check,
             error,
             others,
             ..
         }| {
            if error.is_empty() {
                let servers = counted(usize::from(others.down), "other server");
                format!("{check}: down at {servers}")
            } else {
                format!("{check}: {error}")
            }
        },
    );
    Some(fault_since(
        down.iter().map(|report| report.since).min()?,
        FaultKind::TargetDown,
        format!(
            "{} of {all} targets of health checks are down: {named}.",
            down.len()
        ),
        "Answers of pools and LUA records do not contain them, unless all targets of a pool or record are down.",
        "Check the targets and the network path. `nameward health list` shows all of them; `nameward health force` sets a state.",
    ))
}

/// Returns the fault of results of health checks that are not shared.
pub(super) fn unshared_health_fault(failure: &SharingFailure) -> ServerFault {
    let SharingFailure {
        database, error, ..
    } = failure;
    fault_since(
        failure.since,
        FaultKind::HealthUnshared,
        format!("Results of health checks are not shared through {database}: {error}."),
        "Answers of pools and LUA records depend on the checks of this server alone. States that operators set elsewhere do not \
         take effect here.",
        "Check the database. The server keeps retrying.",
    )
}

/// Returns the fault of LUA records that failed when they were last run.
pub(super) fn script_fault(failing: &[FailingScript]) -> Option<ServerFault> {
    let named = named(failing, |script| {
        format!("{} {}: {}", script.name, script.rtype, script.reason)
    });
    Some(fault_since(
        failing.iter().map(|script| script.since).min()?,
        FaultKind::LuaFailed,
        format!("{} failed: {named}.", counted(failing.len(), "LUA record")),
        "Queries for these names are answered SERVFAIL.",
        "Fix the scripts. The fault ends when a script has run without an error, or has not failed for an hour.",
    ))
}

/// Returns the texts of the first items, and how many more there are.
fn named<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    let texts: Vec<String> = items.iter().take(NAMED_MAX).map(text).collect();
    let more = and_more(items.len().saturating_sub(NAMED_MAX));
    format!("{}{more}", texts.join("; "))
}

/// Returns the faults of servers to which no encrypted connection can be made. Of many the first are named.
pub(super) fn peer_faults(peers: &[PeerTlsFault]) -> impl Iterator<Item = ServerFault> {
    let named = peers.iter().take(NAMED_MAX).enumerate();
    named.map(|(index, peer)| {
        let others = if index + 1 == NAMED_MAX {
            peers.len() - NAMED_MAX
        } else {
            0
        };
        let (role, effect) = match peer.role {
            PeerRole::Primary => (
                "primary",
                "Its zones are not refreshed from it, and updates are not forwarded to it: there is no fallback to plain text.",
            ),
            PeerRole::Secondary => (
                "secondary",
                "It is not notified of changes, and gets them when it next queries the serial: there is no fallback to plain \
                 text.",
            ),
        };
        let (server, reason, more) = (&peer.server, &peer.reason, and_more(others));
        fault_since(
            peer.since,
            FaultKind::PeerTls,
            format!("No encrypted connection to the {role} {server}: {reason}{more}."),
            effect,
            "Fix the certificate there, or the settings `tls_name`, `tls_ca`, `tls_pin`, `tls_certificate` and `tls_key` here. The \
             server keeps retrying.",
        )
    })
}

/// Returns the fault of memory that the system refused.
pub(super) fn memory_fault(status: &ServerStatus) -> Option<ServerFault> {
    let last = status.last_memory_refusal.as_ref()?;
    if now_seconds().saturating_sub(last.at) > MEMORY_REFUSAL_SHOWN {
        return None;
    }
    let number = counted(status.memory_refusals as usize, "time");
    Some(fault_since(
        last.at,
        FaultKind::OutOfMemory,
        format!(
            "Out of memory {number} since the start, the last time for {}.",
            last.work
        ),
        "The work was rejected; zones are served as they were before it.",
        "Give the server more memory: see MemoryMax of its service, `ulimit -v`, and docs/capacity.md. The fault ends an hour after \
         the last time.",
    ))
}

/// Returns the fault for a panic, which cost only the work that caused it.
pub(super) fn internal_error_fault(status: &ServerStatus) -> Option<ServerFault> {
    let last = status.last_internal_error.as_ref()?;
    if now_seconds().saturating_sub(last.at) > INTERNAL_ERROR_SHOWN {
        return None;
    }
    let number = counted(status.internal_errors as usize, "internal error");
    Some(fault_since(
        last.at,
        FaultKind::InternalError,
        format!("{number} since the start, the last at {}.", last.location),
        "The work that met it was not completed.",
        "Report the log lines with \"internal error\". Restart the server if a zone is not up to date.",
    ))
}
