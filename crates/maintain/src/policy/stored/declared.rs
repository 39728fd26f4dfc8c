//! Zones that an operator declares by command: their format in the state store, and the resulting policy.
//!
//! A declaration consists of text lines after a format number: `kind secondary`, `primary 192.0.2.1:53 key.example.`,
//! `template pool`, `catalog catalog.example.`, `transfer-key key.example.`, `soa-edit-api DEFAULT`.

use crate::policy::{PolicyFragment, RemoteServer, ZoneKind};
use nameward_wire::NameBuf;
use nameward_zone::{AccessEntry, AccessList, AccessWord};
use std::collections::HashMap;
use std::fmt::Write;

/// The item kind for declared zones in the state store.
pub(super) const ZONES: &str = "zone";
/// The value format.
const FORM: u8 = 1;

/// The settings of a zone declared in the state store. They take precedence over those of its template and the
/// defaults.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct DeclaredSettings {
    /// The kind.
    pub kind: ZoneKind,
    /// The servers it is transferred from, in order of preference.
    pub primaries: Vec<RemoteServer>,
    /// The template for its settings; none if empty.
    pub template: String,
    /// The catalog that lists it.
    pub catalog: Option<NameBuf>,
    /// TSIG keys with which it may be transferred from here, besides what the template and the defaults allow.
    pub transfer_keys: Vec<NameBuf>,
    /// How changes through the HTTP API raise the serial (SOA-EDIT-API); empty for the default.
    pub soa_edit_api: String,
}

impl DeclaredSettings {
    /// Returns the policy for these settings, completed by those of the template.
    pub(super) fn part(&self, templates: &HashMap<String, PolicyFragment>) -> PolicyFragment {
        let own = PolicyFragment {
            kind: Some(self.kind),
            primaries: (!self.primaries.is_empty()).then(|| self.primaries.clone()),
            catalog: self.catalog,
            also_transfer: (!self.transfer_keys.is_empty()).then(|| self.transfer_list()),
            ..PolicyFragment::default()
        };
        // A zone does not vanish because its template does.
        match templates.get(&self.template) {
            Some(template) => own.or(template),
            None => own,
        }
    }

    fn transfer_list(&self) -> AccessList {
        let keys = self.transfer_keys.iter();
        let entries: Vec<AccessEntry> = keys
            .map(|key| AccessEntry::positive(AccessWord::Key(*key)))
            .collect();
        AccessList::new(&entries)
    }

    /// Encodes the settings for the state store.
    pub fn to_value(&self) -> Vec<u8> {
        let mut text = format!("kind {}\n", self.kind.word());
        for primary in &self.primaries {
            let _ = match &primary.key {
                Some(key) => writeln!(text, "primary {} {key}", primary.address),
                None => writeln!(text, "primary {}", primary.address),
            };
        }
        if !self.template.is_empty() {
            let _ = writeln!(text, "template {}", self.template);
        }
        if let Some(catalog) = &self.catalog {
            let _ = writeln!(text, "catalog {catalog}");
        }
        for key in &self.transfer_keys {
            let _ = writeln!(text, "transfer-key {key}");
        }
        if !self.soa_edit_api.is_empty() {
            let _ = writeln!(text, "soa-edit-api {}", self.soa_edit_api);
        }
        [&[FORM][..], text.as_bytes()].concat()
    }

    /// Decodes settings from the state store; `None` if they have another format.
    pub fn from_value(value: &[u8]) -> Option<Self> {
        let [FORM, text @ ..] = value else {
            return None;
        };
        let mut settings = DeclaredSettings::default();
        for line in std::str::from_utf8(text).ok()?.lines() {
            match line.split_once(' ')? {
                ("kind", word) => settings.kind = ZoneKind::from_word(word)?,
                ("primary", server) => {
                    let (address, key) = match server.split_once(' ') {
                        Some((address, key)) => (address, Some(key.parse().ok()?)),
                        None => (server, None),
                    };
                    settings.primaries.push(RemoteServer {
                        key,
                        ..RemoteServer::plain(address.parse().ok()?)
                    });
                }
                ("template", name) => settings.template = name.into(),
                ("catalog", name) => settings.catalog = Some(name.parse().ok()?),
                ("transfer-key", name) => settings.transfer_keys.push(name.parse().ok()?),
                ("soa-edit-api", word) => settings.soa_edit_api = word.into(),
                _ => return None,
            }
        }
        Some(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_round_trip() {
        let plain = DeclaredSettings {
            kind: ZoneKind::Secondary,
            primaries: vec![
                RemoteServer {
                    address: "[2001:db8::1]:53".parse().unwrap(),
                    key: None,
                    source: None,
                    tls: None,
                },
                RemoteServer {
                    address: "192.0.2.1:5300".parse().unwrap(),
                    key: Some("k\\032ey.example.".parse().unwrap()),
                    source: None,
                    tls: None,
                },
            ],
            template: "a template".into(),
            catalog: Some("catalog.example.".parse().unwrap()),
            transfer_keys: vec![
                "one.example.".parse().unwrap(),
                "two.example.".parse().unwrap(),
            ],
            soa_edit_api: "INCREASE".into(),
        };
        for settings in [plain, DeclaredSettings::default()] {
            let value = settings.to_value();
            assert_eq!(DeclaredSettings::from_value(&value), Some(settings));
        }
        assert_eq!(DeclaredSettings::from_value(b"\x02kind native\n"), None);
        assert_eq!(DeclaredSettings::from_value(b"\x01colour blue\n"), None);
    }
}
