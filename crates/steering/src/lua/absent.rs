//! LUA records in a build without an interpreter: each fails with that reason.

use std::sync::Arc;

use super::run::{FoundRecords, ScriptAnswer, ScriptFailure, ScriptQuery};
use super::script::{ScriptCode, ScriptProblem};
use crate::Steering;
use crate::pools::pool_name;

/// Fails: there is no interpreter.
pub fn run_script(
    _: &Arc<Steering>,
    _: &[u8],
    _: (&ScriptQuery, &[FoundRecords]),
    _: &mut u8,
) -> ScriptAnswer {
    ScriptAnswer::Failed(ScriptFailure::NotBuilt)
}

/// Reports that a script cannot run.
pub fn check_script(rdata: &[u8]) -> Vec<ScriptProblem> {
    let script = ScriptCode::from_rdata(rdata).filter(|_| pool_name(rdata).is_none());
    script
        .map(|_| ScriptProblem::NotBuilt)
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_reported_when_it_is_loaded() {
        let data = [&[0, 1, 3][..], b"'x'"].concat();
        assert_eq!(check_script(&data), [ScriptProblem::NotBuilt]);
        assert_eq!(check_script(&[0]), []);
    }
}
