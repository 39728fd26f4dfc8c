//! LUA records (type 65402, as in PowerDNS): scripts that compute the records of a name for each query.
//!
//! ```text
//! record data ── check (at load) ──> syntax errors, unknown functions
//!             └─ run (per query) ──> values, as text ──> record data of the computed type
//! ```
//! Scripts run in Luau, in one interpreter per thread ([`host`]). Its global tables are read-only and each run has a fresh
//! environment, so nothing that a script stores outlives its run. A run has a budget of interrupts (calls and loop
//! iterations) and of memory, never of time: what one query gets does not depend on the load. No library reaches files,
//! processes or the network; health checks and databases are read through functions that never wait.

mod budget;
mod functions;
mod hash;
mod host;
mod objects;
mod results;
mod run;
mod script;
#[cfg(test)]
mod tests;

pub use functions::KNOWN_NAMES;
pub use host::run_script;
pub use run::{
    FoundRecords, NeededRecords, ScriptAnswer, ScriptClient, ScriptFailure, ScriptQuery,
};
pub use script::{ScriptCode, ScriptProblem, check_script};
