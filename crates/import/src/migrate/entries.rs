//! Sections with entries, as the readers of nsd.conf and knot.conf keep them.

use super::ConfigLocation;

/// A key with its values.
#[derive(Debug, Clone)]
pub(super) struct ConfigEntry {
    pub key: String,
    pub values: Vec<String>,
    pub location: ConfigLocation,
}

impl ConfigEntry {
    pub fn value(&self) -> &str {
        self.values.first().map_or("", String::as_str)
    }

    pub fn is_on(&self) -> bool {
        ["on", "true"].contains(&self.value())
    }

    pub fn is_off(&self) -> bool {
        ["off", "false", ""].contains(&self.value())
    }

    pub fn is_yes(&self) -> bool {
        self.value() == "yes"
    }
}

/// A clause of nsd.conf; an item of a section of knot.conf, where `server:` and similar sections have one.
#[derive(Debug, Clone)]
pub(super) struct ConfigSection {
    pub section: String,
    pub location: ConfigLocation,
    pub entries: Vec<ConfigEntry>,
}

impl ConfigSection {
    /// Returns the identifier of an item: the value of its first entry.
    pub fn id(&self) -> &str {
        self.entries.first().map_or("", ConfigEntry::value)
    }

    pub fn entry(&self, key: &str) -> Option<&ConfigEntry> {
        self.entries.iter().rfind(|entry| entry.key == key)
    }

    pub fn is_on(&self, key: &str) -> bool {
        self.entry(key).is_some_and(ConfigEntry::is_on)
    }

    pub fn value_or<'s>(&'s self, key: &str, default: &'s str) -> &'s str {
        self.entry(key).map_or(default, ConfigEntry::value)
    }

    /// Returns the values of an entry; none if it is missing.
    pub fn values(&self, key: &str) -> &[String] {
        self.entry(key).map_or(&[], |entry| &entry.values)
    }
}
