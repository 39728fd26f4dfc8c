//! Owns the words for what is wrong with the server, each with what to do about it.

use nameward_control::operations::{BackendStatus, FaultKind, ServerFault, ServerStatus};
use nameward_maintain::follow::{FaultyZoneList, FaultyZones};
use nameward_maintain::signature_watch::SignatureSums;
use nameward_wire::calendar::UtcTime;
use nameward_zone::ZoneSums;

use super::counted;
use crate::cli::print::zone_text;

/// The one fault of a server whose zones are not loaded yet.
pub fn of_start() -> Vec<ServerFault> {
    vec![fault(
        FaultKind::Starting,
        "The server is starting: zones are being loaded.".into(),
        "Each zone is answered as soon as it is loaded; those that are not yet get SERVFAIL.",
    )]
}

/// Finds the faults of a state, the worst first.
pub fn of(
    status: &ServerStatus,
    sums: &ZoneSums,
    files: &FaultyZones,
    (troubles, signatures): (&[String], &SignatureSums),
) -> Vec<ServerFault> {
    if !status.is_started {
        return of_start();
    }
    let down = status.backends.iter().filter(|backend| !backend.is_up);
    let mut faults: Vec<ServerFault> = down.map(of_backend).collect();
    faults.extend(of_empty_zones(status, sums, &files.without_contents));
    if status.zones_expired > 0 {
        let zones = counted(status.zones_expired, "secondary zone");
        faults.push(fault(
            FaultKind::ZoneExpired,
            format!("{zones} expired: no primary has confirmed them for the time their SOA allows."),
            "Questions for them are answered SERVFAIL. `nameward zone status` names the primaries and the last error; \
             `nameward zone retrieve ZONE` asks again at once.",
        ));
    }
    faults.extend(of_errors(&files.with_old_version));
    if let Some(first) = signatures.first_broken() {
        let more = and_more(signatures.broken().saturating_sub(1) as usize);
        faults.push(fault(
            FaultKind::SignaturesBroken,
            format!("Validating resolvers refuse answers of {first}{more}."),
            "Whoever signs the zone has to sign it again: its file, or its primary. Nothing here has its keys.",
        ));
    }
    if let Some(first) = troubles.first() {
        let more = and_more(troubles.len() - 1);
        faults.push(fault(
            FaultKind::FileSource,
            format!("Zone files could not be read: {first}{more}."),
            "Zones that were served stay in service. Mend it, then run `nameward reload`.",
        ));
    }
    if let Some(reload) = status.last_reload.as_ref().filter(|reload| !reload.is_ok) {
        let at = moment(reload.at);
        faults.push(fault(
            FaultKind::ReloadFailed,
            format!("The last reload, at {at}, did not take everything: {}.", reload.text),
            "The server goes on with what it had. `nameward check` names every mistake; then run `nameward reload`.",
        ));
    }
    if let Some(first) = signatures.first_ending() {
        let more = and_more(signatures.ending().saturating_sub(1) as usize);
        faults.push(fault(
            FaultKind::SignaturesEnding,
            format!("Signatures end within two days and were not renewed: {first}{more}."),
            "Look after whoever signs the zone: its file, or its primary. Nothing here has its keys.",
        ));
    }
    if status.zones_stale > 0 {
        let zones = counted(status.zones_stale, "secondary zone");
        faults.push(fault(
            FaultKind::ZoneStale,
            format!("{zones} could not be checked with a primary the last time."),
            "They are served until they expire. `nameward zone status` names the primaries and the last error.",
        ));
    }
    faults
}

fn fault(kind: FaultKind, text: String, remedy: &str) -> ServerFault {
    let remedy = remedy.into();
    ServerFault { kind, text, remedy }
}

fn of_backend(backend: &BackendStatus) -> ServerFault {
    let BackendStatus {
        backend: number,
        address,
        ..
    } = backend;
    let since = moment(backend.since);
    let error = backend.last_error.as_deref().unwrap_or("no answer");
    let remedy = match backend.mode.as_str() {
        "live" => {
            "Answers come from the caches for as long as `cache.stale_while_down` allows, then they are SERVFAIL. The \
             server tries again by itself: see that the database runs and lets this server in."
        }
        _ => {
            "Its zones stay in service as they were last read. The server tries again by itself: see that the database \
             runs and lets this server in."
        }
    };
    let text = format!("Backend {number} ({address}) does not answer since {since}: {error}.");
    fault(FaultKind::BackendDown, text, remedy)
}

/// Zones without contents that have not expired: those have a fault of their own.
fn of_empty_zones(
    status: &ServerStatus,
    sums: &ZoneSums,
    files: &FaultyZoneList,
) -> Option<ServerFault> {
    let number = status.zones_not_ready.checked_sub(status.zones_expired)?;
    if number == 0 {
        return None;
    }
    let text = match files.first.first() {
        Some(first) => {
            let more = and_more(number - 1);
            format!(
                "Zone {} cannot be served: {}{more}.",
                zone_text(&first.name),
                first.error
            )
        }
        None => {
            let names = sums.not_ready_names.iter().map(ToString::to_string);
            let names: Vec<_> = names.map(|name| zone_text(&name).to_string()).collect();
            let more = and_more(number.saturating_sub(names.len()));
            let zones = counted(number, "zone");
            let names = names.join(", ");
            format!("{zones} without contents that can be served: {names}{more}.")
        }
    };
    Some(fault(
        FaultKind::ZoneEmpty,
        text,
        "Questions are answered SERVFAIL. A zone file is to be mended (`nameward check` names every mistake); a secondary \
         waits for its primary (`nameward zone status`); a zone of a database for its database.",
    ))
}

fn of_errors(files: &FaultyZoneList) -> Option<ServerFault> {
    let first = files.first.first()?;
    let more = and_more(files.number - 1);
    let (name, error) = (zone_text(&first.name), &first.error);
    Some(fault(
        FaultKind::ZoneErrors,
        format!("The file of zone {name} has errors: {error}{more}."),
        "The version from before stays in service. `nameward check` names every mistake.",
    ))
}

/// " and 3 more", or nothing.
fn and_more(number: usize) -> String {
    match number {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    }
}

/// Writes a time in seconds since 1970 as a date and time (UTC).
pub fn moment(seconds: u64) -> String {
    UtcTime::from_unix(seconds).to_string()
}
