//! Views in the zone table.

use super::*;

fn name(text: &str) -> NameBuf {
    NameBuf::zone_from_text(text).unwrap()
}

fn live(text: &str, id: i64) -> Arc<Zone> {
    Arc::new(Zone::stub(name(text).as_name(), 0, id))
}

fn rule(id: u16, zones: &[&str]) -> ViewRule {
    ViewRule {
        id: ViewId(id),
        name: format!("view{id}"),
        networks: Vec::new(),
        keys: Vec::new(),
        listen: Vec::new(),
        match_clients: None,
        zones: zones.iter().map(|zone| name(zone)).collect(),
    }
}

/// The ID of the zone that answers for a name in a view.
fn answers(table: &ZoneTable, view: u16, text: &str, qtype: Type) -> Option<i64> {
    let name: NameBuf = text.parse().unwrap();
    let key = NameKey::new(name.as_name());
    let found = table.match_in(ViewId(view), &key, qtype)?;
    found.zone.live().map(|live| live.id())
}

#[test]
fn a_view_has_its_versions_and_the_common_ones_of_all_other_zones() {
    let mut table = ZoneTable::default();
    table.set_views(&[
        rule(1, &["example.org..inside"]),
        rule(2, &["example.org..inside", "sub.example.org..x"]),
        rule(3, &["only.test..three"]),
    ]);
    for (text, id) in [
        ("example.org", 1),
        ("example.org..inside", 2),
        ("sub.example.org", 3),
        ("sub.example.org..x", 4),
        ("example.net", 5),
        ("only.test..three", 6),
    ] {
        table.insert(live(text, id));
    }
    assert_eq!(table.len(), 6);
    let all = |name: &str, qtype| [0, 1, 2, 3].map(|view| answers(&table, view, name, qtype));
    assert_eq!(all("www.example.org", Type::A), [1, 2, 2, 1].map(Some));
    assert_eq!(all("a.sub.example.org", Type::A), [3, 3, 4, 3].map(Some));
    assert_eq!(all("sub.example.org", Type::DS), [1, 2, 2, 1].map(Some));
    assert_eq!(all("a.example.net", Type::A), [5; 4].map(Some));
    assert_eq!(all("only.test", Type::A), [None, None, None, Some(6)]);
    // What a client sends never names a version.
    assert_eq!(
        answers(&table, 0, r"\000\000inside.example.org", Type::A),
        Some(1)
    );
    assert_eq!(
        table.version_in(ViewId(1), name("example.org").as_name()),
        Some(name("example.org..inside"))
    );
    assert_eq!(
        table.version_in(ViewId(3), name("Example.org").as_name()),
        Some(name("example.org"))
    );
    assert_eq!(
        table.version_in(ViewId(1), name("example.org..inside").as_name()),
        None
    );
    assert_eq!(
        table
            .exact(name("EXAMPLE.org..inside").as_name())
            .unwrap()
            .live()
            .unwrap()
            .id(),
        2
    );
    assert!(table.remove(name("example.org..inside").as_name()));
    assert!(!table.remove(name("example.org..inside").as_name()));
    // Not the common version: there is nothing to answer from.
    let key = NameKey::new(name("www.example.org").as_name());
    assert!(
        !table
            .match_in(ViewId(1), &key, Type::A)
            .unwrap()
            .zone
            .is_ready()
    );
    assert_eq!(answers(&table, 0, "www.example.org", Type::A), Some(1));
    table.insert(live("example.org..inside", 7));
    assert_eq!(answers(&table, 2, "www.example.org", Type::A), Some(7));
    table.set_views(&[]);
    assert_eq!(answers(&table, 2, "www.example.org", Type::A), Some(1));
    assert!(table.views().is_none());
    table.set_views(&[rule(9, &["example.org..inside"])]);
    assert_eq!(answers(&table, 9, "www.example.org", Type::A), Some(7));
}
