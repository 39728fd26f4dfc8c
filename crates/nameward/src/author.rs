//! The caller of a command, and the check of the reason given for a change.

use nameward_control::operations::{Caller, OperationError, Outcome};
use nameward_zone::change::MESSAGE_MAX;

use crate::privileges;

/// Returns the caller of a command that a user runs.
pub fn local_caller(uid: u32, message: Option<&str>) -> Outcome<Caller> {
    if message.is_some_and(|message| message.len() > MESSAGE_MAX) {
        return Err(OperationError::invalid(format!(
            "the message has more than {MESSAGE_MAX} octets"
        )));
    }
    Ok(Caller::for_user(&privileges::user_name(uid), message))
}
