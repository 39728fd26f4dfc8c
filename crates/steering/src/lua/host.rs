//! The interpreter of a thread: its global tables, the compiled scripts, and how a script is run.
//!
//! Invariants: global tables are read-only, a run has its own environment, the collector never runs during a script (so
//! that memory counts what a run allocates in total), and an interpreter that ran out of memory is discarded.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};
use nameward_wire::Type;

use super::check::first_line;
use super::current::{CurrentRun, enter};
use super::load::load_code;
use super::run::{FoundRecords, ScriptAnswer, ScriptFailure, ScriptQuery};
use super::script::ScriptCode;
use super::{budget, functions, results};
use crate::Steering;

/// Octets that a run may allocate. The source of a record has at most 64 KiB.
const RUN_OCTETS: usize = 2 << 20;
/// Octets allocated by runs after which garbage is collected.
const COLLECT_AT: usize = 1 << 20;
/// Octets in use after a collection, mostly compiled scripts, above which the interpreter is replaced.
const OCTETS_MAX: usize = 64 << 20;

thread_local! {
    static HOST: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
}

/// A script as this interpreter has it.
#[derive(Clone)]
enum LoadedScript {
    Ready(Type, Function),
    Failed(ScriptFailure),
}

struct Interpreter {
    lua: Lua,
    /// The metatable of environments.
    environment: Table,
    /// The environment of all runs if the state is shared.
    shared: Table,
    scripts: HashMap<Box<[u8]>, LoadedScript>,
    /// Octets in use before the first script.
    baseline: usize,
}

/// Runs the script in the data of a LUA record. `scope` is set to the bits of the client's address that it used.
pub fn run_script(
    steering: &Arc<Steering>,
    rdata: &[u8],
    (query, facts): (&ScriptQuery, &[FoundRecords]),
    scope: &mut u8,
) -> ScriptAnswer {
    HOST.with_borrow_mut(|slot| {
        let host = match slot {
            Some(host) => host,
            None => match Interpreter::new() {
                Ok(host) => slot.insert(host),
                Err(error) => return ScriptAnswer::Failed(error.into()),
            },
        };
        let guard = enter(CurrentRun {
            steering: Arc::clone(steering),
            query: query.clone(),
            facts: facts.to_vec(),
            need: None,
            rtype: script_type(rdata),
            scope: 0,
        });
        let result = host.run(steering, rdata);
        let ended = guard.end();
        budget::lift();
        let is_usable = !matches!(result, Err(ScriptFailure::Memory(_))) && host.tidy();
        if !is_usable {
            *slot = None;
        }
        let (need, used) = ended.map_or((None, 0), |run| (run.need, run.scope));
        *scope = used;
        match (need, result) {
            (Some(need), _) => ScriptAnswer::Needs(Box::new(need)),
            (None, Ok((rtype, records))) => ScriptAnswer::Records(rtype, records),
            (None, Err(failure)) => ScriptAnswer::Failed(failure),
        }
    })
}

fn script_type(rdata: &[u8]) -> Type {
    let octets = rdata.first_chunk();
    Type(octets.map_or(0, |octets| u16::from_be_bytes(*octets)))
}

impl From<mlua::Error> for ScriptFailure {
    fn from(error: mlua::Error) -> Self {
        match error {
            mlua::Error::MemoryError(_) => ScriptFailure::Memory(RUN_OCTETS / 1024),
            mlua::Error::CallbackError { cause, .. } => Self::from((*cause).clone()),
            error => ScriptFailure::Error(first_line(&error.to_string())),
        }
    }
}

impl Interpreter {
    fn new() -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::BIT | StdLib::UTF8;
        let lua = Lua::new_with(libraries | StdLib::OS, LuaOptions::new())?;
        let base = functions::install(&lua)?;
        let environment = lua.create_table()?;
        environment.raw_set("__index", &base)?;
        environment.raw_set("__metatable", false)?;
        environment.set_readonly(true);
        let shared = lua.create_table()?;
        shared.set_metatable(Some(environment.clone()))?;
        budget::install(&lua);
        lua.gc_collect()?;
        lua.gc_stop();
        Ok(Interpreter {
            baseline: lua.used_memory(),
            lua,
            environment,
            shared,
            scripts: HashMap::new(),
        })
    }

    fn run(
        &mut self,
        steering: &Steering,
        rdata: &[u8],
    ) -> Result<(Type, Vec<Vec<u8>>), ScriptFailure> {
        let settings = steering.script_settings();
        let (rtype, function) = match self.load(rdata) {
            LoadedScript::Ready(rtype, function) => (rtype, function),
            LoadedScript::Failed(failure) => return Err(failure),
        };
        self.lua
            .set_memory_limit(self.lua.used_memory() + RUN_OCTETS)?;
        let environment = if settings.is_shared {
            self.shared.clone()
        } else {
            let fresh = self.lua.create_table()?;
            fresh.set_metatable(Some(self.environment.clone()))?;
            fresh
        };
        function.set_environment(environment)?;
        budget::start(settings.instructions_max);
        let value = function.call::<Value>(());
        let is_over = budget::is_over();
        budget::lift();
        let failure = match value {
            // A script that caught the error has still used up its budget.
            Ok(_) if is_over => ScriptFailure::Instructions(settings.instructions_max),
            Ok(value) => return results::read(rtype, &value).map(|records| (rtype, records)),
            Err(error) => error.into(),
        };
        Err(match failure {
            ScriptFailure::Memory(_) => failure,
            _ if is_over => ScriptFailure::Instructions(settings.instructions_max),
            _ => failure,
        })
    }

    /// Returns a script ready to run; it is compiled at its first use.
    fn load(&mut self, rdata: &[u8]) -> LoadedScript {
        if let Some(loaded) = self.scripts.get(rdata) {
            return loaded.clone();
        }
        // A compiled script stays in use.
        let _ = self.lua.set_memory_limit(0);
        let loaded = match ScriptCode::from_rdata(rdata) {
            None => LoadedScript::Failed(ScriptFailure::Malformed),
            Some(script) => match load_code(&self.lua, &script) {
                Ok(function) => LoadedScript::Ready(script.rtype, function),
                Err(failure) => LoadedScript::Failed(failure),
            },
        };
        self.scripts.insert(rdata.into(), loaded.clone());
        loaded
    }

    /// Collects garbage when there is enough of it; false if the interpreter must be replaced.
    fn tidy(&mut self) -> bool {
        let used = self.lua.used_memory();
        if used < self.baseline + COLLECT_AT {
            return true;
        }
        let _ = self.lua.set_memory_limit(0);
        let is_collected = self.lua.gc_collect().is_ok();
        self.lua.gc_stop();
        // Compiled scripts stay in use, so the next collection is due later.
        self.baseline = self.lua.used_memory();
        is_collected && self.baseline < OCTETS_MAX
    }
}
