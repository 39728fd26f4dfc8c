//! The fault of a panic, which cost the piece of work that met it.

use nameward_base::text::counted;
use nameward_base::time::now_seconds;
use nameward_control::operations::{FaultKind, ServerFault, ServerStatus};

use super::fault;

/// Seconds for which a panic is a fault: what it cost may go unnoticed for that long.
const SHOWN: u64 = 86_400;

pub(super) fn of_internal_error(status: &ServerStatus) -> Option<ServerFault> {
    let last = status.last_internal_error.as_ref()?;
    if now_seconds().saturating_sub(last.at) > SHOWN {
        return None;
    }
    let number = counted(status.internal_errors as usize, "internal error");
    let mut fault = fault(
        FaultKind::InternalError,
        format!("{number} since the start, the last at {}.", last.location),
        "The work that met it was not completed.",
        "Report the log lines with \"internal error\". Restart the server if a zone is not up to date.",
    );
    fault.since = last.at;
    Some(fault)
}
