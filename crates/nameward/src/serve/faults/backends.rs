//! The faults of databases: they or one of their servers do not respond, their changes are not seen, or the server that is read is behind.

use nameward_base::text::counted;
use nameward_control::operations::{BackendStatus, FaultKind, ServerFault};

use super::{fault, fault_since};

/// Returns the fault of a database that does not respond.
pub(super) fn backend_faults(backend: &BackendStatus) -> ServerFault {
    let BackendStatus {
        backend: number,
        address,
        ..
    } = backend;
    let error = backend.last_error.as_deref().unwrap_or("no answer");
    let (kind, effect) = match (backend.is_lost, backend.mode.as_str()) {
        (true, "live") => (
            FaultKind::BackendLost,
            "Its zones are answered from the caches for as long as `cache.stale_while_down` allows; names that are not \
             cached get SERVFAIL.",
        ),
        (true, _) => (
            FaultKind::BackendLost,
            "Its zones are not in memory yet and are answered SERVFAIL.",
        ),
        (false, _) => (
            FaultKind::BackendDown,
            "Its zones are served from memory as they were last read; changes are not seen.",
        ),
    };
    fault_since(
        backend.since,
        kind,
        format!("Backend {number} ({address}) does not respond: {error}."),
        effect,
        "Check that the database is running, is reachable and accepts this server's login. The server keeps retrying.",
    )
}

/// Returns the fault of a database that responds, or is not queried, but does not report changes.
pub(super) fn unseen_changes_fault(backend: &BackendStatus) -> Option<ServerFault> {
    let unseen = backend.unseen_changes.as_ref()?;
    let (number, address, error) = (backend.backend, &backend.address, &unseen.error);
    let effect = match backend.mode.as_str() {
        "live" => "Answers from the caches may be out of date.",
        _ => "Its zones are served as they were last read.",
    };
    Some(fault_since(
        unseen.since,
        FaultKind::ChangesUnseen,
        format!("Change detection of backend {number} ({address}) does not work: {error}."),
        effect,
        "Check the database server and the network path to it. The server keeps retrying, then reads everything again.",
    ))
}

/// Returns the fault of a database with servers that do not respond.
pub(super) fn failed_server_faults(backend: &BackendStatus) -> Option<ServerFault> {
    let first = backend.failed_servers.iter().map(|one| one.since).min()?;
    let servers = backend.failed_servers.iter();
    let servers: Vec<String> = servers
        .map(|one| format!("{} ({})", one.server, one.error))
        .collect();
    let (number, address) = (backend.backend, &backend.address);
    Some(fault_since(
        first,
        FaultKind::BackendServerDown,
        format!(
            "Backend {number} ({address}): no response from {}.",
            servers.join(", ")
        ),
        "Its other servers are used. If another one fails, changes or look-ups may fail, too.",
        "Check that server and the network path to it. It is probed every two seconds.",
    ))
}

/// Returns the fault of a database that is read from a server that is too far behind.
pub(super) fn lag_fault(backend: &BackendStatus) -> Option<ServerFault> {
    let lag = backend.lag.filter(|lag| lag.seconds > lag.seconds_max)?;
    // Undetected changes are a fault of their own.
    if backend.unseen_changes.is_some() {
        return None;
    }
    let (number, address) = (backend.backend, &backend.address);
    let changes = counted(usize::try_from(lag.changes).unwrap_or(usize::MAX), "change");
    Some(fault(
        FaultKind::BackendBehind,
        format!(
            "Backend {number} ({address}) is read from a server that is {} s and {changes} behind the one that accepts changes.",
            lag.seconds
        ),
        "Its zones are answered as they were then.",
        "Check the replication of the database. If there are several servers, another one is read as soon as it is in step.",
    ))
}
