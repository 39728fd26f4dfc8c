//! DNS UPDATE (RFC 2136): what messages make of zones in memory and of zones in databases.

mod cases;
mod databases;
mod fuzz;
mod memory;
mod model;
mod text;

use nameward_peers::update::{UpdateChange, UpdatePermission, UpdateRequest};
use nameward_wire::{Name, Type};
use nameward_zone::SerialRule;
use nameward_zone::change::ChangeRefused;
use std::time::UNIX_EPOCH;

/// Every client may do everything.
struct All;

impl UpdatePermission for All {
    fn permits(&self, _: Name<'_>, _: Type) -> bool {
        true
    }
}

fn change_of(message: &[u8]) -> Result<UpdateChange, ChangeRefused> {
    Ok(UpdateChange {
        request: UpdateRequest::read(message)?,
        permission: Box::new(All),
        serial: SerialRule::Next,
        now: UNIX_EPOCH,
    })
}
