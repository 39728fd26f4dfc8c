//! Owns the words for who makes a change by a command, and the check of the reason that comes with it.

use std::sync::Arc;

use nameward_control::operations::OperationError;
use nameward_zone::change::{ChangeAuthor, MESSAGE_MAX};

use crate::privileges;

/// Makes the author of a change that a user asks for.
pub fn of_user(uid: u32, message: Option<&str>) -> Result<Arc<ChangeAuthor>, OperationError> {
    if message.is_some_and(|message| message.len() > MESSAGE_MAX) {
        return Err(OperationError::invalid(format!(
            "the message has more than {MESSAGE_MAX} octets"
        )));
    }
    let who = format!("user {}", privileges::user_name(uid));
    Ok(ChangeAuthor::new(&who, message))
}
