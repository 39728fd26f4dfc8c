//! The names that scripts can use: libraries of Luau, functions and variables of PowerDNS.

mod checks;
mod location;
mod pick;
mod records;
mod reverse;
mod variables;

use mlua::{Lua, Table, Value};

use super::{budget, objects, record_objects};

/// Names of the libraries and basic functions of Luau that scripts can use. Nothing here reads files, loads code or changes
/// the interpreter.
const LUAU_NAMES: [&str; 23] = [
    "_VERSION",
    "assert",
    "bit32",
    "error",
    "getmetatable",
    "ipairs",
    "math",
    "next",
    "os",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "select",
    "setmetatable",
    "string",
    "table",
    "tonumber",
    "tostring",
    "type",
    "xpcall",
];

/// Every global name that a script can use.
pub const KNOWN_NAMES: &[&str] = &[
    // Luau
    "_VERSION",
    "assert",
    "bit32",
    "error",
    "getmetatable",
    "ipairs",
    "math",
    "next",
    "os",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "select",
    "setmetatable",
    "string",
    "table",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "utf8",
    "xpcall",
    // functions of PowerDNS
    "all",
    "createForward",
    "createForward6",
    "createReverse",
    "createReverse6",
    "dblookup",
    "filterForward",
    "include",
    "netmask",
    "newCA",
    "newCAFromRaw",
    "newCAS",
    "newDN",
    "newDR",
    "newDRR",
    "newNMG",
    "newNetmask",
    "newQType",
    "pdns",
    "pdnslog",
    "pdnsrandom",
    "pickchashed",
    "pickhashed",
    "picknamehashed",
    "pickrandom",
    "pickrandomsample",
    "pickwhashed",
    "pickwrandom",
    "resolve",
    "view",
    // functions by location
    "GeoIPQueryAttribute",
    "asnum",
    "closestMagic",
    "continent",
    "continentCode",
    "country",
    "countryCode",
    "geoiplookup",
    "latlon",
    "latlonMagic",
    "latlonloc",
    "pickclosest",
    "region",
    "regionCode",
    // functions by health
    "ifportup",
    "ifurlextup",
    "ifurlup",
    "pickselfweighted",
    // pools
    "pool",
    // variables
    "bestwho",
    "dh",
    "dnssecOK",
    "ecswho",
    "ednsPKTSize",
    "localwho",
    "qname",
    "tcp",
    "who",
    "zone",
    "zoneid",
];

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
    pick::install(lua, &base)?;
    reverse::install(lua, &base)?;
    location::install(lua, &base)?;
    checks::install(lua, &base)?;
    records::install(lua, &base)?;
    objects::install(lua, &base)?;
    record_objects::install(lua, &base)?;
    variables::install(lua, &base)?;
    // Libraries, metatables of basic types and the globals become read-only.
    lua.sandbox(true)?;
    base.set_readonly(true);
    Ok(base)
}

/// Reads a list of texts; numbers are converted.
pub(super) fn texts(list: &Table) -> mlua::Result<Vec<String>> {
    let length = list.raw_len();
    budget::charge(length)?;
    (1..=length).map(|at| list.raw_get::<String>(at)).collect()
}
