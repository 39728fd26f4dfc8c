//! Reads the repeatable tables about zones and keys, and performs the checks that need more than one of them.

use std::collections::HashSet;

use nameward_keys::rollover::NO_POLICY;
use nameward_maintain::policy::{PolicyFragment, UpdateScope, ZoneKind};
use nameward_wire::{Name, NameBuf, NameError};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Config, ConfigReader,
    dnssec_policy::DnssecPolicySettings,
    error::hint,
    setting::ConfigTable,
    settings::{AutoprimarySettings, KeySettings, TemplateSettings, ZoneSettings},
};

impl ConfigReader<'_> {
    pub(super) fn keys(&mut self, keys: &mut Vec<KeySettings>, value: &Spanned<DeValue<'_>>) {
        let mut names = HashSet::new();
        self.each(value, |reader, entry, mut key: KeySettings| {
            if let Err(error) = key.complete() {
                reader.problem(entry.span(), error.to_string());
            } else if !names.insert(key.name.0) {
                let message = format!("duplicate key {}", key.name.0);
                reader.problem(entry.span(), message);
            } else {
                keys.push(key);
            }
        });
    }

    pub(super) fn templates(
        &mut self,
        templates: &mut Vec<TemplateSettings>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let mut names = HashSet::new();
        self.each(value, |reader, entry, template: TemplateSettings| {
            if template.name.is_empty() {
                reader.problem(entry.span(), "a template needs a name".into());
            } else if !names.insert(template.name.clone()) {
                let message = format!("duplicate template {:?}", template.name);
                reader.problem(entry.span(), message);
            } else {
                templates.push(template);
            }
        });
    }

    pub(super) fn dnssec_policies(
        &mut self,
        policies: &mut Vec<DnssecPolicySettings>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let mut names = HashSet::new();
        self.each(value, |reader, entry, policy: DnssecPolicySettings| {
            let table = entry.get_ref().as_table();
            if let Some((key, message)) = policy.contradiction() {
                let value = table.and_then(|table| table.get(key));
                let span = value.map_or_else(|| entry.span(), Spanned::span);
                reader.problem(span, message);
            } else if !names.insert(policy.name.clone()) {
                let message = format!("duplicate dnssec_policy {:?}", policy.name);
                reader.problem(entry.span(), message);
            } else {
                policies.push(policy);
            }
        });
    }

    /// Checks that the DNSSEC policies named by zones, templates and defaults exist.
    pub(super) fn known_policies(&mut self, config: &Config, table: &DeTable<'_>) {
        for (key, value) in table {
            if key.get_ref() == DnssecPolicySettings::NAME {
                continue;
            }
            let entries = match value.get_ref() {
                DeValue::Array(list) => list.iter().collect(),
                _ => vec![value],
            };
            for entry in entries {
                let table = entry.get_ref().as_table();
                let term = table.and_then(|table| table.get(DnssecPolicySettings::NAME));
                let Some((term, name)) =
                    term.and_then(|term| Some((term, term.get_ref().as_str()?)))
                else {
                    continue;
                };
                let known = || {
                    config
                        .dnssec_policies
                        .iter()
                        .map(|policy| policy.name.as_str())
                };
                if name.is_empty() || name == NO_POLICY || known().any(|known| known == name) {
                    continue;
                }
                let hint = hint(name, known());
                let message = format!("unknown [[dnssec_policy]] {name:?}{hint}");
                self.problem(term.span(), message);
            }
        }
    }

    /// Reads `[[autoprimary]]`, after the templates.
    pub(super) fn autoprimaries(&mut self, config: &mut Config, value: &Spanned<DeValue<'_>>) {
        self.tables(value, |reader, entry, autoprimary: AutoprimarySettings| {
            let table = entry.get_ref().as_table();
            let lacks = |key: &&str| table.is_some_and(|table| !table.contains_key(*key));
            let template = &autoprimary.template;
            if let Some(key) = ["address", "name_server"].into_iter().find(lacks) {
                reader.problem(entry.span(), format!("an autoprimary needs {key}"));
            } else if !template.is_empty() && config.template(template).is_none() {
                let message = format!("unknown [[template]] {template:?}");
                reader.problem(entry.span(), message);
            } else {
                config.autoprimaries.push(autoprimary);
            }
        });
    }

    /// Reads `[[zone]]`, after everything that zones refer to.
    pub(super) fn zones(
        &mut self,
        config: &Config,
        zones: &mut Vec<ZoneSettings>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let mut names = HashSet::new();
        self.each(value, |reader, entry, mut zone: ZoneSettings| {
            if let Err(error) = zone.take_variant() {
                return reader.problem(entry.span(), error.to_string());
            }
            if !names.insert(distinct_name(&zone)) {
                let message = format!("duplicate [[zone]] {}", zone.name.0);
                return reader.problem(entry.span(), message);
            }
            reader.zone(config, &zone, entry);
            zones.push(zone);
        });
    }

    /// Reads every table of a list; each must have a name.
    pub(super) fn each<S: ConfigTable>(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        mut take: impl FnMut(&mut Self, &Spanned<DeValue<'_>>, S),
    ) {
        self.tables(value, |reader, entry, section| {
            let table = entry.get_ref().as_table();
            if table.is_none_or(|table| table.contains_key("name")) {
                take(reader, entry, section)
            } else {
                reader.problem(entry.span(), format!("a {} needs a name", S::NAME))
            }
        });
    }

    /// Reads every table of a list, and passes on those without problems.
    fn tables<S: ConfigTable>(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        mut take: impl FnMut(&mut Self, &Spanned<DeValue<'_>>, S),
    ) {
        let Some(list) = value.get_ref().as_array() else {
            let name = S::NAME;
            let message = format!("{name} is a list of tables: write [[{name}]]");
            return self.problem(value.span(), message);
        };
        // Defaults are parsed from their text: once, and not for each of a hundred thousand tables.
        let defaults = S::defaults();
        for entry in list.iter() {
            let mut section = defaults.clone();
            let before = self.problems.len();
            self.section(&mut section, entry);
            if self.problems.len() == before {
                take(self, entry, section)
            }
        }
    }

    /// Checks that the settings of a zone do not contradict each other.
    pub(super) fn zone(
        &mut self,
        config: &Config,
        zone: &ZoneSettings,
        entry: &Spanned<DeValue<'_>>,
    ) {
        let table = entry.get_ref().as_table();
        let span_of = |key: &str| {
            let value = table.and_then(|table| table.get(key));
            value.map_or_else(|| entry.span(), Spanned::span)
        };
        if !zone.template.is_empty() && config.template(&zone.template).is_none() {
            let known = config
                .templates
                .iter()
                .map(|template| template.name.as_str());
            let hint = hint(&zone.template, known);
            let message = format!("unknown [[template]] {:?}{hint}", zone.template);
            return self.problem(span_of("template"), message);
        }
        let terms = config.zone_policy(zone);
        if let Some((key, message)) = contradiction(zone, &terms) {
            self.problem(span_of(key), message);
        }
        for rule in zone.update_policy.0.iter().flatten() {
            let (UpdateScope::Subtree(name) | UpdateScope::Name(name)) = &rule.scope else {
                continue;
            };
            if !name.as_name().is_at_or_below(zone.name.0.as_name().zone()) {
                let message = format!("update_policy: {name} is not in the zone");
                self.problem(span_of("update_policy"), message);
            }
        }
    }

    /// Checks that the named TSIG keys exist, if they could only be defined in the configuration.
    pub(super) fn known_keys(&mut self, config: &Config, table: &DeTable<'_>) {
        if config.state_directory().is_some() || config.databases().next().is_some() {
            return;
        }
        let mut named = Vec::new();
        for (_, value) in table {
            match value.get_ref() {
                DeValue::Array(list) => list.iter().for_each(|entry| key_names(entry, &mut named)),
                _ => key_names(value, &mut named),
            }
        }
        for (name, span) in named {
            let is_known = config.keys.iter().any(|key| key.name.0 == name);
            if !is_known {
                let known: Vec<_> = config
                    .keys
                    .iter()
                    .map(|key| key.name.0.to_string())
                    .collect();
                let hint = hint(&name.to_string(), known.iter().map(String::as_str));
                self.problem(span, format!("unknown [[key]] {name}{hint}"));
            }
        }
    }
}

/// Why a table is not about a version of a zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum VersionError {
    /// `base` is set for the common version.
    #[error("zone {0}: base is for versions of zones in views, and this is the common version")]
    Base(Box<NameBuf>),
    #[error("zone {zone}: invalid variant {variant:?}: {error}")]
    Variant {
        zone: Box<NameBuf>,
        variant: String,
        error: NameError,
    },
}

impl ZoneSettings {
    /// Makes the variant a part of the name, by which everything knows the version.
    pub(super) fn take_variant(&mut self) -> Result<(), VersionError> {
        let zone = self.name.0;
        if self.variant.is_empty() {
            let is_common = zone.as_name().variant().is_none();
            return if self.base && is_common {
                Err(VersionError::Base(Box::new(zone)))
            } else {
                Ok(())
            };
        }
        let version = NameBuf::with_variant(zone.as_name(), &self.variant);
        let wrong = |error| VersionError::Variant {
            zone: Box::new(zone),
            variant: self.variant.clone(),
            error,
        };
        self.name.0 = version.map_err(wrong)?;
        Ok(())
    }
}

/// Returns the name of a zone in a form that is unique among zones.
pub(super) fn distinct_name(zone: &ZoneSettings) -> Vec<u8> {
    zone.name.0.as_name().as_wire().to_ascii_lowercase()
}

/// Collects the key names in a settings table, with their positions.
fn key_names(value: &Spanned<DeValue<'_>>, named: &mut Vec<(NameBuf, std::ops::Range<usize>)>) {
    let table = value.get_ref().as_table();
    let lists = table
        .into_iter()
        .flatten()
        .filter_map(|(_, value)| value.get_ref().as_array());
    for entry in lists.flat_map(|list| list.iter()) {
        let key = match entry.get_ref() {
            DeValue::String(text) => text.split_once("key:").map(|(_, key)| (key, entry.span())),
            DeValue::Table(table) => {
                key_names(entry, named);
                let key = table.get("key");
                key.and_then(|key| Some((key.get_ref().as_str()?, key.span())))
            }
            _ => None,
        };
        let read = key.map(|(key, span)| (NameBuf::from_text(key.as_bytes(), Name::ROOT), span));
        if let Some((Ok(name), span)) = read {
            named.push((name, span));
        }
    }
}

/// Maximum length of a label in octets (RFC 1035 section 2.3.4).
const LABEL_MAX: usize = 63;

/// Returns contradicting settings of a zone: the key to blame, and why.
fn contradiction(zone: &ZoneSettings, terms: &PolicyFragment) -> Option<(&'static str, String)> {
    let has_primaries = terms
        .primaries
        .as_ref()
        .is_some_and(|list| !list.is_empty());
    if zone.name.0.as_name().variant().is_some()
        && let Some(found) = contradiction_of_version(zone, terms)
    {
        return Some(found);
    }
    // A zone that has only a file is served from it.
    let kind = terms.kind.or(zone.file.as_ref().map(|_| ZoneKind::Native));
    match kind? {
        kind if kind.is_transferred() => {
            let message = format!("a {} zone needs primaries", kind.word());
            (!has_primaries).then_some(("kind", message))
        }
        kind if zone.primaries.0.iter().flatten().next().is_some() => Some((
            "primaries",
            format!("a {} zone is not transferred from primaries", kind.word()),
        )),
        ZoneKind::Producer if zone.file.is_some() => {
            Some(("file", "a producer zone is generated by this server".into()))
        }
        _ if zone.catalog_label.len() > LABEL_MAX => Some((
            "catalog_label",
            format!("a label has at most {LABEL_MAX} octets"),
        )),
        kind if terms.catalog == Some(zone.name.0) => {
            let message = format!("a {} zone cannot be a member of itself", kind.word());
            Some(("catalog", message))
        }
        _ => None,
    }
}

/// Returns settings that the version of a zone for views cannot have.
fn contradiction_of_version(
    zone: &ZoneSettings,
    terms: &PolicyFragment,
) -> Option<(&'static str, String)> {
    if matches!(terms.kind, Some(ZoneKind::Producer | ZoneKind::Consumer)) {
        return Some(("kind", "a catalog has no versions for views".into()));
    }
    if zone.base && terms.kind.is_some_and(ZoneKind::is_transferred) {
        let message = "a secondary zone has all its names: base is not possible";
        return Some(("base", message.into()));
    }
    terms.catalog.is_some().then(|| {
        let message = "a version of a zone for views cannot be a member of a catalog: consumers would take it for the zone";
        ("catalog", message.into())
    })
}

#[cfg(test)]
mod tests;
