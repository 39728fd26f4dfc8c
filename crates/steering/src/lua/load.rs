//! Loads scripts into an interpreter: those of records, and those that they include.

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua};

use super::budget;
use super::check::compile;
use super::run::ScriptFailure;
use super::script::ScriptCode;

/// Levels of native functions between `include` and its script: `pcall` and similar.
const CALLERS_MAX: usize = 16;

/// Compiles a script and loads it.
pub(super) fn load_code(lua: &Lua, script: &ScriptCode) -> Result<Function, ScriptFailure> {
    let bytecode = compile(script).map_err(|problem| ScriptFailure::Syntax(problem.to_string()))?;
    let chunk = lua
        .load(bytecode)
        .set_mode(ChunkMode::Binary)
        .set_name("=script");
    Ok(chunk.into_function()?)
}

/// Runs an included script in the environment of the current one.
pub(super) fn include(lua: &Lua, rdata: &[u8]) -> mlua::Result<()> {
    let Some(script) = ScriptCode::from_rdata(rdata) else {
        return Ok(());
    };
    budget::charge(script.source.len())?;
    let function =
        load_code(lua, &script).map_err(|failure| mlua::Error::runtime(failure.to_string()))?;
    // The nearest caller that is a script has the environment to extend.
    for level in 1..CALLERS_MAX {
        let Some(caller) = lua.inspect_stack(level, |frame| frame.function()) else {
            break;
        };
        if let Some(environment) = caller.environment() {
            function.set_environment(environment)?;
            return function.call(());
        }
    }
    Err(mlua::Error::runtime("include: called by no script"))
}
