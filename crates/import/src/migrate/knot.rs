//! The `knot.conf` reader: sections, items with an identifier, values and lists.
//!
//! ```text
//! lines       the subset of YAML that Knot reads
//! server      server:, key: and sections without an equivalent here
//! access      acl:, remote:, remotes:
//! signing     policy:, and the location of keys
//! geo         zones with mod-geoip
//! zones       template: and zone:
//! ```
//! Knot only notifies the servers in `notify`. With `automatic-acl` (on by default) servers in `notify` may transfer,
//! and those in `master` may send NOTIFY.

mod access;
mod geo;
mod lines;
mod server;
mod signing;
mod zones;

use std::path::Path;

use super::{
    ConfigLocation, ImportVerdict, ImportedServer,
    entries::{ConfigEntry, ConfigSection},
    tables::{NO_EFFECT, Outcome, not_needed, not_possible},
    texts::ConfigTexts,
};
use crate::Files;

/// Maximum number of entries in one configuration.
const ENTRIES_MAX: usize = 4_000_000;

struct KnotReader<'f> {
    texts: ConfigTexts<'f>,
    server: ImportedServer,
    items: Vec<ConfigSection>,
    count: usize,
    has_automatic_acl: bool,
}

/// Reads a knot.conf and all files it includes.
pub fn read(path: &Path, files: &mut dyn Files) -> ImportedServer {
    let first = ConfigLocation::start_of(path);
    let mut reader = KnotReader {
        texts: ConfigTexts::new(files),
        server: ImportedServer::default(),
        items: Vec::new(),
        count: 0,
        has_automatic_acl: true,
    };
    reader.file(path, &first);
    if reader.texts.errors.is_empty() {
        reader.translate();
    }
    reader.server.errors = reader.texts.errors;
    reader.server
}

impl KnotReader<'_> {
    fn error(&mut self, location: &ConfigLocation, message: impl Into<String>) {
        self.texts.error(location, message);
    }

    fn translate(&mut self) {
        let items = std::mem::take(&mut self.items);
        for item in &items {
            match item.section.as_str() {
                "server" => self.server_section(item),
                "key" => self.key(item),
                "log" => self.log(item),
                // Read where a zone refers to them.
                "acl" | "remote" | "remotes" | "template" | "zone" | "policy" | "submission"
                | "keystore" | "mod-geoip" => {}
                "mod-dnstap" => self.dnstap(item),
                "xdp" => self.xdp(item),
                "control" | "database" => self.section(item, NO_EFFECT),
                "statistics" => self.section(item, not_needed("use /metrics")),
                name if name.starts_with("mod-") => {
                    self.section(item, not_possible("modules are not supported"));
                }
                _ => self.section(item, not_possible("no equivalent")),
            }
        }
        self.default_listeners();
        self.zones(&items);
    }

    fn section(&mut self, item: &ConfigSection, (verdict, reason): Outcome) {
        let text = format!("{}: {reason}", item.section);
        self.server.note(verdict, &item.location, text);
    }

    fn note(&mut self, verdict: ImportVerdict, section: &str, entry: &ConfigEntry, reason: &str) {
        let text = format!("{} of {section}: {reason}", entry.key);
        self.server.note(verdict, &entry.location, text);
    }

    fn wrong(&mut self, entry: &ConfigEntry, expected: &str) {
        let found = entry.values.join(", ");
        let message = format!("{}: expected {expected}, found {found:?}", entry.key);
        self.error(&entry.location, message);
    }
}
