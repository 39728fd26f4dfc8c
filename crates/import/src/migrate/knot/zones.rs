//! Zones and templates of a knot.conf: the effective settings of a zone, and their equivalents here.

use std::path::{Path, PathBuf};

use super::{
    super::{
        ImportVerdict::{Breaks, Changed, NotPossible, Taken},
        ImportedKind, ImportedSettings, ImportedZone, full_name, peers,
        tables::{NO_EFFECT, Outcome, changed, not_needed, not_possible},
    },
    ConfigEntry, ConfigSection, KnotReader,
    access::{KnotIndex, KnotRefusal, impossible, peer_of},
};

/// Default directory of zone files.
pub(super) const STORAGE: &str = "/var/lib/knot";
/// Modules without which answers stay the same.
const QUIET_MODULES: &[&str] = &[
    "mod-rrl",
    "mod-stats",
    "mod-cookies",
    "mod-dnstap",
    "mod-probe",
    "mod-authsignal",
];

/// Returns the outcome for a setting of a zone or template; `None` if it is converted.
fn outcome_of(entry: &ConfigEntry) -> Option<Outcome> {
    Some(match entry.key.as_str() {
        "catalog-template" => changed(
            "members use the settings of [zone_defaults] or the [[template]] of their group",
        ),
        "ddns-master" => {
            not_possible("set forward_updates = true to forward updates to the primary")
        }
        "id" | "domain" | "template" | "storage" | "file" | "master" | "notify" | "acl"
        | "dnssec-signing" | "dnssec-policy" | "zonemd-generate" | "zonemd-verify"
        | "dnssec-validation" | "module" | "catalog-role" | "catalog-zone" | "catalog-group"
        | "zone-max-size" | "global-module" | "reverse-generate" | "include-from" => return None,
        _ if entry.is_off() => not_needed("off"),
        "zonefile-sync" | "zonefile-load" | "journal-content" | "journal-max-usage"
        | "journal-max-depth" | "journal-db" | "semantic-checks" | "adjust-threads"
        | "ixfr-benevolent" | "ixfr-by-one" | "ixfr-from-axfr" | "provide-ixfr" | "comment"
        | "zonefile-skip" | "backup" | "kasp-db" | "timer-db" | "max-timer-db-size"
        | "disable-any" | "zone-max-ttl" | "serial-modulo" | "notify-delay" | "retry-delay" => {
            NO_EFFECT
        }
        "serial-policy" => {
            changed("serials are incremented by one, or by date if they have that format")
        }
        _ => not_possible("no equivalent"),
    })
}

impl KnotReader<'_> {
    pub(super) fn zones(&mut self, items: &[ConfigSection]) {
        let index = KnotIndex::new(items);
        for item in items.iter().filter(|item| item.section == "template") {
            self.unused(item);
        }
        for item in items.iter().filter(|item| item.section == "zone") {
            self.unused(item);
            self.zone(item, &index);
        }
        self.definitions(items, &index);
    }

    /// Reports the lists and templates that zones refer to.
    fn definitions(&mut self, items: &[ConfigSection], index: &KnotIndex<'_>) {
        for item in items {
            let section = item.section.as_str();
            let sections = [
                "acl",
                "remote",
                "remotes",
                "template",
                "policy",
                "submission",
                "keystore",
                "mod-geoip",
            ];
            if !sections.contains(&section) {
                continue;
            }
            let id = item.id();
            if ["policy", "mod-geoip"].contains(&section) && index.is_used(section, id) {
                // It has its own line.
                continue;
            }
            let (what, is_used) = (format!("{section} {id}"), index.is_used(section, id));
            self.server.note_use(&item.location, &what, is_used);
        }
    }

    /// Reports the settings of a zone or template that have no equivalent here.
    fn unused(&mut self, item: &ConfigSection) {
        for entry in item.entries.iter().skip(1) {
            let key = entry.key.as_str();
            let section = item.section.as_str();
            if let Some((verdict, reason)) = outcome_of(entry) {
                self.note(verdict, section, entry, reason);
            } else if key == "global-module" {
                self.global_modules(entry);
            }
        }
    }

    fn global_modules(&mut self, entry: &ConfigEntry) {
        for module in &entry.values {
            let name = module.split('/').next().unwrap_or_default();
            if name == "mod-dnstap" {
                let text = "global-module mod-dnstap: [dnstap]";
                self.server.note(Taken, &entry.location, text);
                continue;
            }
            let (verdict, reason) = if QUIET_MODULES.contains(&name) {
                (NotPossible, "modules are not supported")
            } else {
                (Breaks, "modules are not supported, answers would differ")
            };
            let text = format!("global-module {name}: {reason}");
            self.server.note(verdict, &entry.location, text);
        }
    }

    fn zone(&mut self, item: &ConfigSection, index: &KnotIndex<'_>) {
        let Some(name) = full_name(item.id()) else {
            let message = format!("invalid zone name {:?}", item.id());
            return self.error(&item.location, message);
        };
        let template = match item.entry("template") {
            Some(entry) => match index.find("template", entry.value()) {
                Some(template) => Some(template),
                None => return self.wrong(entry, "a template name"),
            },
            None => index.find("template", "default"),
        };
        let find = |key: &str| item.entry(key).or_else(|| template?.entry(key));
        let settled = self.zone_settings(&name, &find, index);
        let settled = settled.and_then(|settled| Ok((settled, self.signing(&name, &find, index)?)));
        let geo = find("module").filter(|entry| {
            let mut modules = entry.values.iter();
            modules.any(|module| module.split('/').next() == Some("mod-geoip"))
        });
        let settled = settled.and_then(|((kind, mut terms), signing)| {
            let Some(entry) = geo else {
                return Ok((kind, terms, signing, None));
            };
            if kind.is_transferred() || signing.is_some() {
                let reason = "mod-geoip answers its queries, and it is transferred or signed";
                return Err(impossible(entry, reason));
            }
            let file = file_of(&name, &find);
            let text = self.geo_zone((&name, &file), entry, index)?;
            terms.lua_records = Some(true);
            Ok((kind, terms, signing, Some(text)))
        });
        match settled {
            Ok((kind, terms, signing, text)) => {
                let is_producer = kind == ImportedKind::Producer;
                let file = Some(file_of(&name, &find)).filter(|_| !kind.is_transferred());
                self.server.take_zone(ImportedZone {
                    name,
                    kind,
                    catalog_file: file.clone().filter(|_| is_producer),
                    text,
                    file: file.filter(|_| !is_producer),
                    terms,
                    signing,
                    location: item.location.clone(),
                });
            }
            Err(refusal) if refusal.is_mistake => {
                self.error(&refusal.entry.location, refusal.reason)
            }
            Err(refusal) => {
                let location = &refusal.entry.location;
                self.server.omit_zone(&name, location, refusal.reason);
            }
        }
    }

    /// Returns the kind and settings of a zone, or why it cannot be served as Knot serves it.
    fn zone_settings<'e>(
        &mut self,
        name: &str,
        find: &dyn Fn(&str) -> Option<&'e ConfigEntry>,
        index: &KnotIndex<'_>,
    ) -> Result<(ImportedKind, ImportedSettings), KnotRefusal> {
        if let Some(entry) = find("module") {
            self.zone_modules(name, entry)?;
        }
        if let Some(entry) = find("reverse-generate").or_else(|| find("include-from")) {
            return Err(impossible(entry, "records generated from other zones"));
        }
        let mut terms = ImportedSettings {
            notify_name_servers: Some(false),
            allow_transfer: Some(Vec::new()),
            ..ImportedSettings::default()
        };
        if let Some(entry) = find("master") {
            terms.primaries = index.remotes(entry)?;
        }
        if let Some(entry) = find("notify") {
            terms.also_notify = index.remotes(entry)?;
        }
        if let Some(entry) = find("acl") {
            index.add_acl(entry, &mut terms)?;
        }
        if self.has_automatic_acl {
            let transfer = terms.also_notify.iter().map(peer_of);
            terms
                .allow_transfer
                .get_or_insert_default()
                .extend(transfer);
        }
        if let Some(entry) = find("zone-max-size") {
            terms.transfer_size_max_mb =
                octets(entry.value()).map(|size| size.div_ceil(1 << 20).max(1));
        }
        if let Some(entry) = find("catalog-zone") {
            terms.catalog = full_name(entry.value());
        }
        terms.zonemd = self.zonemd(find);
        terms.catalog_group = find("catalog-group").map(|entry| entry.value().to_string());
        let kind = match find("catalog-role").map(ConfigEntry::value) {
            Some("interpret") => ImportedKind::Consumer,
            Some("generate") => ImportedKind::Producer,
            _ if !terms.primaries.is_empty() => ImportedKind::Secondary,
            _ => ImportedKind::Primary,
        };
        if kind.is_transferred() && terms.primaries.is_empty() {
            let entry = find("master").or_else(|| find("catalog-role"));
            let entry = entry.or_else(|| find("domain"));
            if let Some(entry) = entry {
                let reason = "no primaries; it would never be transferred";
                return Err(impossible(entry, reason));
            }
        }
        Ok((kind, terms))
    }

    /// Converts zone digests: made here, or required of each version.
    fn zonemd<'e>(
        &mut self,
        find: &dyn Fn(&str) -> Option<&'e ConfigEntry>,
    ) -> Option<&'static str> {
        let verify = find("zonemd-verify").filter(|entry| entry.is_on());
        match find("zonemd-generate").filter(|entry| entry.value().starts_with("zonemd-")) {
            Some(entry) => {
                if entry.value() != "zonemd-sha384" {
                    let reason = "ZONEMD digests use SHA-384";
                    self.note(Changed, "zone", entry, reason);
                }
                if let Some(entry) = verify {
                    let reason = "a generated ZONEMD digest is not verified";
                    self.note(Changed, "zone", entry, reason);
                }
                Some("generate")
            }
            None => verify.map(|_| "require"),
        }
    }

    fn zone_modules(&mut self, name: &str, entry: &ConfigEntry) -> Result<(), KnotRefusal> {
        for module in &entry.values {
            let module = module.split('/').next().unwrap_or_default();
            if module == "mod-geoip" {
                continue;
            }
            if !QUIET_MODULES.contains(&module) {
                let reason = format!("{module} answers its queries");
                return Err(impossible(entry, reason));
            }
            let (verdict, reason) = match module {
                "mod-dnstap" => (Changed, "[dnstap] logs the queries for all zones"),
                _ => (NotPossible, "modules are not supported"),
            };
            let text = format!("module {module} of zone {name}: {reason}");
            self.server.note(verdict, &entry.location, text);
        }
        Ok(())
    }
}

pub(super) fn file_of<'e>(name: &str, find: &dyn Fn(&str) -> Option<&'e ConfigEntry>) -> PathBuf {
    let storage = find("storage").map_or(STORAGE, ConfigEntry::value);
    let pattern = find("file").map_or("%s.zone", ConfigEntry::value);
    Path::new(storage).join(expanded(pattern, name))
}

/// Expands a zone file name: `%s` is the zone name, `%c[N]` and `%c[N-M]` are characters of it, `%l[N]` is a label from
/// the right, `%m` the name without its first label.
fn expanded(pattern: &str, zone: &str) -> String {
    let name = match zone.strip_suffix('.') {
        Some("") | None => "root",
        Some(name) => name,
    };
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let mut following = after.chars();
        let letter = following.next();
        rest = following.as_str();
        match letter {
            Some('s') => out.push_str(name),
            Some('m') => out.push_str(name.split_once('.').map_or("", |(_, parent)| parent)),
            Some(letter @ ('c' | 'l')) => {
                let inner = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                let Some((numbers, after)) = inner else {
                    continue;
                };
                rest = after;
                let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
                let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
                    continue;
                };
                match letter {
                    'l' => out.push_str(name.rsplit('.').nth(first).unwrap_or("")),
                    // A name has at most 255 octets.
                    _ => out.extend(
                        name.chars()
                            .skip(first)
                            .take(last.min(255).saturating_sub(first) + 1),
                    ),
                }
            }
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    out + rest
}

/// Parses a size with a unit: `16M`.
fn octets(text: &str) -> Option<u64> {
    peers::with_unit(text, |unit| match unit {
        "" | "B" => Some(1),
        "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::expanded;

    #[test]
    fn names_of_files_follow_the_zone() {
        assert_eq!(expanded("%s.zone", "example.org."), "example.org.zone");
        assert_eq!(
            expanded("%c[0]/%c[0-1]/%s", "example.org."),
            "e/ex/example.org"
        );
        assert_eq!(expanded("%l[0]/%l[1]", "a.example.org."), "org/example");
        assert_eq!(expanded("%c[0-99999999999]", "ab."), "ab");
        assert_eq!(expanded("%", "ab."), "%");
    }
}
