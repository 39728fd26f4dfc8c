//! The run of the current thread, which the functions that a script calls read.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use nameward_wire::Type;

use super::run::{FoundRecords, NeededRecords, ScriptQuery};
use crate::Steering;

/// The state of the current run.
pub(crate) struct CurrentRun {
    pub(crate) steering: Arc<Steering>,
    pub(crate) query: ScriptQuery,
    pub(crate) facts: Vec<FoundRecords>,
    pub(crate) need: Option<NeededRecords>,
    /// The type that the script computes.
    pub(crate) rtype: Type,
    /// Octets of the client's address that the script has used, in bits.
    pub(crate) scope: u8,
}

thread_local! {
    static CURRENT: RefCell<Option<CurrentRun>> = const { RefCell::new(None) };
}

/// Makes a run the current one; it ends when the guard is dropped.
pub(crate) fn enter(run: CurrentRun) -> RunGuard {
    CURRENT.with_borrow_mut(|current| *current = Some(run));
    RunGuard
}

/// The end of the current run.
pub(crate) struct RunGuard;

impl RunGuard {
    /// Ends the run and returns its state.
    pub(crate) fn end(self) -> Option<CurrentRun> {
        CURRENT.with_borrow_mut(Option::take)
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = None);
    }
}

/// Calls a function with the current run.
pub(crate) fn with_current<T>(read: impl FnOnce(&mut CurrentRun) -> T) -> mlua::Result<T> {
    CURRENT.with_borrow_mut(|current| match current {
        Some(run) => Ok(read(run)),
        None => Err(mlua::Error::runtime("no query is being answered")),
    })
}

/// Returns the best known address of the client and notes that the answer depends on all of it.
pub(crate) fn best_address() -> mlua::Result<IpAddr> {
    with_current(|run| {
        let address = run.query.client.best_address();
        run.scope = if address.is_ipv4() { 32 } else { 128 };
        address
    })
}

/// Returns the records that a script needs, or ends the run until they are known.
pub(crate) fn find_fact(need: NeededRecords) -> mlua::Result<FoundRecords> {
    with_current(|run| {
        if let Some(fact) = run.facts.iter().find(|fact| fact.need == need) {
            return Ok(fact.clone());
        }
        run.need = Some(need);
        Err(mlua::Error::runtime("records are not known yet"))
    })?
}
