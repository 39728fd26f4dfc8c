//! The names that scripts can use: libraries of Luau, functions and variables of PowerDNS.

mod checks;
mod location;
mod pick;
mod records;
mod reverse;
mod variables;

use mlua::{FromLuaMulti, IntoLuaMulti, Lua, MaybeSend, Table, Value};

use super::known_names::LUAU_NAMES;
use super::{budget, objects, record_objects};

/// Wraps library functions whose work grows with their arguments, so that they charge for it. A search for a plain text and
/// a sort raise no interrupts by themselves.
const CHARGED: &str = r#"
local charge = ...
local function charged(library, name, cost)
    local original = library[name]
    library[name] = function(first, second, ...)
        charge(cost(first, second))
        return original(first, second, ...)
    end
end
local function size(value)
    local kind = type(value)
    if kind == "string" or kind == "table" then return #value end
    if kind == "number" then return #tostring(value) end
    return 0
end
local function product(first, second) return size(first) * (1 + size(second) / 8) end
local function square(first) local n = size(first) return n * 16 end
local function linear(first) return size(first) end
for _, name in { "find", "match", "gmatch", "gsub", "split" } do charged(string, name, product) end
for _, name in { "byte", "reverse", "upper", "lower", "len" } do charged(string, name, linear) end
charged(table, "sort", square)
for _, name in { "concat", "find", "move", "insert", "remove", "clone", "clear", "maxn" } do
    charged(table, name, linear)
end
"#;

/// The table of everything that a script can use, while it is filled.
pub(super) struct ScriptNames<'l> {
    pub(super) lua: &'l Lua,
    pub(super) table: Table,
}

impl ScriptNames<'_> {
    /// Adds a function.
    pub(super) fn function<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        function: impl Fn(&Lua, A) -> mlua::Result<R> + MaybeSend + 'static,
    ) -> mlua::Result<()> {
        let function = self.lua.create_function(function)?;
        self.table.raw_set(name, function)
    }

    /// Returns a read-only table of names with their positions in a list.
    fn numbers<'n>(&self, list: impl IntoIterator<Item = &'n str>) -> mlua::Result<Table> {
        let numbers = self.lua.create_table()?;
        for (number, name) in list.into_iter().enumerate() {
            numbers.raw_set(name, number)?;
        }
        numbers.set_readonly(true);
        Ok(numbers)
    }
}

/// Adds our functions and returns the read-only table of everything that a script can use.
pub(super) fn install(lua: &Lua) -> mlua::Result<Table> {
    let globals = lua.globals();
    let charge = lua.create_function(|_, units: f64| budget::charge(units as usize))?;
    lua.load(CHARGED).set_name("=charged").call::<()>(charge)?;
    let base = lua.create_table()?;
    for name in LUAU_NAMES {
        base.raw_set(name, globals.raw_get::<Value>(name)?)?;
    }
    base.raw_set("utf8", globals.raw_get::<Value>("utf8")?)?;
    let table: Table = globals.raw_get("table")?;
    base.raw_set("unpack", table.raw_get::<Value>("unpack")?)?;
    let names = ScriptNames { lua, table: base };
    pick::install(&names)?;
    reverse::install(&names)?;
    location::install(&names)?;
    checks::install(&names)?;
    records::install(&names)?;
    objects::install(&names)?;
    record_objects::install(&names)?;
    variables::install(&names)?;
    // Libraries, metatables of basic types and the globals become read-only.
    lua.sandbox(true)?;
    names.table.set_readonly(true);
    Ok(names.table)
}
