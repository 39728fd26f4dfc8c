//! The nameward.toml writer: one format for all source servers, each setting with its origin.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use super::{
    ConfigLocation, ImportVerdict, ImportedBackend, ImportedKey, ImportedListener, ImportedPolicy,
    ImportedRemote, ImportedScope, ImportedServer, ImportedSettings, ImportedUpdateRule,
    ImportedValue, ImportedView, ImportedZone,
};

/// Tables of settings that may be written, in order.
pub(super) const TABLES: [&str; 15] = [
    "server",
    "web",
    "api",
    "cache",
    "overload",
    "recursor",
    "security_poll",
    "tls",
    "https",
    "query_log",
    "dnstap",
    "xdp",
    "lua",
    "health",
    "geoip",
];

/// Choices of the operator about the new file.
#[derive(Debug, Clone)]
pub struct TomlPlan {
    /// The kind of configuration it comes from, for the first line.
    pub from: String,
    /// The state directory, if one is needed.
    pub state_directory: PathBuf,
    /// Where the key secrets are stored.
    pub secrets: SecretLocation,
}

/// Where the key secrets are stored.
#[derive(Debug, Clone)]
pub enum SecretLocation {
    /// In files in a directory, relative to the configuration.
    Directory(PathBuf),
    /// In the text itself, which must then be kept confidential.
    Inline,
}

/// Returns the file name for a key's secret. Key names are DNS names: dots and slashes must not form paths here.
pub fn secret_file_name(key: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = key.trim_end_matches('.').to_ascii_lowercase();
    let mut safe = String::new();
    for c in name.chars() {
        if is_plain(c) && !(c == '.' && safe.is_empty()) {
            safe.push(c)
        } else {
            _ = write!(safe, "_{:x}_", u32::from(c));
        }
    }
    safe.push_str(".secret");
    safe
}

impl ImportedServer {
    /// Returns the text of nameward.toml.
    pub fn to_toml(&self, plan: &TomlPlan) -> String {
        let mut out = String::new();
        let _ = write!(
            out,
            "# Made by nameward import from {}.\n# The comments name the lines that the settings come from.\n",
            plan.from
        );
        let state = self.needs_state();
        for table in TABLES {
            let rows = self.settings.iter().filter(|row| row.table == table);
            let has_state = state && table == "server";
            if rows.clone().next().is_none() && !has_state {
                continue;
            }
            line(&mut out, &format!("\n[{table}]"));
            for row in rows {
                setting(&mut out, row.key, &value(&row.value), row.location.as_ref());
            }
            if has_state {
                let directory = quoted(&plan.state_directory.to_string_lossy());
                setting(&mut out, "state_directory", &directory, None);
            }
        }
        let mut defaults = String::new();
        terms(&mut defaults, &self.defaults);
        if !defaults.is_empty() {
            line(&mut out, "\n[zone_defaults]");
            out.push_str(&defaults);
        }
        self.keys.iter().for_each(|it| key(&mut out, it, plan));
        self.policies.iter().for_each(|it| policy(&mut out, it));
        self.backends.iter().for_each(|it| backend(&mut out, it));
        self.zones.iter().for_each(|it| zone(&mut out, it));
        self.views.iter().for_each(|it| view(&mut out, it));
        self.not_possible(&mut out);
        out
    }

    /// Writes everything that is lost as comments at the end, for later editors of the file.
    fn not_possible(&self, out: &mut String) {
        let is_lost =
            |verdict| matches!(verdict, ImportVerdict::NotPossible | ImportVerdict::Breaks);
        let notes = self.report.notes().into_iter();
        let mut notes = notes.filter(|note| is_lost(note.verdict)).peekable();
        if notes.peek().is_some() {
            line(out, "\n# Not supported:");
        }
        for note in notes {
            line(out, &format!("# {}", one_line(&note.to_string())));
        }
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn setting(out: &mut String, key: &str, value: &str, location: Option<&ConfigLocation>) {
    match location {
        Some(location) => line(
            out,
            &format!("{key} = {value}  # {}", one_line(&location.to_string())),
        ),
        None => line(out, &format!("{key} = {value}")),
    }
}

/// Starts a table that may be repeated.
fn table(out: &mut String, name: &str, location: &ConfigLocation) {
    let location = one_line(&location.to_string());
    line(out, &format!("\n[[{name}]]  # {location}"));
}

fn key(out: &mut String, key: &ImportedKey, plan: &TomlPlan) {
    table(out, "key", &key.location);
    setting(out, "name", &quoted(&key.name), None);
    setting(out, "algorithm", &quoted(&key.algorithm), None);
    match &plan.secrets {
        SecretLocation::Directory(directory) => {
            let file = directory.join(secret_file_name(&key.name));
            setting(out, "secret_file", &path(&file), None);
        }
        SecretLocation::Inline => setting(out, "secret", &quoted(&key.secret), None),
    }
}

fn backend(out: &mut String, backend: &ImportedBackend) {
    table(out, "backend", &backend.location);
    setting(out, "type", &quoted(backend.kind), None);
    for (key, found) in &backend.settings {
        setting(out, key, &value(found), None);
    }
}

fn policy(out: &mut String, policy: &ImportedPolicy) {
    table(out, "dnssec_policy", &policy.location);
    setting(out, "name", &quoted(&policy.name), None);
    for (key, found) in &policy.settings {
        setting(out, key, &value(found), None);
    }
}

fn zone(out: &mut String, zone: &ImportedZone) {
    table(out, "zone", &zone.location);
    let (name, variant) = version(&zone.name);
    setting(out, "name", &quoted(&name), None);
    if let Some(variant) = variant {
        setting(out, "variant", &quoted(variant), None);
    }
    setting(out, "kind", &quoted(zone.kind.word()), None);
    if let Some(file) = &zone.file {
        setting(out, "file", &path(file), None);
    }
    terms(out, &zone.terms);
}

fn view(out: &mut String, view: &ImportedView) {
    table(out, "view", &view.location);
    setting(out, "name", &quoted(&view.name), None);
    setting(out, "match_clients", &texts(&view.match_clients), None);
    if !view.listen.is_empty() {
        setting(out, "listen", &texts(&view.listen), None);
    }
    let zones = view.zones.iter().map(|zone| {
        let (name, variant) = version(zone);
        match variant.filter(|variant| *variant != view.name) {
            Some(variant) => {
                let variant = quoted(variant);
                format!("{{ name = {}, variant = {variant} }}", quoted(&name))
            }
            None => format!("{{ name = {} }}", quoted(&name)),
        }
    });
    setting(out, "zones", &joined(zones), None);
}

/// Splits the name of a zone version into the name of the zone and the variant.
fn version(name: &str) -> (String, Option<&str>) {
    match name.split_once("..") {
        Some((zone, variant)) => (format!("{zone}."), Some(variant)),
        None => (name.to_owned(), None),
    }
}

fn terms(out: &mut String, terms: &ImportedSettings) {
    let mut row = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            setting(out, key, &value, None);
        }
    };
    let texts = |list: &Option<Vec<String>>| list.as_ref().map(|list| texts(list));
    let text = |text: &Option<String>| text.as_deref().map(quoted);
    let switch = |is_on: Option<bool>| is_on.map(|is_on| is_on.to_string());
    let remotes =
        |list: &[ImportedRemote]| (!list.is_empty()).then(|| joined(list.iter().map(remote)));
    row("primaries", remotes(&terms.primaries));
    row("also_notify", remotes(&terms.also_notify));
    row("notify_name_servers", switch(terms.notify_name_servers));
    row("allow_query", texts(&terms.allow_query));
    row("allow_transfer", texts(&terms.allow_transfer));
    row("allow_notify", texts(&terms.allow_notify));
    row("allow_update", texts(&terms.allow_update));
    let rules = &terms.update_policy;
    let rules = (!rules.is_empty()).then(|| joined(rules.iter().map(rule)));
    row("update_policy", rules);
    row("forward_updates", switch(terms.forward_updates));
    row("expand_alias", switch(terms.expand_alias));
    row("soa_edit", text(&terms.soa_edit));
    let size = terms.transfer_size_max_mb.map(|mb| mb.to_string());
    row("transfer_size_max_mb", size);
    row("catalog", text(&terms.catalog));
    row("catalog_group", text(&terms.catalog_group));
    row("catalog_label", text(&terms.catalog_label));
    row("request_ixfr", switch(terms.request_ixfr));
    row("zonemd", terms.zonemd.map(quoted));
    row("lua_records", switch(terms.lua_records));
    row("dnssec_policy", text(&terms.dnssec_policy));
    row("key_directory", terms.key_directory.as_deref().map(path));
}

fn remote(remote: &ImportedRemote) -> String {
    let mut text = format!("{{ address = {}", quoted(&remote.address));
    for (key, value) in [("key", &remote.key), ("source", &remote.source)] {
        if let Some(value) = value {
            let _ = write!(text, ", {key} = {}", quoted(value));
        }
    }
    if let Some(tls) = &remote.tls {
        let is_strict = tls.name.is_some() || tls.authorities.is_some() || !tls.pins.is_empty();
        let mode = if is_strict { "strict" } else { "opportunistic" };
        let _ = write!(text, ", tls = \"{mode}\"");
        if tls.is_quic {
            text.push_str(", quic = true");
        }
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let identity = tls.identity.as_ref();
        for (key, value) in [
            ("tls_name", tls.name.clone()),
            ("tls_ca", tls.authorities.as_ref().map(path)),
            (
                "tls_certificate",
                identity.map(|(certificate, _)| path(certificate)),
            ),
            ("tls_key", identity.map(|(_, key)| path(key))),
            ("tls_alpn", tls.is_alpn_optional.then(|| "optional".into())),
        ] {
            if let Some(value) = value {
                let _ = write!(text, ", {key} = {}", quoted(&value));
            }
        }
        if !tls.pins.is_empty() {
            let pins = joined(tls.pins.iter().map(|pin| quoted(pin)));
            let _ = write!(text, ", tls_pin = {pins}");
        }
    }
    text.push_str(" }");
    text
}

fn rule(rule: &ImportedUpdateRule) -> String {
    let mut text = format!("{{ key = {}", quoted(&rule.key));
    let _ = match &rule.scope {
        ImportedScope::WholeZone => Ok(()),
        ImportedScope::Subtree(name) => write!(text, ", subtree = {}", quoted(name)),
        ImportedScope::OneName(name) => write!(text, ", name = {}", quoted(name)),
        ImportedScope::KeyItself => write!(text, ", self = true"),
    };
    if !rule.types.is_empty() {
        let _ = write!(text, ", types = {}", texts(&rule.types));
    }
    text.push_str(" }");
    text
}

fn value(value: &ImportedValue) -> String {
    match value {
        ImportedValue::Text(text) => quoted(text),
        ImportedValue::Number(number) => number.to_string(),
        ImportedValue::Switch(is_on) => is_on.to_string(),
        ImportedValue::Texts(list) => texts(list),
        ImportedValue::Listeners(list) => {
            let list: Vec<String> = list.iter().map(listener).collect();
            format!("[{}]", list.join(", "))
        }
    }
}

/// Writes a listener: an address, or a table.
fn listener(listener: &ImportedListener) -> String {
    let address = quoted(&listener.address.to_string());
    if listener.is_for_proxies {
        format!("{{ address = {address}, proxy_protocol_from = [\"0.0.0.0/0\", \"::/0\"] }}")
    } else {
        address
    }
}

fn texts(list: &[String]) -> String {
    joined(list.iter().map(|text| quoted(text)))
}

fn joined(values: impl Iterator<Item = String>) -> String {
    let values: Vec<String> = values.collect();
    format!("[{}]", values.join(", "))
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Formats a TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Formats text for a comment, which a control character would end.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
