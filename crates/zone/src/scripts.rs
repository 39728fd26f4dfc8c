//! LUA records of a zone: the names that have them.
//!
//! The names in the packed contents are an index, built on first use and shared by all versions over the same base, so that
//! listing them after a change costs the size of the change.

use crate::node::{Node, flags};
use crate::zone::Zone;
use nameward_wire::Type;

fn has_script(node: Node<'_>) -> bool {
    node.has(flags::CNAME_OR_LUA) && node.rrset(Type::LUA).is_some()
}

impl Zone {
    /// Checks whether the zone has LUA records, or had some.
    pub fn has_scripts(&self) -> bool {
        self.summary().has_scripts
    }

    /// Returns the names with LUA records, in arbitrary order.
    pub fn script_nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let changes = self.changes();
        let packed = self.packed();
        let places = self.has_scripts().then(|| self.packed_scripts());
        let places = places.unwrap_or_default().iter();
        let unchanged = places.map(|&place| packed.node(place)).filter(|node| {
            // A location in the packed contents is that of the node itself, so that one that was replaced is another one.
            let current = self.node_of(node.name());
            current.is_some_and(|current| current.is_same(*node))
        });
        let changed = changes
            .into_iter()
            .flat_map(|changes| changes.overlay.entries())
            .filter_map(|(_, _, node)| node.filter(|node| has_script(*node)));
        unchanged.chain(changed)
    }

    /// Returns the locations of the packed names with LUA records.
    fn packed_scripts(&self) -> &[u32] {
        if let Some(changes) = self.changes() {
            return changes.base.packed_scripts();
        }
        self.indexes().scripts.get_or_init(|| {
            let packed = self.packed();
            let places = packed.places();
            let with_scripts = places.filter(|&place| has_script(packed.node(place)));
            with_scripts.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ZoneBuilder;
    use crate::change::{ChangeOrigin, Edit, NewRecord, RrsetData, ZoneChange};
    use crate::zone::Zone;
    use nameward_wire::zonefile::{Options, parse_bytes};
    use nameward_wire::{NameBuf, Type};
    use std::sync::Arc;
    use std::time::SystemTime;

    fn zone(text: &str) -> Zone {
        let origin: NameBuf = "example.".parse().unwrap();
        let mut builder = ZoneBuilder::new(origin.as_name());
        parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
        let (zone, findings) = builder.finish();
        zone.unwrap_or_else(|| panic!("{findings:?}"))
    }

    fn names(zone: &Zone) -> Vec<String> {
        let names = zone.script_nodes().map(|node| node.name().to_string());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn changed(zone: Zone, edit: Edit) -> Zone {
        let change = ZoneChange {
            edits: vec![edit],
            origin: ChangeOrigin::Operator,
            now: SystemTime::UNIX_EPOCH,
            serial: crate::SerialRule::default(),
        };
        let zone = Arc::new(zone);
        let difference = zone.difference_of(&change).unwrap();
        zone.apply(&difference).unwrap()
    }

    fn script(name: &str) -> Edit {
        Edit::Replace(RrsetData {
            name: name.parse().unwrap(),
            rtype: Type::LUA,
            ttl: 60,
            records: vec![NewRecord {
                text: None,
                rdata: b"\x00\x01\x0a'10.0.0.1'".to_vec(),
                disabled: false,
            }],
        })
    }

    #[test]
    fn names_with_lua_records_are_listed_through_changes() {
        let apex = "@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns.elsewhere.\nc 60 CNAME a\n";
        let plain = zone(apex);
        assert!(!plain.has_scripts() && names(&plain).is_empty());
        let added = changed(plain, script("d.example."));
        assert!(added.has_scripts());
        assert_eq!(names(&added), ["d.example."]);
        // The owner b is repeated later.
        let text =
            "a 60 LUA A \"'10.0.0.1'\"\nb 60 TXT x\na.b 60 A 10.0.0.1\nb 60 LUA A \"'10.0.0.1'\"\n";
        let zone = zone(&format!("{apex}{text}"));
        assert_eq!(names(&zone), ["a.example.", "b.example."]);
        let name = "a.example.".parse().unwrap();
        let zone = changed(zone, Edit::DeleteName { name });
        assert_eq!(names(&zone), ["b.example."]);
        let zone = changed(zone, script("b.example."));
        let zone = changed(zone, script("e.example."));
        assert_eq!(names(&zone), ["b.example.", "e.example."]);
    }
}
