//! The budget of a run: interrupts, which the interpreter raises at every call and loop iteration and within patterns.
//!
//! Functions whose work grows with their arguments charge for it, so that a budget bounds the work and not only the number
//! of calls.

use std::cell::Cell;

use mlua::{Lua, VmState};

/// Octets or list entries that cost as much as one interrupt.
const UNITS_PER_INTERRUPT: usize = 64;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static IS_OVER: Cell<bool> = const { Cell::new(false) };
}

/// Starts a budget of this many interrupts; 0 means no limit.
pub(super) fn start(interrupts: u32) {
    LEFT.set(match interrupts {
        0 => u64::MAX,
        limit => u64::from(limit),
    });
    IS_OVER.set(false);
}

/// Lifts the limit: our own code runs.
pub(super) fn lift() {
    LEFT.set(u64::MAX);
}

/// Checks whether the budget was exceeded.
pub(super) fn is_over() -> bool {
    IS_OVER.get()
}

fn spend(interrupts: u64) -> mlua::Result<()> {
    let left = LEFT.get();
    if left == u64::MAX {
        return Ok(());
    }
    match left.checked_sub(interrupts) {
        Some(left) if left > 0 => {
            LEFT.set(left);
            Ok(())
        }
        // An error can be caught by the script; the next interrupt raises it again.
        _ => {
            LEFT.set(1);
            IS_OVER.set(true);
            Err(mlua::Error::runtime("too many instructions"))
        }
    }
}

/// Charges for work on this many octets or list entries.
pub(super) fn charge(units: usize) -> mlua::Result<()> {
    match units / UNITS_PER_INTERRUPT {
        0 => Ok(()),
        interrupts => spend(interrupts as u64),
    }
}

/// Lets the interpreter spend the budget.
pub(super) fn install(lua: &Lua) {
    lua.set_interrupt(|_| spend(1).map(|()| VmState::Continue));
}
