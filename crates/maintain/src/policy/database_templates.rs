//! Templates in a database: the metadata X-NAMEWARD-TEMPLATE of a zone names another zone of the database, whose settings about transfers,
//! NOTIFY and updates apply where the zone has none itself.
//!
//! A template is a zone like any other, so all servers on the database, their commands and their API have it without a table of its own.
//! A template has no template: the settings of a zone are in two places at most.

use nameward_sql::{SettingItem, SettingItems};
use nameward_wire::{Name, NameBuf};
use std::collections::HashMap;

/// The metadata kind that names the template of a zone.
pub const TEMPLATE_METADATA: &str = "X-NAMEWARD-TEMPLATE";
/// The metadata that names the DNSSEC policy of a zone.
pub const POLICY_METADATA: &str = "X-NAMEWARD-DNSSEC-POLICY";
/// Kinds that a template does not pass on: signatures and keys belong to one zone.
const OWN_KINDS: [&str; 3] = [TEMPLATE_METADATA, POLICY_METADATA, "PRESIGNED"];

/// The templates that zones of a database name, with their settings; `None` for names that no zone has.
#[derive(Debug, Default)]
pub struct DatabaseTemplates(HashMap<NameBuf, Option<Vec<SettingItem>>>);

impl DatabaseTemplates {
    /// Finds the templates among all zones of a database.
    pub fn collect(zones: impl Iterator<Item = (i64, NameBuf)>, items: &SettingItems) -> Self {
        let named = items.values().filter_map(|items| template_of(items));
        let mut templates: HashMap<_, _> = named.map(|name| (name, None)).collect();
        if templates.is_empty() {
            return DatabaseTemplates::default();
        }
        for (id, name) in zones {
            if let Some(template) = templates.get_mut(&name) {
                *template = Some(items.get(&id).cloned().unwrap_or_default());
            }
        }
        DatabaseTemplates(templates)
    }

    /// Takes the current settings of a zone, `None` if it was removed; returns true if other zones use them and they have changed.
    pub fn update(&mut self, zone: Name<'_>, items: Option<&[SettingItem]>) -> bool {
        let Some(known) = self.0.get_mut(&NameBuf::from(zone)) else {
            return false;
        };
        if known.as_deref() == items {
            return false;
        }
        *known = items.map(<[SettingItem]>::to_vec);
        true
    }

    /// Checks whether a zone names a template whose settings were not read yet.
    pub fn is_unread(&self, items: &[SettingItem]) -> bool {
        template_of(items).is_some_and(|name| !self.0.contains_key(&name))
    }

    /// Adds the settings of its template to those of a zone; returns its name if the database does not have it.
    pub fn complete(&self, items: &mut Vec<SettingItem>) -> Option<NameBuf> {
        let name = template_of(items)?;
        // One that was not read yet has no entry.
        let Some(template) = self.0.get(&name)? else {
            return Some(name);
        };
        let is_new = |item: &&SettingItem| {
            let is_set = items.iter().any(|own| own.kind == item.kind);
            !is_set && !OWN_KINDS.contains(&item.kind)
        };
        let more: Vec<SettingItem> = template.iter().filter(is_new).cloned().collect();
        items.extend(more);
        None
    }
}

/// An invalid name is reported with the other settings of the zone.
fn template_of(items: &[SettingItem]) -> Option<NameBuf> {
    let named = items.iter().find(|item| item.kind == TEMPLATE_METADATA)?;
    NameBuf::from_text(named.content.trim().as_bytes(), Name::ROOT).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: &'static str, content: &str) -> SettingItem {
        let content = content.into();
        SettingItem { kind, content }
    }

    fn name(text: &str) -> NameBuf {
        text.parse().unwrap()
    }

    #[test]
    fn a_zone_has_its_own_settings_and_those_of_its_template() {
        let mut items = SettingItems::new();
        let template = vec![
            item("ALSO-NOTIFY", "192.0.2.1"),
            item("ALSO-NOTIFY", "192.0.2.2"),
            item("TSIG-ALLOW-AXFR", "key.test"),
            item("PRESIGNED", "1"),
            item(TEMPLATE_METADATA, "other.test"),
        ];
        items.insert(1, template.clone());
        let own = [
            item(TEMPLATE_METADATA, "Template.TEST"),
            item("TSIG-ALLOW-AXFR", "own.test"),
        ];
        items.insert(2, own.to_vec());
        items.insert(3, vec![item(TEMPLATE_METADATA, "none.test")]);
        let zones = [(1, name("template.test")), (2, name("one.test"))];
        let mut templates = DatabaseTemplates::collect(zones.into_iter(), &items);

        let mut completed = own.to_vec();
        assert_eq!(templates.complete(&mut completed), None);
        let expected = [&own[..], &template[..2]].concat();
        assert_eq!(completed, expected);
        let missing = templates.complete(items.get_mut(&3).unwrap());
        assert_eq!(missing, Some(name("none.test")));
        let mut unread = vec![item(TEMPLATE_METADATA, "new.test")];
        assert!(templates.is_unread(&unread) && !templates.is_unread(&own));
        assert_eq!(templates.complete(&mut unread), None);
        assert_eq!(unread.len(), 1);

        let at = name("template.test");
        assert!(!templates.update(at.as_name(), Some(&template)));
        assert!(templates.update(at.as_name(), Some(&template[..1])));
        assert!(templates.update(at.as_name(), None));
        assert!(!templates.update(name("one.test").as_name(), None));
        assert!(templates.update(name("none.test").as_name(), Some(&[])));
    }
}
