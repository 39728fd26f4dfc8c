//! The names of `mod-geoip`: converted to LUA records in a new file of their zone.
//!
//! A client gets the records of the most specific entry that it matches, and otherwise those of the zone file, as from
//! Knot. So a script has both, and the new file does not have the records that are in a script.

use std::{collections::BTreeMap, fmt::Write, path::Path};

use nameward_wire::zonefile::{Options, Record, parse_bytes};
use nameward_wire::{Name, NameBuf, Type, rdata};

use super::super::geo_scripts::{ScriptRecords, ScriptText, full_data, quoted, write_script};
use super::super::texts::directory_of;
use super::super::yaml::{self, YamlNode};
use super::super::{ConfigLocation, ImportRefusal, ImportVerdict, peers};
use super::access::{KnotIndex, KnotRefusal};
use super::{ConfigEntry, ConfigSection, KnotReader};

/// The TTL of answers, unless the module has another one.
const TTL: u32 = 60;
/// Octets of the largest zone file that is rewritten.
const ZONE_MAX: u64 = 64 << 20;
/// Keys of a database with the Lua expressions for them.
const GEO_KEYS: &[(&str, &str)] = &[
    ("country/iso_code", "countryCode()"),
    ("continent/code", "continentCode()"),
    ("subdivisions/0/iso_code", "regionCode()"),
    (
        "city/names/en",
        "geoiplookup(bestwho:toString(),GeoIPQueryAttribute.City)",
    ),
    (
        "(id)autonomous_system_number",
        "geoiplookup(bestwho:toString(),GeoIPQueryAttribute.ASn)",
    ),
];

type TypedRecords = Vec<(Type, ScriptRecords)>;

/// An entry of a name: who gets its records.
struct GeoBranch {
    /// A Lua condition.
    condition: String,
    /// More specific entries are tried first.
    specificity: usize,
    weight: Option<u32>,
    sets: TypedRecords,
}

/// The module as configured.
struct GeoModule<'i> {
    item: &'i ConfigSection,
    mode: &'i str,
    ttl: u32,
    /// Lua expressions for the parts of an entry's location.
    keys: Vec<&'static str>,
}

impl KnotReader<'_> {
    /// Returns the new contents of a zone that `mod-geoip` answers queries of.
    pub(super) fn geo_zone(
        &mut self,
        (name, file): (&str, &Path),
        entry: &ConfigEntry,
        index: &KnotIndex<'_>,
    ) -> Result<String, KnotRefusal> {
        let refuse = |ImportRefusal(reason)| KnotRefusal {
            entry: entry.clone(),
            reason,
            is_mistake: false,
        };
        if !cfg!(feature = "lua") {
            return Err(refuse("mod-geoip: this build has no LUA records".into()));
        }
        let id = entry
            .values
            .iter()
            .find_map(|value| value.strip_prefix("mod-geoip"));
        let id = id.unwrap_or_default().trim_start_matches('/');
        let id = if id.is_empty() { "default" } else { id };
        let item = index.find("mod-geoip", id);
        let item = item.ok_or_else(|| refuse(format!("there is no mod-geoip {id:?}").into()))?;
        let module = self.geo_module(item).map_err(&refuse)?;
        let origin = NameBuf::zone_from_text(name).map_err(|_| refuse("invalid name".into()))?;
        let mut records = self.zone_records(&origin, file).map_err(&refuse)?;
        let names = self.geo_names(&module, &origin).map_err(&refuse)?;
        let mut scripts = String::new();
        for (owner, branches) in names {
            let own = records.entry(owner.clone()).or_default();
            module
                .write_name(&mut scripts, (&owner, name), own, &branches)
                .map_err(&refuse)?;
        }
        let mut text = format!("; Made by nameward import from {}.\n", file.display());
        for soa in [true, false] {
            for (owner, sets) in &records {
                for (rtype, set) in sets
                    .iter()
                    .filter(|(rtype, _)| (*rtype == Type::SOA) == soa)
                {
                    for (data, _) in &set.data {
                        let data = data.as_fixed().unwrap_or_default();
                        let _ = writeln!(text, "{owner} {} IN {rtype} {data}", set.ttl);
                    }
                }
            }
        }
        self.geo_database(item);
        let note = format!("mod-geoip {id}: LUA records in the zones that use it");
        self.server.note(ImportVerdict::Taken, &item.location, note);
        Ok(text + &scripts)
    }

    fn geo_module<'i>(&mut self, item: &'i ConfigSection) -> Result<GeoModule<'i>, ImportRefusal> {
        let mode = item.value_or("mode", "subnet");
        if !["subnet", "geodb", "weighted"].contains(&mode) {
            return Err(format!("unknown mode {mode:?} of mod-geoip").into());
        }
        let ttl = item
            .entry("ttl")
            .map_or(Some(TTL), |entry| entry.value().parse().ok());
        let ttl = ttl.ok_or("ttl of mod-geoip: expected a number of seconds")?;
        let default = ["country/iso_code".to_owned(), "city/names/en".to_owned()];
        let keys = item
            .entry("geodb-key")
            .map_or(&default[..], |entry| &entry.values);
        let mut expressions = Vec::new();
        for key in keys.iter().filter(|_| mode == "geodb") {
            let known = GEO_KEYS.iter().find(|(known, _)| known == key);
            let (_, code) = known.ok_or_else(|| format!("unsupported geodb-key {key}"))?;
            expressions.push(*code);
        }
        Ok(GeoModule {
            item,
            mode,
            ttl,
            keys: expressions,
        })
    }

    /// Reads the zone file; records by owner.
    fn zone_records(
        &mut self,
        origin: &NameBuf,
        file: &Path,
    ) -> Result<BTreeMap<String, TypedRecords>, ImportRefusal> {
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
        let octets = self.texts.files.read(file, ZONE_MAX).map_err(failed)?;
        let mut records: BTreeMap<String, TypedRecords> = BTreeMap::new();
        let mut sink = |record: &Record<'_>| {
            let mut text = String::new();
            let _ = rdata::write_text(record.rtype, record.rdata, &mut text);
            let owner = record.owner.to_string().to_ascii_lowercase();
            add(
                records.entry(owner).or_default(),
                (record.rtype, record.ttl),
                text,
            );
            Ok(())
        };
        let report = parse_bytes(file, &octets, &Options::new(*origin), &mut sink);
        match report.diagnostics.iter().find(|_| report.has_errors()) {
            Some(first) => Err(first.to_string().into()),
            None => Ok(records),
        }
    }

    /// Reads the file of the module: entries by owner.
    fn geo_names(
        &mut self,
        module: &GeoModule<'_>,
        origin: &NameBuf,
    ) -> Result<Vec<(String, Vec<GeoBranch>)>, ImportRefusal> {
        let file = module
            .item
            .entry("config-file")
            .ok_or("mod-geoip has no config-file")?;
        let path = directory_of(Path::new(&*file.location.file)).join(file.value());
        let Some((label, text)) = self.texts.open(&path, &file.location) else {
            return Err("its config-file cannot be read".into());
        };
        self.texts.close();
        let at = |line| ConfigLocation::new(&label, line);
        // Knot keeps the escape of a blank in quotes, for the parser of record data. YAML removes it.
        let text = text.replace("\\ ", "\\\\ ");
        let document =
            yaml::parse(&text).map_err(|error| format!("{}: {}", at(error.line), error.message))?;
        let mut names = Vec::new();
        for (owner, list) in document.pairs() {
            // Names are absolute, with or without the final dot.
            let name = NameBuf::from_text(owner.as_bytes(), Name::ROOT);
            let inside = name
                .ok()
                .filter(|name| name.as_name().is_at_or_below(origin.as_name()));
            // A file may have the names of several zones.
            let Some(name) = inside else {
                continue;
            };
            let mut branches = Vec::new();
            for node in list.items() {
                let branch = module.branch(node, origin);
                branches.push(branch.map_err(|error| format!("{}: {error}", at(node.line)))?);
            }
            branches.sort_by_key(|branch| std::cmp::Reverse(branch.specificity));
            names.push((name.to_string().to_ascii_lowercase(), branches));
        }
        Ok(names)
    }

    /// Adds the module's database to those of the server.
    fn geo_database(&mut self, item: &ConfigSection) {
        let Some(entry) = item.entry("geodb-file") else {
            return;
        };
        let path = directory_of(Path::new(&*entry.location.file)).join(entry.value());
        let path = path.to_string_lossy().into_owned();
        let key = ("geoip", "databases");
        let mut files = self.server.texts(key);
        if !files.contains(&path) {
            files.push(path);
        }
        let from = "geodb-file of mod-geoip";
        self.server.take(&entry.location, key, files, from);
    }
}

fn add(sets: &mut TypedRecords, (rtype, ttl): (Type, u32), text: String) {
    let data = (ScriptText::fixed(text), None);
    match sets.iter_mut().find(|(known, _)| *known == rtype) {
        Some((_, set)) => set.data.push(data),
        None => sets.push((
            rtype,
            ScriptRecords {
                data: vec![data],
                ttl,
            },
        )),
    }
}

impl GeoModule<'_> {
    fn branch(&self, node: &YamlNode, origin: &NameBuf) -> Result<GeoBranch, ImportRefusal> {
        let mut branch = GeoBranch {
            condition: "true".into(),
            specificity: 0,
            weight: None,
            sets: Vec::new(),
        };
        for (key, value) in node.pairs() {
            let texts: Vec<&str> = value.items().iter().filter_map(YamlNode::text).collect();
            let first = texts.first().copied().unwrap_or_default();
            match (key.as_str(), self.mode) {
                ("net", "subnet") => {
                    let length = prefix_length(first);
                    branch.specificity =
                        length.ok_or_else(|| format!("expected a network, found {first:?}"))?;
                    branch.condition = format!("netmask({{{}}})", quoted(first));
                }
                ("geo", "geodb") => self.locate(&mut branch, first),
                ("weight", "weighted") => {
                    let weight = first.parse().map_err(|_| "expected a weight")?;
                    branch.weight = Some(weight);
                }
                ("net" | "geo" | "weight", mode) => {
                    return Err(format!("{key} in the mode {mode}").into());
                }
                (key, _) => {
                    let rtype = Type::from_text(key.as_bytes());
                    let rtype = rtype.ok_or_else(|| format!("unknown record type {key:?}"))?;
                    for text in texts {
                        let data = full_data(rtype, text, origin.as_name());
                        let data =
                            data.ok_or_else(|| format!("invalid {rtype} record data {text:?}"))?;
                        add(&mut branch.sets, (rtype, self.ttl), data);
                    }
                }
            }
        }
        Ok(branch)
    }

    /// Sets the condition of an entry for a location such as `CZ;Prague`; `*` is any.
    fn locate(&self, branch: &mut GeoBranch, location: &str) {
        let parts = location.split(';').zip(&self.keys);
        let parts = parts.filter(|(part, _)| !matches!(part.trim(), "" | "*"));
        let conditions = parts
            .map(|(part, code)| format!("{code}=={}", quoted(&part.trim().to_ascii_lowercase())));
        let conditions: Vec<String> = conditions.collect();
        branch.specificity = conditions.len();
        if !conditions.is_empty() {
            branch.condition = conditions.join(" and ");
        }
    }

    /// Writes the scripts of a name, and removes from its records those that are in a script.
    fn write_name(
        &self,
        out: &mut String,
        (owner, zone): (&str, &str),
        own: &mut TypedRecords,
        branches: &[GeoBranch],
    ) -> Result<(), ImportRefusal> {
        let has_alias = |sets: &TypedRecords| sets.iter().any(|(rtype, _)| *rtype == Type::CNAME);
        let is_alias = branches.iter().any(|branch| has_alias(&branch.sets));
        if is_alias && owner == zone {
            return Err(format!("mod-geoip has a CNAME record at the apex of {zone}").into());
        }
        let mut types: Vec<Type> = branches
            .iter()
            .flat_map(|branch| branch.sets.iter().map(|(rtype, _)| *rtype))
            .chain(own.iter().map(|(rtype, _)| *rtype).filter(|_| is_alias))
            .collect();
        types.sort_unstable();
        types.dedup();
        for rtype in types {
            let find = |sets: &TypedRecords| {
                let set = sets.iter().find(|(known, _)| *known == rtype);
                set.map(|(_, set)| set.expression(rtype))
            };
            let common = find(own).unwrap_or_else(|| "{}".to_owned());
            let mut code = self.choice(branches);
            for (number, branch) in (1..).zip(branches) {
                let value = find(&branch.sets).unwrap_or_else(|| {
                    // An alias replaces all types.
                    if has_alias(&branch.sets) {
                        "{}".to_owned()
                    } else {
                        common.clone()
                    }
                });
                let _ = match self.mode {
                    "weighted" => write!(code, "if w=='{number}' then return {value} end "),
                    _ => write!(code, "if {} then return {value} end ", branch.condition),
                };
            }
            code += &format!("return {common}");
            let ttl = own
                .iter()
                .find(|(known, _)| *known == rtype)
                .map(|(_, set)| set.ttl);
            let ttl = ttl.unwrap_or(self.ttl).min(self.ttl);
            write_script(out, (owner, ttl), rtype, &code).map_err(|fault| fault.to_string())?;
            own.retain(|(known, _)| *known != rtype);
        }
        Ok(())
    }

    /// Returns the start of a script: the entry by weight.
    fn choice(&self, branches: &[GeoBranch]) -> String {
        if self.mode != "weighted" {
            return ";".into();
        }
        let pairs = (1..)
            .zip(branches)
            .map(|(number, branch)| format!("{{{},'{number}'}}", branch.weight.unwrap_or(1)));
        let pairs: Vec<String> = pairs.collect();
        format!(";local w=pickwrandom({{{}}}) ", pairs.join(","))
    }
}

fn prefix_length(network: &str) -> Option<usize> {
    let found = peers::network(network).filter(|_| network.contains('/'));
    found.map(|(_, length)| length.into())
}
