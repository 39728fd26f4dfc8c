//! Who makes a change by a command, and the check of the reason given for it.

use std::sync::Arc;

use nameward_control::operations::OperationError;
use nameward_zone::change::{ChangeAuthor, MESSAGE_MAX};

use crate::privileges;

/// Returns the author of a change requested by a user.
pub fn of_user(uid: u32, message: Option<&str>) -> Result<Arc<ChangeAuthor>, OperationError> {
    if message.is_some_and(|message| message.len() > MESSAGE_MAX) {
        return Err(OperationError::invalid(format!(
            "the message has more than {MESSAGE_MAX} octets"
        )));
    }
    let who = format!("user {}", privileges::user_name(uid));
    Ok(ChangeAuthor::new(&who, message))
}
