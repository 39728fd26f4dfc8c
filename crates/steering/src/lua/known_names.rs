//! The global names that a script can use.

/// Names of the libraries and basic functions of Luau that scripts can use. Nothing here reads files, loads code or changes
/// the interpreter.
pub(super) const LUAU_NAMES: [&str; 23] = [
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

/// Names in Luau that are composed of others.
const DERIVED_NAMES: [&str; 2] = ["unpack", "utf8"];

/// Functions and variables of PowerDNS, and pools.
const OWN_NAMES: &[&str] = &[
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

/// Checks whether a script can use a name without setting it.
pub(super) fn is_known(name: &str) -> bool {
    LUAU_NAMES.contains(&name) || DERIVED_NAMES.contains(&name) || OWN_NAMES.contains(&name)
}
