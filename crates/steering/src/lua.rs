//! LUA records (type 65402, as in PowerDNS): scripts that compute the records of a name for each query.
//!
//! ```text
//! record data ── check (at load) ──> syntax errors, unknown functions
//!             └─ run (per query) ──> values, as text ──> record data of the computed type
//! ```
//! Scripts run in Luau, in one interpreter per thread (`host`). Its global tables are read-only and each run has a fresh
//! environment, so nothing that a script stores outlives its run. A run has a budget of interrupts (calls and loop
//! iterations) and of memory, never of time: what one query gets does not depend on the load. No library reaches files,
//! processes or the network; health checks and databases are read through functions that never wait.
//!
//! Without the Cargo feature `lua` there is no interpreter: every script fails, with a reason that says so (`absent`).

#[cfg(not(feature = "lua"))]
mod absent;
#[cfg(feature = "lua")]
mod arguments;
#[cfg(feature = "lua")]
mod budget;
#[cfg(feature = "lua")]
mod check;
#[cfg(feature = "lua")]
mod current;
#[cfg(feature = "lua")]
mod functions;
#[cfg(feature = "lua")]
mod host;
#[cfg(feature = "lua")]
mod known_names;
#[cfg(feature = "lua")]
mod load;
#[cfg(feature = "lua")]
mod objects;
#[cfg(feature = "lua")]
mod record_objects;
#[cfg(feature = "lua")]
mod results;
mod run;
mod script;
#[cfg(all(test, feature = "lua"))]
mod tests;

#[cfg(not(feature = "lua"))]
pub use absent::{check_script, run_script};
#[cfg(feature = "lua")]
pub use check::check_script;
#[cfg(feature = "lua")]
pub use host::run_script;
pub use run::{
    FoundRecords, NeededRecords, ScriptAnswer, ScriptClient, ScriptFailure, ScriptQuery,
};
pub use script::{ScriptCode, ScriptProblem};

/// Whether this build has an interpreter for LUA records.
pub const IS_BUILT: bool = cfg!(feature = "lua");
