//! The `pdns.conf` reader: settings of the file and of those in `include-dir`, by name.
//!
//! ```text
//! pdns.rs     lines, continuations, `+=`, include-dir, old names
//! table       the outcome for settings that need no conversion logic
//! translate   listeners, access, transfers, caches
//! services    updates, the web page, resolvers
//! backends    launch=: databases, and zone files of the bind backend
//! geoip       zones of the geoip backend
//! ```
//! Database zones are not listed individually: kinds, primaries, keys and metadata stay in the database, from which
//! they are read as PowerDNS reads them.

mod backends;
mod geoip;
mod services;
mod table;
mod translate;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    ConfigLocation,
    ImportVerdict::{self, NotNeeded, Taken},
    ImportedServer,
    texts::ConfigTexts,
};
use crate::Files;
use table::fate_of;

/// Maximum number of settings in one configuration.
const SETTINGS_MAX: usize = 10_000;

#[derive(Debug, Clone)]
struct PdnsSetting {
    value: String,
    location: ConfigLocation,
    /// The setting has been handled.
    is_used: bool,
}

impl PdnsSetting {
    /// Checks whether there is a value that enables something.
    fn is_on(&self) -> bool {
        !self.value.is_empty() && self.is_switch_on()
    }

    /// Checks whether a switch is on: in PowerDNS `primary=` means `primary=yes`.
    fn is_switch_on(&self) -> bool {
        let value = self.value.to_ascii_lowercase();
        !["no", "off", "0", "false"].contains(&value.as_str())
    }
}

struct PdnsReader<'f> {
    texts: ConfigTexts<'f>,
    settings: BTreeMap<String, PdnsSetting>,
    /// Report lines about settings that appear several times.
    repeated: Vec<(ImportVerdict, ConfigLocation, String)>,
    server: ImportedServer,
    /// The file named first: the location of defaults.
    first: ConfigLocation,
}

/// Reads a pdns.conf and all files it includes.
pub fn read(path: &Path, files: &mut dyn Files) -> ImportedServer {
    let first = ConfigLocation::start_of(path);
    let mut reader = PdnsReader {
        texts: ConfigTexts::new(files),
        settings: BTreeMap::new(),
        repeated: Vec::new(),
        server: ImportedServer::default(),
        first,
    };
    reader.file(path);
    if let Some(directory) = reader.used("include-dir") {
        let pattern = Path::new(&directory.value).join("*.conf");
        for path in reader.texts.included(&pattern, &directory.location) {
            reader.file(&path);
        }
    }
    if reader.texts.errors.is_empty() {
        reader.translate();
        reader.rest();
    }
    reader.server.errors = reader.texts.errors;
    reader.server
}

impl PdnsReader<'_> {
    fn error(&mut self, location: &ConfigLocation, message: impl Into<String>) {
        self.texts.error(location, message);
    }

    fn file(&mut self, path: &Path) {
        let from = self.first.clone();
        let Some((file, text)) = self.texts.open(path, &from) else {
            return;
        };
        let mut whole = String::new();
        let mut begin = 1;
        for (number, line) in (1..).zip(text.lines()) {
            if whole.is_empty() {
                begin = number;
            }
            // A backslash at the end of a line joins it with the next one.
            if let Some(part) = line.trim_end().strip_suffix('\\') {
                whole.push_str(part);
                continue;
            }
            whole.push_str(line);
            let location = ConfigLocation::new(&file, begin);
            self.line(&std::mem::take(&mut whole), location);
        }
        self.texts.close();
    }

    fn line(&mut self, line: &str, location: ConfigLocation) {
        let line = without_comment(line).trim();
        if line.is_empty() {
            return;
        }
        // A name alone enables a switch.
        let (name, value) = line.split_once('=').unwrap_or((line, "yes"));
        if name.trim().contains(char::is_whitespace) {
            let message = format!("expected name=value, found {line:?}");
            return self.error(&location, message);
        }
        let (name, is_added) = match name.trim_end().strip_suffix('+') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let name = name.trim().trim_start_matches("--").to_ascii_lowercase();
        let value = value.trim().to_string();
        if self.settings.len() >= SETTINGS_MAX {
            let message = format!("more than {SETTINGS_MAX} settings");
            return self.error(&location, message);
        }
        if is_added && let Some(known) = self.settings.get(&name) {
            let text = format!("{name}: added to the value at {}", known.location);
            self.repeated.push((Taken, location.clone(), text));
        }
        match self.settings.get_mut(&name).filter(|_| is_added) {
            Some(known) if known.value.is_empty() => known.value = value,
            Some(known) => known.value = format!("{}, {value}", known.value),
            None => {
                if let Some(known) = self.settings.get(&name) {
                    let text = format!("{name}: overridden at {location}");
                    let location = known.location.clone();
                    self.repeated.push((NotNeeded, location, text));
                }
                let setting = PdnsSetting {
                    value,
                    location,
                    is_used: false,
                };
                self.settings.insert(name, setting);
            }
        }
    }

    /// Returns a setting and marks it as handled.
    fn used(&mut self, name: &str) -> Option<PdnsSetting> {
        let setting = self.settings.get_mut(name)?;
        setting.is_used = true;
        Some(setting.clone())
    }

    /// Returns a setting by its current name or a former one; the first that exists.
    fn used_of(&mut self, names: &[&str]) -> Option<PdnsSetting> {
        let found: Vec<PdnsSetting> = names.iter().filter_map(|name| self.used(name)).collect();
        found.into_iter().next()
    }

    /// Checks whether a switch is on under one of its names; otherwise the default.
    fn is_on(&mut self, names: &[&str], default: bool) -> bool {
        self.used_of(names)
            .map_or(default, |setting| setting.is_switch_on())
    }

    /// Reports all settings that have not been handled, and those that others made use of.
    fn rest(&mut self) {
        let rest = std::mem::take(&mut self.settings);
        for (name, setting) in &rest {
            if setting.is_used {
                let text = format!("{name}: part of other settings");
                self.server.report.add_used(&setting.location, text);
                continue;
            }
            let (verdict, reason) = match fate_of(name) {
                (verdict, _) if verdict != NotNeeded && !setting.is_on() => (NotNeeded, "off"),
                outcome => outcome,
            };
            let text = format!("{name}: {reason}");
            self.server.note(verdict, &setting.location, text);
        }
        for (verdict, location, text) in std::mem::take(&mut self.repeated) {
            self.server.note(verdict, &location, text);
        }
    }

    /// Resolves a path in the configuration.
    fn path(&self, text: &str) -> PathBuf {
        super::texts::directory_of(Path::new(&*self.first.file)).join(text)
    }
}

/// Strips a comment: a hash starts one at the start of a line or after a blank; passwords may contain one.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if c == '#' && before.is_whitespace() {
            return &line[..at];
        }
        before = c;
    }
    line
}

/// Returns the words of a list separated by commas, semicolons or blanks.
fn words(list: &str) -> impl Iterator<Item = &str> {
    let words = list.split([',', ';', ' ', '\t']);
    words.filter(|word| !word.is_empty())
}
