//! The fault list: each fault says what is wrong, since when, what it costs, and what to do.
//!
//! A fault whose source knows when it started has that time; for the others [`FirstSeen`] remembers when they were
//! first found.

mod backends;
mod process;

use nameward_base::text::{counted, zone_text};
use nameward_base::time::seconds_since_1970;
use std::collections::HashMap;

use nameward_control::operations::{FaultKind, ServerFault, ServerStatus};
use nameward_files::{MissingOutlook, MissingZones};
use nameward_maintain::commit::FileConflicts;
use nameward_maintain::follow::{
    FaultyZoneList, FaultyZones, databases::DatabaseZoneFaults, missing_files,
};
use nameward_maintain::signature_watch::SignatureSums;
use nameward_peers::connections::PeerTlsFault;
use nameward_peers::secondary::{SecondariesSummary, UntransferredZones};
use nameward_serve::scripts::FailingScript;
use nameward_serve::tls::TlsFault;
use nameward_state::{StateError, StoreFault};
use nameward_steering::geo::GeoFault;
use nameward_steering::health::TargetReport;
use nameward_wire::{Name, NameBuf};
use nameward_zone::ZoneSums;

use super::shared_health::SharingFailure;
use backends::{backend_faults, failed_server_faults, lag_fault, unseen_changes_fault};
use process::{
    certificate_fault, geo_database_fault, internal_error_fault, memory_fault, peer_faults,
    script_fault, start_faults, target_fault, unshared_health_fault, xdp_fault,
};

/// The sources that faults are derived from.
pub struct FaultSources<'a> {
    /// The problem of the TLS certificate.
    pub tls: Option<&'a TlsFault>,
    /// Servers to which no encrypted connection can be made.
    pub peers: &'a [PeerTlsFault],
    pub status: &'a ServerStatus,
    /// Names of listeners that no longer receive, for the message.
    pub ended_listeners: &'a [&'static str],
    pub sums: &'a ZoneSums,
    pub files: &'a FaultyZones,
    /// Sources of zone files that could not be read.
    pub file_sources: &'a [String],
    /// Zones that are served although their files are missing.
    pub missing_files: &'a [MissingZones],
    /// Zones whose files contradict changes made through this server.
    pub conflicts: &'a FileConflicts,
    /// The state store, if it does not accept changes.
    pub store: Option<&'a StoreFault>,
    pub signatures: &'a SignatureSums,
    /// Secondary zones that were never transferred.
    pub never_transferred: &'a UntransferredZones,
    pub databases: &'a DatabaseZoneFaults,
    pub secondaries: &'a SecondariesSummary,
    /// GeoIP databases that are not used.
    pub geo: &'a [GeoFault],
    /// Targets of health checks that are down, with the number of all.
    pub targets: (&'a [TargetReport], usize),
    /// Why results of health checks are not shared.
    pub unshared_health: Option<&'a SharingFailure>,
    /// LUA records that failed when they were last run.
    pub scripts: &'a [FailingScript],
    /// Checks whether a zone is transferred from a primary.
    pub is_transferred: &'a dyn Fn(Name<'_>) -> bool,
}

/// When faults without their own time were first found.
#[derive(Default)]
pub struct FirstSeen(HashMap<FaultKind, u64>);

impl FirstSeen {
    /// Dates the current faults, and forgets the kinds that have ended.
    pub fn date(&mut self, faults: &mut [ServerFault], now: u64) {
        self.0
            .retain(|kind, _| faults.iter().any(|fault| fault.kind == *kind));
        for fault in faults.iter_mut() {
            let first = *self.0.entry(fault.kind).or_insert(now);
            if fault.since == 0 {
                fault.since = first;
            }
        }
    }
}

impl FaultSources<'_> {
    /// Finds the faults, the worst first.
    pub fn find(&self) -> Vec<ServerFault> {
        if !self.status.is_started {
            return start_faults();
        }
        let mut faults = Vec::new();
        faults.extend(self.listeners());
        let down = self.status.backends.iter().filter(|one| !one.is_up);
        faults.extend(down.map(backend_faults));
        let up = self.status.backends.iter().filter(|one| one.is_up);
        faults.extend(up.clone().filter_map(unseen_changes_fault));
        faults.extend(up.clone().filter_map(lag_fault));
        faults.extend(up.filter_map(failed_server_faults));
        faults.extend(self.store.map(state_store_fault));
        faults.extend(self.empty_zones());
        faults.extend(self.never_transferred());
        faults.extend(self.expired());
        faults.extend(self.unsigned());
        faults.extend(file_error_fault(&self.files.with_old_version));
        faults.extend(self.conflicts());
        faults.extend(self.missing_files.iter().map(missing_file_fault));
        faults.extend(self.broken_signatures());
        faults.extend(self.file_sources());
        faults.extend(self.reload());
        faults.extend(self.tls.map(certificate_fault));
        faults.extend(peer_faults(self.peers));
        faults.extend(xdp_fault(self.status));
        faults.extend(self.geo.iter().map(geo_database_fault));
        faults.extend(target_fault(self.targets));
        faults.extend(self.unshared_health.map(unshared_health_fault));
        faults.extend(script_fault(self.scripts));
        faults.extend(internal_error_fault(self.status));
        faults.extend(memory_fault(self.status));
        faults.extend(self.ending_signatures());
        faults.extend(self.primaries_behind());
        faults.extend(self.stale());
        faults.sort_by_key(|fault| fault.kind);
        faults
    }

    fn listeners(&self) -> Option<ServerFault> {
        let ended = self.ended_listeners;
        let which = (!ended.is_empty()).then(|| ended.join(" and "))?;
        Some(fault(
            FaultKind::ListenerDown,
            format!(
                "Queries over {which} are no longer received: the threads that receive them have stopped."
            ),
            "Clients get no answer.",
            "Restart the server. See the log for the reason and please report it.",
        ))
    }

    /// Returns the fault for zones without data, other than secondary zones, which have their own faults.
    fn empty_zones(&self) -> Option<ServerFault> {
        let status = self.status;
        let secondary = status.zones_expired + status.zones_never_transferred;
        let number = status.zones_not_ready.checked_sub(secondary)?;
        if number == 0 {
            return None;
        }
        let in_file = self.files.without_contents.first.first();
        let in_file = in_file.map(|zone| (zone.name.clone(), zone.error.clone()));
        let in_database = self.databases.refused.first().cloned();
        let in_database = in_database.map(|(name, error)| (name.to_string(), error));
        let text = match in_file.or(in_database) {
            Some((name, error)) => {
                let (name, more) = (zone_text(&name), and_more(number - 1));
                format!("Zone {name} cannot be served: {error}{more}.")
            }
            None => {
                let live = self.databases.without_records.first.iter();
                let in_memory = self.sums.not_ready_names.iter();
                let in_memory = in_memory.filter(|name| !(self.is_transferred)(name.as_name()));
                let names = live.chain(in_memory).take(NAMED_MAX.min(number));
                let names = names.map(ToString::to_string);
                let names: Vec<_> = names.map(|name| zone_text(&name).to_string()).collect();
                let have = if number == 1 { "has" } else { "have" };
                let zones = counted(number, "zone");
                if names.is_empty() {
                    format!("{zones} {have} no data to serve.")
                } else {
                    let (more, names) = (and_more(number - names.len()), names.join(", "));
                    format!("{zones} {have} no data to serve: {names}{more}.")
                }
            }
        };
        let is_file_only = self.files.without_contents.number == number;
        let remedy = match self.databases.without_records.number {
            0 if is_file_only => "Fix the zone file; `nameward check` lists every error.",
            0 => {
                "Fix the zone file (`nameward check` lists every error) or the rows of the database (the log names them)."
            }
            _ => {
                "Add a SOA record and name servers to the zone in its database, for example with `nameward apply`, or \
                 delete it with `nameward zone delete ZONE`."
            }
        };
        Some(fault(FaultKind::ZoneEmpty, text, servfail(number), remedy))
    }

    fn never_transferred(&self) -> Option<ServerFault> {
        let first = self.never_transferred.first.first()?;
        let name = first.name.to_string();
        let (name, more) = (
            zone_text(&name),
            and_more(self.never_transferred.overdue - 1),
        );
        let reason = first.error.as_deref().map(|error| format!(": {error}"));
        let reason = reason.unwrap_or_default();
        let text = format!("Secondary zone {name} was never transferred{reason}{more}.");
        Some(fault(
            FaultKind::ZoneNeverTransferred,
            text,
            servfail(self.never_transferred.overdue),
            "Check that the primary is reachable and allows the transfer. `nameward zone status` shows the primary and the \
             last error of each zone; `nameward zone retrieve ZONE` tries again at once.",
        ))
    }

    fn expired(&self) -> Option<ServerFault> {
        let number = self.status.zones_expired;
        if number == 0 {
            return None;
        }
        let zones = secondary_zones(self.secondaries.first_expired, number);
        Some(fault(
            FaultKind::ZoneExpired,
            format!(
                "{zones} expired: no primary has confirmed the data within the expire time of the SOA."
            ),
            servfail(number),
            "Check the primaries: `nameward zone status` shows the primary and the last error of each zone; \
             `nameward zone retrieve ZONE` tries again at once.",
        ))
    }

    fn unsigned(&self) -> Option<ServerFault> {
        let unsigned = &self.databases.unsigned;
        let first = unsigned.first.first()?.to_string();
        let (name, more) = (zone_text(&first), and_more(unsigned.number - 1));
        Some(fault(
            FaultKind::ZoneUnsigned,
            format!(
                "Zone {name} is PRESIGNED, but its rows have no RRSIG for the SOA or no NSEC or NSEC3 chain{more}."
            ),
            "It is answered unsigned. If the parent has a DS record, validating resolvers return SERVFAIL.",
            "Check the signer or the transfer that fills the database. If the zone is no longer signed elsewhere, run \
             `nameward metadata remove ZONE PRESIGNED`.",
        ))
    }

    fn conflicts(&self) -> Vec<ServerFault> {
        let conflict = |zones: &FaultyZoneList, effect: &str, remedy: &str| {
            let first = zones.first.first()?;
            let (name, more) = (zone_text(&first.name), and_more(zones.number - 1));
            let text = format!(
                "Zone {name}: its file and changes made through this server contradict each other: {}{more}.",
                first.error
            );
            Some(fault(FaultKind::FileConflict, text, effect, remedy))
        };
        let with_changes = conflict(
            &self.conflicts.with_changes,
            "The version with the changes is served; the edited file is not.",
            "Make the file say there what is served, then run `nameward reload`; or run `nameward zone sync --rewrite ZONE` \
             to write what is served over the file.",
        );
        let as_file = conflict(
            &self.conflicts.as_file,
            "The file is served. The changes are in the journal, but not in answers, and further changes are refused.",
            "`nameward zone history ZONE` lists the changes. Write what should be served into the file, with a serial above \
             theirs, then run `nameward reload`: the file replaces them.",
        );
        with_changes.into_iter().chain(as_file).collect()
    }

    fn broken_signatures(&self) -> Option<ServerFault> {
        let totals = self.signatures.now();
        let first = totals.first_broken?;
        let more = and_more(totals.broken.saturating_sub(1));
        Some(fault(
            FaultKind::SignaturesBroken,
            format!("Invalid signatures in a presigned zone: {first}{more}."),
            "DNSSEC validation of the answers fails.",
            "Sign the zone again at its signer: its file, or its primary. This server does not have its keys.",
        ))
    }

    fn ending_signatures(&self) -> Option<ServerFault> {
        let totals = self.signatures.now();
        let first = totals.first_ending?;
        let more = and_more(totals.ending.saturating_sub(1));
        Some(fault(
            FaultKind::SignaturesEnding,
            format!("Signatures expire within two days and were not renewed: {first}{more}."),
            "DNSSEC validation fails once they have expired.",
            "Check the zone's signer: its file, or its primary. This server does not have its keys.",
        ))
    }

    fn file_sources(&self) -> Option<ServerFault> {
        let first = self.file_sources.first()?;
        let more = and_more(self.file_sources.len() - 1);
        Some(fault(
            FaultKind::FileSource,
            format!("Zone files could not be read: {first}{more}."),
            "Zones that were served are still being served; new ones are not.",
            "Fix the path or its permissions, then run `nameward reload`.",
        ))
    }

    fn reload(&self) -> Option<ServerFault> {
        let failed = self.status.last_reload.as_ref();
        let reload = failed.filter(|reload| !reload.is_ok)?;
        Some(fault_since(
            reload.at,
            FaultKind::ReloadFailed,
            format!("The last reload failed: {}.", reload.text),
            "The server continues with its previous configuration and zones where the new ones have errors.",
            "`nameward check` lists every error. Fix them, then run `nameward reload`.",
        ))
    }

    fn primaries_behind(&self) -> Option<ServerFault> {
        let first = self.secondaries.first_behind?;
        let more = and_more(self.secondaries.behind.saturating_sub(1) as usize);
        let zone = first.zone.to_string();
        Some(fault(
            FaultKind::PrimaryBehind,
            format!(
                "Zone {} has serial {} here and {} at its primary{more}.",
                zone_text(&zone),
                first.here,
                first.there
            ),
            "Changes at the primary are not transferred. The zone is served as it is until it expires.",
            "Raise the serial at the primary above the one here, or run `nameward zone retrieve --force ZONE` to take the \
             version of the primary.",
        ))
    }

    fn stale(&self) -> Option<ServerFault> {
        let number = self.status.zones_stale;
        if number == 0 {
            return None;
        }
        let zones = secondary_zones(self.secondaries.first_stale, number);
        Some(fault(
            FaultKind::ZoneStale,
            format!("{zones} could not be refreshed."),
            "The data may be out of date. It is served until it expires.",
            "Check the primaries: `nameward zone status` shows the primary and the last error of each zone.",
        ))
    }
}

fn servfail(zones: usize) -> &'static str {
    match zones {
        1 => "Queries for this zone are answered SERVFAIL.",
        _ => "Queries for these zones are answered SERVFAIL.",
    }
}

/// "Secondary zone a.example", with the number of others.
fn secondary_zones(first: Option<NameBuf>, number: usize) -> String {
    let Some(first) = first else {
        return counted(number, "secondary zone");
    };
    let (first, more) = (first.to_string(), and_more(number - 1));
    format!("Secondary zone {}{more}", zone_text(&first))
}

/// Maximum number of zones named in a fault.
const NAMED_MAX: usize = 5;

fn fault(kind: FaultKind, text: impl Into<String>, effect: &str, remedy: &str) -> ServerFault {
    fault_since(0, kind, text, effect, remedy)
}

/// Returns a fault whose source knows when it started.
fn fault_since(
    since: u64,
    kind: FaultKind,
    text: impl Into<String>,
    effect: &str,
    remedy: &str,
) -> ServerFault {
    ServerFault {
        kind,
        since,
        text: text.into(),
        effect: effect.into(),
        remedy: remedy.into(),
    }
}

fn file_error_fault(files: &FaultyZoneList) -> Option<ServerFault> {
    let first = files.first.first()?;
    let more = and_more(files.number - 1);
    let (name, error) = (zone_text(&first.name), &first.error);
    Some(fault(
        FaultKind::ZoneErrors,
        format!("The file of zone {name} has errors: {error}{more}."),
        "The previous version is still being served.",
        "Fix the file; `nameward check` lists every error.",
    ))
}

fn missing_file_fault(missing: &MissingZones) -> ServerFault {
    let (effect, remedy) = match missing.outlook {
        MissingOutlook::Withdrawn(grace) => {
            let grace = counted(grace.as_secs() as usize, "second");
            (
                format!(
                    "The zones are still being served. They are withdrawn {grace} after their files disappeared."
                ),
                "Restore the files, or ignore this if you removed them.",
            )
        }
        MissingOutlook::Kept => (
            "The zones are still being served: the loss of most files is not treated as a removal."
                .to_string(),
            "Restore the files. If you removed them, run `nameward reload --withdraw-missing`.",
        ),
    };
    let text = format!(
        "Directory {}: {}.",
        missing.directory.display(),
        missing_files(missing)
    );
    fault_since(
        seconds_since_1970(missing.since),
        FaultKind::ZoneFileMissing,
        text,
        &effect,
        remedy,
    )
}

/// Returns the fault of a state store that does not accept changes.
fn state_store_fault(found: &StoreFault) -> ServerFault {
    let remedy = match &found.error {
        StateError::Lost {
            rescued: Some(_), ..
        } => "Stop the server, replace the state store with the saved copy, and start the server.",
        StateError::Lost { .. } => {
            "Stop the server, restore the state store from a backup, and start the server."
        }
        StateError::Full(_) => "Free disk space. The server keeps retrying.",
        StateError::Stalled(_) => {
            "Check the disk and the storage behind it. The server continues when the write is complete."
        }
        _ => {
            "Fix the disk or the permissions. The server keeps retrying; `nameward state check` checks the store."
        }
    };
    let effect = if matches!(found.error, StateError::Stalled(_)) {
        "Updates, changes by commands, transfers from primaries and key changes wait. Zones are still being served."
    } else {
        "Updates, changes by commands, transfers from primaries and key changes are refused. Zones are still being served."
    };
    fault_since(
        seconds_since_1970(found.since),
        FaultKind::StateStore,
        format!("Changes cannot be stored: {}.", found.error),
        effect,
        remedy,
    )
}

/// Formats " (and 3 more)", or nothing.
fn and_more(number: usize) -> String {
    match number {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    }
}

#[cfg(test)]
mod tests;
