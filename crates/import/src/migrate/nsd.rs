//! The `nsd.conf` reader: clauses of attributes, includes with patterns, and the zone list that `nsd-control addzone`
//! maintains.
//!
//! ```text
//! nsd.rs      words, clauses, includes
//! server      server: and key:
//! zones       zone: and pattern:, and their equivalents here
//! ```
//! NSD only notifies the servers in `notify:`, and only allows transfers to those in `provide-xfr:`.

mod server;
mod zones;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use super::{
    ConfigLocation, ImportedServer, ImportedTls,
    entries::{ConfigEntry, ConfigSection},
    texts::ConfigTexts,
};
use crate::Files;

/// Maximum number of attributes in one configuration.
const ATTRIBUTES_MAX: usize = 4_000_000;
/// Words that start a clause.
const CLAUSES: &[&str] = &[
    "server",
    "remote-control",
    "zone",
    "pattern",
    "key",
    "tls-auth",
    "verify",
    "dnstap",
    "xdp",
];

struct NsdReader<'f> {
    texts: ConfigTexts<'f>,
    server: ImportedServer,
    clauses: Vec<ConfigSection>,
    count: usize,
    /// Attributes of zones, counting those of patterns once per zone.
    zone_attributes: usize,
    /// Base of relative zone file paths.
    zones_directory: PathBuf,
    /// Patterns by name: indexes in `clauses`.
    patterns: HashMap<String, usize>,
    /// Patterns used by a zone: indexes in `clauses`.
    used_patterns: HashSet<usize>,
    /// TLS settings for primaries, by name.
    tls_auth: HashMap<String, ImportedTls>,
}

/// Reads an nsd.conf and all files it includes.
pub fn read(path: &Path, files: &mut dyn Files) -> ImportedServer {
    let first = ConfigLocation::start_of(path);
    let mut reader = NsdReader {
        texts: ConfigTexts::new(files),
        server: ImportedServer::default(),
        clauses: Vec::new(),
        count: 0,
        zone_attributes: 0,
        zones_directory: super::texts::directory_of(path),
        patterns: HashMap::new(),
        used_patterns: HashSet::new(),
        tls_auth: HashMap::new(),
    };
    reader.file(path, &first);
    if reader.texts.errors.is_empty() {
        reader.server_clauses();
        reader.zone_clauses();
    }
    reader.server.errors = reader.texts.errors;
    reader.server
}

impl NsdReader<'_> {
    fn error(&mut self, location: &ConfigLocation, message: impl Into<String>) {
        self.texts.error(location, message);
    }

    fn file(&mut self, path: &Path, from: &ConfigLocation) {
        let Some((file, text)) = self.texts.open(path, from) else {
            return;
        };
        for (line, number) in text.lines().zip(1..) {
            let location = ConfigLocation::new(&file, number);
            if self.texts.is_full() {
                break;
            }
            self.line(line, &location);
        }
        self.texts.close();
    }

    fn line(&mut self, line: &str, location: &ConfigLocation) {
        let mut words = words(line);
        // `zone: name: example.org` may be on one line.
        while let Some(word) = words.first().and_then(|word| word.strip_suffix(':')) {
            if !CLAUSES.contains(&word) {
                break;
            }
            self.clauses.push(ConfigSection {
                section: word.to_string(),
                location: location.clone(),
                entries: Vec::new(),
            });
            words.remove(0);
        }
        let Some(first) = words.first() else {
            return;
        };
        let Some(key) = first.strip_suffix(':').map(str::to_string) else {
            let message = format!("expected an attribute such as name:, found {first:?}");
            return self.error(location, message);
        };
        words.remove(0);
        self.attribute(ConfigEntry {
            key,
            values: words,
            location: location.clone(),
        });
    }

    fn attribute(&mut self, attribute: ConfigEntry) {
        let location = attribute.location.clone();
        if attribute.values.is_empty() {
            let message = format!("expected a value after {}:", attribute.key);
            return self.error(&location, message);
        }
        if attribute.key == "include" {
            let base = super::texts::directory_of(Path::new(&*location.file));
            let pattern = base.join(attribute.value());
            for path in self.texts.included(&pattern, &location) {
                self.file(&path, &location);
            }
            return;
        }
        self.count += 1;
        let message = match self.clauses.last_mut() {
            _ if self.count > ATTRIBUTES_MAX => format!("more than {ATTRIBUTES_MAX} attributes"),
            None => format!("{}: outside of a clause such as server:", attribute.key),
            Some(clause) => return clause.entries.push(attribute),
        };
        self.error(&location, message);
    }
}

/// Returns the words of a line up to a comment; quotes protect blanks and hashes.
fn words(line: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '#' => break,
            '"' | '\'' => {
                let inner = &rest[1..];
                let end = inner.find(first).unwrap_or(inner.len());
                (&inner[..end], inner.get(end + 1..).unwrap_or(""))
            }
            _ => {
                let is_end = |c: char| c.is_whitespace() || c == '"' || c == '#';
                // `key:"value"` has no blank in between.
                let end = rest.find(is_end).unwrap_or(rest.len());
                (&rest[..end], &rest[end..])
            }
        };
        match (all.is_empty(), word.split_once(':')) {
            // `name:value` without a blank, unless the value is an IPv6 address.
            (true, Some((name, value))) if !value.is_empty() && is_name(name) => {
                all.push(format!("{name}:"));
                all.push(value.to_string());
            }
            _ => all.push(word.to_string()),
        }
        rest = after.trim_start();
    }
    all
}

fn is_name(word: &str) -> bool {
    !word.is_empty()
        && word
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_end_at_blanks_quotes_and_comments() {
        for (line, expected) in [
            ("  name: \"example.org\" # c", "name:|example.org"),
            ("name:\"a b\"", "name:|a b"),
            ("port:53", "port:|53"),
            ("zone: name: x", "zone:|name:|x"),
            ("ip-address: ::1@5300", "ip-address:|::1@5300"),
            ("key: 'open", "key:|open"),
            ("# all", ""),
        ] {
            assert_eq!(words(line).join("|"), expected, "{line}");
        }
    }
}
