//! `nameward state`: maintenance of the state store by the operator.

use nameward_base::text::counted;
use nameward_base::time::now_seconds;
use nameward_keys::local::may_have_keys;
use nameward_maintain::policy::{Policies, ZonePolicy};
use nameward_state::{
    CopyBoundsInForce, Durable as _, StateChange, StateError, StateStore, StoreUser,
};
use nameward_wire::Name;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::watch;

use crate::{
    cli::print::{OutputForm, Printer, exit_code},
    command_error::{CommandError, CommandResult},
    config::{Config, Overrides},
    serve::ticked,
    start_error::StartError,
};

/// How long a start waits for another server to release the store, and for a command that uses it.
const SERVER_TIMEOUT: Duration = Duration::from_secs(1);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Returns the directory of the state store: from the command line, or from the configuration.
pub fn directory(named: Option<PathBuf>, overrides: &Overrides) -> CommandResult<PathBuf> {
    match named {
        Some(directory) => Ok(directory),
        None => Config::load(overrides)?
            .state_directory()
            .ok_or(CommandError::NoStateDirectory),
    }
}

/// Opens the state store of a server. If it is unusable, that is logged, and the server serves what does not need it;
/// unless the store may have keys of zones, which would then be served unsigned.
pub fn open(config: &Config) -> Result<Option<StateStore>, StartError> {
    let Some(directory) = config.state_directory() else {
        return Ok(None);
    };
    match open_in_turn(&directory, config) {
        Ok(store) => Ok(Some(store)),
        Err(error @ StateError::InUse(_, StoreUser::Command)) => Err(StartError::StoreInUse(error)),
        Err(error @ (StateError::KeysLost { .. } | StateError::NotAFile(_))) => {
            Err(StartError::State(error))
        }
        Err(error) if may_have_keys(&directory) => Err(StartError::State(error)),
        Err(error) => {
            tracing::error!("{error}; changes are not written to the journal");
            Ok(None)
        }
    }
}

/// Opens the store when the command that uses it, or the server that is stopping, has ended.
fn open_in_turn(directory: &Path, config: &Config) -> Result<StateStore, StateError> {
    let (begun, mut is_told) = (Instant::now(), false);
    loop {
        let opened = StateStore::open(directory, config.journal.bounds());
        let Err(error @ StateError::InUse(_, user)) = &opened else {
            return opened;
        };
        let timeout = match user {
            StoreUser::Server => SERVER_TIMEOUT,
            StoreUser::Command => COMMAND_TIMEOUT,
        };
        if begun.elapsed() >= timeout {
            return opened;
        }
        if !is_told {
            tracing::info!("{error}: waiting until it has finished");
            is_told = true;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Deletes expired copies of deleted zones, now and every hour until the server stops: they contain secrets.
pub async fn drop_old_copies(
    store: StateStore,
    bounds: Arc<CopyBoundsInForce>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut hours = tokio::time::interval(Duration::from_secs(3600));
    while ticked(&mut hours, &mut stopping).await {
        let now = now_seconds();
        let before = now.saturating_sub(bounds.now().seconds);
        let done = |result| {
            if let Err(error) = result {
                tracing::warn!("cannot remove old copies of deleted zones: {error}");
            }
        };
        let change = StateChange::DropCopies { before };
        store.submit(vec![change], Box::new(done));
    }
}

/// Warns of settings that need a state store if there is none.
pub fn warn_of_missing(policies: &Policies) {
    let is_updated = |policy: &ZonePolicy| {
        let has_updates = !policy.allow_update.is_none() || !policy.update_rules.is_empty();
        has_updates && !policy.kind.is_transferred()
    };
    let zones = || policies.zones().map(|(_, policy)| policy);
    let with_defaults = || zones().chain([policies.get(Name::ROOT)]);
    if with_defaults().any(|policy| is_updated(policy)) {
        tracing::warn!(
            "no state directory: dynamic updates (RFC 2136) of zones outside databases are refused; set \
             state_directory in [server]"
        );
    }
    if with_defaults().any(|policy| !policy.allow_transfer.is_none()) {
        tracing::warn!(
            "no state directory: changes are not written to a journal and secondaries get AXFR instead of IXFR; set \
             state_directory in [server]"
        );
    }
}

/// Prints a line for each fault, and ends with a summary.
pub fn check(directory: &Path, form: OutputForm) -> CommandResult {
    let report = StateStore::check(directory)?;
    let mut printer = Printer::new(form);
    for fault in &report.faults {
        printer.message("error", &fault.to_string())?;
    }
    let (zones, entries) = (
        counted(report.zones, "zone"),
        counted(report.entries, "journalled change"),
    );
    let faults = counted(report.faults.len(), "fault");
    let text = format!(
        "state store version {}: {zones}, {entries}, {} octets, {faults}",
        report.version, report.octets
    );
    let object = json!({
        "version": report.version, "zones": report.zones, "entries": report.entries,
        "octets": report.octets, "faults": report.faults.len(),
    });
    printer.object(&object, text)?;
    Ok(exit_code(report.faults.is_empty()))
}

/// Returns unused space to the file system.
pub fn compact(directory: &Path, form: OutputForm) -> CommandResult {
    let report = StateStore::compact(directory)?;
    let text = format!(
        "state store compacted: {} octets, {} before",
        report.after, report.before
    );
    let object = json!({ "octets": report.after, "octets_before": report.before });
    Printer::new(form).object(&object, text)?;
    Ok(ExitCode::SUCCESS)
}

/// Copies the store to a new file.
pub fn backup(directory: &Path, to: &Path, form: OutputForm) -> CommandResult {
    let octets = StateStore::backup(directory, to)?;
    let to = to.display().to_string();
    let text = format!("state store copied to {to}: {octets} octets");
    Printer::new(form).object(&json!({ "file": to, "octets": octets }), text)?;
    Ok(ExitCode::SUCCESS)
}
