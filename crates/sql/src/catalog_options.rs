//! The catalog properties of a zone (RFC 9432 section 4.4), as stored in `domains.options`: JSON with an object for
//! produced catalogs and one for consumed catalogs.

use super::row::write_label;
use nameward_wire::{Name, NameBuf};
use serde_json::{Map, Value, json};

/// Maximum number of groups per zone.
const GROUPS_MAX: usize = 16;

/// Whether a catalog is produced or consumed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogRole {
    /// The zone is a member of a catalog produced here.
    Producer,
    /// The zone exists because a consumed catalog lists it.
    Consumer,
}

/// The properties of a member.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct CatalogProperties {
    /// The label of its node; derived from its name if there is none.
    pub label: Option<Box<[u8]>>,
    /// Its groups.
    pub groups: Vec<String>,
    /// The catalog it moves to, in wire form and lower case.
    pub new_catalog: Option<Box<[u8]>>,
}

impl CatalogRole {
    fn word(self) -> &'static str {
        match self {
            CatalogRole::Producer => "producer",
            CatalogRole::Consumer => "consumer",
        }
    }
}

impl CatalogProperties {
    /// Parses the properties in `options`; `None` if it is not JSON, or has none for this role.
    pub fn read(options: &str, role: CatalogRole) -> Option<Self> {
        let options: Value = serde_json::from_str(options).ok()?;
        let own = options.get(role.word())?;
        let name = |key: &str| {
            let text = own.get(key)?.as_str()?;
            let mut name = NameBuf::from_text(text.as_bytes(), Name::ROOT).ok()?;
            name.make_lowercase();
            Some(name)
        };
        let label = name("unique").and_then(|unique| {
            let label = unique.as_name().labels().next()?;
            Some(label.into())
        });
        let groups = match own.get("group") {
            Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(group)) => vec![group.as_str()],
            _ => Vec::new(),
        };
        let groups = groups.into_iter().take(GROUPS_MAX).map(str::to_owned);
        Some(CatalogProperties {
            label,
            groups: groups.collect(),
            new_catalog: name("coo").map(|name| name.as_name().as_wire().into()),
        })
    }

    /// Formats the properties as PowerDNS does.
    pub fn write(&self, role: CatalogRole) -> String {
        let mut own = Map::new();
        if let Some(catalog) = &self.new_catalog
            && let Ok(name) = Name::from_wire(catalog)
        {
            own.insert("coo".into(), name.to_string().into());
        }
        if !self.groups.is_empty() {
            own.insert("group".into(), json!(self.groups));
        }
        if let Some(label) = &self.label {
            let mut text = String::new();
            write_label(label, &mut text);
            text.push('.');
            own.insert("unique".into(), text.into());
        }
        json!({ role.word(): own }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_powerdns_are_read_and_written() {
        let text =
            r#"{"producer": {"coo": "Other.test.", "group": ["g1", "g2"], "unique": "abc123."}}"#;
        let read = CatalogProperties::read(text, CatalogRole::Producer).unwrap();
        assert_eq!(read.label.as_deref(), Some(&b"abc123"[..]));
        assert_eq!(read.groups, ["g1", "g2"]);
        assert_eq!(
            read.new_catalog.as_deref(),
            Some(&b"\x05other\x04test\0"[..])
        );
        let written = read.write(CatalogRole::Consumer);
        assert_eq!(
            written,
            r#"{"consumer":{"coo":"other.test.","group":["g1","g2"],"unique":"abc123."}}"#
        );
        let again = CatalogProperties::read(&written, CatalogRole::Consumer);
        assert_eq!(again, Some(read));
        for odd in ["", "no JSON", "[]", "{}", r#"{"consumer": 1}"#] {
            let read = CatalogProperties::read(odd, CatalogRole::Consumer);
            assert_eq!(
                read.unwrap_or_default(),
                CatalogProperties::default(),
                "{odd}"
            );
        }
    }
}
