//! The zones of the geoip backend, which are in YAML: converted to zone files with LUA records.
//!
//! ```text
//! records     the same for all clients: plain records
//!             with weights or placeholders: LUA records
//! services    a LUA record for each type: the data of the first name in `records` that the formats expand to;
//!             a LUA CNAME record for clients without such a name
//! ```

mod services;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use nameward_wire::Type;

use super::super::geo_scripts::{
    GeoRecordFault, ScriptRecords, ScriptText, TextPiece, quoted, write_record, write_script,
};
use super::super::yaml::{self, YamlNode, YamlValue};
use super::super::{
    ConfigLocation,
    ImportVerdict::{Breaks, NotPossible, Taken},
    ImportedKind, ImportedSettings, ImportedZone, full_name,
};
use super::{PdnsReader, PdnsSetting};

/// The TTL of records without one.
const TTL: u32 = 300;

/// Placeholders with the Lua expressions for them; a longer one precedes those that it starts with.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("%loc", "latlonloc()"),
    ("%lat", "latlon():match('^%S+')"),
    ("%lon", "latlon():match('%S+$')"),
    ("%mos", "os.date('!%b'):lower()"),
    ("%wds", "os.date('!%a'):lower()"),
    ("%ip4", "(bestwho:isIPv4() and bestwho:toString() or '')"),
    ("%ip6", "(bestwho:isIPv6() and bestwho:toString() or '')"),
    ("%co", "g(countryCode())"),
    ("%cc", "g(countryCode())"),
    ("%cn", "g(continentCode())"),
    ("%re", "g(regionCode())"),
    ("%af", "(bestwho:isIPv4() and 'v4' or 'v6')"),
    (
        "%as",
        "g(geoiplookup(bestwho:toString(),GeoIPQueryAttribute.ASn))",
    ),
    (
        "%na",
        "g(geoiplookup(bestwho:toString(),GeoIPQueryAttribute.Name))",
    ),
    (
        "%ci",
        "g(geoiplookup(bestwho:toString(),GeoIPQueryAttribute.City))",
    ),
    ("%mp", "m()"),
    ("%yy", "os.date('!%Y')"),
    ("%mo", "os.date('!%m')"),
    ("%wd", "('%02d'):format(os.date('!%w')+1)"),
    ("%dd", "os.date('!%j')"),
    ("%hh", "os.date('!%H')"),
    ("%ip", "bestwho:toString()"),
];
/// The function for codes, which are `unknown` in PowerDNS if they are not known.
const CODE_FUNCTION: &str =
    "local function g(v) if v=='--' or v=='' then return 'unknown' end return v end ";

/// The names of a zone with their records by type, in the order of the file.
type GeoNames = BTreeMap<String, Vec<(Type, ScriptRecords)>>;

struct GeoDomain {
    name: String,
    ttl: u32,
    names: GeoNames,
    /// The Lua function for `%mp`, if the domain has a mapping.
    mapping: Option<String>,
    file: Arc<str>,
}

impl PdnsReader<'_> {
    pub(super) fn geoip(&mut self, launch: &PdnsSetting, prefix: &str) {
        self.geoip_databases(prefix);
        if let Some(keys) = self.used(&format!("{prefix}-dnssec-keydir"))
            && keys.is_on()
        {
            let text = format!(
                "{prefix}-dnssec-keydir: keys of geoip zones are not supported, signed zones would become unsigned: \
                 sign them with `nameward zone secure`"
            );
            self.note(Breaks, &keys, &text);
        }
        let names = [
            format!("{prefix}-zones-file"),
            format!("{prefix}-zones-files"),
        ];
        let Some(setting) = self.used_of(&[&names[0], &names[1]]) else {
            let text = format!("{prefix}-zones-file is missing");
            return self.error(&launch.location, text);
        };
        if !cfg!(feature = "lua") {
            let text = format!("{prefix}-zones-file: this build has no LUA records");
            return self.note(Breaks, &setting, &text);
        }
        let text = format!(
            "{prefix}-zones-file: its domains are converted to zone files with LUA records"
        );
        self.note(Taken, &setting, &text);
        let path = self.path(&setting.value);
        let Some((file, text)) = self.texts.open(&path, &setting.location) else {
            return;
        };
        self.texts.close();
        match yaml::parse(&text) {
            Ok(document) => self.geoip_document(&document, &file),
            Err(error) => self.error(&ConfigLocation::new(&file, error.line), error.message),
        }
    }

    fn geoip_databases(&mut self, prefix: &str) {
        let Some(setting) = self.used(&format!("{prefix}-database-files")) else {
            return;
        };
        let mut files = Vec::new();
        for word in setting
            .value
            .split([',', ' ', '\t'])
            .filter(|word| !word.is_empty())
        {
            let file = word.split(';').next().unwrap_or(word);
            let file = file.strip_prefix("mmdb:").unwrap_or(file);
            if file.starts_with("dat:") || file.ends_with(".dat") {
                let text =
                    format!("{prefix}-database-files: {file} is not in the MaxMind DB format");
                self.note(Breaks, &setting, &text);
                continue;
            }
            files.push(self.path(file).to_string_lossy().into_owned());
        }
        if !files.is_empty() {
            let name = format!("{prefix}-database-files");
            self.take(&setting, ("geoip", "databases"), files, &name);
        }
    }

    fn geoip_document(&mut self, document: &YamlNode, file: &Arc<str>) {
        for (key, node) in document.pairs() {
            if !matches!(
                key.as_str(),
                "domains" | "mapping_lookup_formats" | "custom_mapping"
            ) {
                let text = format!("{key}: unsupported key of a geoip zones file");
                self.server
                    .note(Breaks, &ConfigLocation::new(file, node.line), text);
            }
        }
        let Some(domains) = document.get("domains") else {
            return self.error(&ConfigLocation::new(file, 1), "expected domains:");
        };
        for domain in domains.items() {
            self.geoip_domain(domain, document, file);
        }
    }

    fn geoip_domain(&mut self, node: &YamlNode, document: &YamlNode, file: &Arc<str>) {
        let location = ConfigLocation::new(file, node.line);
        let name = node.get("domain").and_then(YamlNode::text);
        let Some(name) = name.and_then(full_name) else {
            return self.error(&location, "expected a domain with its name");
        };
        for (key, value) in node.pairs() {
            let known = [
                "domain",
                "ttl",
                "records",
                "services",
                "mapping_lookup_formats",
                "custom_mapping",
            ];
            if !known.contains(&key.as_str()) {
                let text = format!("{key} of domain {name}: unsupported");
                self.server
                    .note(NotPossible, &ConfigLocation::new(file, value.line), text);
            }
        }
        let ttl = node.get("ttl").map_or(Some(TTL), number);
        let Some(ttl) = ttl else {
            return self.error(&location, "expected a number of seconds as ttl");
        };
        let mut domain = GeoDomain {
            name: name.clone(),
            ttl,
            names: GeoNames::new(),
            mapping: mapping(node, document),
            file: Arc::clone(file),
        };
        if let Some(records) = node.get("records") {
            for (owner, list) in records.pairs() {
                self.geoip_records(&mut domain, owner, list);
            }
        }
        let mut text = format!("; Made by nameward import from {file}.\n");
        let has_soa = domain.names.get(name.trim_end_matches('.'));
        if !has_soa.is_some_and(|sets| sets.iter().any(|(rtype, _)| *rtype == Type::SOA)) {
            let reason = "it has no SOA record";
            return self.server.omit_zone(&name, &location, reason);
        }
        self.write_records(&domain, &mut text, &location);
        if let Some(services) = node.get("services") {
            for (owner, formats) in services.pairs() {
                self.write_service(&domain, &mut text, (owner, formats));
            }
        }
        self.server.take_zone(ImportedZone {
            name,
            kind: ImportedKind::Native,
            file: None,
            text: Some(text),
            terms: ImportedSettings {
                lua_records: Some(true),
                ..ImportedSettings::default()
            },
            signing: None,
            catalog_file: None,
            location,
        });
    }

    fn geoip_records(&mut self, domain: &mut GeoDomain, owner: &str, list: &YamlNode) {
        let location = ConfigLocation::new(&domain.file, list.line);
        let Some(name) = full_name(&owner.to_ascii_lowercase()) else {
            return self.error(&location, format!("invalid name {owner:?}"));
        };
        let (zone, name) = (
            domain.name.trim_end_matches('.'),
            name.trim_end_matches('.'),
        );
        if name != zone && !name.ends_with(&format!(".{zone}")) {
            let text = format!("{owner}: outside domain {}", domain.name);
            return self.server.note(NotPossible, &location, text);
        }
        for (key, value) in list.items().iter().flat_map(YamlNode::pairs) {
            let location = ConfigLocation::new(&domain.file, value.line);
            let Some(rtype) = Type::from_text(key.to_ascii_uppercase().as_bytes()) else {
                self.error(&location, format!("unknown record type {key:?}"));
                continue;
            };
            let (content, ttl, weight) = match &value.value {
                YamlValue::Map(_) => (
                    value.get("content").and_then(YamlNode::text),
                    value.get("ttl").map(number),
                    value.get("weight").map(number),
                ),
                _ => (value.text(), None, None),
            };
            let is_wrong = ttl == Some(None) || weight == Some(None);
            let (ttl, weight) = (ttl.flatten(), weight.flatten());
            let Some(content) = content.filter(|_| !is_wrong) else {
                let message = format!("{key} of {owner}: expected content, ttl and weight");
                self.error(&location, message);
                continue;
            };
            let text = self.template(content, domain, &location);
            let sets = domain.names.entry(name.to_owned()).or_default();
            let ttl = ttl.unwrap_or(domain.ttl);
            match sets.iter_mut().find(|(known, _)| *known == rtype) {
                Some((_, set)) => {
                    set.data.push((text, weight));
                    set.ttl = set.ttl.min(ttl);
                }
                None => {
                    let data = vec![(text, weight)];
                    sets.push((rtype, ScriptRecords { data, ttl }));
                }
            }
        }
    }

    /// Reads text with placeholders.
    fn template(
        &mut self,
        text: &str,
        domain: &GeoDomain,
        location: &ConfigLocation,
    ) -> ScriptText {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, _)) = rest.split_once('%') {
            let sign = &rest[before.len()..];
            let found = PLACEHOLDERS.iter().find(|(name, _)| sign.starts_with(name));
            let (fixed, code, length) = match found {
                Some((name, code)) => (before, Some(*code), name.len()),
                None if sign.starts_with("%%") => (&rest[..=before.len()], None, 2),
                None => (&rest[..=before.len()], None, 1),
            };
            if !fixed.is_empty() {
                pieces.push(TextPiece::Fixed(fixed.to_owned()));
            }
            if code == Some("m()") && domain.mapping.is_none() {
                let reason = format!("%mp in domain {}: there is no mapping", domain.name);
                self.server.note(Breaks, location, reason);
            }
            pieces.extend(code.map(TextPiece::Computed));
            rest = &rest[before.len() + length..];
        }
        if !rest.is_empty() {
            pieces.push(TextPiece::Fixed(rest.to_owned()));
        }
        ScriptText(pieces)
    }

    fn write_records(&mut self, domain: &GeoDomain, out: &mut String, location: &ConfigLocation) {
        for (name, sets) in &domain.names {
            let owner = format!("{name}.");
            // RFC 1035 section 5.2: the SOA record is the first one.
            let is_soa = |rtype: Type| rtype == Type::SOA;
            let (first, others): (Vec<_>, Vec<_>) = sets.iter().partition(|(t, _)| is_soa(*t));
            for (rtype, set) in first.into_iter().chain(others) {
                let owner = (owner.as_str(), set.ttl);
                let written = match set.as_fixed() {
                    Some(data) => data
                        .iter()
                        .try_for_each(|data| write_record(out, owner, *rtype, data)),
                    None => {
                        let code = domain.script(&format!("return {}", set.expression(*rtype)));
                        write_script(out, owner, *rtype, &code)
                    }
                };
                self.report_fault(written, name, location);
            }
        }
    }

    fn report_fault(
        &mut self,
        written: Result<(), GeoRecordFault>,
        name: &str,
        location: &ConfigLocation,
    ) {
        if let Err(fault) = written {
            let text = format!("{name}: {fault}");
            self.server.note(Breaks, location, text);
        }
    }
}

impl GeoDomain {
    /// Returns a script with the functions that it needs.
    fn script(&self, code: &str) -> String {
        let mut text = String::from(";");
        let mapping = self.mapping.as_deref().filter(|_| code.contains("m()"));
        if code.contains("g(") || mapping.is_some_and(|mapping| mapping.contains("g(")) {
            text.push_str(CODE_FUNCTION);
        }
        text.push_str(mapping.unwrap_or_default());
        text + code
    }
}

fn number(node: &YamlNode) -> Option<u32> {
    node.text()?.parse().ok()
}

/// Returns the Lua function for `%mp`: the value of the first format that the mapping has.
fn mapping(domain: &YamlNode, document: &YamlNode) -> Option<String> {
    let find = |key: &str| domain.get(key).or_else(|| document.get(key));
    let (formats, values) = (find("mapping_lookup_formats")?, find("custom_mapping")?);
    let mut code = String::from("local function m() local k ");
    for format in formats.items().iter().filter_map(YamlNode::text) {
        let mut pieces = Vec::new();
        let mut rest = format;
        while let Some((before, _)) = rest.split_once('%') {
            let sign = &rest[before.len()..];
            let (name, piece) = PLACEHOLDERS
                .iter()
                .find(|(name, _)| sign.starts_with(name))?;
            pieces.push(quoted(before));
            pieces.push((*piece).to_owned());
            rest = &rest[before.len() + name.len()..];
        }
        pieces.push(quoted(rest));
        pieces.retain(|piece| piece != "''");
        let _ = write!(code, "k={} ", pieces.join(".."));
        for (key, value) in values.pairs() {
            let value = value.text()?.to_ascii_lowercase();
            let key = key.to_ascii_lowercase();
            let _ = write!(
                code,
                "if k=={} then return {} end ",
                quoted(&key),
                quoted(&value)
            );
        }
    }
    code.push_str("return 'unknown' end ");
    Some(code)
}
